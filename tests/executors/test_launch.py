"""From a claim to a launch, for attempts on engines: values, limits, secrets; and from an outcome to its report."""

from typing import Any

import pytest

from weft.authoring.load import load_text
from weft.core.commands import Claim
from weft.core.expressions import ExpressionError
from weft.core.workflow import Workflow
from weft.executors.http_call.secret_references import revealed, unmarked
from weft.executors.protocol import Launch, Outcome
from weft.node.attempts.launch import make_launch, make_report, take_context_update
from weft.node.attempts.secrets import MissingSecret, Secrets
from weft.node.ports import NodeSettings, RunFacts

SETTINGS = NodeSettings("n", 1, "/out", "/work")
VALUE = "a b; $(rm) 'x'"
OWN = {"WEFT_RUN_ID": "r", "WEFT_TASK": "a", "WEFT_ATTEMPT": "2", "WEFT_INDEX": "", "WEFT_IDEMPOTENCY_KEY": "r/a"}


def launch(
    text: str, names: dict[str, Any] | None = None, memory: int | None = None, secrets: dict[str, str] | None = None
) -> Launch:
    workflow: Workflow = load_text(text).workflow
    facts = RunFacts(1, "r", "w", workflow.hash, {}, "/source")
    claim = Claim(1, 2, 1, 0, -1, 1, memory=memory)
    return make_launch(claim, facts, workflow, SETTINGS, names, Secrets(secrets or {}))


@pytest.mark.parametrize("kind", ["container", "kubernetes"])
def test_values_are_arguments_and_variables(kind: str) -> None:
    made = launch(
        f"""
inputs: {{x: string}}
env: {{SHARED: "1", B: "0"}}
tasks:
  a:
    {kind}:
      image: i
      command: [echo, "${{{{ inputs.x }}}}"]
      args: ["${{{{ [1, 2] }}}}"]
      env: {{B: "${{{{ inputs.x }}}}"}}
    env: {{A: "2"}}
    with: {{n: "${{{{ 1 + 1 }}}}"}}
""",
        {"inputs": {"x": VALUE}},
    )  # fmt: skip
    assert made.kind == kind
    assert made.spec[kind]["command"] == ["echo", VALUE]
    assert made.spec[kind]["args"] == ["[1,2]"]
    assert made.spec[kind]["env"] == {"B": VALUE}
    assert made.env == {"SHARED": "1", "A": "2", "B": VALUE, **OWN}
    assert made.input == b'{"n":2}'
    assert made.source == "/source"


def test_the_directory_inside_may_be_a_value() -> None:
    made = launch(
        'tasks: {a: {container: {image: i, workdir: "/w/${{ inputs.x }}"}}}\ninputs: {x: string}',
        {"inputs": {"x": "y"}},
    )
    assert made.spec["container"]["workdir"] == "/w/y"
    assert made.input is None


def test_a_value_never_enters_the_text_of_a_shell() -> None:
    text = 'inputs: {x: string}\ntasks: {a: {container: {image: i}, run: "echo ${{ inputs.x }}"}}'
    made = launch(text, {"inputs": {"x": VALUE}})
    assert VALUE not in made.spec["run"]
    assert made.env["WEFT_V1"] == VALUE


def test_a_value_that_no_command_can_have_is_refused_by_name() -> None:
    text = 'inputs: {x: string}\ntasks: {a: {container: {image: i, command: [echo, "${{ inputs.x }}"]}}}'
    with pytest.raises(ExpressionError, match="command: this value holds a NUL"):
        launch(text, {"inputs": {"x": "a\0b"}})


def test_the_arguments_of_a_function_are_no_input_file() -> None:
    made = launch('tasks: {a: {container: {image: i}, python: "m:f", with: {n: 1}}}')
    assert made.spec["function"] == "m:f"
    assert made.spec["with"] == {"n": 1}
    assert made.input is None


def test_limits_are_what_was_reserved() -> None:
    text = (
        "tasks: {a: {container: {image: i}, requires: {memory: 1GiB, cpus: 0.5, gpu: true, disk: 1GiB, labels: x}}}"
    )
    assert launch(text).requires == {"memory": 2**30, "cpus": 0.5, "gpu": 1}
    assert launch(text, memory=2**31).requires == {"memory": 2**31, "cpus": 0.5, "gpu": 1}
    assert launch("tasks: {a: {container: {image: i}}}").requires == {}


def test_credentials_are_no_variable() -> None:
    text = "tasks: {a: {container: {image: i, credentials: REGISTRY}, secrets: [TOKEN]}}"
    made = launch(text, secrets={"REGISTRY": "user:password", "TOKEN": "a token"})
    assert made.credentials == "user:password"
    assert made.secrets == {"TOKEN": "a token"}
    assert "REGISTRY" in made.hidden
    with pytest.raises(MissingSecret, match="REGISTRY"):
        launch(text, secrets={"TOKEN": "a token"})


def test_a_report_says_what_retries_ask_about() -> None:
    definition = load_text("tasks: {a: x}").workflow.tasks[0]
    claim = Claim(1, 2, 1, 0, -1, 1)
    result = {"exitCode": 1, "error": {"type": "db.Conflict", "message": "m", "traceback": ""}}
    failed = Outcome(1, 2, False, 137, 0.0, 1.0, "out of memory", cause="oom", result=result)
    report = make_report(claim, failed, definition)
    assert (report.outcome, report.exit_code, report.cause, report.error_type) == (
        "failed",
        137,
        "oom",
        "db.Conflict",
    )
    good = make_report(claim, Outcome(1, 2, True, 0, 0.0, 1.0, result={"exitCode": 0}), definition)
    assert (good.outcome, good.cause, good.error_type) == ("succeeded", None, None)


def _left(**fields: Any) -> Outcome:
    outcome = Outcome(1, 1, True, 0, 1.0, 2.0)
    for name, value in fields.items():
        setattr(outcome, name, value)
    take_context_update(outcome)
    return outcome


def test_a_result_may_update_the_context() -> None:
    assert _left(output={"context_update": {"a": 1}, "x": 2}).context == {"a": 1}
    assert _left(output={"context_update": {"a": 1}}, context={"a": 0, "b": 2}).context == {"a": 1, "b": 2}
    printed = {"exitCode": 0, "stdout": '{"context_update": {"a": [1]}}\n', "stderr": ""}
    assert _left(result=printed).context == {"a": [1]}
    assert _left(result=printed, output={"x": 1}).context is None  # what it wrote is its result, not what it printed


@pytest.mark.parametrize("printed", ["", "{", '{"context_update"', "[1]", "text"])
def test_other_output_updates_nothing(printed: str) -> None:
    outcome = _left(result={"stdout": printed})
    assert (outcome.ok, outcome.context) == (True, None)


def test_an_update_that_is_no_mapping_fails() -> None:
    outcome = _left(output={"context_update": [1]})
    assert (outcome.ok, outcome.error) == (False, "the context_update in its result is no mapping of keys to values")


REQUEST = """
inputs: {x: string}
tasks:
  a:
    secrets: [TOKEN]
    http:
      url: https://a.example/${{ inputs.x }}
      headers: {Authorization: "Bearer $TOKEN", X-A: "${TOKEN} ${{ inputs.x }} $OTHER"}
      expect: {json: {/a: $TOKEN}}
      poll: {url: "https://a.example/$TOKEN"}
"""


def test_a_value_never_names_a_secret() -> None:
    """What an expression brings into a text of a request may come from anywhere."""
    made = launch(REQUEST, {"inputs": {"x": "$TOKEN"}}, secrets={"TOKEN": "hush", "OTHER": "not listed"})
    spec = made.spec["http"]

    def sent(text: str) -> str:
        return revealed(text, made.secrets)

    assert sent(spec["url"]) == "https://a.example/$TOKEN"
    assert sent(spec["headers"]["Authorization"]) == "Bearer hush"
    assert sent(spec["headers"]["X-A"]) == "hush $TOKEN $OTHER"
    assert sent(spec["poll"]["url"]) == "https://a.example/hush"
    assert spec["expect"] == {"json": {"/a": "$TOKEN"}}
    assert unmarked(spec)["headers"]["Authorization"] == "Bearer ${TOKEN}"  # the same in every process
    assert "hush" not in str(spec)
