"""The verbs as people and programs call them, on a store or on a server: each is one operation under its typed name.

`call` is what differs: StoreConnection carries an operation out on a store, ServerConnection asks a server. Edges
(command line, HTTP, MCP, SDK) are written against this class. One suite of tests runs over both (tests/client).
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

import msgspec

from weft import __version__
from weft.client.schedule_verbs import ALL, PAGE, Q, R, ScheduleVerbs
from weft.core.artifacts import ArtifactReference
from weft.core.commands import BY_REQUEST, Refused, Reply, Submit
from weft.core.definition.compile import compile_workflow
from weft.core.workflow import Workflow
from weft.operations import parameters as p
from weft.operations.declare import NoArguments, Operation
from weft.operations.errors import NotFound
from weft.operations.on_demand import (
    bulk,
    events,
    history,
    nodes,
    repair,
    run_changes,
    runs,
    store,
    tasks,
    tokens,
    workflows,
)
from weft.operations.reading.budgets import RunBudget
from weft.operations.replies import (
    ArtifactList,
    AttemptInfo,
    CallerInfo,
    EventInfo,
    Explanation,
    LeaderInfo,
    NewToken,
    NodeInfo,
    NodeWork,
    OutputPart,
    PoolInfo,
    RunDiff,
    RunInfo,
    StoreInfo,
    TaskInfo,
    TaskLaunch,
    TokenInfo,
    Verification,
    VersionDiff,
    VersionInfo,
    WantedSignal,
    WorkflowInfo,
)  # fmt: skip
from weft.operations.run_scope import RunScope

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.client.following import EventFollower
    from weft.executors.output import StreamName
    from weft.operations.reading.output.attempts import AttemptOutput
    from weft.operations.resources.nodes import Draining
    from weft.operations.resources.repair import Correction
    from weft.operations.resources.run_changes import Changed, PrunedRuns, RerunPlan
    from weft.operations.resources.store import PoolSet
    from weft.operations.resources.submissions import AppliedWorkflow
    from weft.operations.resources.tokens import TokenRevoked

WORKFLOWS_KEPT: Final = 100
#: Names in paths that cannot be anything's: they are not asked for.
_PATTERNS: Final = {
    "run": (re.compile(p.RUN_PATTERN), "{!r} is not a run id"),
    "task": (re.compile(p.TASK_PATTERN), "the run has no task {}"),
    "node": (re.compile(p.NODE_PATTERN), "there is no node {}"),
    "hash": (re.compile(r"^[0-9a-f]{4,64}$"), "there is no workflow {}"),
    "name": (re.compile(r"^[A-Za-z0-9_.-]{1,128}$"), "there is no workflow {}"),
}


class Connection(ScheduleVerbs):
    """RUN (`ref`) is an id, a unique prefix or `last`; TASK is a name or an element's (`transform.3`); NODE a name, a
    session or a unique beginning of one. Lists are pages: the next one is asked for with where the last one ended."""

    @property
    def role(self) -> str:
        """An observer's control changes nothing."""
        return "auto"

    def __init__(self) -> None:
        self._workflows: dict[str, Workflow] = {}

    def for_request(self, command_id: str | None, actor: str | None = None, scope: RunScope | None = None) -> Self:
        """The same control for one request: its commands carry this id, so that a request that is sent again after
        its reply was lost is applied once. `actor` is who asked, for the history; `scope` is what the token of an
        attempt opens."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    @staticmethod
    def check_names(operation: Operation[Q, R], request: Q) -> None:
        for name in operation.names_in_path:
            if name in _PATTERNS:
                pattern, message = _PATTERNS[name]
                value = getattr(request, name)
                if pattern.fullmatch(value) is None:
                    raise NotFound(message.format(value))

    def _task_name_error(self, ref: str | None, task: str | None) -> NotFound | None:
        """For a name that is not in the path, and that no task can have. A run that does not exist is raised."""
        pattern, message = _PATTERNS["task"]
        if task is None or pattern.fullmatch(task) is not None:
            return None
        if ref is not None:
            self.find(ref)
        return NotFound(message.format(task))

    # Health

    def answers(self) -> bool:
        """Is the store there? Known within a few seconds, however long other requests wait."""
        raise NotImplementedError

    def check_writable(self) -> None:
        """Raises StoreError if the store takes no writes now; an observer needs none."""
        raise NotImplementedError

    def caller(self) -> CallerInfo:
        """Who asks, and with which role; on a store within reach everything is allowed, unless it is observed."""
        return CallerInfo(name="local", role="viewer" if self.role == "observer" else "admin", version=__version__)

    def now(self) -> int:
        return self.call(store.get_clock, NoArguments()).now

    def last_event(self, ref: str | None = None) -> int:
        """The number of the newest event of a run, or of all."""
        if ref is not None:
            return self.call(runs.get_run, runs.GetRunRequest(run=ref, tasks=0)).last_event
        return self.call(store.get_clock, NoArguments()).last_event

    def info(self) -> StoreInfo:
        return self.call(store.get_store, NoArguments())

    # Runs

    def find(self, ref: str) -> tuple[int, str]:
        """(number, id) of a run."""
        found = self.run(ref)
        return found.no, found.id

    def run(self, ref: str) -> RunInfo:
        return self.call(runs.get_run, runs.GetRunRequest(run=ref, tasks=0)).run

    def awaiting_advance(self, ref: str) -> bool:
        """Whether a run that is advanced by hand has nothing to do until it is advanced."""
        return self.call(runs.get_run, runs.GetRunRequest(run=ref, tasks=0)).awaiting_advance

    def runs(
        self,
        *,
        states: list[Any] | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 20,
        children: bool = True,
        labels: list[str] | None = None,
        inputs: list[str] | None = None,
        trigger: str | None = None,
        since: int | None = None,
        until: int | None = None,
        text: str | None = None,
        backfill: str | None = None,
        late: bool = False,
    ) -> list[RunInfo]:
        """Newest first; `before` is the `no` of the last run of the page before. `labels` and `inputs` are texts
        `k=v`, all of which a run must have."""
        cursor = None if before is None else f"r{before}"
        request = runs.ListRunsRequest(
            state=states, name=name, cursor=cursor, children=children, label=labels or None, input=inputs or None,
            trigger=trigger, since=since, until=until, text=text, backfill=backfill, late=late,
        )  # fmt: skip
        return self._pages(runs.list_runs, request, "runs", limit)[0]

    def change_runs(self, request: "bulk.ChosenRunsRequest") -> "bulk.ChangedRuns":
        """The same to many runs: some hundred at a time, and where the filter goes on. Without an action they are
        removed."""
        if isinstance(request, bulk.ChangeRunsRequest):
            return self.call(bulk.change_runs, request)
        return self.call(bulk.remove_runs, request)

    def diff_runs(self, old: str, new: str) -> RunDiff:
        """How two runs differ: definition, inputs, durations, outcomes."""
        return self.call(runs.diff_runs, runs.DiffRunsRequest(run=old, other=new))

    def workflow(self, ref: str) -> Workflow:
        return self.workflow_of_hash(self.run(ref).workflow)

    def workflows(self, ref: str) -> list[Workflow]:
        """The run's own workflow, and those that its tasks run."""
        hashes = self.call(runs.list_run_workflows, runs.OneRunRequest(run=ref)).workflows
        return [self.workflow_of_hash(hash) for hash in hashes]

    def workflow_of_hash(self, hash: str) -> Workflow:
        known = self._workflows.get(hash)
        if known is None:
            known = self._workflows[hash] = compile_workflow(self.document(hash), hash)
            while len(self._workflows) > WORKFLOWS_KEPT:
                self._workflows.pop(next(iter(self._workflows)), None)
        return known

    def document(self, hash: str) -> dict[str, Any]:
        return self.call(workflows.get_document, workflows.GetDocumentRequest(hash=hash)).document

    def family(self, ref: str) -> list[tuple[int, str]]:
        """(number, id) of a run and of all that its tasks started."""
        found, _ = self._pages(runs.list_family, runs.ListFamilyRequest(run=ref), "runs", ALL)
        return [(one.no, one.id) for one in found]

    def starter(self, ref: str) -> TaskInfo | None:
        """The task that started this run, if one did."""
        return self.call(runs.get_starter, runs.OneRunRequest(run=ref)).task

    def path_within(self, ref: str, ancestor: str) -> str:
        """The names of the tasks that lead from one run to another: "deploy/build". Empty for the run itself."""
        names: list[str] = []
        _, run_id = self.find(ref)
        while run_id != ancestor:
            task = self.starter(run_id)
            if task is None:
                break
            names.append(task.name)
            run_id = task.run_id
        return "/".join(reversed(names))

    def waiting_below(self, ref: str, limit: int) -> list[WantedSignal]:
        """What tasks wait for in runs that this one's tasks started."""
        return self.call(runs.list_waiting, runs.ListWaitingRequest(run=ref, limit=min(limit, PAGE))).signals

    def context(self, ref: str) -> dict[str, Any]:
        return self.call(runs.get_run_context, runs.OneRunRequest(run=ref)).context

    def output(self, ref: str, *, whole: bool = False) -> Any:
        """The value of the workflow's `output`. What is in artifact files stands there as a reference
        ({"$artifact": {…}}), or with `whole` as the value itself."""
        found = self.call(runs.get_run_output, runs.GetRunOutputRequest(run=ref, whole=whole))
        if found.error is not None:
            raise Refused("invalid", found.error)
        return found.output

    def why(self, ref: str, task: str | None = None, event: int | None = None) -> list[Explanation]:
        """With `event`: as it was after that event of the run."""
        if task is None:
            return self.call(runs.explain_run, runs.ExplainRunRequest(run=ref, event=event)).explanations
        request = tasks.ExplainTaskRequest(run=ref, task=task, event=event)
        return self.call(tasks.explain_task, request).explanations

    def run_at(self, ref: str, event: int, task: str | None = None) -> "history.RunThen":
        """A run and all its tasks, or one of them, as they were after this event of the run."""
        page = history.GetRunAtRequest(run=ref, event=max(0, event), task=task, limit=PAGE)
        found = self.call(history.get_run_at, page)
        after = found.next
        while after is not None:
            more = self.call(history.get_run_at, msgspec.structs.replace(page, cursor=after))
            found.tasks += more.tasks
            after = more.next
        return found

    def verify(self, ref: str) -> Verification:
        return self.call(runs.verify_run, runs.OneRunRequest(run=ref))

    def canonical(self, ref: str) -> list[str]:
        """The level records as they stand, one JSON text each: the same bytes whatever order tasks finished in."""
        return self.call(runs.get_run_records, runs.OneRunRequest(run=ref)).lines

    # Tasks

    def tasks(
        self,
        ref: str | None = None,
        *,
        task: str | None = None,
        states: list[Any] | None = None,
        kinds: list[Any] | None = None,
        workflow: str | None = None,
        node: str | None = None,
        after: int = 0,
        limit: int = PAGE,
        old_generations: bool = False,
    ) -> tuple[list[TaskInfo], int | None]:
        """A page of tasks in the order of their ids, and where the next page starts (None: this was the last)."""
        cursor = f"t{after}" if after else None
        if ref is None:
            listed, more = self._pages(
                tasks.list_tasks,
                tasks.ListTasksRequest(state=states, type=kinds, workflow=workflow, node=node, cursor=cursor),
                "tasks", limit,
            )  # fmt: skip
        else:
            if wrong := self._task_name_error(ref, task):
                raise wrong
            request = tasks.ListRunTasksRequest(
                run=ref, state=states, type=kinds, node=node, task=task, old_generations=old_generations,
                cursor=cursor,
            )  # fmt: skip
            listed, more = self._pages(tasks.list_run_tasks, request, "tasks", limit)
        return listed, None if more is None else p.number_in(more)

    def all_tasks(self, ref: str, *, states: list[Any] | None = None) -> Iterator[TaskInfo]:
        after: int | None = 0
        while after is not None:
            page, after = self.tasks(ref, states=states, after=after, limit=PAGE)
            yield from page

    def task(self, ref: str, task: str) -> TaskInfo:
        return self.call(tasks.get_task, tasks.OneTaskRequest(run=ref, task=task)).task

    def attempts(self, ref: str, task: str) -> list[AttemptInfo]:
        """All attempts of a task, of all generations; the one that runs now is the last."""
        return self.call(tasks.get_task, tasks.OneTaskRequest(run=ref, task=task)).attempts

    def launch(self, ref: str, task: str) -> TaskLaunch:
        """What a task runs: item, command, arguments, variables; no secrets."""
        return self.call(tasks.get_task_launch, tasks.OneTaskRequest(run=ref, task=task))

    def dead_letters(self, *, after: int = 0, limit: int = PAGE) -> tuple[list[TaskInfo], int | None]:
        request = tasks.ListDeadRequest(cursor=f"d{after}" if after else None)
        found, more = self._pages(tasks.list_dead, request, "tasks", limit)
        return found, None if more is None else p.number_in(more)

    def read_output(
        self, ref: str, task: str, attempt: int, stream: "StreamName", *, offset: int = 0, limit: int = 65536
    ) -> OutputPart:
        """Bytes that an attempt printed, from `offset` on (negative: before the end)."""
        raise NotImplementedError

    def open_output(self, ref: str, task: str, attempt: int, stream: "StreamName") -> "AttemptOutput":
        """One stream of an attempt, to be read piece by piece, also while it grows."""
        raise NotImplementedError

    def open_artifact(self, ref: str, task: str, attempt: int | None = None) -> tuple[ArtifactReference, BinaryIO]:
        """A large output's file, of this attempt or of the last; close it. ArtifactError: it cannot be had here."""
        raise NotImplementedError

    def artifacts(self, ref: str, task: str | None = None, *, limit: int = 1000) -> ArtifactList:
        """The files that tasks of a run have kept; of one task, or of one element of it, if named."""
        return self.call(tasks.list_artifacts, tasks.ListArtifactsRequest(run=ref, task=task, limit=limit))

    def open_file(self, ref: str, task: str, path: str) -> tuple[ArtifactReference, BinaryIO]:
        """A file that a task has kept, to be read and closed. ArtifactError: it cannot be had here."""
        raise NotImplementedError

    # Events

    def events(self, ref: str | None, *, after: int = 0, limit: int = PAGE, **filters: Any) -> list[EventInfo]:
        """Of a run, or (None) of the whole cluster; `filters`: kinds, task, node, since, until."""
        kind = filters.pop("kinds", None)
        if self._task_name_error(ref, filters.get("task")):
            return []
        found: list[EventInfo] = []
        while True:
            asked = min(PAGE, limit - len(found))
            common: dict[str, Any] = {"kind": kind, "after": after or None, "limit": asked, **filters}
            if ref is None:
                page = self.call(events.list_events, events.ListEventsRequest(**common))
            else:
                page = self.call(events.list_run_events, events.ListRunEventsRequest(run=ref, **common))
            found += page.events
            after = page.last
            if len(page.events) < asked or len(found) >= limit:
                return found

    def follow(self, ref: str | None, *, after: int = 0, **filters: Any) -> "EventFollower":
        """From the event after this one on; close it."""
        raise NotImplementedError

    # Nodes

    def nodes(self, *, ended: bool = False) -> list[NodeInfo]:
        return self._pages(nodes.list_nodes, nodes.ListNodesRequest(ended=ended), "nodes", ALL)[0]

    def node(self, ref: str) -> NodeInfo:
        """By its name, its session's id, or a unique beginning of that; also one that has ended."""
        return self.call(nodes.get_node, nodes.OneNodeRequest(node=ref))

    def node_work(self, ref: str) -> NodeWork:
        """What it has claimed, how that ended, and what it holds now."""
        return self.call(nodes.get_node_work, nodes.OneNodeRequest(node=ref))

    def leader(self) -> LeaderInfo:
        return self.call(nodes.get_leader, NoArguments())

    def drain(self, ref: str, deadline_ms: int, reason: str = "drained by request") -> "Draining":
        """No new claims for this node; what still runs at the deadline is requeued; then it leaves."""
        return self.call(nodes.drain_node, nodes.DrainNodeRequest(node=ref, deadline_ms=deadline_ms, reason=reason))

    def expire_dead(self) -> None:
        """Sessions whose processes are known to be gone end now. Only on this machine can that be known."""

    def pools(self) -> list[PoolInfo]:
        return self._pages(store.list_pools, store.ListPoolsRequest(), "pools", ALL)[0]

    def set_pool(
        self, name: str, size: int, *, usd: float | None = None, tokens: int | None = None, renew: bool = False
    ) -> "PoolSet":
        """Create a pool, or change its size; 0 lets nothing more start. `usd`, `tokens`: what its tasks may spend."""
        request = store.SetPoolRequest(name=name, size=size, usd=usd, tokens=tokens, renew=renew)
        return self.call(store.set_pool, request)

    # Workflows

    def workflow_names(self, *, after: str = "", limit: int = 100) -> list[WorkflowInfo]:
        """In the order of their names; `after` is the last one of the page before."""
        request = workflows.ListWorkflowsRequest(cursor=f"w.{after}" if after else None)
        return self._pages(workflows.list_workflows, request, "workflows", limit)[0]

    def versions(self, name: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[VersionInfo]:
        """Newest first; `before` is (created_at, hash) of the last one of the page before."""
        cursor = None if before is None else f"v{before[0]}-{before[1]}"
        request = workflows.ListVersionsRequest(name=name, cursor=cursor)
        return self._pages(workflows.list_versions, request, "versions", limit)[0]

    def version(self, name: str, hash: str | None = None) -> VersionInfo:
        """The newest, or the one with this hash or a unique beginning of it; with its document."""
        if hash is None:
            return self.call(workflows.get_workflow, workflows.OneWorkflowRequest(name=name))
        return self.call(workflows.get_version, workflows.GetVersionRequest(name=name, hash=hash))

    def diff(self, name: str, old: str | None = None, new: str | None = None) -> VersionDiff:
        return self.call(workflows.diff_versions, workflows.DiffVersionsRequest(name=name, old=old, new=new))

    def applied(self) -> dict[str, str]:
        """The current versions, by the names of their workflows."""
        return {name: hash for name, (hash, _) in self.applied_sources().items()}

    def applied_sources(self) -> dict[str, tuple[str, str | None]]:
        """(the current version, the directory in which its tasks start), by the names of workflows."""
        found: dict[str, tuple[str, str | None]] = {}
        request = workflows.ListAppliedRequest()
        while True:
            page = self.call(workflows.list_applied, request)
            found |= {name: (hash, page.sources.get(name)) for name, hash in page.current.items()}
            if page.next is None:
                return found
            request.cursor = page.next

    def apply(
        self, loaded: "Loaded", source: str | None = None, by: str | None = None, *, preview: bool = False
    ) -> "AppliedWorkflow":
        """Make this the current version of its workflow, and its triggers the active ones; or only say what that
        would change."""
        raise NotImplementedError

    # Changing runs

    def submit(self, command: Submit, workflow: Workflow | None = None) -> Reply:
        raise NotImplementedError

    def submit_each(self, commands: Sequence[Submit], ids: Sequence[str] | None = None) -> list[Reply | Refused]:
        """Many runs in one transaction, under these command ids. A refusal stands in its place and stops no other."""
        raise NotImplementedError

    def cancel(self, ref: str, task: str | None = None, reason: str = BY_REQUEST, *, now: bool = False) -> "Changed":
        if task is None:
            return self.call(run_changes.cancel_run, run_changes.CancelRunRequest(run=ref, reason=reason, now=now))
        return self.call(run_changes.cancel_task, run_changes.CancelTaskRequest(run=ref, task=task, reason=reason))

    def release(self, ref: str, task: str, reason: str = "released by request") -> "Changed":
        """Go on without the proof that a lost attempt on an engine was stopped."""
        return self.call(run_changes.release_task, run_changes.ReleaseTaskRequest(run=ref, task=task, reason=reason))

    def resume(self, ref: str) -> "Changed":
        return self.call(run_changes.resume_run, runs.OneRunRequest(run=ref))

    def correct(self, ref: str, definition: Any, *, preview: bool = False) -> "Correction":
        """Go on with a corrected definition of a run that has ended; `preview`: only say what would run again."""
        request = repair.CorrectRunRequest(run=ref, definition=definition, preview=preview)
        return self.call(repair.correct_run, request)

    def skip(self, ref: str, tasks: list[str], reason: str = "skipped by request") -> "Changed":
        """Skip tasks that have not started, or of an ended run: in a new generation."""
        return self.call(repair.skip_tasks, repair.SkipTasksRequest(run=ref, tasks=tasks, reason=reason))

    def mark(self, ref: str, tasks: list[str], output: Any = None, reason: str = "marked by request") -> "Changed":
        """Let tasks count as succeeded, with this output, without running them."""
        request = repair.MarkTasksRequest(run=ref, tasks=tasks, output=output, reason=reason)
        return self.call(repair.mark_tasks, request)

    def pause(self, ref: str, reason: str = "paused by request") -> "Changed":
        """Let nothing more of a run start."""
        return self.call(repair.pause_run, repair.PauseRunRequest(run=ref, reason=reason))

    def unpause(self, ref: str, reason: str = "unpaused by request") -> "Changed":
        return self.call(repair.unpause_run, repair.UnpauseRunRequest(run=ref, reason=reason))

    def advance(self, ref: str, *, by_task: bool = False) -> "Changed":
        """Continue a run that is paused between levels, by one level or one task."""
        return self.call(run_changes.advance_run, run_changes.AdvanceRunRequest(run=ref, by_task=by_task))

    def budget(self, ref: str) -> RunBudget:
        """What a run may spend, has spent, and has reserved; and what its tasks have spent."""
        return self.call(runs.get_run_budget, runs.OneRunRequest(run=ref))

    def set_budget(self, ref: str, *, usd: float | None = None, tokens: int | None = None) -> "Changed":
        """Change what a run may spend in all, in US dollars and tokens."""
        request = run_changes.SetRunBudgetRequest(run=ref, usd=usd, tokens=tokens)
        return self.call(run_changes.set_run_budget, request)

    def rerun(
        self,
        ref: str,
        *,
        fresh: bool = False,
        inputs: dict[str, Any] | None = None,
        from_tasks: Sequence[str] = (),
    ) -> "Changed":
        """A new run with the same definition and inputs, but for those that are given. `from_tasks`: only these tasks
        and what follows them run; the results of all others are taken over."""
        request = run_changes.RerunRunRequest(run=ref, fresh=fresh, inputs=inputs or {}, from_tasks=list(from_tasks))
        return self.call(run_changes.rerun_run, request)

    def preview_rerun(self, ref: str, from_tasks: Sequence[str]) -> "RerunPlan":
        """What a rerun from these tasks would run, and what it would take over."""
        request = run_changes.PreviewRerunRequest(run=ref, from_tasks=list(from_tasks))
        return self.call(run_changes.preview_rerun, request)

    def retry_dead(self, ref: str, tasks: list[str] | None = None) -> "Changed":
        for task in tasks or ():
            if wrong := self._task_name_error(ref, task):
                raise wrong
        return self.call(run_changes.retry_dead, run_changes.RetryDeadRequest(run=ref, tasks=tasks))

    def signal(self, ref: str, name: str, data: Any = None, reject: str | None = None) -> "Changed":
        """Answer a wait, now or before it is reached. `data` is any JSON value, and becomes the wait's output."""
        request = run_changes.SignalRunRequest(run=ref, name=name, data=data, reject=reject)
        return self.call(run_changes.signal_run, request)

    def tidy(self, ref: str) -> None:
        """Do what is left over of a run and of those that its tasks started, where no node is there to do it."""
        self.call(run_changes.tidy_run, runs.OneRunRequest(run=ref))

    def prune(
        self, finished_before: int, states: list[Any] | None = None, *, cache: bool = False
    ) -> Iterator["PrunedRuns"]:
        """Remove finished runs, some at a time. `cache`: results that tasks kept before that moment go too; expired
        ones always do."""
        request = run_changes.PruneRunsRequest(before=max(0, finished_before), states=states, cache=cache)
        more = True
        while more:
            done = self.call(run_changes.prune_runs, request)
            yield done
            more = done.more

    # Tokens

    def tokens(self) -> list[TokenInfo]:
        return self._pages(tokens.list_tokens, tokens.ListTokensRequest(), "tokens", ALL)[0]

    def create_token(
        self,
        label: str,
        role: Any,
        expires_ms: int | None = None,
        *,
        labels: dict[str, str] | None = None,
        workflows: Sequence[str] = (),
    ) -> NewToken:
        """Its text is in the reply, and nowhere else. `labels` and `workflows` bind the token of a worker."""
        request = tokens.CreateTokenRequest(
            label=label, role=role, expires_ms=expires_ms, labels=labels, workflows=list(workflows) or None
        )
        return self.call(tokens.create_token, request)

    def revoke_token(self, ref: str) -> "TokenRevoked":
        """By its id, a unique beginning of it, or its label."""
        found = tokens.token_of(self.tokens(), ref)
        return self.call(tokens.revoke_token, tokens.RevokeTokenRequest(id=found.id))
