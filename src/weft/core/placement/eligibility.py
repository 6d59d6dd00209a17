"""May this node take a task with these requirements, does it have room, and how good a place is it?

The scheduler, `why` and the refusal of what nobody can run all ask here. `eligible` judges what does not change while
a node lives; what does (memory, disk, CPUs, GPUs, how many of a task) is counted: `costs` says what a task takes
while it runs, `free` what is left of a node, and a claim may not take more than that.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.text_formats import format_size
from weft.core.placement.worker_binding import allows
from weft.core.workflow import BUILT_IN_KINDS, REMOTE_KINDS

#: What a task takes of its node while it runs, in the words of `requires`.
COUNTED: Final = ("memory", "disk", "cpus", "gpu")
NOT_CHECKED: Final = "it has not been checked yet"
EACH: Final = "each:"  # before the name of a task with `max_per_node`
_CPU: Final = 1000  # what is counted of a CPU are thousandths, so that 0.1 ten times is one


class NodeFacts(msgspec.Struct, frozen=True):
    """What placement knows of a node. None: it does not know how much it has."""

    kinds: tuple[str, ...]
    labels: dict[str, str] = {}
    name: str = ""
    session: str = ""
    capabilities: tuple[str, ...] = ()
    memory: int | None = None  # bytes for tasks
    disk: int | None = None
    gpus: int = 0
    gpu_memory: int | None = None  # of each of them
    functions: tuple[str, ...] | None = None  # inline ones; None: any
    cpus: float | None = None  # for tasks
    down: dict[str, str] = {}  # kinds whose engine cannot be used now, and why
    engines: tuple[str, ...] = ()  # those that answer
    workflows: tuple[str, ...] = ()  # that its token is bound to (worker_binding.py); none: all

    def has(self, label: str) -> bool:
        """`name`, or `name=value`."""
        name, equals, value = label.partition("=")
        return name in self.labels and (not equals or self.labels[name] == value)


class Load(msgspec.Struct, frozen=True):
    """How busy a node is: shares from 0 (idle) to 1, and how many tasks it runs."""

    running: int = 0
    cpu: float = 0.0
    memory: float = 0.0
    disk_io: float = 0.0
    network: float = 0.0
    gpu: float = 0.0


def decode_facts(body: str) -> dict[str, Any]:
    """What a node said of itself when it registered. A row that is no JSON in UTF-8 (older nodes could write labels
    with broken characters) is read with `?` in their places: one node must not hide all others."""
    try:
        facts = msgspec.json.decode(body)
    except msgspec.DecodeError:
        try:
            facts = msgspec.json.decode(json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace"))
        except ValueError:
            return {}
    return facts if isinstance(facts, dict) else {}


def engines_down(measured: Mapping[str, Any]) -> dict[str, str]:
    """Kinds whose engine cannot be used, from what a node measured last."""
    return {kind: found["error"] for kind, found in measured.get("engines", {}).items() if found["error"]}


def engines_up(measured: Mapping[str, Any]) -> tuple[str, ...]:
    """The engines that answered a node."""
    return tuple(found["engine"] for found in measured.get("engines", {}).values() if found["engine"])


def node_facts(body: Mapping[str, Any], name: str, session: str, down: dict[str, str] | None = None) -> NodeFacts:
    """From what a node said of itself when it registered; `down`: engines that cannot be used now."""
    return NodeFacts(
        kinds=tuple(body.get("kinds", ())), labels=body.get("labels", {}), name=name, session=session,
        capabilities=tuple(body.get("capabilities", ())), memory=body.get("memory"), disk=body.get("disk"),
        gpus=body.get("gpus", 0), gpu_memory=body.get("gpu_memory"), functions=_names(body.get("functions")),
        cpus=body.get("cpus"),
        down=down or {}, workflows=tuple(body.get("workflows", ())),
    )  # fmt: skip


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def eligible(demand: Mapping[str, Any], node: NodeFacts, workflow: str | None = None) -> list[str]:
    """Why not, in words, one entry per requirement that the node does not satisfy; empty: it may. `workflow`: its
    name; None: what the node's token allows is judged elsewhere."""
    if "all" in demand:  # of a run that one node owns: it must be able to run all of its tasks
        return list(dict.fromkeys(reason for one in demand["all"] for reason in eligible(one, node, workflow)))
    reasons = []
    if workflow is not None and not allows(node.workflows, workflow):
        reasons.append(f"its token is bound to the workflows {', '.join(node.workflows)}")
    if demand["kind"] not in node.kinds:
        reasons.append(_no_executor(demand["kind"]))
    elif demand["kind"] in node.down:
        what = "engine" if demand["kind"] in REMOTE_KINDS else "executor"
        reasons.append(f"its {what} for {demand['kind']} tasks cannot be used: {node.down[demand['kind']]}")
    elif "function" in demand and node.functions is not None and demand["function"] not in node.functions:
        reasons.append(f"its application gave it no inline function {demand['function']!r}")
    requires: Mapping[str, Any] = demand.get("requires", {})
    if requires:
        reasons += _labels(requires, node)
        reasons += _abilities(requires, node)
        reasons += _which_node(requires, node)
        reasons += [text for name in COUNTED if (text := _too_small(requires, name, node))]
        needed = requires.get("gpu_memory")
        if needed is not None and (node.gpu_memory or 0) < needed:
            reasons.append(f"its GPUs have {size_text(node.gpu_memory)}, it needs {size_text(needed)} on each")
    if demand.get("session", node.session) != node.session:
        reasons.append("it was given to another node")
    return reasons


def _no_executor(kind: str) -> str:
    if kind in BUILT_IN_KINDS:
        return f"it has no executor for {kind} tasks"
    return f"it has no executor for tasks of type {kind}, which a plugin adds"


def unknown_types(demand: Mapping[str, Any], nodes: Iterable[NodeFacts]) -> list[str]:
    """Types of plugins that a demand asks for and none of these nodes has."""
    kinds = [one["kind"] for one in demand.get("all", (demand,))]
    have = {kind for node in nodes for kind in node.kinds}
    return [kind for kind in dict.fromkeys(kinds) if kind not in BUILT_IN_KINDS and kind not in have]


INSTALL: Final = "install the plugin that adds it where a node runs, and start that node again: see `weft executors`"


def _labels(requires: Mapping[str, Any], node: NodeFacts) -> list[str]:
    reasons = []
    missing = [label for label in requires.get("labels", ()) if not node.has(label)]
    if missing:
        reasons.append(f"it lacks the label{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    any_of = requires.get("any_labels", ())
    if any_of and not any(node.has(label) for label in any_of):
        reasons.append(f"it has none of the labels {', '.join(any_of)}")
    avoided = [label for label in requires.get("not_labels", ()) if node.has(label)]
    if avoided:
        reasons.append(f"it has the label{'s' if len(avoided) > 1 else ''} {', '.join(avoided)}, to be avoided")
    return reasons


def _abilities(requires: Mapping[str, Any], node: NodeFacts) -> list[str]:
    reasons = []
    missing = [name for name in requires.get("capabilities", ()) if name not in node.capabilities]
    if missing:
        reasons.append(f"it is not capable of {', '.join(missing)}")
    missing = [name for name in requires.get("executors", ()) if name not in node.kinds]
    if missing:
        reasons.append(f"it has no executor for {', '.join(missing)}")
    return reasons


def _which_node(requires: Mapping[str, Any], node: NodeFacts) -> list[str]:
    """Nodes are named by name, or by session."""
    reasons = []
    target, allowed = requires.get("node"), requires.get("nodes")
    if target is not None and target not in (node.name, node.session):
        reasons.append(f"it is not the node {target}")
    if allowed is not None and node.name not in allowed and node.session not in allowed:
        reasons.append(f"it is none of the nodes {', '.join(allowed)}")
    forbidden = requires.get("not_nodes", ())
    if node.name in forbidden or (node.session and node.session in forbidden):
        reasons.append("it is a forbidden node")
    return reasons


def _too_small(requires: Mapping[str, Any], name: str, node: NodeFacts) -> str | None:
    """A task that would not even fit on an idle node."""
    needed = requires.get(name)
    if needed is None:
        return None
    have = {"memory": node.memory, "disk": node.disk, "cpus": node.cpus, "gpu": node.gpus}[name]
    if have is None:
        return f"it does not know its {_WHAT[name]}"
    if have >= needed:
        return None
    if name == "gpu":
        return f"it has {have} GPU{'' if have == 1 else 's'}, {needed} needed" if have else "it has no GPU"
    if name == "cpus":
        return f"it has {have:g} CPU{'' if have == 1 else 's'}, {needed:g} needed"
    return f"it has {size_text(int(have))} of {_WHAT[name]}, {size_text(needed)} needed"


_WHAT: Final = {"memory": "memory", "disk": "disk space", "cpus": "CPUs", "gpu": "GPUs"}


def size_text(size: int | None) -> str:
    """For people: sampled totals divide by nothing, so they are rounded."""
    if size is None:
        return "none"
    exact = format_size(size)
    if len(exact) <= 8:
        return exact
    for unit, bytes_each in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_each:
            return f"{size / bytes_each:.1f}{unit}"
    return exact


# -- room --------------------------------------------------------------------------------------------------


def costs(requires: Mapping[str, Any]) -> dict[str, int]:
    """What a task takes of its node from the claim to its end; empty for most."""
    out = {name: requires[name] for name in COUNTED if name in requires}
    if "cpus" in out:
        out["cpus"] = max(1, round(out["cpus"] * _CPU))
    if "max_per_node" in requires:
        out[EACH + requires["of"]] = 1
    return out


def free(node: NodeFacts, demands: Iterable[Mapping[str, Any]], held: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """What a node has left for tasks of these demands (their `requires`), while it holds tasks of those."""
    left = {"memory": node.memory or 0, "disk": node.disk or 0, "gpu": node.gpus}
    left["cpus"] = int((node.cpus or 0) * _CPU)
    for requires in demands:
        if "max_per_node" in requires:
            key = EACH + requires["of"]
            left[key] = min(left.get(key, requires["max_per_node"]), requires["max_per_node"])
    for requires in held:
        for name, amount in costs(requires).items():
            if name in left:
                left[name] -= amount
    return left


def no_room(requires: Mapping[str, Any], left: Mapping[str, int]) -> list[str]:
    """What is missing right now, in words; `left` is what `free` gave."""
    reasons = []
    for name, amount in costs(requires).items():
        have = max(0, left.get(name, 0))
        if have >= amount:
            continue
        if name.startswith(EACH):
            reasons.append(f"it runs {requires['max_per_node']} of this task already (max_per_node)")
        elif name == "gpu":
            reasons.append(f"{have} of its GPUs {'is' if have == 1 else 'are'} free now, {amount} needed")
        elif name == "cpus":
            reasons.append(f"{have / _CPU:g} of its CPUs are free now, {amount / _CPU:g} needed")
        else:
            reasons.append(f"{size_text(have)} of {_WHAT[name]} are free now, {size_text(amount)} needed")
    return reasons


# -- scored placement --------------------------------------------------------------------------------------

WEIGHTS: Final = (("cpu", 30.0), ("memory", 30.0), ("disk_io", 15.0), ("network", 10.0))
GPU_WEIGHT: Final = 15.0  # counts only where a GPU is asked for
PER_RUNNING: Final = 5.0
DISK_FULL: Final = 200 * 10**6  # bytes a second that count as all of a disk,
NETWORK_FULL: Final = 125 * 10**6  # and of a network: a gigabit
PER_PREFERRED_LABEL: Final = 10.0


def load_of(measured: Mapping[str, Any]) -> dict[str, float]:
    """Shares for a Load, from what a node measured of its machine; what it could not measure counts as idle."""
    moved = sum(measured.get(f"disk_{what}_per_s", 0) for what in ("read", "written"))
    sent = sum(measured.get(f"net_{what}_per_s", 0) for what in ("received", "sent"))
    gpus = measured.get("gpus", [])
    return {
        "cpu": _share(measured.get("load", 0), measured.get("cores", 0)),
        "memory": _used(measured.get("memory_free", 0), measured.get("memory_total", 0)),
        "disk_io": _share(moved, DISK_FULL),
        "network": _share(sent, NETWORK_FULL),
        "gpu": _used(sum(g["memory_free"] for g in gpus), sum(g["memory_total"] for g in gpus)),
    }


def loads_of(measured: Mapping[str, Mapping[str, Any]], nodes: Iterable[str]) -> dict[str, dict[str, float]]:
    """By node. One that has not measured yet counts as the others do on average: new ones are not better for it."""
    known = {node: load_of(measured[node]) for node in sorted(measured)}
    means = {name: round(sum(load[name] for load in known.values()) / len(known), 2) for name in load_of({}) if known}
    return {node: known.get(node, means) for node in nodes}


def _share(part: float, whole: float) -> float:
    """In hundredths, so that noise does not decide between nodes that are alike."""
    return round(max(0.0, min(1.0, part / whole)), 2) if whole else 0.0


def _used(left: float, whole: float) -> float:
    return _share(whole - left, whole)


def score(requires: Mapping[str, Any], node: NodeFacts, load: Load) -> float:
    """How good a place the node is: what it has free, in hundredths by weight, less 5 for each task it runs, plus 10
    for each preferred label it has."""
    points: float = sum(weight * (1.0 - getattr(load, name)) for name, weight in WEIGHTS)
    if requires.get("gpu"):
        points += GPU_WEIGHT * (1.0 - load.gpu)
    points -= PER_RUNNING * load.running
    points += PER_PREFERRED_LABEL * sum(1 for label in requires.get("prefers", ()) if node.has(label))
    return round(points, 6)


def best(requires: Mapping[str, Any], nodes: Sequence[tuple[NodeFacts, Load]]) -> NodeFacts | None:
    """The best place among nodes that are eligible and have room; of equals, the one with the smallest session id."""
    ranked = sorted(nodes, key=lambda pair: (-score(requires, *pair), pair[0].session))
    return ranked[0][0] if ranked else None
