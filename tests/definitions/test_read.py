"""The canonical document: what each way of writing becomes, and that reading it again changes nothing."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_text, load_value
from weft.core.definition.document import decode_document, document_hash, encode_document
from weft.core.definition.problems import PROBLEMS_MAX
from weft.core.definition.read import read


def document(text: str, format: Any = "yaml") -> dict[str, Any]:
    return load_text(text, "w", format).document


def tasks(text: str) -> dict[str, Any]:
    found: dict[str, Any] = document(text)["tasks"]
    return found


def test_a_bare_string_is_a_command() -> None:
    assert tasks("tasks: {a: make all, b: true}") == {"a": {"run": "make all"}, "b": {"run": "true"}}


def test_a_bare_list_is_a_chain() -> None:
    got = document("- make\n- {name: check, run: make test, timeout: 5}\n- {run: free, needs: []}\n- last")
    assert got["chain"] is True
    assert got["tasks"] == {
        "t1": {"run": "make"},
        "check": {"run": "make test", "needs": ["t1"], "timeout": "5s"},
        "t3": {"run": "free"},
        "t4": {"run": "last", "needs": ["t3"]},
    }


def test_values_become_canonical() -> None:
    got = tasks(
        """
tasks:
  a:
    timeout: 5400
    grace: 1.5
    retry: 2
    needs: b
    argv: [sleep, 1, ""]
    env: {PORT: 8080, EMPTY: ""}
    requires: {memory: 1048576, disk: 1.5GB, labels: fast}
  b: {run: x, needs: [], retry: {backoff: 90s}, timeout: null}
  c: {run: x, needs: [a, b, a]}
"""
    )
    assert got["a"] == {
        "argv": ["sleep", "1", ""],
        "needs": ["b"],
        "env": {"PORT": "8080", "EMPTY": ""},
        "timeout": "1h30m",
        "grace": "1s500ms",
        "retry": {"max": 2},
        "requires": {"labels": ["fast"], "memory": "1MiB", "disk": "1500MB"},
    }
    assert got["b"] == {"run": "x", "timeout": None, "retry": {"backoff": "1m30s"}}
    assert got["c"]["needs"] == ["a", "b"]


def test_the_order_of_keys_does_not_matter_that_of_tasks_does() -> None:
    one = document("{name: n, tasks: {a: {run: x, timeout: 1m}, b: y}}")
    same = document("{tasks: {a: {timeout: 60, run: x}, b: {run: y}}, name: n}")
    other = document("{name: n, tasks: {b: y, a: {run: x, timeout: 1m}}}")
    assert document_hash(one) == document_hash(same)
    assert document_hash(one) != document_hash(other)
    assert list(decode_document(encode_document(other))["tasks"]) == ["b", "a"]


def test_the_name_comes_from_the_text_before_the_file() -> None:
    assert document("tasks: {a: x}")["name"] == "w"
    assert document("{name: Nightly ETL, tasks: {a: x}}")["name"] == "Nightly ETL"


def test_json_and_yaml_make_the_same_document() -> None:
    assert document('{"tasks": {"a": {"run": "x", "needs": []}}}', "json") == document("tasks: {a: x}")


def test_triggers_and_context_are_kept() -> None:
    got = document("{context: {k: [1]}, triggers: [{cron: '0 2 * * *'}], tasks: {a: x}}")
    assert got["triggers"] == [{"cron": "0 2 * * *"}]
    assert got["context"] == {"k": [1]}


def test_values_made_in_python_are_told_by_their_path() -> None:
    with pytest.raises(DefinitionErrors) as caught:
        load_value({"tasks": {"a": {"run": "x", "needs": ["b"], "retry": {"max": object()}}}, 3: 4}, "made")
    assert str(caught.value) == (
        "made: expected a whole number from 0 to 10,000, found a Python object (at tasks.a.retry.max)\n"
        "made: the key 3 is not text (at [3])\n"
        "made: the task 'a' needs 'b', which does not exist (at tasks.a.needs[0])"
    )


def test_endless_problems_are_counted_not_kept() -> None:
    reading = read({"tasks": {f"t{i}": {"run": 1} for i in range(5000)}})
    assert len(reading.problems) == PROBLEMS_MAX
    assert reading.more == 4000
    with pytest.raises(DefinitionErrors) as caught:
        load_text("tasks:\n" + "".join(f"  t{i}: {{run: x, needs: [no{i}]}}\n" for i in range(5000)))
    assert len(caught.value.errors) == 100
    assert str(caught.value).endswith("… and 4,900 more")


def test_both_spellings_of_one_thing_are_refused() -> None:
    reading = read({"tasks": [{"key": "a", "type": "shell", "spec": {"command": "x"}, "dependsOn": ["b"],
    "needs": ["b"]},
                              {"key": "b", "spec": {"command": "x"}}]})  # fmt: skip
    assert [p.message for p in reading.problems] == ["'needs' sets the same as another key"]


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
    lambda text: "${{" not in text
)
durations = st.one_of(
    st.integers(1, 10**6),
    st.sampled_from(["10m", "1h30m", "500ms", "2s", "1d"]),
    st.floats(0.001, 100).map(lambda x: round(x, 3)),
)
retries = st.one_of(
    st.integers(0, 10),
    st.fixed_dictionaries(
        {},
        optional={
            "max": st.integers(0, 9),
            "backoff": durations,
            "multiplier": st.floats(1, 9),
            "on_lost": st.booleans(),
        },
    ),
)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
conditions = st.sampled_from(
    ["true", "${{ inputs.day === 'x' }}", " run.generation > 1 ", "context.k ?? false", "!workflow.context.x"]
)
templated = st.one_of(texts, st.sampled_from(["${{ inputs.day }}", "a ${{ run.id }} b", "$${{ x", "${{ 1 + 1 }}"]))
arguments = st.dictionaries(names, st.one_of(json_values, templated, st.lists(templated, max_size=2)), max_size=2)
options = {
    "if": conditions,
    "env": st.dictionaries(st.sampled_from(["A", "B"]), st.one_of(templated, st.integers(-9, 9)), max_size=2),
    "cwd": templated,
    "timeout": durations,
    "grace": durations,
    "retry": retries,
    "priority": st.integers(0, 10),
    "allow_failure": st.booleans(),
}
arrays = st.one_of(
    st.lists(st.one_of(json_values, templated), max_size=3),
    st.sampled_from(["${{ inputs.day }}", " ${{ [1, 2] }}\n", "${{ run.id.split('-') }}"]),
)
waits = st.one_of(
    st.builds(lambda name: {"signal": "s" + name}, st.uuids().map(str)),
    st.builds(lambda name, d: {"signal": "s" + name, "timeout": 5, "default": d}, st.uuids().map(str), json_values),
    st.builds(
        lambda given: {"for": given}, st.one_of(durations, st.sampled_from(["${{ inputs.day }}", "${{ 1 }}s"]))
    ),
    st.sampled_from(
        [{"until": "2026-01-31"}, {"until": "2026-01-31T08:00:00+02:00"}, {"until": "${{ inputs.day }}"}]
    ),
)
short_tasks = st.one_of(
    texts,
    st.fixed_dictionaries({"run": texts}, optional={**options, "shell": st.sampled_from(["sh", "bash",
    ["zsh", "-c"]])}),
    st.fixed_dictionaries({"argv": st.lists(templated, min_size=1, max_size=3)}, optional={**options,
    "description": texts}),
    st.fixed_dictionaries({"python": st.sampled_from(["etl:extract", "a.b:c", "./lib/x.py:run"])},
    optional={**options, "with": arguments}),
    st.sampled_from(["echo ${{ inputs.day }}", "echo '${{ run.name }}' $${{", "true # ${{ nothing }}"]),
    st.fixed_dictionaries({"run": texts, "matrix": st.sampled_from([{"a": [1, "2"], "b": " ${{ inputs.day }} "},
        {"z": [1], "a": [None, {}], "include": [{"a": 5, "c": 6}], "exclude": [{"z": 1, "a": {}}]}])},
    optional={"label": st.sampled_from(["${{ item.a }}", "x"])}),
    st.fixed_dictionaries({"run": texts, "replicas": st.integers(1, 9)},
    optional={"max_parallel": st.integers(1, 9)}),
    st.fixed_dictionaries({"run": texts, "map": arrays}, optional={**options, "max_parallel": st.integers(1, 9),
    "batch": st.integers(1, 9), "tolerate": st.one_of(st.integers(0, 9), st.sampled_from(["5%", "100%", "0.5%"]))}),
    st.fixed_dictionaries(
        {"container": st.fixed_dictionaries({"image": st.sampled_from(["a", "r.example.com:5000/a/b:1.2@sha256:0f"])},
        optional={"command": st.lists(templated, min_size=1, max_size=3), "args": st.lists(templated, max_size=2),
        "env": options["env"], "volumes": st.sampled_from(["a:/b", ["./x:/y:ro"]]),
        "user": st.sampled_from([0, "a:b"]),
        "workdir": st.sampled_from(["/w", "${{ inputs.day }}"]), "read_only": st.booleans(),
        "entrypoint": st.lists(texts, max_size=2)})},
        optional={**options, "with": arguments, "requires": st.just({"memory": "1GiB", "cpus": 0.5}),
        "retry": st.sampled_from([{"max": 2, "on": [75, "lost"], "not_on": "timeout"}, {"on_lost": "adopt"}])}),
    st.fixed_dictionaries({"argv": st.lists(templated, min_size=1, max_size=3), "container": st.sampled_from(
        [False, None, {"image": "a", "pull": "never"}])}, optional=options),
    st.fixed_dictionaries({"kubernetes": st.fixed_dictionaries({"image": st.just("a")},
        optional={"command": st.lists(templated, min_size=1, max_size=3), "pod": st.just({"hostNetwork": True}),
        "resources": st.just({"limits": {"memory": "1Gi", "cpu": 2}}), "node_selector": st.just({"a": ""})})},
        optional=options),
    st.fixed_dictionaries({"type": st.sampled_from(["container", "docker", "podman"]), "spec": st.fixed_dictionaries(
        {"image": st.just("a")}, optional={"command": st.one_of(texts, st.lists(texts, min_size=1)),
        "args": st.lists(texts), "timeoutMs": st.integers(1, 10**7), "network": st.just("none")})}),
    st.fixed_dictionaries({"type": st.sampled_from(["k8s_job", "kubernetes"]), "spec": st.fixed_dictionaries(
        {"image": st.just("a")}, optional={"command": st.one_of(texts, st.lists(texts, min_size=1)),
        "namespace": st.just("n"), "tolerations": st.just([{"key": "x"}])})}),
    st.fixed_dictionaries({"wait": waits}, optional={"if": conditions, "allow_failure": st.booleans()}),
    st.fixed_dictionaries(
        {"type": st.just("shell"), "spec": st.fixed_dictionaries({"command": texts},
        optional={"args": st.lists(texts), "timeoutMs": st.integers(1, 10**7)})},
        optional={"condition": conditions, "constraints": st.just({"minMemoryMb": 5, "nodeLabels": ["x"]}),
        "priority": st.integers(0, 10),
                  "retryPolicy": st.just({"maxRetries": 2, "backoffMs": 20, "retryable": False})},
    ),
)  # fmt: skip


@st.composite
def definitions(draw: st.DrawFn) -> Any:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.lists(texts, min_size=1, max_size=4))
    names_: list[str] = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    made: dict[str, Any] = {}
    for at, name in enumerate(names_):
        task = draw(short_tasks)
        if isinstance(task, dict) and at and draw(st.booleans()):
            task = dict(task)
            key = "dependsOn" if "type" in task else "needs"
            task[key] = draw(st.lists(st.sampled_from(names_[:at]), max_size=3))
        made[name] = task
    out = {"tasks": made}
    extra = st.fixed_dictionaries(
        {},
        optional={
            "on_failure": st.sampled_from(["halt", "halt_now", "continue"]),
            "max_parallel": st.integers(1, 9),
            "timeout": durations,
            "description": texts,
            "context": st.dictionaries(texts, json_values, max_size=2),
            "defaults": st.fixed_dictionaries({}, optional={k: v for k, v in options.items() if k != "if"}),
            "output": st.one_of(json_values, arguments, st.sampled_from([f"${{{{ tasks['{names_[0]}'].output }}}}"])),
        },
    )
    others = st.dictionaries(
        names, st.one_of(st.just("string"), st.just({"type": "integer", "default": 3})), max_size=2
    )
    return {**out, **draw(extra), "inputs": {**draw(others), "day": "string"}}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions())
def test_the_canonical_document_is_a_fixed_point(value: Any) -> None:
    first = read(value, "w")
    assert first.problems == ()
    assert first.document is not None
    again = read(first.document)
    assert again.problems == ()
    assert encode_document(again.document or {}) == encode_document(first.document)
    stored = decode_document(encode_document(first.document))
    assert document_hash(stored) == document_hash(first.document)
    assert read(stored).problems == ()
