"""Triggers in the simulated world: leaders fire them while they crash, pause and lose replies; the count is exact.

What must come out is worked out here from the numbers of seconds alone, without the engine's timetables.
"""

import contextlib
import random
from typing import Any

from tests.simulation.violations import require
from tests.simulation.world import World
from weft.core import commands as c
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read

EVERY_S = 2
CLOCK = {
    "name": "clock",
    "triggers": [
        {"name": "all", "every": f"{EVERY_S}s", "catch_up": "all", "overlap": "allow"},
        {"name": "one", "every": "3s"},
        {"name": "newest", "every": "5s", "overlap": "replace", "jitter": "1s"},
    ],
    "tasks": {"tick": {"inline": "work"}},
}
FOLLOWER = {
    "name": "follower",
    "inputs": {"of": "string"},
    "triggers": [
        {
            "after": {"run": "clock", "state": "finished"},
            "overlap": "queue",
            "inputs": {"of": "${{ trigger.run.id }}"},
        }
    ],
    "tasks": {"follow": {"inline": "work"}},
}


class Triggered:
    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = random.Random(f"triggers-{seed}")
        self.ids = ("clock/all", "clock/one", "clock/newest", "follower/after")
        world.script |= {"tick": 0, "follow": 0}
        world.durations |= {"tick": self._random.choice([0.05, 1.0, 4.0]), "follow": self._random.choice([0.05, 1.0])}
        for document in (CLOCK, FOLLOWER):
            self._apply(document)
        self._began = world.now()

    def _apply(self, document: dict[str, Any]) -> None:
        reading = read(document)
        assert reading.document is not None, reading.problems
        workflow = compile_workflow(reading.document, document_hash(reading.document))
        self._world.committer.know(workflow)
        self._world.commit(
            c.Apply(
                workflow.hash, workflow.name, encode_document(reading.document), None, workflow.triggers, "the story"
            )
        )  # fmt: skip

    def disturb(self) -> None:
        """People meddle: with `all` they only say what is so already, so that its count can be known."""
        rng = self._random
        roll = rng.random()
        if roll < 0.3:
            self._apply(CLOCK)
        elif roll < 0.6:
            trigger, paused = rng.choice(["clock/one", "clock/newest"]), rng.random() < 0.5
            self._world.commit(c.PauseTrigger(trigger, paused))
        elif roll < 0.8:
            with contextlib.suppress(c.Refused):
                self._world.commit(c.Fire("clock/one", [c.Firing(f"hand-{roll}", f"hand-{int(roll * 1e9)}", {})]))

    def stop(self) -> None:
        """No more fires by time; what is queued still has its turn. The leader had time enough to be up to date."""
        late = self._world.now() - self._row("clock/all").since_ms
        require(late < 2 * EVERY_S * 1000, "trigger late", f"clock/all is {late} ms behind")
        for trigger in self.ids[:3]:
            self._world.commit(c.PauseTrigger(trigger, True))

    def _row(self, id: str) -> Any:
        return next(row for row in self._world.trigger_rows() if row.id == id)

    @property
    def quiet(self) -> bool:
        """Nothing is queued, and every end has been followed."""
        reader = self._world.store.reader()
        queued = reader.execute("SELECT count(*) FROM fires WHERE outcome = 'queued'").get
        return not queued and not self._world.store.ends_to_follow(1)

    def check(self) -> None:
        reader = self._world.store.reader()
        until = self._row("clock/all").since_ms
        want = [at for at in range(0, until + 1, EVERY_S * 1000) if at > self._began]
        started = "SELECT due_at FROM fires WHERE \"trigger\" = 'clock/all' AND outcome = 'started' ORDER BY due_at"
        have = [at for (at,) in reader.execute(started)]
        require(have == want, "fires", f"clock/all was fired for {have} instead of {want}")
        runs = reader.execute("SELECT count(*) FROM runs WHERE \"trigger\" = 'clock/all'").get
        require(runs == len(want), "fired runs", f"clock/all has {runs} runs instead of {len(want)}")
        ends = (
            "SELECT count(*) FROM events e JOIN runs r ON r.no = e.run_no"
            " WHERE e.kind = 'run_finished' AND r.name = 'clock'"
        )
        followed = "SELECT count(*) FROM runs WHERE \"trigger\" = 'follower/after'"
        counts = reader.execute(ends).get, reader.execute(followed).get
        require(counts[0] == counts[1], "followers", f"{counts[0]} runs of clock ended, {counts[1]} followed")
