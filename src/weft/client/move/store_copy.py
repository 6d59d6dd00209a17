"""Move a store from its file to PostgreSQL or to a replicated log, or from PostgreSQL to a replicated log, unfinished
runs included.

The order makes it safe to be killed anywhere: the source is marked first, and from then on takes nothing; the target
is filled, verified and opened in one transaction; then the source's mark says that it is done. Whoever runs the same
copy again goes on from there.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.executors.output import StreamName, output_path
from weft.node.attempts.output import STREAMS, carries_whole
from weft.node.points import reach
from weft.operations.access import StoreAccess
from weft.operations.reading.output.attempts import FileOutput
from weft.operations.reading.verification import verify
from weft.store.protocol import Reader, StoreUnusable
from weft.store.sqlite.moved import Moved
from weft.store.sqlite.source import SqliteSource

if TYPE_CHECKING:
    from weft.store.etcd.fill import LogFilling
    from weft.store.postgres.fill import Filling
    from weft.store.postgres.source import PostgresSource

LOOK_S = 0.1
SAMPLE = 20  # finished runs that a quick copy verifies, the newest
DRAIN_MS = 60_000
#: What belongs to a store's nodes as they are now, and what each store has of its own.
NOT_COPIED = ("meta", "leases", "node_facts", "leadership")


_STORED_OUTPUT = "SELECT task_id, attempt FROM output_ends UNION SELECT task_id, attempt FROM output_chunks"


class CopyInfo(msgspec.Struct, kw_only=True):
    source: str
    target: str
    rows: dict[str, int]  # by table; empty: it had been copied before
    output_bytes: int
    verified: int  # runs
    differing: list[str] = []  # runs that are not what their events say, before the copy already; copied as they are


class NotAlone(Exception):
    """Nodes are at work on the source."""


class NotTheSame(Exception):
    """The copy differs from what it was copied from: nothing was kept of it."""


class _Filled(StoreAccess):
    """Reads what is in the target's transaction, which only its own connection sees."""

    def __init__(self, source: StoreAccess, reader: Reader) -> None:
        super().__init__(source.store, source.link)
        self._filled = reader

    def reader(self) -> Reader:
        return self._filled


def end_dead(connection: StoreConnection) -> None:
    """Sessions whose processes are gone, or whose leases have passed, end as they always do."""
    connection.link.end_gone()
    for session, late in connection.store.live_sessions():
        if late:
            connection.link.committer.commit(c.Expire(session, "lease"))


class Copy:
    """`say` tells people how far it is."""

    def __init__(
        self,
        source: "SqliteSource | PostgresSource",
        target: "Filling | LogFilling",
        log: Callable[[str], None],
        root: Path | None = None,
    ) -> None:
        self._from = source
        self._store = source.store
        self._source = StoreConnection(StoreAccess(self._store, root=root))
        self._target = target
        self._log = log

    def close(self) -> None:
        self._source.close()

    def run(self, *, wait: bool, quick: bool) -> CopyInfo:
        mark = self._mark(wait)
        if mark.done or self._target.copied() == mark.mark:
            self._done(mark)
            return CopyInfo(source=self._store.name, target=mark.to, rows={}, output_bytes=0, verified=0)
        with self._target.transaction():
            self._target.begin()
            rows = self._fill_tables()
            output_bytes = self._fill_output(rows)
            self._target.finish(mark.mark, self._one("SELECT term FROM leadership"), self._from.last_run())
            self._compare_counts(rows)
            verified, differing = self._verify(quick)
            reach("copy.filled")
        reach("copy.committed")
        self._done(mark)
        return CopyInfo(
            source=self._store.name, target=mark.to, rows=rows, output_bytes=output_bytes, verified=verified,
            differing=differing,
        )  # fmt: skip

    def undo(self) -> None:
        """Take the mark back, if nothing came of the copy."""
        mark = self._from.moved()
        if mark is None:
            return
        self._refuse_other(mark)
        if mark.done or self._target.copied() == mark.mark:
            raise StoreUnusable(f"{self._store.name} {mark._replace(done=True).description}. That cannot be undone")
        self._from.set_moved_if_alone(None, mark)

    # -- the source --------------------------------------------------------------------------------------

    def _mark(self, wait: bool) -> Moved:
        """From here on the source takes nothing: its nodes have left, and whatever comes reads the mark."""
        known = self._from.moved()
        if known is not None:
            self._refuse_other(known)
            return known
        self._target.check_empty()
        mark = Moved(self._target.name, secrets.token_hex(8), False)
        drained: dict[str, None] = {}
        while not self._from.set_moved_if_alone(mark, None):
            end_dead(self._source)
            live = self._source.nodes()
            if live and not wait:
                text = ", ".join(f"{node.node} ({node.running} running)" for node in live)
                raise NotAlone(f"nodes are at work on {self._store.name}: {text}")
            for node in live:
                if node.session not in drained:
                    self._log(f"draining {node.node}")
                    self._source.drain(node.session, DRAIN_MS, "the store is being moved")
                    drained[node.session] = None
            time.sleep(LOOK_S if live else 0)
        reach("copy.marked")
        return mark

    def _refuse_other(self, known: Moved) -> None:
        if known.to != self._target.name:
            raise StoreUnusable(f"{self._store.name} {known.description}")

    def _done(self, mark: Moved) -> None:
        if not mark.done:
            self._from.set_moved_if_alone(mark._replace(done=True), mark)

    def _one(self, query: str) -> int:
        return int(self._rows(query)[0][0])

    def _rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        reader = self._store.reader()
        try:
            return reader.query(query, *parameters)
        finally:
            reader.close()

    # -- the target --------------------------------------------------------------------------------------

    def _fill_tables(self) -> dict[str, int]:
        copied = {}
        for table in self._target.tables():
            if table in NOT_COPIED:
                continue
            columns = self._from.columns(table) or self._target.columns(table)
            self._target.put(table, columns, self._from.rows(table, columns))
            copied[table] = self._one(f"SELECT count(*) FROM {table}")
        self._log(f"copied {copied['runs']:,} runs, {copied['tasks']:,} tasks, {copied['events']:,} rows of history")
        return copied

    def _fill_output(self, rows: dict[str, int]) -> int:
        """Files become what a node would have sent."""
        if not self._from.has_files:
            return self._one("SELECT coalesce(sum(length(data)), 0) FROM output_chunks")
        ends: list[tuple[int, int, str, int]] = []
        chunks = 0
        total = 0

        def files() -> Iterator[tuple[int, int, str, int, bytes]]:
            nonlocal chunks, total
            for task_id, attempt, stream, lost, file in self._files():
                at = 0
                while data := (piece := file.read(at)).data:
                    yield task_id, attempt, stream, piece.at, data
                    at = piece.next
                    chunks += 1
                    total += len(data)
                if at or lost:  # of a lost attempt too, the files here have all there is
                    ends.append((task_id, attempt, stream, at))
                file.close()

        self._target.put("output_chunks", ("task_id", "attempt", "stream", "at", "data"), files())
        self._target.put("output_ends", ("task_id", "attempt", "stream", "size"), ends)
        rows["output_chunks"] += chunks
        rows["output_ends"] += len(ends)
        return total

    def _files(self) -> Iterator[tuple[int, int, StreamName, bool, FileOutput]]:
        """Of attempts whose output is not in the store already: it is, if this was a replicated log once."""
        stored = {row[:2] for row in self._rows(_STORED_OUTPUT)}
        assert isinstance(self._from, SqliteSource)
        reader = self._from.store.reader()
        for task_id, attempt, outcome, result, run_id, workflow, pos, idx in reader.execute(
            "SELECT a.task_id, a.attempt, a.outcome, a.result, r.id, r.workflow, t.pos, t.idx FROM all_attempts a"
            " JOIN tasks t ON t.id = a.task_id JOIN runs r ON r.no = t.run_no ORDER BY a.task_id, a.attempt"
        ):
            if (task_id, attempt) in stored:
                continue
            body = None if result is None else msgspec.json.decode(result)
            name = self._source.workflow_of_hash(workflow).tasks[pos].called(idx)
            directory = str(self._source.access.output_root / run_id)
            for stream in STREAMS:
                if body is None or not carries_whole(body, stream):
                    file = FileOutput(output_path(directory, name, attempt, stream))
                    yield task_id, attempt, stream, outcome == "lost", file
        reader.close()

    def _compare_counts(self, rows: dict[str, int]) -> None:
        for table, count in rows.items():
            have = self._target.count(table)
            if have != count:
                raise NotTheSame(f"{table}: {count:,} rows were copied, {have:,} are there")

    def _verify(self, quick: bool) -> tuple[int, list[str]]:
        """Every run, or those that have not ended and the newest of the others: how many, and which of them are not
        what their events say, here already. Those are copied as they are: one such run must not keep all others."""
        query = "SELECT id FROM runs ORDER BY no"
        if quick:
            query = (
                "SELECT id FROM runs WHERE finished_at IS NULL"
                f" OR no IN (SELECT no FROM runs WHERE finished_at IS NOT NULL ORDER BY no DESC LIMIT {SAMPLE})"
                " ORDER BY no"
            )
        runs = [str(id) for (id,) in self._rows(query)]
        differing = []
        with self._target.reader() as reader:
            filled = _Filled(self._source.access, reader)
            for run_id in runs:
                found = verify(filled, run_id)
                known = verify(self._source.access, run_id)
                if found.differences != known.differences or found.events != known.events:
                    text = "; ".join([*found.differences, *known.differences][:3])
                    raise NotTheSame(f"run {run_id} is not the same there: {text}")
                if found.differences:
                    differing.append(run_id)
                    self._log(f"run {run_id} is not what its events say, here already: {found.differences[0]}")
        self._log(f"verified {len(runs):,} runs")
        return len(runs), differing
