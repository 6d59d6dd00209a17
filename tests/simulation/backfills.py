"""Backfills in the simulated world: leaders step them while they crash, pause and lose replies. What must come out is
worked out from the numbers of seconds alone: each time has one run, and what was cancelled starts nothing more."""

import random

from tests.simulation.violations import require
from tests.simulation.world import World
from weft.core import commands as c
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read

EVERY_MS = 1000
PAST = {
    "name": "past",
    "triggers": [{"name": "then", "every": "1s"}],
    "tasks": {"recall": {"inline": "work"}},
}


class Backfilled:
    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = random.Random(f"backfills-{seed}")
        self._made: dict[str, tuple[int, int, bool]] = {}  # by id: the range, and whether it runs times again
        self._cancelled: dict[str, int] = {}  # by id: how many runs it had then
        world.script["recall"] = 0
        world.durations["recall"] = self._random.choice([0.05, 0.5])
        world.backfills = True
        reading = read(PAST)
        assert reading.document is not None, reading.problems
        workflow = compile_workflow(reading.document, document_hash(reading.document))
        world.committer.know(workflow)
        world.commit(
            c.Apply(workflow.hash, "past", encode_document(reading.document), None, workflow.triggers, "the story")
        )
        world.commit(c.PauseTrigger("past/then", True))  # nothing but backfills makes its runs
        self._began = world.now()
        self._start()

    def _start(self) -> None:
        rng = self._random
        id = f"b{len(self._made)}"
        first = self._began - rng.randint(2, 8) * EVERY_MS
        last = first + rng.randint(0, 8) * EVERY_MS
        last = min(last, self._began)
        again = rng.random() < 0.2
        total = last // EVERY_MS - (first - 1) // EVERY_MS
        self._world.tell(f"backfill {id} from {first} to {last}{', again' if again else ''}")
        self._world.commit(
            c.StartBackfill(id, "past/then", first, last, total, rng.randint(1, 3), rng.random() < 0.5, again)
        )
        self._made[id] = (first, last, again)

    def disturb(self) -> None:
        roll = self._random.random()
        if roll < 0.3:
            self._start()
        elif roll < 0.45:
            id = self._random.choice(sorted(self._made))
            reply = self._world.commit(c.CancelBackfill(id))
            if not reply.existing:
                self._world.tell(f"backfill {id} is cancelled")
                self._cancelled[id] = self._count("SELECT count(*) FROM runs WHERE backfill = ?", id)

    @property
    def quiet(self) -> bool:
        return not self._count("SELECT count(*) FROM backfills WHERE state = 'active'")

    def _count(self, query: str, *parameters: str) -> int:
        found: int = self._world.store.reader().execute(query, parameters).get
        return found

    def check(self) -> None:
        whole = {id: given for id, given in self._made.items() if id not in self._cancelled}
        for id, runs in self._cancelled.items():
            now = self._count("SELECT count(*) FROM runs WHERE backfill = ?", id)
            require(now == runs, "backfill cancelled", f"{id} had {runs} runs when it was cancelled, and has {now}")
        rows = list(
            self._world.store.reader().execute("SELECT cause, run FROM fires WHERE \"trigger\" = 'past/then'")
        )
        runs_of = [run for _, run in rows]
        require(len(set(runs_of)) == len(runs_of), "backfill runs", f"a run has two causes: {rows}")
        made = self._count("SELECT count(*) FROM runs WHERE name = 'past'")
        require(made == len(rows), "backfill runs", f"{made} runs for {len(rows)} times")
        causes = {cause for cause, run in rows if run is not None}
        for id, (first, last, again) in whole.items():
            for at in range(-(-first // EVERY_MS) * EVERY_MS, last + 1, EVERY_MS):
                cause = f"{at}@{id}" if again else str(at)
                require(cause in causes, "backfill times", f"{id} made no run for {at}")
