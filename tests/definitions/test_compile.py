"""From the canonical document to what runs: defaults, positions, levels, handlers."""

from typing import Any

import pytest

from weft.authoring.load import load_text
from weft.core.definition import compile as compiling
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import decode_document, encode_document
from weft.core.placement.demands import demand_of, pools_of
from weft.core.workflow import Retry, TaskDef, Tolerate, Workflow


def compiled(text: str) -> Workflow:
    return load_text(text).workflow


def by_name(text: str) -> dict[str, TaskDef]:
    return {task.name: task for task in compiled(text).tasks}


def test_defaults_merge_key_by_key() -> None:
    got = by_name(
        """
defaults: {timeout: 10m, grace: 3s, cwd: src, shell: bash, priority: 4, allow_failure: true, env: {A: "1", B: "2"},
           retry: {max: 3, backoff: 5s, multiplier: 3, max_backoff: 1m, jitter: 0}}
tasks:
  plain: x
  own:
    {run: x, timeout: 1s, grace: 0, cwd: lib, shell: sh, priority: 0, allow_failure: false, env: {B: "3", C: "4"},
     retry: {max: 1, on_lost: false}}
  unlimited: {argv: [x], timeout: null, retry: 0}
"""
    )
    plain, own, unlimited = got["plain"], got["own"], got["unlimited"]
    assert plain.spec == {"run": "x", "shell": "bash"}
    assert (plain.timeout_ms, plain.grace_ms, plain.cwd, plain.priority, plain.allow_failure) == (
        600_000,
        3000,
        "src",
        4,
        True,
    )
    assert plain.env == {"A": "1", "B": "2"}
    assert plain.retry == Retry(3, 5000, 3.0, 60_000, 0.0, True)
    assert own.spec == {"run": "x", "shell": "sh"}
    assert (own.timeout_ms, own.grace_ms, own.cwd, own.priority, own.allow_failure) == (1000, 0, "lib", 0, False)
    assert own.env == {"A": "1", "B": "3", "C": "4"}
    assert own.retry == Retry(1, 5000, 3.0, 60_000, 0.0, False)
    assert unlimited.spec == {"argv": ["x"]}
    assert unlimited.timeout_ms is None
    assert unlimited.retry.max == 0


def test_without_defaults() -> None:
    task = by_name("tasks: {a: x}")["a"]
    assert task == TaskDef(name="a", kind="shell", spec={"run": "x", "shell": "sh"}, plain=True)


@pytest.mark.parametrize(
    "text",
    [
        "tasks: {a: {run: x, env: {A: b}}}", "tasks: {a: {run: x, env_file: e}}", "tasks: {a: {run: x, cwd: d}}",
        "tasks: {a: {run: x, with: {k: 1}}}", "tasks: {a: {run: x, requires: {memory: 1GiB}}}",
        "tasks: {a: {run: x, cache: true}}", "tasks: {a: {run: x, allow: [submit]}}",
        "tasks: {a: {run: x, artifacts: [f]}}", "tasks: {a: {run: 'x ${{ run.id }}'}}",
        "tasks: {b: {run: x, artifacts: [f]}, a: {run: x, files: [b]}}", "{workspace: run, tasks: {a: x}}",
        "tasks: {a: x, b: {run: x, secrets: [S]}}", "tasks: {a: {run: x, secrets: [S]}}",
        "tasks: {a: {container: {image: i}, run: x}}", "tasks: {a: {python: {call: 'm:f', venv: v}}}",
        "{defaults: {env: {A: b}}, tasks: {a: x}}", "{env: {A: '${{ run.id }}'}, tasks: {a: x}}",
    ],
)  # fmt: skip
def test_what_a_node_must_see_to_is_not_plain(text: str) -> None:
    assert not by_name(text)["a"].plain


@pytest.mark.parametrize(
    "text",
    [
        "tasks: {a: {run: x, timeout: 5m, retry: 3, priority: 2}}", "tasks: {a: {inline: f, with: {k: 1}}}",
        "tasks: {a: {python: 'm:f', with: {k: 1}}}", "tasks: {a: {argv: [x], replicas: 3}}",
        "{env: {A: b}, tasks: {a: x}}",
    ],
)  # fmt: skip
def test_what_starts_as_it_stands_is_plain(text: str) -> None:
    assert by_name(text)["a"].plain


def test_maps() -> None:
    got = by_name(
        """
tasks:
  a: {map: " ${{ ['x'] }}\\n", run: x, batch: 3, tolerate: 2, max_parallel: 4}
  b: {map: [1, {k: v}], run: x, tolerate: 2.5%}
  c: {replicas: 3, run: x, tolerate: 100%}
"""
    )
    a, b, c = got["a"], got["b"], got["c"]
    assert (a.map, a.batch, a.tolerate, a.max_parallel) == ("${{ ['x'] }}", 3, Tolerate(2), 4)
    assert (b.map, b.batch, b.tolerate, b.replicas) == ([1, {"k": "v"}], None, Tolerate(0, 0.025), None)
    assert (c.map, c.tolerate.of(7), c.mapped, b.mapped) == (None, 7, True, True)


def test_waits_take_little_from_the_defaults() -> None:
    got = by_name(
        """
defaults: {timeout: 5m, retry: 3, env: {A: b}, cwd: x, shell: bash, priority: 3, allow_failure: true}
env: {B: "${{ run.id }}"}
tasks:
  s: {wait: {signal: go, timeout: 90, default: null}, description: d}
  t: {wait: {signal: other}, allow_failure: false}
  f: {wait: {for: 1.5}}
  u: {wait: {until: 2026-01-31}}
"""
    )
    assert got["s"] == TaskDef(
        name="s", kind="wait", spec={"signal": "go", "timeout_ms": 90_000, "default": None}, allow_failure=True
    )
    assert got["t"] == TaskDef(name="t", kind="wait", spec={"signal": "other"})
    assert (got["f"].spec, got["u"].spec) == ({"for": "1s500ms"}, {"until": "2026-01-31"})


def test_the_workflow_itself() -> None:
    got = compiled(
        "{name: n, description: d, on_failure: continue, max_parallel: 3, timeout: 1h, env: {A: b}, "
        "inputs: {day: {default: x}}, tasks: {a: x, b: {inline: noop}}}"
    )
    assert (got.name, got.description, got.on_failure, got.max_parallel, got.timeout_ms) == (
        "n",
        "d",
        "continue",
        3,
        3_600_000,
    )
    assert got.env == {"A": "b"}
    assert got.inputs["day"].type == "string"
    assert got.tasks[1].kind == "inline"
    assert got.tasks[1].spec == {"inline": "noop"}
    assert not got.chain
    assert compiled("[x, y]").chain


def test_positions_successors_and_levels() -> None:
    got = compiled("tasks: {d: {run: x, needs: [b, c]}, b: {run: x, needs: [a]}, a: x, c: x}")
    assert got.position == {"d": 0, "b": 1, "a": 2, "c": 3}
    assert got.tasks[0].needs == (1, 3)
    assert got.successors == ((), (0,), (1,), (0,))
    assert got.levels == (2, 1, 0, 0)


def test_requirements_become_one_demand() -> None:
    got = by_name(
        "tasks: {a: {run: x, requires: {labels: [b, a], memory: 1GiB, gpu: true}, prefers: {labels: ssd}, "
        "constraints: {minMemoryMb: 5}}}"
    )["a"]
    assert got.requires == {"labels": ["a", "b"], "memory": 1 << 30, "gpu": 1}
    assert demand_of(got)[1] == '{"kind":"shell","requires":{"gpu":1,"labels":["a","b"],"memory":1073741824}}'


def test_the_long_form_asks_for_the_same_things() -> None:
    got = by_name(
        "tasks: {a: {run: x, requires: {memory: 1MB, not_labels: [slow]}, constraints: {requiresGpu: true,"
        " avoidGaming: true, minMemoryMb: 5.5, minDiskGb: 2, nodeLabels: [y, x], targetNode: n1}}}"
    )["a"]
    assert got.requires == {
        "memory": 5_500_000, "disk": 2 * 10**9, "gpu": 1, "any_labels": ["x", "y"], "node": "n1",
        "not_labels": ["gaming", "slow"],
    }  # fmt: skip
    loose = by_name("tasks: {a: {run: x, constraints: {requiresGpu: false, avoidGaming: false}}}")["a"]
    assert loose.requires == {}
    assert demand_of(loose) == ("shell", '{"kind":"shell"}')


def test_wishes_count_only_where_the_leader_picks() -> None:
    text = "tasks: {a: {run: x, prefers: {labels: ssd}}}"
    assert by_name(text)["a"].requires == {}
    assert by_name("placement: scored\n" + text)["a"].requires == {"prefers": ["ssd"]}
    assert demand_of(by_name("placement: scored\n" + text)["a"])[0].startswith("place:shell:")


def test_pools_belong_to_the_demand() -> None:
    got = by_name("name: a, b@c%\nconcurrency: 3\ntasks: {a: {run: x, pools: [render, license]}, b: x}")
    assert got["a"].pools == ("license", "render", "workflow:a%2C b@c%25")
    assert pools_of(demand_of(got["a"])[0]) == ["license", "render", "workflow:a%2C b@c%25"]
    assert demand_of(got["b"]) == ("shell@workflow:a%2C b@c%25", '{"kind":"shell"}')
    assert by_name("tasks: {a: {run: x, pools: license}}")["a"].pools == ("license",)


def test_how_many_of_a_task_is_about_that_task() -> None:
    once = "{run: x, requires: {max_per_node: 1}}"
    got = by_name(f"name: w\ntasks: {{a: {once}, b: {once}}}")
    assert got["a"].requires == {"max_per_node": 1, "of": "w/a"}
    assert demand_of(got["a"])[0] != demand_of(got["b"])[0]


def test_handlers() -> None:
    workflow = compiled(
        """
tasks:
  a: x
  b: {run: x, needs: [a]}
  undo: {run: x, needs: [b], when: on_failure}
  after_undo: {run: x, needs: [undo]}
  join: {run: x, needs: [a, b], when: none_failed}
  any: {run: x, needs: [a, b], when: any_success}
  clean: {run: x, when: always}
  mail: {run: x, needs: [clean, a]}
"""
    )
    task = {t.name: t for t in workflow.tasks}
    assert [t.name for t in workflow.tasks if t.accepts_failure] == ["undo", "any", "clean"]
    assert [t.name for t in workflow.tasks if t.survives_halt] == ["undo", "after_undo", "any", "clean", "mail"]
    assert [t.name for t in workflow.tasks if t.final] == ["clean", "mail"]
    assert workflow.levels[workflow.position["clean"]] == 4  # behind after_undo, though no edge says so
    assert workflow.levels[workflow.position["mail"]] == 5
    assert task["join"].accepts == ()


def test_a_condition_decides_what_is_accepted() -> None:
    def one(extra: str) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        task = compiled(f"tasks: {{a: x, b: x, a-b: x, c: {{run: x, needs: [a], {extra}}}}}").tasks[3]
        return task.needs, task.accepts, task.accepts_failure

    assert one("if: tasks.a.exitCode === 0") == ((0,), (0,), True)
    assert one("if: tasks.a.output.x === 0") == ((0,), (), False)
    assert one("if: tasks.a.state !== 'failed', when: all_success") == ((0,), (), False)
    assert one('if: \'tasks["a-b"].state === "failed"\'') == ((0, 2), (2,), True)
    assert one("if: parent.b.error, when: always") == ((0, 1), (), True)
    assert one("env: {A: '${{ tasks.b.output }}'}") == ((0, 1), (), False)
    assert one("env: {A: '$${{ tasks.b.output }}'}") == ((0,), (), False)


def test_a_handler_of_the_run_that_names_a_task_does_not_need_it() -> None:
    workflow = compiled("tasks: {a: x, b: {run: 'echo ${{ tasks.a.state }}', when: always}}")
    assert workflow.tasks[1].needs == ()
    assert workflow.tasks[1].final


def test_what_follows_a_handler_of_the_run_may_name_tasks_too() -> None:
    workflow = compiled(
        "tasks: {a: x, b: {run: x, when: always}, c: {needs: [b], run: 'echo ${{ tasks.a.state }}'},"
        " d: 'echo ${{ tasks.a.state }} ${{ tasks.b.state }}'}"
    )
    assert [task.needs for task in workflow.tasks] == [(), (), (1,), (0, 1)]
    assert [task.final for task in workflow.tasks] == [False, True, True, True]


def test_a_handler_of_the_run_needs_another_one_that_it_names() -> None:
    names = "${{ tasks.a.state }} ${{ tasks.b.state }}"
    workflow = compiled(f"tasks: {{a: x, b: {{run: x, when: always}}, c: {{run: 'echo {names}', when: always}}}}")
    assert [task.needs for task in workflow.tasks] == [(), (), (1,)]
    assert [task.final for task in workflow.tasks] == [False, True, True]


def test_stored_and_loaded_again_it_is_the_same_workflow() -> None:
    loaded = load_text("tasks: {z: x, a: {run: x, needs: [z], timeout: 90, retry: 2}, m: {run: x, when: always}}")
    stored: dict[str, Any] = decode_document(encode_document(loaded.document))
    assert compile_workflow(stored, loaded.workflow.hash) == loaded.workflow


def test_bare_tasks_are_compiled_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks without options take the first one of their kind as a pattern: nothing of that one may stay."""
    tasks = """
  first: {run: "echo ${{ inputs.a }}", needs: [failing]}
  second: {run: "echo ${{ context.key }}"}
  third: echo
  failing: {argv: ["false"]}
  fourth: {argv: ["echo", "${{ tasks.third.output }}"]}
  escaped: {argv: ["echo", "$${{ x }}"]}
  function: {python: "m:f", with: {a: "${{ tasks.second.output }}", b: 1}}
  another: {python: "m:g"}
  here: {inline: f, needs: [third, second]}
  there: {inline: g}
  handler: {run: x, when: on_failure}
  after: {run: y, needs: [handler]}
"""
    options = (
        "",
        "defaults: {timeout: 10m, cwd: 'src/${{ inputs.a }}', env: {A: b}, priority: 3, retry: 2, secrets: [S]}\n",
        "defaults: {container: {image: busybox, env: {A: '${{ inputs.a }}'}}, retry: {max: 2, on: [oom]}}\n",
        "env: {A: '${{ context.x }}'}\nenv_file: [a.env]\nconcurrency: 3\n",
        "placement: scored\ndefaults: {env_file: [b.env], allow_failure: true, grace: 1s, shell: bash}\n",
    )
    for some in options:
        document = load_text(f"inputs: {{a: string}}\n{some}tasks:{tasks}").document
        fast = compile_workflow(document, "h")
        with monkeypatch.context() as patched:
            patched.setattr(compiling, "_BARE", frozenset())
            assert fast == compile_workflow(document, "h")
