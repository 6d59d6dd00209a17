"""One write transaction on SQLite: loads for rules, and the writing of a draft under its guards."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import apsw

from weft.core.decision.draft import Draft
from weft.core.decision.needs import Need, Runs, Tasks
from weft.store.loads import LOADS
from weft.store.protocol import Superseded, recall
from weft.store.queries import query
from weft.store.sqlite.remembered import RememberedRows
from weft.store.sqlite.statements import RANGE_MIN, ROWS, SQL, apart, chunks, flat
from weft.store.writes import Rows, Write, json_of, reply_writes, writes

_by_id, _by_no = attrgetter("id"), attrgetter("no")


class SqliteTransaction:
    def __init__(self, connection: apsw.Connection, now: int, remembered: RememberedRows) -> None:
        self._connection = connection
        self._remembered = remembered
        self._execute = connection.execute
        self.now = now

    def load(self, needs: Sequence[Need]) -> tuple[list[Any], ...]:
        found: list[list[Any]] = []
        for need in needs:
            if isinstance(need, Tasks):
                found.append(self._tasks(need))
            elif isinstance(need, Runs):
                found.append(self._runs(need))
            else:
                found.append(self._loaded(need))
        return tuple(found)

    def _loaded(self, need: Need) -> list[Any]:
        load = LOADS[type(need)](need, self)
        return [] if load is None else load[2](self._all(load[0], load[1]))

    def _tasks(self, need: Tasks) -> list[Any]:
        known, missing = self._remembered.take_tasks(need.ids)
        return sorted([*known, *self._loaded(Tasks(missing))], key=_by_id) if missing else known

    def _runs(self, need: Runs) -> list[Any]:
        known, missing = self._remembered.take_runs(need.nos)
        return sorted([*known, *self._loaded(Runs(missing))], key=_by_no) if missing else known

    def places(self, places: Sequence[tuple[int, int, int]]) -> tuple[Any, ...]:
        return (places,)

    def _all(self, name: str, parameters: Sequence[Any]) -> list[Any]:
        """All rows at once: a cursor that outlives its statement (an exception may hold it) keeps the connection in
        its snapshot, and once another connection has written, it cannot write any more. A list travels as JSON."""
        bound = [json_of(value) if type(value) is list else value for value in parameters]
        return self._execute(SQL[name], bound).fetchall()

    def document(self, workflow: str) -> bytes:
        found = self._execute(SQL["workflow_document"], (workflow,)).get
        if not isinstance(found, bytes):
            raise KeyError(workflow)
        return found

    def write(self, draft: Draft) -> None:
        self._write(writes(draft, self.now))
        self._remembered.write(draft)

    def take_in(self) -> None:
        """More commands follow in this transaction."""
        self._remembered.take_in_written()

    def forget(self) -> None:
        """Something of this transaction was undone."""
        self._remembered.forget()

    def remember(self, command_id: str, body_hash: str) -> None:
        recall(self._all("command_reply", (command_id,)), command_id, body_hash)

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None:
        self._write(reply_writes(command_id, body_hash, reply, self.now))

    def _write(self, all_of_them: Iterable[Write]) -> None:
        for name, parameters, rows in all_of_them:
            if rows is not None:
                self._write_rows(name, parameters, rows)
                continue
            self._execute(SQL[name], parameters)
            if query("sqlite", name).guarded:
                self._expect(name, 1)

    def _write_rows(self, name: str, parameters: tuple[Any, ...], rows: Rows) -> None:
        statement = ROWS[name]
        if len(rows) >= RANGE_MIN and rows[0][1:] == rows[-1][1:] and statement.of_range is not None:
            shared = rows[0][1:]
            ranges, rows = apart(rows)
            for first, last in ranges:
                self._execute(statement.of_range, (first, *shared, last, *parameters))
                self._expect(name, last - first + 1)
        if 0 < len(rows) <= 2:  # a chain's
            bound = (*rows[0], *parameters) if len(rows) == 1 else (*rows[0], *rows[1], *parameters)
            self._execute(statement.text(len(rows)), bound)
            if statement.guarded:
                self._expect(name, len(rows))
            return
        for chunk in chunks(rows):
            self._execute(statement.text(len(chunk)), [*flat(chunk), *parameters])
            if statement.guarded:
                self._expect(name, len(chunk))

    def _expect(self, name: str, count: int) -> None:
        if self._connection.changes() != count:
            raise Superseded(f"a row had changed since it was loaded ({name})")
