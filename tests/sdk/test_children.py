"""Flows within flows: what they are in a definition, what they come to, and what is said when they are wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.sdk import pipelines as p
from tests.sdk.test_running import store  # noqa: F401 - a fixture
from tests.sdk.test_symbols import (
    broken,  # noqa: F401 - a fixture
    flow_at,
)
from weft.authoring.errors import DefinitionErrors
from weft.authoring.flow_files import find_flow
from weft.authoring.load import load_file
from weft.authoring.yaml_export import yaml_of
from weft.core.commands import Refused


def test_a_call_is_a_task_that_runs_the_flow() -> None:
    tasks = p.fortnight.definition()["tasks"]
    assert tasks["nightly"] == {"workflow": "tests.sdk.pipelines:nightly", "with": {"day": "${{ inputs.first }}"}}
    assert tasks["nightly_2"] == {
        "workflow": "tests.sdk.pipelines:nightly",
        "with": {"day": "${{ item }}"},
        "map": "${{ inputs.days }}",
        "needs": ["nightly"],
        "max_parallel": 2,
    }
    assert p.fortnight.load().children["tests.sdk.pipelines:nightly"] == p.nightly.load()


def test_outside_a_flow_it_is_the_plain_function() -> None:
    assert p.fortnight(["a", "b"]) == {"first": 2, "all": [2, 2]}


def test_it_runs(store: Path) -> None:  # noqa: F811
    assert p.month.run() == {"first": 2, "all": [2]}
    with weft.open() as w:
        assert w.connection.verify("last").ok
        runs = w.connection.runs()
        assert sorted((run.name, run.state) for run in runs) == [
            ("fortnight", "succeeded"), ("month", "succeeded"), ("nightly", "succeeded"), ("nightly", "succeeded"),
        ]  # fmt: skip
        assert {run.root for run in runs} == {w.connection.run("last").id}


def test_a_worker_takes_the_children_too(store: Path) -> None:  # noqa: F811
    with weft.open(worker=True) as w:
        assert w.run(p.fortnight, ["x"]) == {"first": 2, "all": [2]}


def test_the_export_of_a_family_is_exact(tmp_path: Path) -> None:
    """As files beside the module, as `weft export` says."""
    (tmp_path / "days.py").write_text(
        "from weft import flow, shell\n\n@flow\ndef one(day: str) -> str:\n    return shell('true')\n\n"
        "@flow\ndef many(days: list[str]) -> list[str]:\n    one(days[0])\n    return one.map(days)\n"
    )
    many = flow_at(str(tmp_path / "days.py") + ":many")
    (tmp_path / "many.yaml").write_text(yaml_of(many.definition()))
    loaded = load_file(tmp_path / "many.yaml")
    assert loaded.document == many.definition()
    assert loaded.workflow.hash == many.load().workflow.hash
    assert list(loaded.children) == ["days.py:one"]
    assert loaded.children["days.py:one"].workflow.hash == many.load().children["days.py:one"].workflow.hash


def test_a_failure_below_is_told_with_its_place(store: Path) -> None:  # noqa: F811
    with pytest.raises(weft.RunFailed) as caught:
        p.outer_failing.run()
    assert [(failure.task, failure.reason) for failure in caught.value.failures] == [("failing/bad", "exit code 3")]


def test_flows_that_run_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "round.py").write_text(
        "from weft import flow, shell\n\n@flow\ndef a() -> None:\n    shell('true')\n    b()\n\n"
        "@flow\ndef b() -> None:\n    a()\n"
    )
    with pytest.raises(DefinitionErrors) as caught:
        find_flow(str(tmp_path / "round.py") + ":a").load()
    assert "these flows run each other: a -> b -> a" in str(caught.value)
    assert "round.py:10:" in str(caught.value)


def test_what_it_does_not_take_is_told_at_the_call(broken: Callable[[str], str]) -> None:  # noqa: F811
    text = broken("other.options(env={'A': 'b'})(value)")
    assert "`env` belongs in the definition of the workflow that the task runs" in text
    assert "other.options" in text


@pytest.mark.parametrize(("reference", "said"), [("nothing", "does not know"), ("fortnihgt", "did you mean")])
def test_a_name_that_nobody_knows(store: Path, reference: str, said: str) -> None:  # noqa: F811
    from weft.authoring.load import load_value

    definition: dict[str, Any] = {"tasks": {"a": {"workflow": reference}}}
    with weft.open() as w:
        w.submit(p.fortnight, ["a"])
        with pytest.raises(Refused, match=said):
            w.start(load_value(definition))
