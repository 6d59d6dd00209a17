"""The verbs people use, on a store of this machine. Reads go to connections of their own and change nothing."""

import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from weft.control import inspect, results
from weft.control.records import (
    Ambiguous,
    AttemptInfo,
    EventInfo,
    Explanation,
    NodeInfo,
    NotFound,
    RunInfo,
    StoreInfo,
    TaskInfo,
    Verification,
)  # fmt: skip
from weft.core import commands as c
from weft.core.compile import compile_workflow
from weft.core.definition import decode_document
from weft.core.rows import ORDINAL_BITS, RunRow, TaskRow
from weft.core.workflow import Workflow
from weft.node.local import LocalLink
from weft.store.queries import RUN_COLUMNS, TASK_COLUMNS
from weft.store.sqlite.driver import SqliteStore, explained
from weft.store.sqlite.migrate import version
from weft.store.sqlite.transaction import SQL

_ID = re.compile(r"^[0-9a-z-]{1,64}$")
_ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: ids are read aloud and typed
PAGE = 1000


def new_id(length: int = 12) -> str:
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(length))


class LocalControl:
    def __init__(self, store: SqliteStore, link: LocalLink | None = None) -> None:
        self.store = store
        self.link = link or LocalLink(store)
        self._readers = threading.local()

    # -- reading -----------------------------------------------------------------------------------------

    def _read(self, name: str, *parameters: Any) -> list[Any]:
        connection: apsw.Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            connection = self._readers.connection = self.store.reader()
        with explained(self.store.name):
            return list(connection.execute(SQL[name], parameters))

    def now(self) -> int:
        return self.store.clock.now()

    def find(self, ref: str) -> tuple[int, str]:
        """(number, id) of a run named by its id, a unique prefix, or `last`."""
        if ref == "last":
            rows = self._read("run_last")
            if not rows:
                raise NotFound("there are no runs yet")
            return rows[0][0], rows[0][1]
        if not _ID.match(ref):
            raise NotFound(f"{ref!r} is no run id")
        rows = self._read("runs_by_prefix", ref, ref + "~")
        exact = [row for row in rows if row[1] == ref]
        if exact:
            rows = exact
        if not rows:
            raise NotFound(f"there is no run {ref}")
        if len(rows) > 1:
            raise Ambiguous(f"{ref} could be any of {', '.join(row[1] for row in rows)}")
        return rows[0][0], rows[0][1]

    def run(self, ref: str) -> RunInfo:
        no, _ = self.find(ref)
        return self._run_infos(self._read("runs_page", no + 1, None, None, f"[{no}]", 1))[0]

    def runs(
        self, *, states: list[str] | None = None, name: str | None = None, before: int | None = None, limit: int = 20
    ) -> list[RunInfo]:
        """Newest first; `before` is the `no` of the last run of the page before."""
        wanted = None if states is None else msgspec.json.encode(states).decode()
        return self._run_infos(self._read("runs_page", before or 2**62, wanted, name, None, limit))

    def _run_infos(self, rows: list[Any]) -> list[RunInfo]:
        width = len(RUN_COLUMNS)
        names = set(RunInfo.__struct_fields__)
        out = []
        for row in rows:
            run = RunRow(*row[:width])
            values = {k: v for k, v in msgspec.structs.asdict(run).items() if k in names}
            values["halted"] = bool(run.halted)
            inputs, source, key = row[width:]
            out.append(RunInfo(**values, inputs=msgspec.json.decode(inputs), source=source, key=key))
        return out

    def workflow(self, ref: str) -> Workflow:
        run = self.run(ref)
        return self._workflow(run.workflow)

    def _workflow(self, hash: str) -> Workflow:
        known = self.link.committer.workflows.get(hash)
        if known is None:
            known = compile_workflow(self.document(hash), hash)
            self.link.committer.know(known)
        return known

    def document(self, hash: str) -> dict[str, Any]:
        with explained(self.store.name):
            connection = self.store.reader()
            found = connection.execute("SELECT document FROM workflows WHERE hash = ?", (hash,)).get
            if self.store.path is not None:
                connection.close()
        if not isinstance(found, bytes):
            raise NotFound(f"there is no workflow {hash}")
        return decode_document(found)

    def tasks(
        self,
        ref: str | None = None,
        *,
        task: str | None = None,
        states: list[str] | None = None,
        after: int = 0,
        limit: int = PAGE,
        old_generations: bool = False,
    ) -> tuple[list[TaskInfo], int | None]:
        """A page of tasks in the order of their ids, and where the next page starts (None: this was the last)."""
        low, high, pos, idx = after, 2**62, None, None
        if ref is not None:
            no, _ = self.find(ref)
            low, high = max(after, (no << ORDINAL_BITS) - 1), (no + 1) << ORDINAL_BITS
            if task is not None:
                pos, idx = self._place(no, task)
        wanted = None if states is None else msgspec.json.encode(states).decode()
        rows = self._read("tasks_page", low, high, wanted, pos, idx, old_generations, limit)
        infos = [self._task_info(row) for row in rows]
        return infos, rows[-1][0] if len(rows) == limit else None

    def all_tasks(self, ref: str, *, states: list[str] | None = None) -> Iterator[TaskInfo]:
        after: int | None = 0
        while after is not None:
            page, after = self.tasks(ref, states=states, after=after, limit=PAGE)
            yield from page

    def _place(self, run_no: int, task: str) -> tuple[int, int]:
        rows = self._read("runs_page", run_no + 1, None, None, f"[{run_no}]", 1)
        workflow = self._workflow(RunRow(*rows[0][: len(RUN_COLUMNS)]).workflow)
        if task in workflow.position:
            return workflow.position[task], -1
        stem, _, index = task.rpartition(".")
        if stem in workflow.position and index.isdecimal():
            return workflow.position[stem], int(index)
        raise NotFound(f"the run has no task {task}")

    def _task_info(self, row: Any) -> TaskInfo:
        width = len(TASK_COLUMNS)
        t = TaskRow(*row[:width])
        run_id, workflow_hash, node, exit_code, last_session, last_node = row[width:]
        workflow = self._workflow(workflow_hash)
        definition = workflow.tasks[t.pos]
        return TaskInfo(
            run_id=run_id,
            name=definition.called(t.idx),
            pos=t.pos, idx=t.idx, level=workflow.levels[t.pos], kind=definition.kind,
            needs=[workflow.tasks[p].name for p in definition.needs],
            state=t.state, generation=t.generation, attempt=t.attempt, failures=t.failures, lost=t.lost,
            elements=t.elements, open=t.open, ready_at=t.ready_at, wake_at=t.wake_at, claimed_at=t.claimed_at,
            started_at=t.started_at, finished_at=t.finished_at, reason=t.reason,
            node=node or last_node, session=t.session or last_session, exit_code=exit_code,
            allow_failure=definition.allow_failure,
        )  # fmt: skip

    def task(self, ref: str, task: str) -> TaskInfo:
        found, _ = self.tasks(ref, task=task, limit=10)
        if not found:
            raise NotFound(f"the run has no task {task} (yet)")
        return found[-1]

    def attempts(self, ref: str, task: str) -> list[AttemptInfo]:
        """All attempts of a task, of all generations; the one that runs now is the last."""
        no, run_id = self.find(ref)
        pos, idx = self._place(no, task)
        out = [
            AttemptInfo(
                run_id=run_id, task=task, attempt=attempt, generation=generation, session=session, outcome=outcome,
                exit_code=exit_code, error=error, claimed_at=claimed, started_at=started, finished_at=finished,
                result=None if result is None else msgspec.json.decode(result), node=node,
            )
            for attempt, generation, session, outcome, exit_code, error, claimed, started, finished, result, node
            in self._read("attempts_of_task", no, pos, idx)
        ]  # fmt: skip
        now = self.task(ref, task)
        if now.state == "running" and now.session is not None and now.elements is None:
            out.append(
                AttemptInfo(
                    run_id=run_id, task=task, attempt=now.attempt, generation=now.generation, session=now.session,
                    outcome="running", exit_code=None, error=None, claimed_at=now.claimed_at,
                    started_at=now.started_at, finished_at=None, result=None, node=now.node,
                )
            )  # fmt: skip
        return out

    def events(self, ref: str, *, after: int = 0, limit: int = PAGE) -> list[EventInfo]:
        no, run_id = self.find(ref)
        rows = self._read("events_page", no, after, limit)
        workflow = self.workflow(ref) if rows else None
        out = []
        for seq, at, _, pos, idx, kind, session, data, node in rows:
            name = None
            if pos is not None and workflow is not None:
                name = workflow.tasks[pos].called(-1 if idx is None else idx)
            out.append(
                EventInfo(
                    seq=seq, at=at, run_id=run_id, kind=kind, task=name, node=node, session=session,
                    data=msgspec.json.decode(data),
                )
            )  # fmt: skip
        return out

    def nodes(self, *, ended: bool = False) -> list[NodeInfo]:
        now = self.now()
        out = []
        for id, node, state, started, ended_at, body, scope, expires, running in self._read("sessions_all", ended):
            facts = msgspec.json.decode(body)
            out.append(
                NodeInfo(
                    session=id, node=node, state=state, scope=scope, started_at=started, ended_at=ended_at,
                    lease_ms=None if expires is None else expires - now, running=running, pid=facts.get("pid"),
                    slots=facts.get("slots"), labels=facts.get("labels", {}), kinds=facts.get("kinds", []),
                )
            )  # fmt: skip
        return out

    def dead_letters(self, *, after: int = 0, limit: int = PAGE) -> tuple[list[TaskInfo], int | None]:
        rows = self._read("dead_page", after, limit)
        return [self._task_info(row) for row in rows], rows[-1][0] if len(rows) == limit else None

    def info(self) -> StoreInfo:
        path = self.store.path
        size = 0
        if path is not None:
            size = sum(f.stat().st_size for f in (path, Path(f"{path}-wal")) if f.exists())
        connection = self.store.reader()
        return StoreInfo(
            location=self.store.name, kind="sqlite", schema=version(connection), size_bytes=size,
            runs=dict(self._read("count_runs")), tasks=dict(self._read("count_tasks")),
            events=self._read("count_events")[0][0], sessions_live=len(self.nodes()),
            stale_reports=self._read("count_stale")[0][0], library=f"SQLite {apsw.sqlite_lib_version()}",
        )  # fmt: skip

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one moment of the store."""
        self._read("run_last")  # makes this thread's connection
        connection: apsw.Connection = self._readers.connection
        if self.store.path is None:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    def why(self, ref: str, task: str | None = None) -> list[Explanation]:
        return inspect.why(self, ref, task)

    def verify(self, ref: str) -> Verification:
        return inspect.verify(self, ref)

    def context(self, ref: str) -> dict[str, Any]:
        return results.context_of(self, ref)

    def output(self, ref: str) -> Any:
        """The run's result as its workflow's `output` says; None if it says nothing."""
        return results.output_of(self, ref)

    # -- writing -----------------------------------------------------------------------------------------

    def submit(self, command: c.Submit, workflow: Workflow | None = None) -> c.Reply:
        if workflow is not None:
            self.link.committer.know(workflow)
        return self._commit(command)

    def cancel(self, ref: str, task: str | None = None, reason: str = "cancelled by request") -> c.Reply:
        _, run_id = self.find(ref)
        if task is not None:
            return self._commit(c.CancelTask(run_id, task, reason))
        return self._finish(self._commit(c.CancelRun(run_id, reason)))

    def resume(self, ref: str) -> c.Reply:
        _, run_id = self.find(ref)
        return self._commit(c.Resume(run_id))

    def retry_dead(self, ref: str, tasks: list[str] | None = None) -> c.Reply:
        _, run_id = self.find(ref)
        return self._commit(c.Resume(run_id, tasks, only_dead=True))

    def signal(self, ref: str, name: str, data: Any = None, reject: str | None = None) -> c.Reply:
        """Answer a wait, now or before it is reached. `data` is any JSON value, and becomes the wait's output."""
        _, run_id = self.find(ref)
        name = self._signal_name(run_id, name)
        text = None if data is None else msgspec.json.encode(data, order="deterministic").decode()
        return self._commit(c.Signal(run_id, name, text, reject))

    def _signal_name(self, run_id: str, name: str) -> str:
        """A wait task's own name does as well, where it is no other signal's."""
        workflow = self.workflow(run_id)
        names = {task.name: task.spec["signal"] for task in workflow.tasks if "signal" in task.spec}
        return name if name in names.values() else names.get(name, name)

    def prune(self, finished_before: int, states: list[str] | None = None) -> Iterator[tuple[int, str]]:
        """Remove finished runs, a hundred at a time; gives (number, id) of each that is gone."""
        while True:
            reply = self._commit(c.Prune(finished_before, 100, states))
            yield from ((no, run_id) for no, run_id in reply.data["runs"])
            if not reply.more:
                return

    def _commit(self, command: c.Command) -> c.Reply:
        reply = self.link.committer.commit(command, command_id=new_id(20))
        assert isinstance(reply, c.Reply)
        return reply

    def _finish(self, reply: c.Reply) -> c.Reply:
        """A large run is cancelled a thousand tasks at a time: stay with it until that is done."""
        more = reply.more
        while more:
            more = self.link.committer.commit(c.Tidy(reply.run_no)).more
        return reply

    def close(self) -> None:
        self.link.close()
        self.store.close()
