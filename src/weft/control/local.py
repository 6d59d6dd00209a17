"""The verbs people use, on a store within reach. Reads go to connections of their own and change nothing."""

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

import msgspec

from weft.control import cluster, family, finding, history, inspect, placing, results, tokens, triggering, versions
from weft.control.following import Followed, LookedAt
from weft.control.metrics import Figures, figures
from weft.control.output import AttemptOutput, open_output
from weft.control.output_reading import read_output
from weft.control.pruning import prune
from weft.control.records import (
    AttemptInfo,
    EventInfo,
    Explanation,
    FireInfo,
    LeaderInfo,
    NewToken,
    NodeInfo,
    NodeWork,
    NotFound,
    Observing,
    OutputPart,
    PoolInfo,
    RunInfo,
    StoreInfo,
    TaskInfo,
    TokenInfo,
    TriggerInfo,
    Verification,
    VersionDiff,
    VersionInfo,
    WantedSignal,
    WorkflowInfo,
)  # fmt: skip
from weft.control.submission import id_from, new_id, same_again
from weft.core import commands as c
from weft.core.artifacts import Reference
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import decode_document
from weft.core.rows import ORDINAL_BITS, ApiRole, Pin, RunRow, TaskRow
from weft.core.workflow import Workflow
from weft.executors.output import StreamName
from weft.node.local import LocalLink
from weft.node.secrets import Secrets
from weft.store.protocol import Reader, Store, StoreBusy
from weft.store.queries import RUN_COLUMNS, TASK_COLUMNS

if TYPE_CHECKING:
    from weft.authoring import Loaded

T = TypeVar("T")
PAGE = 1000
SCAN_MAX = 5000  # tasks looked at for one page; a filter that few pass leaves it short, and says where to go on
WAIT_S = 30.0  # for a store that does not answer
RETRY_S = 0.2


def _source(cached: str | None) -> dict[str, Any] | None:
    return None if cached is None else msgspec.json.decode(cached)


class LocalControl:
    """`root` is where this process keeps its files, such as the output of its nodes: beside a store that is a file.
    The control of an observer (`role`) changes nothing."""

    def __init__(
        self,
        store: Store,
        link: LocalLink | None = None,
        root: Path | None = None,
        *,
        role: str = "auto",
        artifacts: Path | None = None,
    ) -> None:
        self.store = store
        self.role = role  # an observer's control changes nothing
        self.link = link or LocalLink(store)
        beside = store.path.parent if store.path is not None else Path.cwd() / ".weft"
        self.home = root or beside  # where this process keeps files
        self.output_root = self.home / "output"
        self.artifact_root = artifacts or self.home / "artifacts"
        self.link.read_artifacts_in(self.artifact_root, "here")
        self._readers = threading.local()
        self.wait_s = WAIT_S
        self._command_id: str | None = None
        self._actor: str | None = None
        self._commands = 0

    # -- reading -----------------------------------------------------------------------------------------

    def _read(self, name: str, *parameters: Any) -> list[Any]:
        return self._reader().read(name, *parameters)

    def _reader(self) -> Reader:
        reader: Reader | None = getattr(self._readers, "reader", None)
        if reader is None:
            reader = self._readers.reader = self.store.reader()
        return reader

    def answers(self) -> bool:
        return self.store.answers()

    def check_writable(self) -> None:
        """Raises StoreError if the store takes no writes now; an observer needs none."""
        if self.role != "observer":
            self.link.check_writable()

    def now(self) -> int:
        return self._reader().now()

    def find(self, ref: str) -> tuple[int, str]:
        """(number, id) of a run named by its id, a unique prefix, or `last`."""
        return finding.find_run(self, ref)

    def run(self, ref: str) -> RunInfo:
        no, _ = self.find(ref)
        return self._run_infos(self._read("run_shown", no))[0]

    def runs(
        self,
        *,
        states: list[str] | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 20,
        children: bool = True,
    ) -> list[RunInfo]:
        """Newest first; `before` is the `no` of the last run of the page before. `children`: also those that tasks of
        other runs started."""
        wanted = None if states is None else msgspec.json.encode(states).decode()
        return self._run_infos(self._read("runs_page", before or 2**62, wanted, name, limit, children))

    def _run_infos(self, rows: list[Any]) -> list[RunInfo]:
        width = len(RUN_COLUMNS)
        names = set(RunInfo.__struct_fields__)
        out = []
        for row in rows:
            run = RunRow(*row[:width])
            values = {k: v for k, v in msgspec.structs.asdict(run).items() if k in names}
            values["halted"] = bool(run.halted)
            inputs, source, key, values["parent"], values["root"] = row[width:]
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
        rows = self._read("workflow_document", hash)
        if not rows:
            raise NotFound(f"there is no workflow {hash}")
        return decode_document(rows[0][0])

    def tasks(
        self,
        ref: str | None = None,
        *,
        task: str | None = None,
        states: list[str] | None = None,
        kinds: list[str] | None = None,
        workflow: str | None = None,
        node: str | None = None,
        after: int = 0,
        limit: int = PAGE,
        old_generations: bool = False,
    ) -> tuple[list[TaskInfo], int | None]:
        """A page of tasks in the order of their ids, and where the next page starts (None: this was the last).
        `workflow` is a name or a hash, `node` a name or a session that runs it or ran it last."""
        low, high, place = after, 2**62, None
        if ref is not None:
            no, _ = self.find(ref)
            low, high = max(after, (no << ORDINAL_BITS) - 1), (no + 1) << ORDINAL_BITS
            if task is not None:
                pos, idx = self._place(no, task)
                place = (no, f"[{pos}]", idx, old_generations)
        wanted = None if states is None else msgspec.json.encode(states).decode()
        found: list[TaskInfo] = []
        scanned = 0
        while True:
            page = limit if kinds is None and workflow is None and node is None else PAGE
            if place is None:
                rows = self._read("tasks_page", low, high, wanted, old_generations, page)
            else:
                rows = [row for row in self._read("tasks_at", *place) if row[0] > low][:page]
            for row in rows:
                info = self._task_info(row)
                if finding.passes(self, info, row, states, kinds, workflow, node):
                    found.append(info)
                    if len(found) == limit:
                        return found, row[0]
            scanned += len(rows)
            if len(rows) < page:
                return found, None
            low = rows[-1][0]
            if scanned >= SCAN_MAX:
                return found, low

    def all_tasks(self, ref: str, *, states: list[str] | None = None) -> Iterator[TaskInfo]:
        after: int | None = 0
        while after is not None:
            page, after = self.tasks(ref, states=states, after=after, limit=PAGE)
            yield from page

    def _place(self, run_no: int, task: str) -> tuple[int, int]:
        rows = self._read("run_shown", run_no)
        workflow = self._workflow(RunRow(*rows[0][: len(RUN_COLUMNS)]).workflow)
        place = workflow.place(task)
        if place is None:
            raise finding.no_task(task, workflow.position)
        return place

    def _task_info(self, row: Any) -> TaskInfo:
        width = len(TASK_COLUMNS)
        t = TaskRow(*row[:width])
        run_id, workflow_hash, node, exit_code, last_session, last_node, cached, lease_until, child = row[width:]
        claimed = t.state == "running" and t.session is not None
        workflow = self._workflow(workflow_hash)
        definition = workflow.tasks[t.pos]
        levels = workflow.levels if workflow.passes is None else workflow.passes.at
        return TaskInfo(
            run_id=run_id,
            name=definition.called(t.idx),
            pos=t.pos, idx=t.idx, level=levels[t.pos], kind=definition.kind,
            needs=[workflow.tasks[p].name for p in definition.needs],
            state=t.state, generation=t.generation, attempt=t.attempt, failures=t.failures, lost=t.lost,
            elements=t.elements, open=t.open, ready_at=t.ready_at, wake_at=t.wake_at, claimed_at=t.claimed_at,
            started_at=t.started_at, finished_at=t.finished_at, reason=t.reason,
            node=node or last_node, session=t.session or last_session, exit_code=exit_code,
            allow_failure=definition.allow_failure, cached=_source(cached), held=t.held,
            claimed_by=node if claimed else None, claim_expires_at=lease_until if claimed else None,
            claim_attempt=t.attempt if claimed else None,
            child=child,
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
                result=None if result is None else msgspec.json.decode(result), node=node, cached=_source(cached),
            )
            for attempt, generation, session, outcome, exit_code, error, claimed, started, finished, result, node,
                cached in self._read("attempts_of_task", no, pos, idx)
        ]  # fmt: skip
        now = self.task(ref, task)
        if now.state == "running" and (now.session or now.child) and now.elements is None and now.held is None:
            out.append(
                AttemptInfo(
                    run_id=run_id, task=task, attempt=now.attempt, generation=now.generation,
                    session=now.session or "",
                    outcome="running", exit_code=None, error=None, claimed_at=now.claimed_at,
                    started_at=now.started_at, finished_at=None, result=None, node=now.node,
                )
            )  # fmt: skip
        return out

    def events(self, ref: str | None, *, after: int = 0, limit: int = PAGE, **filters: Any) -> list[EventInfo]:
        """Of a run, or (None) of the whole cluster; `filters` as in `history.events`."""
        return history.events(self, ref, after, limit, **filters)

    def follow(self, ref: str | None, *, after: int = 0, **filters: Any) -> Followed:
        return LookedAt(self, None if ref is None else self.find(ref)[1], after, filters)

    def last_event(self) -> int:
        """The number of the newest event of all."""
        return int(self._read("event_last")[0][0])

    def canonical(self, ref: str) -> list[str]:
        """The level records as they stand, one JSON text each: the same bytes whatever order tasks finished in."""
        return history.canonical(self, ref)

    def resting(self, ref: str) -> bool:
        """A run that is moved by hand has nothing to do until somebody advances it."""
        run = self.run(ref)
        if run.finished or run.pace != "rest" or run.active:
            return False
        return not self._read("run_at_work", run.no << ORDINAL_BITS, (run.no + 1) << ORDINAL_BITS)[0][0]

    def nodes(self, *, ended: bool = False) -> list[NodeInfo]:
        return cluster.nodes(self, ended)

    def node(self, ref: str) -> NodeInfo:
        """By its name, its session's id, or a unique beginning of that; also one that has ended."""
        return cluster.node(self, ref)

    def node_work(self, ref: str) -> NodeWork:
        """What it has claimed, how that ended, and what it holds now."""
        return cluster.work_of(self, ref)

    def leader(self) -> LeaderInfo:
        return cluster.leader(self)

    def dead_letters(self, *, after: int = 0, limit: int = PAGE) -> tuple[list[TaskInfo], int | None]:
        rows = self._read("dead_page", after, limit)
        return [self._task_info(row) for row in rows], rows[-1][0] if len(rows) == limit else None

    def info(self) -> StoreInfo:
        store = self.store
        return StoreInfo(
            location=store.name, kind=store.kind, schema=store.schema, size_bytes=store.size_bytes(),
            runs=dict(self._read("count_runs")), tasks=dict(self._read("count_tasks")),
            events=self._read("count_events")[0][0], sessions_live=len(self.nodes()),
            stale_reports=self._read("count_stale")[0][0], library=store.library,
        )  # fmt: skip

    def read_output(
        self, ref: str, task: str, attempt: int, stream: StreamName, *, offset: int = 0, limit: int = 65536
    ) -> OutputPart:
        """Bytes that an attempt printed, from `offset` on (negative: before the end)."""
        return read_output(self, ref, task, attempt, stream, offset, limit)

    def workflow_names(self, *, after: str = "", limit: int = 100) -> list[WorkflowInfo]:
        """In the order of their names; `after` is the last one of the page before."""
        return versions.names(self, after, limit)

    def versions(self, name: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[VersionInfo]:
        return versions.versions(self, name, before, limit)

    def version(self, name: str, hash: str | None = None) -> VersionInfo:
        return versions.version(self, name, hash)

    def diff(self, name: str, old: str, new: str) -> VersionDiff:
        return versions.diff(self, name, old, new)

    def figures(self) -> Figures:
        """For a monitor."""
        return figures(self)

    def tokens(self) -> list[TokenInfo]:
        return tokens.tokens(self)

    def token_holder(self, token: str) -> TokenInfo | None:
        """Whose token this is, if it can be used now; for whoever serves others."""
        return tokens.holder(self, token)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one moment of the store."""
        with self._reader().snapshot():
            yield

    def pools(self) -> list[PoolInfo]:
        with self.snapshot():
            return placing.pools(self)

    def triggers(self, workflow: str | None = None) -> list[TriggerInfo]:
        return triggering.triggers(self, workflow)

    def trigger(self, ref: str) -> TriggerInfo:
        """By its id (workflow/name), or by its workflow's or its own name where that is only one's."""
        return triggering.find(self, ref)

    def applied(self) -> dict[str, str]:
        """The current versions, by the names of their workflows."""
        return {name: hash for name, hash, *_ in self._read("applied_all")}

    def fires(self, ref: str, limit: int = 20) -> list[FireInfo]:
        """What became of a trigger's fires, newest first."""
        return triggering.fires(self, triggering.find(self, ref).id, limit)

    def next_times(self, ref: str, count: int = 5) -> list[dict[str, Any]]:
        return triggering.next_times(self, ref, count)

    def why(self, ref: str, task: str | None = None) -> list[Explanation]:
        return inspect.why(self, ref, task)

    def verify(self, ref: str) -> Verification:
        return inspect.verify(self, ref)

    def pins(self, ref: str) -> list[Pin]:
        return family.pins_of(self, ref)

    def workflows(self, ref: str) -> list[Workflow]:
        """The run's own workflow, and those that its tasks run."""
        return family.workflows_of(self, ref)

    def family(self, ref: str) -> list[tuple[int, str]]:
        """(number, id) of a run and of all that its tasks started."""
        return family.family_of(self, ref)

    def starter(self, ref: str) -> TaskInfo | None:
        """The task that started this run, if one did."""
        return family.starter_of(self, ref)

    def waiting_below(self, ref: str, limit: int) -> list[WantedSignal]:
        """What tasks wait for in runs that this one's tasks started."""
        return family.waiting_below(self, ref, limit)

    def context(self, ref: str) -> dict[str, Any]:
        return results.context_of(self, ref)

    def output(self, ref: str, *, artifacts_max: int = 0) -> Any:
        """The value of the workflow's `output`, as in `results.output_of`."""
        return results.output_of(self, ref, artifacts_max)

    def open_artifact(self, ref: str, task: str, attempt: int | None = None) -> tuple[Reference, BinaryIO]:
        return results.open_artifact(self, ref, task, attempt)

    def open_output(self, ref: str, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        """One stream of an attempt, to be read piece by piece, also while it grows."""
        no, run_id = self.find(ref)
        return open_output(self, no, run_id, task, attempt, stream)

    # -- writing -----------------------------------------------------------------------------------------

    def on_behalf(self, command_id: str | None, actor: str | None = None) -> Self:
        """The same control for one request: its commands carry this id, and are applied once however often they are
        said; the history names `actor`. It shares everything else."""
        view = copy.copy(self)
        view._command_id, view._commands, view._actor = command_id, 0, actor
        return view

    def _next_command_id(self) -> str:
        if self._command_id is None:
            return new_id(20)
        self._commands += 1
        return self._command_id if self._commands == 1 else f"{self._command_id}.{self._commands}"

    def submit(self, command: c.Submit, workflow: Workflow | None = None) -> c.Reply:
        if workflow is not None:
            self.link.committer.know(workflow)
        return self._commit(command)

    def submit_each(
        self, commands: Sequence[c.Submit], ids: Sequence[str] | None = None
    ) -> list[c.Reply | c.Refused]:
        """Many runs in one transaction. What is refused is told in its place and hinders none of the others."""
        self.refuse_if_observing()
        given = [self._next_command_id() for _ in commands] if ids is None else ids
        return self._insist(lambda: self.link.committer.commit_each(commands, given, self._actor))

    def cancel(self, ref: str, task: str | None = None, reason: str = c.BY_REQUEST, *, now: bool = False) -> c.Reply:
        _, run_id = self.find(ref)
        if task is not None:
            return self._finish(self._commit(c.CancelTask(run_id, task, reason)))
        return self._finish(self._commit(c.CancelRun(run_id, reason, now)))

    def resume(self, ref: str) -> c.Reply:
        _, run_id = self.find(ref)
        return self._commit(c.Resume(run_id))

    def advance(self, ref: str, *, by_task: bool = False) -> c.Reply:
        """Move a run that rests between its levels on, by one level or one task."""
        _, run_id = self.find(ref)
        return self._commit(c.Advance(run_id, by_task))

    def rerun(self, ref: str, *, fresh: bool = False) -> c.Reply:
        """A new run with the same definition and inputs."""
        old = self.run(ref)
        command = same_again(old, self.document(old.workflow), self.pins(old.id), fresh)
        if self._command_id is not None:
            command.run_id = id_from(self._command_id)
        return self._commit(command)

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

    def apply(self, loaded: "Loaded", source: str | None = None, by: str | None = None) -> c.Reply:
        """Make this the current version of its workflow, and its triggers the active ones."""
        return triggering.apply(self, loaded, source, by)

    def pause_trigger(self, ref: str, *, paused: bool = True) -> c.Reply:
        return self._commit(c.PauseTrigger(triggering.find(self, ref).id, paused))

    def fire(self, ref: str, body: Any = None) -> c.Reply:
        """Fire a trigger now, by hand. Said again under one command id it is one and the same fire: what it carries
        tells the time, so that no second request is like the first, and its cause is what is compared."""
        run_id = new_id() if self._command_id is None else id_from(self._command_id)
        return triggering.fire(self.on_behalf(None), ref, run_id, body)

    def fire_webhook(self, name: str, body: bytes, headers: Mapping[str, str], secrets: Secrets) -> c.Reply:
        """A call from outside, checked; raises HookRefused."""
        return triggering.fire_webhook(self, name, body, headers, secrets, new_id())

    def set_pool(self, name: str, size: int) -> c.Reply:
        """Make a pool, or change its size; 0 lets nothing more start."""
        return self._commit(c.SetPool(name, size))

    def create_token(self, label: str, role: ApiRole, expires_ms: int | None = None) -> NewToken:
        """Its text is in the reply, and nowhere else."""
        return tokens.create(self, label, role, expires_ms)

    def revoke_token(self, ref: str) -> c.Reply:
        return tokens.revoke(self, ref)

    def prune(
        self, finished_before: int, states: list[str] | None = None, *, cache: bool = False
    ) -> Iterator[list[str]]:
        """Remove finished runs, a hundred at a time; gives the ids of those that are gone, their files included.
        `cache`: results that tasks kept before that moment go too; expired ones always do."""
        return prune(self, finished_before, states, cache)

    def drain(self, ref: str, deadline_ms: int, reason: str = "drained by request") -> tuple[NodeInfo, c.Reply]:
        """No new claims for this node; what still runs at the deadline goes back; then it leaves."""
        found = cluster.node(self, ref, ended=False)
        return found, self._commit(c.Drain(found.session, deadline_ms, reason))

    def refuse_if_observing(self) -> None:
        if self.role == "observer":
            raise Observing(self.leader())

    def _commit(self, command: c.Command) -> c.Reply:
        """A reply that was lost is asked for again under the same id: the command is applied once."""
        self.refuse_if_observing()
        command_id = self._next_command_id()
        try:
            reply: c.Reply = self._insist(
                lambda: self.link.committer.commit(command, command_id=command_id, actor=self._actor)
            )
        except c.Refused as refused:
            if refused.code == "not_found":  # the same error whoever found out: we, or the rules
                raise NotFound(refused.message) from None
            raise
        return reply

    def _insist(self, work: Callable[[], T]) -> T:
        until = time.monotonic() + self.wait_s
        told = False
        while True:
            try:
                return work()
            except StoreBusy as error:
                if self.store.path is not None or time.monotonic() > until:
                    raise  # SQLite has waited by itself
                if not told:
                    self.store.say(f"waiting for the store: {error}")
                    told = True
                time.sleep(RETRY_S)

    def expire_dead(self) -> None:
        """End the sessions of processes that are gone now, not with their leases."""
        self.link.end_gone()

    def tidy(self, ref: str) -> None:
        """Do what is left over of a run and of those that its tasks started, where no node is there to do it."""
        no, run_id = self.find(ref)
        self._finish(c.Reply(run_id, no, more=True))

    def _finish(self, reply: c.Reply) -> c.Reply:
        """A large run is cancelled a thousand tasks at a time: stay with it until that is done."""
        more = reply.more
        while more:
            more = self._insist(lambda: self.link.committer.commit(c.Tidy(reply.run_no))).more
        return reply

    def close(self) -> None:
        self.link.close()
        self.store.close()
