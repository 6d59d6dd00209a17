"""The demo tells the truth, from an installed package and without a terminal."""

from .conftest import Weft


def test_the_demo(weft: Weft) -> None:
    done = weft("demo", "--json")
    assert done.code == 0, done.err
    facts = done.json
    assert "── kill -9 " in done.err
    assert facts["left_running"] == 0
    assert facts["were_running"] >= 1
    assert facts["kept"]
    assert len(facts["executed_once"]) + len(facts["executed_twice"]) == 12
    assert len(facts["executed_twice"]) == facts["were_running"]
    assert not set(facts["finished_before"]) & set(facts["executed_twice"])
    assert facts["took_s"] < 20
