"""Named SQL: what both dialects have in common, and that what differs must."""

import re
from importlib.resources import files

import pytest

from weft.store.queries import Query, queries

DIALECTS = ("sqlite", "postgres")
#: One statement for several attempts, chunks or places, where the other dialect has one for each, or one JSON text.
OTHER_PARAMETERS = ("output_holders", "output_insert", "tasks_by_place", "tasks_succeed_if_running")
HEAD = re.compile(r"^-- name: (\w+)((?:[^\n]|\n--)*)", re.MULTILINE)


def heads(*directory: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in files("weft.store").joinpath(*directory, "sql").iterdir():
        found |= dict(HEAD.findall(file.read_text(encoding="utf-8")))
    return found


def shared_by_both() -> list[str]:
    return sorted(set(queries("sqlite")) & set(queries("postgres")))


def test_parameters_come_in_the_same_order_in_both_dialects() -> None:
    for name in shared_by_both():
        if name not in OTHER_PARAMETERS:
            one, other = (queries(dialect)[name] for dialect in DIALECTS)
            assert (one.parameters, one.columns, one.guarded) == (other.parameters, other.columns, other.guarded), (
                name
            )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_statement_of_one_dialect_says_why_it_differs(dialect: str) -> None:
    silent = [name for name, rest in heads(dialect).items() if not re.sub(r"\([^)]*\)", "", rest).strip(" v-\n")]
    assert heads(dialect)
    assert not silent


def test_what_is_the_same_is_written_once() -> None:
    assert len(heads()) > 3 * len(heads("postgres")), "most statements are shared"
    own = set(heads("sqlite")) & set(heads("postgres"))
    bodies = [{name: " ".join(queries(dialect)[name].body.split()) for name in own} for dialect in DIALECTS]
    assert not [name for name in own if bodies[0][name] == bodies[1][name]]


def test_translation() -> None:
    query = Query(
        "SELECT 1 WHERE a IN :ids AND b NOT IN :ids AND c = :at::text AND d = ':at'",
        {"at": "int", "ids": "x"},
        {},
        False,
    )
    text = query.text(
        lambda number, kind: f"${number}::{kind}", lambda number, kind, negated: f"{negated}({number})", 3
    )
    assert text == "SELECT 1 WHERE a False(4) AND b True(4) AND c = $3::int::text AND d = ':at'"


def test_an_unknown_parameter_is_noticed() -> None:
    with pytest.raises(ValueError, match="at"):
        Query("SELECT :at", {}, {}, False).text(lambda number, kind: "", lambda number, kind, negated: "")
