"""What simulated nodes did on one store, again as entries of a log.

Replicas that get them in groups, twice, in parts, after restarts and from snapshots have the tables of that store,
to the last row.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.replicated.in_process import ToldReplica
from tests.simulation.scenario import play
from weft.node.committer import Committer
from weft.store.replicated import entry as e
from weft.store.replicated.output.peers import take_snapshot
from weft.store.replicated.table_hash import table_hashes
from weft.store.replicated.tables import make_tables
from weft.store.replicated.versions import HERE
from weft.store.sqlite.driver import SqliteStore

Recorded = list[tuple[int, e.Sent]]  # with the store's time


class SimulatedReplica(ToldReplica):
    def pull(self, log: list[tuple[int, bytes]], chance: random.Random) -> None:
        """Some entries, from where it stands."""
        left = [found for found in log if found[0] > self.revision]
        group = left[: chance.choice((1, 2, 7, 50))]
        if group:
            self.apply_entries(group)

    def hashes(self) -> dict[str, str]:
        return shared_hashes(self._writer)


def shared_hashes(connection: apsw.Connection) -> dict[str, str]:
    return {name: hash for name, hash in table_hashes(connection).items() if not name.startswith("log_")}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """What the simulated nodes commit from now on."""
    found: Recorded = []
    commit, renew = Committer.commit, SqliteStore.renew

    def recording(self: Committer, command: Any, *, command_id: str | None = None, actor: str | None = None) -> Any:
        found.append((self.store.now(), e.Sent.of(command, command_id, actor)))
        return commit(self, command, command_id=command_id, actor=actor)

    def renewing(self: SqliteStore, session: str, ttl_ms: int, facts: str | None = None, *, own: bool = False) -> Any:
        found.append((self.now(), e.Sent.of(e.Renew(session, ttl_ms, facts))))
        return renew(self, session, ttl_ms, facts, own=own)

    monkeypatch.setattr(Committer, "commit", recording)
    monkeypatch.setattr(SqliteStore, "renew", renewing)
    return found


def log_of(recorded: Recorded, chance: random.Random) -> list[tuple[int, bytes]]:
    """Entries of three origins. Some stand in the log twice, at once or later, because their first append had an
    outcome that was not known."""
    log: list[tuple[int, bytes]] = []
    numbers, late = {"a": 0, "b": 0, "c": 0}, []
    revision = at = 0
    while at < len(recorded):
        now = recorded[at][0]
        until = at + 1
        while until < len(recorded) and recorded[until][0] == now and chance.random() < 0.7:
            until += 1
        origin = chance.choice("abc")
        numbers[origin] += 1
        commands = [sent for _, sent in recorded[at:until]]
        entry = e.Entry(
            origin, f"node-{origin}", numbers[origin], revision, revision, now, now, HERE.newest, commands
        )
        values = e.values_of(entry)
        if chance.random() < 0.1:
            late += values
        if chance.random() < 0.1:
            values = values + values
        if late and chance.random() < 0.2:
            values.append(late.pop())
        for value in values:
            revision += chance.randint(1, 3)
            log.append((revision, value))
        at = until
    return log


@pytest.mark.parametrize("seed", [*range(3, int(os.environ.get("WEFT_SEEDS", "40")), 4)])
def test_replicas_have_the_tables_that_one_store_would_have(
    seed: int, tmp_path: Path, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = play(seed)
    make_tables(world.store._writer)  # those of a replica, which are empty here
    expected = shared_hashes(world.store._writer)
    chance = random.Random(seed)
    monkeypatch.setattr(e, "PART_MAX", 3000)
    log = log_of(recorded, chance)
    homes = [tmp_path / name for name in ("one", "two", "three")]
    replicas = [SimulatedReplica(home) for home in homes]
    copies = 0
    while any(replica.revision < log[-1][0] for replica in replicas):
        index = chance.randrange(3)
        what = chance.random()
        if what < 0.02:  # restarted, perhaps without what a power cut took
            replicas[index].close()
            kept = tmp_path / f"kept-{index}.db"
            if kept.exists() and chance.random() < 0.5:
                shutil.copy(kept, homes[index] / "replica.db")
            replicas[index] = SimulatedReplica(homes[index])
        elif what < 0.04:
            kept = tmp_path / f"kept-{index}.db"
            kept.unlink(missing_ok=True)
            path = replicas[index].path
            assert path is not None
            take_snapshot(path, kept)
        elif what < 0.05:  # a new node, which begins with a peer's snapshot
            snapshot = tmp_path / f"snapshot-{(copies := copies + 1)}.db"
            path = replicas[index].path
            assert path is not None
            take_snapshot(path, snapshot)
            replicas[(index + 1) % 3].restore(snapshot)
        else:
            replicas[index].pull(log, chance)
    try:
        origins = [replica._rows_of("SELECT * FROM log_origins ORDER BY origin") for replica in replicas]
        assert origins[0] == origins[1] == origins[2]
        for replica in replicas:
            found = replica.hashes()
            assert found == expected, sorted(set(found.items()) ^ set(expected.items()))
    finally:
        for replica in replicas:
            replica.close()
