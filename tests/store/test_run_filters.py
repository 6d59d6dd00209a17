"""Lists of runs by label, input, trigger, time and text: each filter against a plain loop over all runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.conformance import put_run, run_row
from weft.operations.access import StoreAccess
from weft.operations.reading.run_filters import RunFilter, page_of_runs
from weft.operations.reading.runs import run_infos
from weft.operations.replies import RunInfo

LABELS: list[dict[str, str]] = [{}, {"team": "a"}, {"team": "b", "env": "prod"}, {"env": "prod"}, {'q"uo.te': "x=y"}]
INPUTS: list[dict[str, Any]] = [{}, {"n": 3, "on": True}, {"day": "2026-01-01"}, {"n": "3"}, {"z": "\x00", "n": 3}]


@pytest.fixture
def access(store: Any, tmp_path: Path) -> StoreAccess:
    """40 runs, numbered with gaps, each ten minutes after the one before."""
    with store.transaction() as tx:
        for no in range(1, 41):
            given: dict[str, Any] = {"created_at": no * 600_000, "name": "Nightly" if no % 4 else "weekly"}
            given |= {"reason": "Disk FULL" if no % 9 == 0 else None, "id": f"run-{no:03}", "root": no * 3}
            extra = {
                "labels": json.dumps(LABELS[no % 5]), "inputs": json.dumps(INPUTS[no % 5]),
                "trigger": "w/tick" if no % 3 == 0 else None,
            }  # fmt: skip
            put_run(tx, run_row(no * 3, **given), [], **extra)
    return StoreAccess(store, root=tmp_path)


def found(access: StoreAccess, **wanted: Any) -> list[str]:
    """By pages of three, to the end."""
    out: list[RunInfo] = []
    while page := run_infos(page_of_runs(access, RunFilter(**wanted), out[-1].no if out else 2**62, 3)):
        out += page
    return [run.id for run in out]


def expected(keep: Any) -> list[str]:
    return [f"run-{no:03}" for no in range(40, 0, -1) if keep(no)]


def test_no_filter_finds_all(access: StoreAccess) -> None:
    assert found(access) == expected(lambda no: True)


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["team=a"], [1]),
        (["env=prod"], [2, 3]),
        (["env=prod", "team=b"], [2]),
        (["team=c"], []),
        (['q"uo.te=x=y'], [4]),
    ],
)
def test_labels(access: StoreAccess, words: list[str], kinds: list[int]) -> None:
    assert found(access, labels=words) == expected(lambda no: no % 5 in kinds)


@pytest.mark.parametrize(
    ("words", "kinds"), [(["day=2026-01-01"], [2]), (["on=true"], [1]), (["on=1"], []), (["n=3", "on=true"], [1])]
)
def test_inputs_are_compared_as_text(access: StoreAccess, words: list[str], kinds: list[int]) -> None:
    assert found(access, inputs=words) == expected(lambda no: no % 5 in kinds)


def test_a_number_and_its_text_are_alike(access: StoreAccess) -> None:
    assert {1, 3} <= {int(run[4:]) % 5 for run in found(access, inputs=["n=3"])} <= {1, 3, 4}


def test_triggers_and_names(access: StoreAccess) -> None:
    assert found(access, trigger="w/tick") == expected(lambda no: no % 3 == 0)
    assert found(access, trigger="w/tick", name="weekly") == expected(lambda no: no % 12 == 0)
    assert found(access, trigger="w/other") == []


@pytest.mark.parametrize("since", [None, 0, 600_000, 6_000_001, 24_000_000, 10**12])
@pytest.mark.parametrize("until", [None, 0, 600_001, 12_000_000, 10**12])
def test_times(access: StoreAccess, since: int | None, until: int | None) -> None:
    def keep(no: int) -> bool:
        at = no * 600_000
        return (since is None or at >= since) and (until is None or at < until)

    assert found(access, since=since, until=until) == expected(keep)


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("WEEK", lambda no: no % 4 == 0),
        ("full", lambda no: no % 9 == 0),
        ("run-01", lambda no: 10 <= no < 20),
        ("prod", lambda no: no % 5 in (2, 3)),
        ("2026-01", lambda no: no % 5 == 2),
        ("%", lambda no: False),
        ("_", lambda no: False),
    ],
)
def test_text(access: StoreAccess, text: str, keep: Any) -> None:
    assert found(access, text=text) == expected(keep)


def test_a_run_says_its_labels_and_its_trigger(access: StoreAccess) -> None:
    (run,) = run_infos(page_of_runs(access, RunFilter(text="run-012"), 2**62, 10))
    assert (run.labels, run.trigger) == ({"team": "b", "env": "prod"}, "w/tick")


def test_times_in_an_empty_store(store: Any, tmp_path: Path) -> None:
    assert page_of_runs(StoreAccess(store, root=tmp_path), RunFilter(since=5, until=9), 2**62, 10) == []
