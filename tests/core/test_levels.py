"""`mode: levels` leaves the same records and results whatever order tasks finish in and wherever its owner dies."""

import hashlib
import random
from typing import Any

import msgspec
import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.history.kinds import canonical_lines
from weft.core.invariants import current_rows
from weft.core.rows import TaskRow
from weft.core.states import RUN_TERMINAL

CRASHES_MAX = 5  # an attempt may lose five leases before its task is given up
GRAPHS = 60
PLAYS = 6


class Graph:
    """A definition, and what its tasks do: how often each fails before it succeeds. At most one of them is fatal, so
    that there is one answer to the question which task failed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"levels-{seed}")
        self.fails: dict[str, int] = {}
        self.signals: list[str] = []
        tasks: dict[str, Any] = {}
        names = [f"{rng.choice('zyxabc')}{i}" for i in range(rng.randint(3, 10))]
        for name in names:
            tasks[name] = self._task(rng, name, [n for n in names if n in tasks])
        tasks["always"] = {"inline": "work", "when": "always"}
        self.document: dict[str, Any] = {"name": "levels", "mode": "levels", "context": {"k": 0}, "tasks": tasks}
        main = [n for n in names if not {"wait", "allow_failure", "when", "tolerate"} & tasks[n].keys()]
        if main and rng.random() < 0.4:
            fatal = rng.choice(main)
            place = f"{fatal}.0" if "replicas" in tasks[fatal] else fatal
            self.fails[place] = 99

    def _task(self, rng: random.Random, name: str, earlier: list[str]) -> dict[str, Any]:
        task: dict[str, Any] = {}
        if earlier and rng.random() < 0.8:
            task["needs"] = rng.sample(earlier, min(len(earlier), rng.randint(1, 3)))
        if rng.random() < 0.1:
            self.signals.append(name)
            return {"wait": {"signal": name}, **task}
        task["inline"] = "work"
        if rng.random() < 0.3:
            task["retry"] = {"max": 2, "backoff": "1s", "jitter": 0}
            self.fails[name] = rng.randint(0, 2)
        if rng.random() < 0.15:
            task["replicas"] = rng.randint(1, 4)
            if rng.random() < 0.5:
                task["max_parallel"] = rng.randint(1, 2)
            if rng.random() < 0.4:
                task["tolerate"] = 1
                self.fails[f"{name}.0"] = 99
        elif rng.random() < 0.15:
            task["allow_failure"] = True
            self.fails[name] = 99
        elif task.get("needs") and rng.random() < 0.15:
            task["when"] = rng.choice(["always", "on_failure", "any_success", "none_failed"])
        elif task.get("needs") and rng.random() < 0.15:
            task["if"] = f"tasks.{task['needs'][0]}.exitCode === 0"
        return task


class Play:
    """One way through a graph: its own order, crashes and limits, all from a seed; None is the plain way."""

    def __init__(self, graph: Graph, seed: int | None, handlers_write: bool = True) -> None:
        self.graph = graph
        self.disturbed = seed is not None
        self.handlers_write = handlers_write  # whether handlers set keys of the context
        self.rng = random.Random(f"play-{seed}")
        self.engine = Engine()
        self.seen: dict[tuple[str, str], Any] = {}  # what an attempt saw when it was claimed
        self.born = 0
        self.crashes = 0
        self.signals = list(graph.signals)
        limit = self.rng.choice([None, None, 0, 1, 2]) if self.disturbed else None
        self.run_id = self.engine.submit(graph.document, max_parallel=limit)
        self.sessions = [self._birth() for _ in range(2 if self.disturbed else 1)]

    def _birth(self) -> str:
        self.born += 1
        return self.engine.node(f"n{self.born}")

    def until_the_end(self) -> "Play":
        for _ in range(3000):
            if self.engine.run(self.run_id).state in RUN_TERMINAL:
                self.engine.check(self.run_id)
                return self
            self._something()
            if self.rng.random() < 0.2:
                self.engine.check(self.run_id)
        raise AssertionError(f"it does not end: {self.engine.states(self.run_id)}")

    def _something(self) -> None:
        rng = self.rng
        if self.disturbed and self.crashes < CRASHES_MAX and rng.random() < 0.06:
            self._crash()
        elif self.signals and rng.random() < 0.2:
            self.engine.commit(c.Signal(self.run_id, self.signals.pop(rng.randrange(len(self.signals))), '"yes"'))
        elif rng.random() < 0.1:
            self.engine.time_ms += 2000
        else:
            self._exchange(rng.choice(self.sessions))

    def _crash(self) -> None:
        self.crashes += 1
        owner = self.engine.run(self.run_id).owner
        session = owner if owner in self.sessions and self.rng.random() < 0.8 else self.rng.choice(self.sessions)
        self.engine.commit(c.Expire(session, self.rng.choice(["process", "left"])))
        self.sessions[self.sessions.index(session)] = self._birth()

    def _exchange(self, session: str) -> None:
        held = sorted(self.engine.held[session])
        self.rng.shuffle(held)
        reports = [self._report(session, name) for name in held[: self.rng.randint(0, 3)]]
        reply = self.engine.exchange(session, reports, self.rng.randint(0, 4))
        assert not reply.stale
        for claim in reply.claims:
            name = self.engine.name(claim)
            self.seen[(session, name)] = self._visible(name)
        assert not [k for k in self.engine.held[session] if (session, k) not in self.seen]

    def _visible(self, name: str) -> Any:
        """What a template of this task could read now: the context, and how its needs ended."""
        workflow = self.engine.workflows[self.run_id]
        no = self.engine.run_no(self.run_id)
        needs = workflow.tasks[workflow.position[name.split(".")[0]]].needs
        return [self.engine.store.context_of(no), self.engine.store.ends_at(no, list(needs))]

    def _report(self, session: str, name: str) -> c.Report:
        row = self.engine.task(self.run_id, name)
        if row.stop and self.rng.random() < 0.7:
            return self.engine.report(session, name, "cancelled")
        wanted = self.graph.fails.get(name, self.graph.fails.get(name.split(".")[0], 0))
        seen = self.seen[(session, name)]
        if row.failures < wanted:
            return self.engine.report(session, name, "failed", **_result({"output": seen}), exit_code=1)
        digest = hashlib.sha256(msgspec.json.encode(seen)).hexdigest()
        body: dict[str, Any] = {"output": [name, digest]}
        if self.handlers_write or not self.engine.workflows[self.run_id].tasks[row.pos].survives_halt:
            body["context"] = {"k": name, f"of-{name}": digest}
        return self.engine.report(session, name, **_result(body), exit_code=0, context=body.get("context"))

    # -- what is left ------------------------------------------------------------------------------------------

    def left(self) -> dict[str, Any]:
        rows = sorted(current_rows(self.engine.rows(self.run_id)), key=lambda t: (t.pos, t.idx))
        no = self.engine.run_no(self.run_id)
        run = self.engine.run(self.run_id)
        return {
            "records": canonical_lines(self.engine.history(self.run_id)),
            "context": self.engine.store.context_of(no),
            "results": self.engine.store.ends_at(no, sorted({t.pos for t in rows})),
            "states": [[t.pos, t.idx, t.state, t.upstream] for t in rows],
            "run": [run.state, run.level, run.succeeded, run.failed, run.cancelled, run.skipped],
        }


def _result(body: dict[str, Any]) -> dict[str, Any]:
    text = msgspec.json.encode(body).decode()
    return {"result": text, "result_hash": hashlib.sha256(text.encode()).hexdigest()[:32]}


@pytest.mark.parametrize("first", range(0, GRAPHS, 10))
def test_order_and_crashes_do_not_show(first: int) -> None:
    for seed in range(first, first + 10):
        graph = Graph(seed)
        want = msgspec.json.encode(Play(graph, None).until_the_end().left())
        for play in range(PLAYS):
            have = msgspec.json.encode(Play(graph, 1000 * seed + play).until_the_end().left())
            assert have == want, f"graph {seed}, play {play}:\n{have.decode()}\ninstead of\n{want.decode()}"


def test_the_plays_are_worth_it() -> None:
    """Owners die, results are dropped, levels fail; and the same play is the same every time."""
    kinds: dict[str, int] = {}
    for seed in range(50):
        play = Play(Graph(seed), seed).until_the_end()
        for kind, _, _ in play.engine.history(play.run_id):
            kinds[kind] = kinds.get(kind, 0) + 1
    assert all(kinds.get(kind, 0) > 3 for kind in ("dropped", "disowned", "halted", "voided", "level", "lost")), kinds
    assert Play(Graph(3), 3).until_the_end().left() == Play(Graph(3), 3).until_the_end().left()


def test_a_resume_leaves_the_records_of_an_undisturbed_run() -> None:
    """Whatever failed is mended: from the failed level on everything runs again, and nothing of before. Handlers that
    ran in between have had their say, so they write no context here."""
    resumed = 0
    for seed in range(40):
        graph = Graph(seed)
        play = Play(graph, seed, handlers_write=False).until_the_end()
        if play.engine.run(play.run_id).state != "failed":
            continue
        resumed += 1
        mended = Graph(seed)
        mended.fails = {name: count for name, count in graph.fails.items() if not _is_fatal(graph, name)}
        want = Play(mended, None, handlers_write=False).until_the_end().left()
        before = {t.id: t for t in play.engine.rows(play.run_id)}
        play.graph = mended
        play.engine.commit(c.Resume(play.run_id))
        play.until_the_end()
        have = play.left()
        assert have["records"] == want["records"], seed
        assert have["context"] == want["context"], seed
        after = {t.id: t for t in play.engine.rows(play.run_id)}
        assert all(_ended(after[id]) == _ended(row) for id, row in before.items()), "old rows never change"
    assert resumed > 5


def _is_fatal(graph: Graph, name: str) -> bool:
    task = graph.document["tasks"][name.split(".")[0]]
    return graph.fails[name] == 99 and not task.get("allow_failure") and not task.get("tolerate")


def _ended(row: TaskRow) -> tuple[Any, ...]:
    return (row.state, row.attempt, row.reason, row.finished_at)
