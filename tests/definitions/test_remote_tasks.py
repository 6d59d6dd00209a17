"""Containers, Kubernetes and retries in definitions: what is merged, what becomes of each form, what runs inside."""

from typing import Any

import pytest

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_text, load_value
from weft.authoring.yaml_export import yaml_of
from weft.core.placement.demands import demand_of, memory_of, pools_of, private, with_memory
from weft.core.workflow import Retry, TaskDef

SHARED = """
name: shared
defaults:
  container: {image: "base:1", network: none, env: {A: "1", B: "2"}, command: [x], args: [y], credentials: REGISTRY}
tasks:
  plain: make all
  list: {argv: [make]}
  function: {python: "m:f", with: {n: 1}}
  own: {container: {env: {B: "3"}, pull: always}, run: make}
  alone: {container: {image: "other:2", command: [other]}, with: {n: 1}}
  image: {container: {}}
  none: {run: make, container: null}
  false: {run: make, container: false}
  inline: {inline: f}
  pod: {kubernetes: {image: "pod:1"}, run: make}
  wait: {wait: {for: 1s}}
"""
#: What every task with the container of the defaults has, but for the command.
BASE = {
    "pull": "missing", "mount": "ro", "secrets_as": "env", "image": "base:1", "network": "none",
    "env": {"A": "1", "B": "2"}, "credentials": "REGISTRY",
}  # fmt: skip


def by_name(text: str) -> dict[str, TaskDef]:
    return {task.name: task for task in load_text(text).workflow.tasks}


def test_the_container_of_the_defaults_is_merged_key_by_key() -> None:
    got = by_name(SHARED)
    assert got["plain"].spec == {"container": BASE, "run": "make all", "shell": "sh"}
    assert got["list"].spec == {"container": BASE, "argv": ["make"]}
    assert got["function"].spec == {"container": BASE, "function": "m:f", "with": {"n": 1}}
    assert got["own"].spec["container"] == {**BASE, "env": {"A": "1", "B": "3"}, "pull": "always"}
    assert got["alone"].spec == {"container": {**BASE, "image": "other:2", "command": ["other"]}, "with": {"n": 1}}
    assert got["image"].spec == {"container": {**BASE, "command": ["x"], "args": ["y"]}}
    kinds = {name: task.kind for name, task in got.items()}
    assert kinds == {
        "plain": "container", "list": "container", "function": "container", "own": "container", "alone": "container",
        "image": "container", "none": "shell", "false": "shell", "inline": "inline", "pod": "kubernetes",
        "wait": "wait",
    }  # fmt: skip
    assert got["pod"].spec == {"kubernetes": {"pull": "missing", "image": "pod:1"}, "run": "make", "shell": "sh"}


def test_the_secret_of_a_registry_is_known_and_is_no_variable() -> None:
    loaded = load_text(SHARED)
    assert loaded.workflow.secrets == ("REGISTRY",)
    assert all(task.secrets == () for task in loaded.workflow.tasks)


def test_what_is_exported_means_the_same() -> None:
    loaded = load_text(SHARED)
    assert load_text(yaml_of(loaded.document)).document == loaded.document
    assert loaded.document["tasks"]["false"] == {"run": "make", "container": None}


@pytest.mark.parametrize(
    ("type", "spec", "becomes"),
    [
        ("container", {"image": "a", "command": "make all"}, {"run": "make all", "container": {"image": "a"}}),
        ("docker", {"image": "a", "command": ["make", "all"], "args": ["x"]},
         {"container": {"image": "a", "command": ["make", "all"], "args": ["x"], "engine": "docker"}}),
        ("podman", {"image": "a", "command": "make", "args": ["x"], "volumes": "a:/b"},
         {"container": {"image": "a", "command": ["make"], "args": ["x"], "volumes": ["a:/b"], "engine": "podman"}}),
        ("container", {"image": "a", "env": {"A": 1}, "timeoutMs": 1500},
         {"env": {"A": "1"}, "timeout": "1s500ms", "container": {"image": "a"}}),
        ("k8s_job", {"image": "a", "command": ["x"], "namespace": "n"},
         {"kubernetes": {"image": "a", "command": ["x"], "namespace": "n"}}),
        ("kubernetes", {"image": "a", "command": "x"}, {"run": "x", "kubernetes": {"image": "a"}}),
    ],
    ids=str,
)  # fmt: skip
def test_the_long_form(type: str, spec: dict[str, Any], becomes: dict[str, Any]) -> None:
    loaded = load_value({"tasks": [{"key": "a", "type": type, "spec": spec}]})
    assert loaded.document["tasks"]["a"] == {**becomes, "long_form": True}
    assert loaded.workflow.tasks[0].kind == next(kind for kind in ("container", "kubernetes") if kind in becomes)


def test_expressions_inside_make_needs() -> None:
    got = by_name(
        """
tasks:
  a: x
  b: {container: {image: i, command: [echo, "${{ tasks.a.output }}"], workdir: "/${{ context.k }}"}}
  c: {kubernetes: {image: i, env: {A: "${{ tasks.a.output }}"}}}
  d: {container: {image: i, command: [echo, plain]}}
"""
    )
    assert got["b"].needs == got["c"].needs == (0,)
    assert got["b"].template_reads == (0,)
    assert got["b"].templated
    assert got["b"].reads_context
    assert got["c"].templated
    assert not got["c"].reads_context
    assert not got["d"].templated


def test_expressions_in_the_defaults_reach_the_tasks_in_containers_only() -> None:
    got = by_name(
        """
defaults: {container: {image: i, env: {A: "${{ context.k }}"}}}
tasks:
  inside: x
  outside: {run: x, container: null}
"""
    )
    assert got["inside"].templated
    assert got["inside"].reads_context
    assert not got["outside"].templated
    assert not got["outside"].reads_context


def test_retries() -> None:
    got = by_name(
        """
defaults: {retry: {max: 2, on_lost: adopt, memory: x1.5}}
tasks:
  local: {run: x, retry: {on: [75, timeout, lost]}}
  remote: {container: {image: i}, requires: {memory: 1GiB}, retry: {on: [oom], not_on: 137}}
  small: {container: {image: i}}
  pod: {kubernetes: {image: i}, requires: {memory: 1GiB}}
  child: {workflow: other}
  plain: {run: x}
"""
    )
    assert got["local"].retry == Retry(2, on_lost=True, on=(75, "timeout", "lost"))
    assert got["remote"].retry == Retry(2, on_lost="adopt", on=("oom",), not_on=(137,), memory=1.5)
    assert got["small"].retry == Retry(2, on_lost="adopt")
    assert got["pod"].retry == Retry(2, on_lost="adopt", memory=1.5)
    assert got["child"].retry == got["plain"].retry == Retry(2, on_lost=True)


@pytest.mark.parametrize(
    ("retry", "on_lost"),
    [({"on": ["lost"]}, True), ({"max": 1, "on": [75]}, False), ({"max": 1, "on": [75], "on_lost": True}, True),
     ({"not_on": "lost"}, False), ({"not_on": [75]}, True), ({"on_lost": False}, False)],
    ids=str,
)  # fmt: skip
def test_whether_a_lost_attempt_is_tried_again(retry: dict[str, Any], on_lost: bool) -> None:
    (task,) = load_value({"tasks": {"a": {"run": "x", "retry": retry}}}).workflow.tasks
    assert task.retry.on_lost is on_lost


def test_values_become_canonical() -> None:
    retry = {"max": 1, "on": 75, "memory": "x2.50"}
    task = {"container": {"image": "i", "user": 1000}, "requires": {"memory": 1024, "cpus": 2.0}, "retry": retry}
    document = load_value({"tasks": {"a": task}}).document
    assert document["tasks"]["a"] == {
        "retry": {"max": 1, "on": [75], "memory": "x2.5"},
        "container": {"image": "i", "user": "1000"},
        "requires": {"memory": "1KiB", "cpus": 2},
    }


def test_cpus_are_part_of_a_demand_and_refused_where_nothing_is_counted() -> None:
    (task,) = load_value({"tasks": {"a": {"run": "x", "requires": {"cpus": 0.5}}}}).workflow.tasks
    assert demand_of(task)[1] == '{"kind":"shell","requires":{"cpus":0.5}}'
    with pytest.raises(DefinitionErrors, match="reserve no `cpus`"):
        load_value({"mode": "levels", "tasks": {"a": {"run": "x", "requires": {"cpus": 0.5}}}})


@pytest.mark.parametrize("more", ["", ", pools: [license]"])
@pytest.mark.parametrize("placement", ["pull", "scored"])
def test_raised_memory_can_be_read_from_the_id_of_a_demand(more: str, placement: str) -> None:
    (task,) = load_text(
        f"""
name: "w+memory=7@x"
concurrency: 3
placement: {placement}
tasks: {{a: {{container: {{image: i}}, requires: {{memory: 1GiB, cpus: 1}}{more}}}}}
"""
    ).workflow.tasks
    before, _ = demand_of(task)
    demand, body = with_memory(task, 2**31)
    assert memory_of(before) is None
    assert memory_of(demand) == memory_of(private("s", demand)) == 2**31
    assert pools_of(demand) == pools_of(before) == list(task.pools)
    assert demand.startswith(before.partition("@")[0] + "+memory=2147483648@")
    assert body == '{"kind":"container","requires":{"cpus":1,"memory":2147483648}}'
