"""Expressions in definitions: what is checked at load, which needs are inferred, and what the engine is told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_text, load_value
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import decode_document, encode_document
from weft.core.definition.inferred_needs import all_edges, complete_needs
from weft.core.definition.read import read
from weft.core.graph import cycles_of, successors_of
from weft.core.workflow import TaskDef


def by_name(text: str) -> dict[str, TaskDef]:
    return {task.name: task for task in load_text(text).workflow.tasks}


def complaints(value: Any) -> list[tuple[str, str]]:
    """(path, message) of every problem, with the part of the text that its column points at."""
    out = []
    for problem in read(value).problems:
        at = "" if problem.offset is None else f" @{problem.offset.text[problem.offset.column - 1 :][:6]}"
        out.append((".".join(map(str, problem.path)), problem.message + at))
    return out


def task(**given: Any) -> dict[str, Any]:
    return {"inputs": {"x": "string"}, "tasks": {"a": "true", "b": {"run": "true", **given}}}


@pytest.mark.parametrize(
    "given",
    [
        {"if": "tasks.a.exitCode === 0"}, {"if": "${{ parent.a.result.stdout.includes('x') }}"},
        {"if": " inputs.x === 'y' && run.id && run.name && run.generation > 0 "},
        {"if": "context.k || workflow.context.k"},
        {"run": "echo ${{ inputs.x }} '${{ tasks.a.output }}' \"${{ run.id }}\" $${{ ${HOME}"},
        {"run": "true # ${{ nothing at all"}, {"run": "echo $(cat ${{ inputs.x }})", "shell": "bash"},
        {"run": "print()", "shell": ["python3", "-c"], "env": {"X": "${{ inputs.x }}"}},
        {"run": "print('$${{')", "shell": ["python3", "-c"]},
        {"env": {"A": "${{ inputs.x }}/${{ tasks.a.state }}"}, "cwd": "out/${{ inputs.x }}"},
        {"replicas": 3, "env": {"N": "${{ index }} ${{ item }}"}, "cwd": "${{ index }}"},
        {"map": "${{ tasks.a.output.files }}", "run": "echo ${{ item.name }} '${{ index }}'", "batch": 5},
        {"map": ["${{ inputs.x }}", {"k": ["a ${{ tasks.a.output }}"]}], "tolerate": "2.5%", "max_parallel": 2},
        {"map": "\n${{ inputs.x.split(',') }} ", "tolerate": 3}, {"map": []},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_fine(given: dict[str, Any]) -> None:
    assert complaints(task(**given)) == []


@pytest.mark.parametrize(
    ("given", "where", "message"),
    [
        ({"if": "tasks.c.exitCode"}, "if", "there is no task 'c' @c.exit"),
        ({"condition": "parent.c.exitCode"}, "condition", "there is no task 'c' @c.exit"),
        ({"if": "tasks.b.exitCode"}, "if", "the task 'b' reads its own result @b.exit"),
        ({"env": {"A": "${{ tasks.b.output }}"}}, "env.A", "the task 'b' reads its own result @b.outp"),
        ({"if": "index > 0"}, "if", "'index' is not known here @index "),
        ({"if": "index > 0", "replicas": 2}, "if", "'index' is not known here @index "),
        ({"env": {"A": "${{ item }}"}}, "env.A", "'item' is not known here @item }"),
        ({"if": "item > 0", "map": [1]}, "if", "'item' is not known here @item >"),
        ({"map": "${{ item }}"}, "map", "'item' is not known here @item }"),
        ({"map": "${{ tasks.b.output }}"}, "map", "the task 'b' reads its own result @b.outp"),
        ({"map": [1, "${{ tasks.c.output }}"]}, "map.1", "there is no task 'c' @c.outp"),
        ({"map": "${{ tasks.a.output", }, "map", "this ${{ has no end @${{ ta"),
        ({"cwd": "a/${{ inputs.y }}"}, "cwd", "there is no input 'y' @y }}"),
        ({"run": "echo `${{ inputs.x }}`"}, "run", "${{ }} cannot stand inside backticks @${{ in"),
        ({"run": "a $${{ ${{ x", "shell": ["zsh", "-c"]}, "run",
         "the quoting rules of this shell are not known, so no value can be inserted into its text @${{ x"),
        ({"if": "run.attempt"}, "if", "'run' has no 'attempt' @attemp"),
        ({"if": "a-b"}, "if", "'a' is not known here @a-b"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_column(given: dict[str, Any], where: str, message: str) -> None:
    found = complaints(task(**given))
    assert (f"tasks.b.{where}", message) in found
    assert len({place for place, _ in found}) == 1


def test_the_shell_of_the_defaults_counts() -> None:
    value = task(run="echo ${{ inputs.x }}")
    assert complaints({**value, "defaults": {"shell": "bash"}}) == []
    assert (
        "the quoting rules of this shell are not known"
        in complaints({**value, "defaults": {"shell": ["fish", "-c"]}})[0][1]
    )


def test_what_all_tasks_share_names_no_task() -> None:
    for shared in ({"env": {"A": "${{ tasks.a.output }}"}}, {"defaults": {"cwd": "${{ parent.a.output }}"}}):
        assert [message.split(" @")[0] for _, message in complaints({**task(), **shared})] == [
            "a value for all tasks cannot name one of them"
        ]
    assert complaints({**task(), "env": {"A": "${{ inputs.x }}"}, "defaults": {"cwd": "${{ run.id }}"}}) == []


def test_an_input_declared_wrongly_is_not_missed_as_well() -> None:
    value = {"inputs": {"x": "date"}, "tasks": {"a": "echo ${{ inputs.x }}"}}
    assert [place for place, _ in complaints(value)] == ["inputs.x"]
    assert [place for place, _ in complaints({**value, "inputs": 3})] == ["inputs"]


def test_long_forms_are_blamed_where_they_are_written() -> None:
    bad = "${{ inputs.y }}"
    spec = {"command": "echo", "args": ["x", bad], "env": {"A": "ok", "B": bad}, "cwd": bad}
    value = {"inputs": {"x": "string"}, "tasks": [{"key": "a", "type": "shell", "spec": spec}]}
    assert sorted(place for place, _ in complaints(value)) == [
        "tasks.0.spec.args.1",
        "tasks.0.spec.cwd",
        "tasks.0.spec.env.B",
    ]
    chain = ["true", {"run": "x", "env": {"A": bad}}, f"echo {bad}"]
    assert [place for place, _ in complaints(chain)] == ["1.env.A", "2"]


def test_values_made_in_python_show_the_expression() -> None:
    with pytest.raises(DefinitionErrors) as caught:
        load_value({"tasks": {"build": "x", "b": {"run": "x", "if": "true\n&& tasks.biuld.state"}}}, "made")
    assert str(caught.value) == (
        "made: there is no task 'biuld' (at tasks.b.if)\n"
        "  | && tasks.biuld.state\n"
        "  |          ^^^^^\n"
        "  fix: did you mean 'build'?"
    )


def test_named_tasks_become_needs() -> None:
    got = by_name(
        """
tasks:
  a: x
  b: x
  one: {run: "echo ${{ tasks.b.output }} '${{ parent.a.output }}'"}
  two: {run: x, if: "tasks.b.output.n > 1 && parent.a.output"}
  three: {argv: [x, "${{ tasks.a.output }}"], cwd: "${{ tasks.b.output }}", needs: [one]}
  four: {python: "m:f", with: {list: [1, {k: "${{ tasks.a.output }}"}]}}
  five: "true # ${{ tasks.a.output }}"
"""
    )
    assert got["one"].needs == got["one"].template_reads == (0, 1)
    assert (got["two"].needs, got["two"].reads, got["two"].template_reads) == ((0, 1), (0, 1), ())
    assert (got["three"].needs, got["three"].template_reads) == ((2,), (0, 1))  # both lie behind `one`
    assert got["four"].needs == (0,)
    assert (got["five"].needs, got["five"].templated) == ((), True)
    assert not got["a"].templated


def test_an_ancestor_is_read_without_becoming_a_need() -> None:
    """`report` must run though `work` failed, because all it needs is the handler."""
    got = by_name(
        """
tasks:
  work: x
  undo: {run: x, needs: [work], when: always}
  report: {run: "echo ${{ tasks.work.exitCode }}", needs: [undo]}
  both: {run: "echo ${{ tasks.work.exitCode }} ${{ tasks.undo.exitCode }}"}
"""
    )
    assert (got["report"].needs, got["report"].template_reads) == ((1,), (0,))
    assert got["both"].needs == (0, 1)


def test_maps_and_waits_read_what_they_name() -> None:
    got = by_name(
        """
inputs: {n: {type: integer, default: 1}}
tasks:
  a: x
  b: x
  m: {map: "${{ tasks.a.output }}", run: "echo ${{ item }} ${{ tasks.b.output }}"}
  lit: {map: [1, "${{ parent.a.output }}"], run: x}
  each: {map: "${{ [inputs.n] }}", run: "echo $WEFT_INDEX"}
  w: {wait: {for: "${{ tasks.a.output }}s"}}
  u: {wait: {until: "${{ inputs.n }}"}, needs: [b]}
  plain: {wait: {signal: go}}
"""
    )
    m, lit, each, w = got["m"], got["lit"], got["each"], got["w"]
    assert (m.needs, m.map_reads, m.template_reads, m.templated) == ((0, 1), (0,), (1,), True)
    assert (lit.needs, lit.map_reads, lit.template_reads, lit.templated) == ((0,), (0,), (), False)
    assert (each.needs, each.map_reads, each.templated) == ((), (), False)  # the rules alone work its array out
    assert (w.kind, w.needs, w.template_reads, w.templated) == ("wait", (0,), (0,), False)
    assert (got["u"].needs, got["u"].template_reads) == ((1,), ())
    assert not any(task.reads_context for task in got.values())


@pytest.mark.parametrize(
    ("definition", "reads"),
    [
        ("{tasks: {a: 'echo ${{ context.k }}'}}", True), ("{tasks: {a: 'echo ${{ workflow.context.k }}'}}", True),
        ("{tasks: {a: {argv: [x, '${{ context }}']}}}", True), ("{tasks: {a: {run: x, if: context.k}}}", False),
        ("{tasks: {a: {run: x, cwd: '${{ context.k }}'}}}", True),
        ("{tasks: {a: {python: 'm:f', with: {k: ['${{ context.k }}']}}}}", True),
        ("{env: {A: '${{ context.k }}'}, tasks: {a: x}}", True),
        ("{defaults: {env: {A: '${{ context.k }}'}}, tasks: {a: x}}", True),
        ("{defaults: {cwd: '${{ context.k }}'}, tasks: {a: x}}", True),
        ("{defaults: {cwd: '${{ context.k }}'}, tasks: {a: {run: x, cwd: y}}}", False),
        ("{tasks: {a: {wait: {for: '${{ context.k }}'}}}}", False),
        ("{tasks: {a: 'true # ${{ context.k }}'}}", False),
    ],
)  # fmt: skip
def test_who_reads_the_context(definition: str, reads: bool) -> None:
    assert by_name(definition)["a"].reads_context is reads


def test_accepts() -> None:
    def one(condition: str, extra: str = "") -> tuple[tuple[int, ...], bool, bool]:
        text = f"tasks: {{z: x, a: {{run: x, needs: [z]}}, b: {{run: x, needs: [a], if: {condition!r}{extra}}}}}"
        got = load_text(text).workflow.tasks[2]
        return got.accepts, got.accepts_failure, got.survives_halt

    for member in ("state", "exitCode", "error", "result", "result.stdout"):
        assert one(f"tasks.a.{member} === 1") == ((1,), True, True)
        assert one(f"tasks.a.{member} === 1", ", when: none_failed") == ((), False, False)
    assert one("tasks.a.output === 1") == ((), False, False)
    assert one('"tasks.a.state" === tasks.a.output') == ((), False, False)  # a text is no reference
    assert one("tasks.z.state === 1") == ((), False, False)  # an ancestor is no need
    assert one("parent.a?.['state'] === tasks.z.error") == ((1,), True, True)


def test_what_the_engine_is_told() -> None:
    loaded = load_text(
        """
context: {branch: main, n: [1, {k: null}]}
inputs: {day: {default: x}}
output: {count: "${{ tasks.b.output.count }}", all: ["${{ tasks.a.output }} ${{ tasks.b.state }}"], day: 1}
tasks:
  a: {python: "lib/etl.py:extract", with: {day: "${{ inputs.day }}", n: [1, null]}}
  b: {python: "etl:load", needs: [a]}
"""
    )
    workflow = loaded.workflow
    assert workflow.context == {"branch": "main", "n": [1, {"k": None}]}
    assert workflow.output == loaded.document["output"]
    assert workflow.output_reads == (0, 1)
    a, b = workflow.tasks
    assert (a.kind, a.spec) == (
        "python", {"function": "lib/etl.py:extract", "with": {"day": "${{ inputs.day }}", "n": [1, None]}},
    )  # fmt: skip
    assert (b.kind, b.spec, a.templated, b.templated) == ("python", {"function": "etl:load", "with": {}}, True, False)
    stored = decode_document(encode_document(loaded.document))
    assert compile_workflow(stored, workflow.hash) == workflow
    assert load_text("tasks: {a: x}").workflow.output is None


def test_shared_templates_make_all_tasks_templated() -> None:
    assert by_name("{inputs: {x: string}, env: {A: '${{ inputs.x }}'}, tasks: {a: x}}")["a"].templated
    got = by_name("{inputs: {x: string}, defaults: {cwd: '${{ inputs.x }}'}, tasks: {a: x, b: {run: x, cwd: y}}}")
    assert (got["a"].templated, got["b"].templated) == (True, False)


def test_the_variables_of_a_script_are_taken() -> None:
    assert [place for place, _ in complaints(task(env={"WEFT_V1": "x", "WEFT_VX": "x"}))] == ["tasks.b.env.WEFT_V1"]


def test_tuples_made_in_python_are_stored_as_lists() -> None:
    value = {"tasks": {"a": {"python": "m:f", "with": {"x": ("${{ inputs.y }}", (1,))}}}, "inputs": {"y": "string"}}
    document = load_value(value).document
    assert document["tasks"]["a"]["with"] == {"x": ["${{ inputs.y }}", [1]]}
    assert document == decode_document(encode_document(document))


def behind(edges: Any, starts: Any) -> set[int]:
    found: set[int] = set()
    pending = list(starts)
    while pending:
        pos = pending.pop()
        if pos not in found:
            found.add(pos)
            pending += edges[pos]
    return found


@settings(deadline=None, max_examples=300)
@given(st.data(), st.integers(1, 12))
def test_inferred_needs_against_a_plain_search(data: st.DataObject, size: int) -> None:
    def edges() -> list[list[int]]:
        return [
            data.draw(st.lists(st.integers(0, pos - 1), max_size=4, unique=True)) if pos else []
            for pos in range(size)
        ]

    said, named = edges(), edges()
    whole = [[*s, *n] for s, n in zip(said, named, strict=True)]
    got = complete_needs(said, named)
    for pos in range(size):
        reached = behind(whole, said[pos])
        assert got[pos] == (*said[pos], *sorted(n for n in named[pos] if n not in reached))
        assert behind(got, got[pos]) == behind(whole, whole[pos])  # nothing that was waited for is lost
    full = all_edges(said, named)
    assert cycles_of(full, successors_of(full)) == []


def test_more_far_ancestors_than_one_pass_follows() -> None:
    size = 7000
    said = [[pos - 1] if pos else [] for pos in range(size)]
    named = [[pos // 2] if pos > 2 else [] for pos in range(size)]
    assert complete_needs(said, named) == [tuple(needs) for needs in said]
    apart = [[] if pos < 5000 else [pos - 1] for pos in range(size)]
    assert complete_needs(apart, [[] if pos < 5000 else [pos - 5000] for pos in range(size)])[-1] == (size - 2, 1999)
