"""nodes, drain and executors: who is there, how they are, how one of them leaves, and what tasks can run where."""

import time
from argparse import Namespace
from typing import Any

import msgspec

from weft import __version__
from weft.cli.arguments import duration_ms
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.placement_checks import alive, workers
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import ago, counted, duration, moment, size
from weft.cli.terminal.tables import table
from weft.client.verbs import Connection
from weft.operations.replies import ExecutorInfo, NodeInfo
from weft.operations.resources.nodes import Draining

SESSION_SHORT = 8
LOOK_EVERY_S = 0.05
_STYLES = ("bold", "dim", None, "state")


def nodes(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    if args.action == "show":
        if args.node is None:
            raise GiveUp(BAD_INPUT, "which node?", "weft nodes show NODE; weft nodes lists them")
        return _show(args, session, connection)
    found = connection.nodes(ended=args.ended)
    if args.json:
        session.print_json({"nodes": [_as_json(connection, node) for node in found], "leader": connection.leader()})
        return OK
    if not found:
        session.warn("no nodes; start one with `weft worker`")
        return OK
    now = connection.now()
    rows = [_row(connection, node, now) for node in found]
    heads: tuple[str, ...] = (
        "node", "session", "role", "state", "leader", "slots", "running", "load", "memory free", "labels",
        "works for", "seen", "through",
    )  # fmt: skip
    if all(node.server is None for node in found):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    if any(node.behind is not None for node in found):
        heads = (*heads, "behind")
        rows = [
            [*row, "" if node.behind is None else str(node.behind)] for row, node in zip(rows, found, strict=True)
        ]
    for line in table(session.out, heads, rows, _STYLES):
        session.print(line)
    return OK


def _as_json(connection: Connection, node: NodeInfo) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(node)
    return {**value, "alive": alive(connection, node), "address": node.address}


def _state(connection: Connection, node: NodeInfo) -> str:
    """A process of this machine that is gone is seen before its lease has passed."""
    return "gone" if node.health in ("healthy", "stale") and not alive(connection, node) else node.health


def _row(connection: Connection, node: NodeInfo, now: int) -> list[str]:
    load = node.resources.get("load")
    free = node.resources.get("memory_free")
    seen = node.ended_at or node.seen_at
    return [
        node.node, node.session[:SESSION_SHORT], node.role, _state(connection, node),
        f"term {node.term}" if node.leader else "",
        f"{min(node.running, node.slots or 0)}/{'?' if node.slots is None else node.slots}", str(node.running),
        "" if load is None else f"{load:g}", "" if free is None else size(free), _labels(node.labels),
        node.scope or "everything", "" if seen is None else ago(now - seen), node.server or "",
    ]  # fmt: skip


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" if value else name for name, value in sorted(labels.items()))


def _show(args: Namespace, session: CommandSession, connection: Connection) -> int:
    node = connection.node(args.node)
    if args.json:
        session.print_json(_as_json(connection, node))
        return OK
    out, now = session.out, connection.now()
    session.print(
        f"{out.paint(node.node, 'bold')}  {_state(connection, node)}" + (f"  leads, term {node.term}" * node.leader)
    )
    lease = "" if node.lease_ms is None else f"{duration(node.lease_ms)} left"
    drain = "" if node.drain_at is None else f"what still runs goes back {moment(node.drain_at)}"
    lines = [
        ("session", node.session),
        ("role", node.role),
        ("address", node.address),
        ("through", node.server or ""),
        ("works for", node.scope or "everything"),
        ("started", f"{moment(node.started_at)} ({ago(now - node.started_at)})"),
        ("ended", moment(node.ended_at)),
        ("lease", lease),
        ("last seen", "" if node.seen_at is None else ago(now - node.seen_at)),
        ("drain", drain),
        ("slots", f"{node.running} of {'?' if node.slots is None else node.slots} in use"),
        ("runs", ", ".join(_executor(type_, info) for type_, info in node.executors.items())),
        *(("", f"{type_}: {info.error}") for type_, info in node.executors.items() if info.error),
        ("labels", _labels(node.labels)),
        ("can", ", ".join(node.capabilities)),
        *_resources(node, now),
        ("refused", f"{counted(node.stale_reports or 0, 'late report')}"),
    ]
    for name, value in lines:
        if value:
            session.print(f"  {out.paint(f'{name:<10}', 'dim')} {value}")
    return OK


def _executor(type_: str, info: ExecutorInfo) -> str:
    return type_ if info.plugin is None else f"{type_} ({info.plugin} {info.version})"


def _resources(node: NodeInfo, now: int) -> list[tuple[str, str]]:
    r = node.resources
    if not r:
        return []
    lines = [
        ("load", f"{r['load']:g} on {counted(r['cores'], 'core')}"),
        ("memory", f"{size(r['memory_free'])} of {size(r['memory_total'])} free"),
        ("disk", f"{size(r['disk_free'])} of {size(r['disk_total'])} free"),
    ]
    if "disk_read_per_s" in r:
        lines.append(("disk I/O", f"{size(r['disk_read_per_s'])}/s read, {size(r['disk_written_per_s'])}/s written"))
    if "net_sent_per_s" in r:
        lines.append(("network", f"{size(r['net_received_per_s'])}/s in, {size(r['net_sent_per_s'])}/s out"))
    for gpu in r.get("gpus", []):
        lines.append(("GPU", f"{gpu['name']}: {size(gpu['memory_free'])} of {size(gpu['memory_total'])} free"))
    if node.measured_at is not None:
        lines.append(("measured", ago(now - node.measured_at)))
    return lines


def drain(args: Namespace, session: CommandSession) -> int:
    deadline_ms = duration_ms("--deadline", args.deadline)
    connection = session.connection()
    node = connection.drain(args.node, deadline_ms)
    left = _wait(session, connection, node, args.json) if args.wait else None
    if args.json:
        session.print_json(
            {
                "node": node.node,
                "session": node.session,
                "drain_at": node.drain_at,
                "already": node.existing,
                "left": left,
            }
        )
    elif left:
        session.print(f"{node.node} ({node.session}) has left")
    else:
        within = duration(max(0, node.drain_at - connection.now()))
        session.print(
            f"{node.node} ({node.session}) drains: it claims nothing more, {counted(node.running, 'running task')} "
            f"may end within {within}, the rest goes back"
        )
    return OK


def _wait(session: CommandSession, connection: Connection, node: Draining, quiet: bool) -> bool:
    """Until its session has ended, one way or the other."""
    if not quiet:
        session.warn(f"waiting until {node.node} has left (^C stops waiting, not the draining)")
    while True:
        now = connection.node(node.session)
        if now.ended_at is not None or now.health == "dead":
            return True
        time.sleep(LOOK_EVERY_S)


def executors(args: Namespace, session: CommandSession) -> int:
    """A server's machine is not this one: then only its nodes are listed."""
    here: list[tuple[str, ExecutorInfo]] = []
    if session.server is None:
        from weft.local_node.executor_list import executors_here

        here = executors_here(session.config)
    asked = session.server is not None or session.has_store()
    nodes = workers(session.connection()) if asked else []
    if args.json:
        session.print_json(_executors_json(here, nodes))
        return OK
    heads = ("type", "from", *(("here",) if session.server is None else ()), *(("on nodes",) if asked else ()), "why")
    rows = [_executor_row(type_, info, nodes, session.server is None, asked) for type_, info in here]
    known = {type_ for type_, _ in here}
    others = {type_: info for node in nodes for type_, info in node.executors.items() if type_ not in known}
    rows += [
        _executor_row(type_, info, nodes, False, asked, session.server is None)
        for type_, info in sorted(others.items())
    ]
    for line in table(session.out, heads, rows, ("bold",)):
        session.print(line)
    if not rows:
        session.warn("no live worker: start one with `weft worker`")
    return OK


def _executors_json(here: list[tuple[str, ExecutorInfo]], nodes: list[NodeInfo]) -> dict[str, Any]:
    return {
        "here": [{"type": type_, **msgspec.to_builtins(info)} for type_, info in here],
        "nodes": [
            {"node": node.node, "session": node.session, "executors": msgspec.to_builtins(node.executors)}
            for node in nodes
        ],
    }


def _executor_row(
    type_: str, info: ExecutorInfo, nodes: list[NodeInfo], here: bool, asked: bool, absent: bool = False
) -> list[str]:
    """`absent`: not on this machine, while there is a column for it."""
    source = f"weft {__version__}" if info.plugin is None else f"{info.plugin} {info.version}"
    row = [type_, source]
    if here or absent:
        row.append("-" if absent else "yes" if info.usable else "no")
    if asked:
        # A plugin that has the name of one of Weft's own types is on no node.
        mine = [node for node in nodes if type_ in node.executors]
        mine = [node for node in mine if (node.executors[type_].plugin is None) == (info.plugin is None)]
        row.append(", ".join(node.node for node in mine if node.executors[type_].usable))
        broken = [f"{node.node}: {error}" for node in mine if (error := node.executors[type_].error)]
    else:
        broken = []
    own = [info.error] if here and info.error is not None else []
    row.append("; ".join([*own, *broken]))
    return row
