"""Tasks that run another workflow: bounds per transaction, what names mean, scope, what a resume does."""

from typing import Any

import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.rules import children

LEAF: dict[str, Any] = {"name": "leaf", "tasks": {"x": {"inline": "work"}}}


def many(count: int, **more: Any) -> dict[str, Any]:
    task = {"map": list(range(count)), "workflow": "./leaf.yaml", **more}
    return {"name": "many", "on_failure": "continue", "tasks": {"each": task}}


def runs(engine: Engine) -> dict[str, int]:
    return dict(
        engine.store.reader().execute("SELECT state, count(*) FROM runs WHERE parent NOT NULL GROUP BY state")
    )


def finish_everything(engine: "Taking", session: str, root: str) -> int:
    """Exchange until the run has ended; how many exchanges it took."""
    for count in range(1, 2000):
        reports = [engine.report_of(claim) for claim in engine.taken.pop(session, [])]
        engine.take(session, reports)
        if engine.run(root).state in ("succeeded", "failed", "cancelled"):
            return count
    raise AssertionError("it does not end")


class Taking(Engine):
    """Elements' runs have tasks of the same name, so claims are kept in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[str, list[c.Claim]] = {}
        self.outcome = "succeeded"

    def report_of(self, claim: c.Claim) -> c.Report:
        error = "it failed" if self.outcome == "failed" else None
        return c.Report(claim.task_id, claim.pos, claim.idx, claim.attempt, self.outcome, error=error)  # type: ignore[arg-type]

    def take(
        self, session: str, reports: list[c.Report], want: int = 500, scope: int | None = None
    ) -> c.ExchangeReply:
        self.numbers[session] += 1
        command = c.Exchange(session, self.numbers[session], reports, want, ["inline=work"], 9, scope)
        reply: c.ExchangeReply = self.commit(command)
        self.taken.setdefault(session, []).extend(reply.claims)
        return reply


@pytest.fixture
def engine() -> Taking:
    engine = Taking()
    engine.node("n")
    return engine


def test_a_transaction_begins_so_many_and_leaves_the_rest(engine: Taking) -> None:
    run = engine.submit(many(250), children={"./leaf.yaml": LEAF})
    reply = engine.take("n", [])
    assert runs(engine) == {"running": children.BEGIN_MAX}
    assert reply.more
    assert len(reply.claims) == children.BEGIN_MAX
    engine.take("n", [])
    reply = engine.take("n", [])
    assert runs(engine) == {"running": 250}
    assert not reply.more
    engine.check(run)
    finish_everything(engine, "n", run)
    assert runs(engine) == {"succeeded": 250}
    engine.check(run)


def test_large_children_are_begun_fewer_at_a_time(engine: Taking) -> None:
    large = {"name": "large", "tasks": {f"t{i}": {"inline": "work"} for i in range(3000)}}
    run = engine.submit(many(4), children={"./leaf.yaml": large})
    engine.take("n", [], want=0)
    assert runs(engine) == {"running": 2}, "the bound is passed by the second"
    assert engine.take("n", [], want=0).more is False
    assert runs(engine) == {"running": 4}
    engine.check(run)


def test_a_cancel_stops_many_a_few_at_a_time(engine: Taking) -> None:
    run = engine.submit(many(60), children={"./leaf.yaml": LEAF})
    engine.take("n", [], want=0)
    assert engine.commit(c.CancelRun(run)).more
    steps = 0
    while engine.commit(c.Tidy(engine.run_no(run))).more:
        steps += 1
    assert steps >= 60 // children.STOP_MAX
    assert runs(engine) == {"cancelled": 60}
    assert engine.run(run).state == "cancelled"
    engine.check(run)


def test_a_tidy_for_one_family_leaves_others_alone(engine: Taking) -> None:
    one = engine.submit(many(1), children={"./leaf.yaml": LEAF})
    other = engine.submit(many(1), children={"./leaf.yaml": LEAF})
    engine.commit(c.Tidy(engine.run_no(other)))
    assert (engine.children(one), len(engine.children(other))) == ([], 1)


def test_a_scoped_node_works_for_the_family_and_nobody_else(engine: Taking) -> None:
    mine = engine.submit(many(2), children={"./leaf.yaml": LEAF})
    others = engine.submit(LEAF)
    engine.node("s", scope=mine)
    no = engine.run_no(mine)
    reply = engine.take("s", [], scope=no)
    claimed = {claim.run_no for claim in reply.claims}
    assert len(claimed) == 2
    assert engine.run_no(others) not in claimed
    assert no not in claimed
    child = engine.children(mine)[0]
    engine.commit(c.Register("t", "node", 30_000, child, "{}"))
    assert engine.commit(c.Register("u", "node", 30_000, child, "{}")).run_no == no, "a child's scope is its family"


def test_inputs_that_changed_make_a_new_run_after_a_resume(engine: Taking) -> None:
    """What the child would go on with is no longer what its parent gives it."""
    leaf = {**LEAF, "inputs": {"n": {"type": "integer", "default": 0}}}
    parent = {
        "name": "p",
        "tasks": {
            "first": {"inline": "work"},
            "sub": {"workflow": "./leaf.yaml", "with": {"n": "${{ tasks.first.output }}"}, "when": "always"},
        },
    }
    run = engine.submit(parent, children={"./leaf.yaml": leaf})
    engine.exchange("n")
    engine.exchange("n", [engine.report("n", "first", result='{"output":1}')])
    engine.finish("n", "x", "failed")
    engine.exchange("n")
    assert engine.run(run).state == "failed"
    engine.commit(c.Resume(run, ["first"]))
    engine.exchange("n")
    engine.exchange("n", [engine.report("n", "first", result='{"output":2}')])
    assert len(engine.children(run)) == 2
    inputs = engine.store.reader().execute("SELECT inputs FROM runs WHERE parent NOT NULL ORDER BY no")
    assert [text for (text,) in inputs] == ['{"n":1}', '{"n":2}']
    engine.finish("n", "x")
    engine.exchange("n")
    assert engine.run(run).state == "succeeded"
    engine.check(run)


def test_a_child_has_labels_and_priority_of_its_parent(engine: Taking) -> None:
    parent = {"name": "p", "tasks": {"sub": {"workflow": "./leaf.yaml", "priority": 3}}}
    run = engine.submit(parent, children={"./leaf.yaml": LEAF}, priority=4, labels='{"team":"a"}')
    engine.exchange("n", want=0)
    (child,) = engine.children(run)
    assert engine.run(child).priority == 7
    labels = engine.store.reader().execute("SELECT labels FROM runs WHERE id = ?", (child,)).get
    assert labels == '{"team":"a"}'


def test_prune_takes_a_family_whole_and_never_a_part_of_it(engine: Taking) -> None:
    run = engine.submit(many(3), children={"./leaf.yaml": LEAF})
    engine.take("n", [])
    engine.take("n", [engine.report_of(engine.taken["n"].pop())])
    assert engine.commit(c.Prune(2**60)).changed == 0, "a child has ended, its root has not"
    finish_everything(engine, "n", run)
    gone = [id for _, id in engine.commit(c.Prune(2**60)).data["runs"]]
    assert gone[-1] == run, "the root is the last to go"
    assert len(gone) == 4
    for table in ("runs", "tasks", "pins", "workflows", "events"):
        assert engine.store.reader().execute(f"SELECT count(*) FROM {table}").get == 0, table


def test_prune_keeps_a_document_that_is_still_to_run(engine: Taking) -> None:
    engine.submit(many(1), children={"./leaf.yaml": LEAF})
    engine.commit(c.Prune(2**60))
    assert engine.store.reader().execute("SELECT count(*) FROM workflows").get == 2


def test_a_file_that_a_stored_name_runs_is_the_one_of_its_run(engine: Taking) -> None:
    inner = {"name": "inner", "tasks": {"sub": {"workflow": "./leaf.yaml"}}}
    engine.submit(inner, children={"./leaf.yaml": LEAF}, source="/there")
    outer = {"name": "outer", "tasks": {"go": {"workflow": "inner"}}}
    run = engine.submit(outer, source="/here")
    engine.take("n", [], want=0)
    engine.take("n", [], want=0)
    found = engine.store.reader().execute("SELECT name, source FROM runs WHERE root = ?", (engine.run_no(run),))
    assert list(found) == [("outer", "/here"), ("inner", "/there"), ("leaf", "/there")]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"workflow": "./nowhere.yaml"}, "known only beside the definition's file"),
        ({"workflow": "laef"}, "did you mean 'leaf'"),
        ({"workflow": "zebra"}, "it knows leaf"),
        ({"workflow": "leaf", "with": {"a": 1}}, "the workflow takes no inputs"),
        ({"workflow": "outer"}, "outer -> outer"),
    ],
)
def test_what_cannot_be_settled_is_refused_and_leaves_nothing(engine: Taking, task: Any, said: str) -> None:
    engine.submit(LEAF)
    with pytest.raises(c.Refused, match=said):
        engine.submit({"name": "outer", "tasks": {"sub": task}})
    assert engine.store.reader().execute("SELECT count(*) FROM runs").get == 1


def test_names_may_not_go_deeper_than_anybody_understands(engine: Taking) -> None:
    engine.submit({"name": "w0", "tasks": {"x": {"inline": "work"}}})
    for depth in range(1, 33):
        engine.submit({"name": f"w{depth}", "tasks": {"x": {"workflow": f"w{depth - 1}"}}})
    with pytest.raises(c.Refused, match="more than 32 deep"):
        engine.submit({"name": "w33", "tasks": {"x": {"workflow": "w32"}}})
