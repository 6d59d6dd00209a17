"""The verbs people use, on a server: the same records, the same errors and the same words as on a store.

Whatever is followed comes by the server's streams (`follow`).
"""

import copy
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TypeVar

import msgspec

from weft.control.cursors import cursor, keys_in
from weft.control.following import Followed
from weft.control.output import AttemptOutput, Piece
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
from weft.control.remote_submission import submit_body
from weft.control.streamed import Streamed
from weft.control.submission import new_id
from weft.control.tokens import token_of
from weft.control.triggering import trigger_named
from weft.control.wire import Answer, Wire, path
from weft.core.artifacts import Reference
from weft.core.commands import BY_REQUEST, Refused, Reply, Submit
from weft.core.definition.compile import compile_workflow
from weft.core.rows import ApiRole
from weft.core.workflow import Workflow
from weft.executors.output import StreamName
from weft.node.secrets import Secrets
from weft.store.artifact_files import ArtifactError
from weft.store.protocol import StoreError
from weft.store.shipment import CHUNK_MAX

if TYPE_CHECKING:
    from weft.authoring import Loaded

T = TypeVar("T")
PAGE: Final = 1000  # what a server gives at once
ALL: Final = 1 << 62
PART_MAX: Final = 1 << 20
BATCH: Final = 1000
WORKFLOWS_KEPT: Final = 100
_RUN = re.compile(r"[0-9a-z-]{1,64}")
_TASK = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[0-9]{1,9})?")


class RemoteControl:
    """One for all threads: each has a connection of its own."""

    role = "auto"  # whether it may change something, the server knows

    def __init__(self, url: str, token: str | None = None, **more: Any) -> None:
        self._wire = Wire(url, token, **more)
        self._workflows: dict[str, Workflow] = {}
        self._command_id: str | None = None
        self._commands = 0

    @property
    def url(self) -> str:
        return self._wire.url

    def tell(self, say: Callable[[str], None]) -> None:
        """Who hears of it when the server has to be waited for."""
        self._wire.say = say

    def _get(self, *parts: str, query: Iterable[tuple[str, Any]] = ()) -> Answer:
        return self._wire("GET", path(*parts), query)

    # -- reading -----------------------------------------------------------------------------------------

    def check_writable(self) -> None:
        self._wire("GET", "/readyz")

    def answers(self) -> bool:
        try:
            self.check_writable()
        except StoreError:
            return False
        return True

    def now(self) -> int:
        found: int = self._get("clock").field("now", int)
        return found

    def last_event(self) -> int:
        found: int = self._get("clock").field("last_event", int)
        return found

    def _run(self, ref: str) -> Answer:
        return self._get("runs", _run_name(ref), query=[("tasks", 0)])

    def find(self, ref: str) -> tuple[int, str]:
        found = self.run(ref)
        return found.no, found.id

    def run(self, ref: str) -> RunInfo:
        found: RunInfo = self._run(ref).field("run", RunInfo)
        return found

    def resting(self, ref: str) -> bool:
        found: bool = self._run(ref).field("resting", bool)
        return found

    def runs(
        self,
        *,
        states: list[str] | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 20,
        children: bool = True,
    ) -> list[RunInfo]:
        filters = [("children", children), ("name", name), *_each("state", states)]
        at = None if before is None else cursor("runs", before)
        return list(self._pages(["runs"], "runs", RunInfo, filters, at, limit)[0])

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
        filters = [*_each("state", states), *_each("type", kinds), ("workflow", workflow), ("node", node)]
        parts = ["tasks"]
        if ref is not None:
            parts = ["runs", _run_name(ref), "tasks"]
            task = None if task is None else self._task_name(ref, task)
            filters += [("task", task), ("old_generations", old_generations or None)]
        at = cursor("tasks", after) if after else None
        found, more = self._pages(parts, "tasks", TaskInfo, filters, at, limit)
        return found, None if more is None else int(keys_in(more)[1])

    def _pages(
        self, parts: list[str], field: str, of: type[T], filters: list[tuple[str, Any]], at: str | None, limit: int
    ) -> tuple[list[T], str | None]:
        """As many pages as it takes, and where the list goes on. A page that comes short ends it: filters that few
        pass are not to be waited for."""
        found: list[T] = []
        while True:
            asked = min(PAGE, limit - len(found))
            answer = self._get(*parts, query=[*filters, ("cursor", at), ("limit", asked)])
            page: list[T] = answer.field(field, list[of])  # type: ignore[valid-type]
            found += page
            at = answer.field("next", str | None)
            if at is None or len(page) < asked or len(found) >= limit:
                return found, at

    def all_tasks(self, ref: str, *, states: list[str] | None = None) -> Iterator[TaskInfo]:
        after: int | None = 0
        while after is not None:
            page, after = self.tasks(ref, states=states, after=after, limit=PAGE)
            yield from page

    def task(self, ref: str, task: str) -> TaskInfo:
        found: TaskInfo = self._task(ref, task).field("task", TaskInfo)
        return found

    def attempts(self, ref: str, task: str) -> list[AttemptInfo]:
        found: list[AttemptInfo] = self._task(ref, task).field("attempts", list[AttemptInfo])
        return found

    def _task(self, ref: str, task: str) -> Answer:
        return self._get("runs", _run_name(ref), "tasks", self._task_name(ref, task))

    def _task_name(self, ref: str, task: str) -> str:
        if _TASK.fullmatch(task) is None:
            self.find(ref)
            raise NotFound(f"the run has no task {task}")
        return task

    def read_output(
        self, ref: str, task: str, attempt: int, stream: StreamName, *, offset: int = 0, limit: int = 65536
    ) -> OutputPart:
        if attempt < 1:
            last = self.task(ref, task)
            raise NotFound(f"{last.name} has no attempt {attempt}; its last is {last.attempt}")
        query = [("attempt", attempt), ("offset", offset), ("limit", min(limit, PART_MAX))]
        answer = self._get("runs", _run_name(ref), "tasks", self._task_name(ref, task), "output", stream, query=query)
        told = answer.headers
        return OutputPart(
            data=answer.body, offset=int(told["weft-offset"]), next=int(told["weft-next"]),
            size=int(told["weft-size"]), ended=told["weft-ended"] == "true",
        )  # fmt: skip

    def open_output(self, ref: str, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        return AskedFor(self, self.find(ref)[1], self._task_name(ref, task), attempt, stream)

    def events(self, ref: str | None, *, after: int = 0, limit: int = PAGE, **filters: Any) -> list[EventInfo]:
        parts = ["events"] if ref is None else ["runs", _run_name(ref), "events"]
        task = filters.get("task")
        if task is not None and _TASK.fullmatch(task) is None:
            return []  # no task is called that
        since, until = (None if (at := filters.get(name)) is None else max(0, at) for name in ("since", "until"))
        query = [
            *_each("kind", filters.get("kinds")), ("task", task), ("node", filters.get("node")), ("since", since),
            ("until", until),
        ]  # fmt: skip
        found: list[EventInfo] = []
        while len(found) < limit:
            asked = min(PAGE, limit - len(found))
            answer = self._get(*parts, query=[*query, ("after", after), ("limit", asked)])
            page: list[EventInfo] = answer.field("events", list[EventInfo])
            found += page
            if len(page) < asked:
                break
            after = page[-1].seq
        return found

    def follow(self, ref: str | None, *, after: int = 0, **filters: Any) -> Followed:
        return Streamed(self, self._wire, None if ref is None else self.find(ref)[1], after, filters)

    def canonical(self, ref: str) -> list[str]:
        found: list[str] = self._get("runs", _run_name(ref), "records").field("lines", list[str])
        return found

    def context(self, ref: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get("runs", _run_name(ref), "context").field("context", dict[str, Any])
        return found

    def output(self, ref: str, *, artifacts_max: int = 0) -> Any:
        answer = self._get("runs", _run_name(ref), "output", query=[("whole", True if artifacts_max else None)])
        error = answer.field("error", str | None)
        if error is not None:
            raise Refused("invalid", error)
        return answer.field("output", Any)

    def open_artifact(self, ref: str, task: str, attempt: int | None = None) -> tuple[Reference, BinaryIO]:
        target = path("runs", _run_name(ref), "tasks", self._task_name(ref, task), "artifact")
        answer = self._wire("GET", target, [("attempt", attempt)])
        reference = msgspec.json.decode(answer.headers["weft-artifact"], type=Reference)
        if hashlib.sha256(answer.body).hexdigest() != reference.sha256:
            raise ArtifactError(f"what the server gave is not what node {reference.node} wrote to {reference.path}")
        return reference, io.BytesIO(answer.body)

    def why(self, ref: str, task: str | None = None) -> list[Explanation]:
        below = [] if task is None else ["tasks", self._task_name(ref, task)]
        answer = self._get("runs", _run_name(ref), *below, "why")
        found: list[Explanation] = answer.field("explanations", list[Explanation])
        return found

    def verify(self, ref: str) -> Verification:
        found: Verification = self._get("runs", _run_name(ref), "verify").value(Verification)
        return found

    def dead_letters(self, *, after: int = 0, limit: int = PAGE) -> tuple[list[TaskInfo], int | None]:
        at = cursor("dead", after) if after else None
        found, more = self._pages(["dead"], "tasks", TaskInfo, [], at, limit)
        return found, None if more is None else int(keys_in(more)[1])

    def nodes(self, *, ended: bool = False) -> list[NodeInfo]:
        return self._pages(["nodes"], "nodes", NodeInfo, [("ended", ended)], None, ALL)[0]

    def node(self, ref: str) -> NodeInfo:
        found: NodeInfo = self._get("nodes", _node_name(ref)).value(NodeInfo)
        return found

    def node_work(self, ref: str) -> NodeWork:
        found: NodeWork = self._get("nodes", _node_name(ref), "workers").value(NodeWork)
        return found

    def leader(self) -> LeaderInfo:
        found: LeaderInfo = self._get("leader").value(LeaderInfo)
        return found

    def pools(self) -> list[PoolInfo]:
        return self._pages(["pools"], "pools", PoolInfo, [], None, ALL)[0]

    def info(self) -> StoreInfo:
        found: StoreInfo = self._get("store").value(StoreInfo)
        return found

    def workflow(self, ref: str) -> Workflow:
        return self._workflow(self.run(ref).workflow)

    def workflows(self, ref: str) -> list[Workflow]:
        hashes: list[str] = self._get("runs", _run_name(ref), "workflows").field("workflows", list[str])
        return [self._workflow(hash) for hash in hashes]

    def _workflow(self, hash: str) -> Workflow:
        known = self._workflows.get(hash)
        if known is None:
            known = self._workflows[hash] = compile_workflow(self.document(hash), hash)
            while len(self._workflows) > WORKFLOWS_KEPT:
                self._workflows.pop(next(iter(self._workflows)), None)
        return known

    def document(self, hash: str) -> dict[str, Any]:
        if re.fullmatch(r"[0-9a-f]{64}", hash) is None:
            raise NotFound(f"there is no workflow {hash}")
        found: dict[str, Any] = self._get("documents", hash).field("document", dict[str, Any])
        return found

    def family(self, ref: str) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        at: str | None = None
        while True:
            answer = self._get("runs", _run_name(ref), "family", query=[("cursor", at), ("limit", PAGE)])
            found += [(one["no"], one["id"]) for one in answer.field("runs", list[dict[str, Any]])]
            at = answer.field("next", str | None)
            if at is None:
                return found

    def starter(self, ref: str) -> TaskInfo | None:
        found: TaskInfo | None = self._get("runs", _run_name(ref), "starter").field("task", TaskInfo | None)
        return found

    def waiting_below(self, ref: str, limit: int) -> list[WantedSignal]:
        answer = self._get("runs", _run_name(ref), "waiting", query=[("limit", min(limit, PAGE))])
        found: list[WantedSignal] = answer.field("signals", list[WantedSignal])
        return found

    def workflow_names(self, *, after: str = "", limit: int = 100) -> list[WorkflowInfo]:
        at = cursor("workflows", after) if after else None
        return self._pages(["workflows"], "workflows", WorkflowInfo, [], at, limit)[0]

    def versions(self, name: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[VersionInfo]:
        at = None if before is None else cursor("versions", *before)
        return self._pages(["workflows", name, "versions"], "versions", VersionInfo, [], at, limit)[0]

    def version(self, name: str, hash: str | None = None) -> VersionInfo:
        below = [] if hash is None else ["versions", hash]
        found: VersionInfo = self._get("workflows", name, *below).value(VersionInfo)
        return found

    def diff(self, name: str, old: str, new: str) -> VersionDiff:
        answer = self._get("workflows", name, "diff", query=[("old", old), ("new", new)])
        found: VersionDiff = answer.value(VersionDiff)
        return found

    def applied(self) -> dict[str, str]:
        found: dict[str, str] = {}
        at: str | None = None
        while True:
            answer = self._get("applied", query=[("cursor", at), ("limit", PAGE)])
            found |= answer.field("current", dict[str, str])
            at = answer.field("next", str | None)
            if at is None:
                return found

    def triggers(self, workflow: str | None = None) -> list[TriggerInfo]:
        return self._pages(["triggers"], "triggers", TriggerInfo, [("workflow", workflow)], None, ALL)[0]

    def trigger(self, ref: str) -> TriggerInfo:
        return trigger_named(self.triggers(), ref)

    def fires(self, ref: str, limit: int = 20) -> list[FireInfo]:
        answer = self._get(*self._trigger(ref), "fires", query=[("limit", limit)])
        found: list[FireInfo] = answer.field("fires", list[FireInfo])
        return found

    def next_times(self, ref: str, count: int = 5) -> list[dict[str, Any]]:
        answer = self._get(*self._trigger(ref), "next", query=[("count", count)])
        found: list[dict[str, Any]] = answer.field("times", list[dict[str, Any]])
        return found

    def _trigger(self, ref: str) -> tuple[str, str, str]:
        found = self.trigger(ref)
        return "triggers", found.workflow, found.name

    def tokens(self) -> list[TokenInfo]:
        return self._pages(["tokens"], "tokens", TokenInfo, [], None, ALL)[0]

    # -- writing -----------------------------------------------------------------------------------------

    def on_behalf(self, command_id: str | None, actor: str | None = None) -> Self:
        """Who asks is whose token it is: the server says that."""
        view = copy.copy(self)
        view._command_id, view._commands = command_id, 0
        return view

    def _next_command_id(self) -> str:
        if self._command_id is None:
            return new_id(20)
        self._commands += 1
        return self._command_id if self._commands == 1 else f"{self._command_id}-{self._commands}"

    def _write(self, *parts: str, body: Any = None, method: str = "POST") -> Answer:
        return self._wire(method, path(*parts), (), body, self._next_command_id())

    def _change(self, *parts: str, body: Any = None) -> Reply:
        answer = self._write(*parts, body=body)
        fields = ("run", "state", "existing", "changed")
        run, state, existing, changed = (answer.field(name, Any) for name in fields)
        return Reply(run, None, state, existing, changed)

    def submit(self, command: Submit, workflow: Workflow | None = None) -> Reply:
        answer = self._write("runs", body=submit_body(command))
        reply = Reply(
            answer.field("run", str), None, answer.field("state", str | None), answer.field("existing", bool)
        )
        reply.data["warnings"] = answer.field("warnings", list[str])
        return reply

    def submit_each(self, commands: Sequence[Submit], ids: Sequence[str] | None = None) -> list[Reply | Refused]:
        replies: list[Reply | Refused] = []
        if ids is not None:  # a batch has one id for all of it
            for command, command_id in zip(commands, ids, strict=True):
                try:
                    replies.append(self.on_behalf(command_id).submit(command))
                except Refused as refused:
                    replies.append(refused)
            return replies
        for begin in range(0, len(commands), BATCH):
            bodies = [submit_body(command) for command in commands[begin : begin + BATCH]]
            told: list[dict[str, Any]] = self._write("runs:batch", body={"runs": bodies}).field(
                "runs", list[dict[str, Any]]
            )
            replies += [_of_batch(item) for item in told]
        return replies

    def cancel(self, ref: str, task: str | None = None, reason: str = BY_REQUEST, *, now: bool = False) -> Reply:
        if task is not None:
            below = ["tasks", self._task_name(ref, task)]
            return self._change("runs", _run_name(ref), *below, "cancel", body={"reason": reason})
        return self._change("runs", _run_name(ref), "cancel", body={"reason": reason, "now": now})

    def resume(self, ref: str) -> Reply:
        return self._change("runs", _run_name(ref), "resume")

    def advance(self, ref: str, *, by_task: bool = False) -> Reply:
        return self._change("runs", _run_name(ref), "advance", body={"by_task": by_task})

    def rerun(self, ref: str, *, fresh: bool = False) -> Reply:
        return self._change("runs", _run_name(ref), "rerun", body={"fresh": fresh})

    def retry_dead(self, ref: str, tasks: list[str] | None = None) -> Reply:
        for task in tasks or ():
            self._task_name(ref, task)
        return self._change("runs", _run_name(ref), "dead", "retry", body={"tasks": tasks})

    def signal(self, ref: str, name: str, data: Any = None, reject: str | None = None) -> Reply:
        body = {"name": name, "data": data, "reject": reject}
        return self._change("runs", _run_name(ref), "signal", body=body)

    def apply(self, loaded: "Loaded", source: str | None = None, by: str | None = None) -> Reply:
        body = {"definition": loaded.document, "source": source}
        data = self._write("workflows", loaded.workflow.name, body=body, method="PUT").value(dict[str, Any])
        return Reply(existing=data.pop("existing"), data=data)

    def pause_trigger(self, ref: str, *, paused: bool = True) -> Reply:
        return self._fired(*self._trigger(ref), "pause" if paused else "resume")

    def fire(self, ref: str, body: Any = None) -> Reply:
        return self._fired(*self._trigger(ref), "fire", body={"body": body})

    def _fired(self, *parts: str, body: Any = None) -> Reply:
        data = self._write(*parts, body=body).value(dict[str, Any])
        return Reply(data["run"], None, data["outcome"], data["existing"], data=data)

    def fire_webhook(self, name: str, body: bytes, headers: Mapping[str, str], secrets: Secrets) -> Reply:
        """Who calls a webhook calls its server; there is nothing to be done on this side."""
        raise Refused("invalid", f"a webhook is called where it is served: POST {self.url}/v1/hooks/{name}")

    def create_token(self, label: str, role: ApiRole, expires_ms: int | None = None) -> NewToken:
        body = {"label": label, "role": role, "expires_ms": expires_ms}
        made: NewToken = self._write("tokens", body=body).value(NewToken)
        return made

    def revoke_token(self, ref: str) -> Reply:
        """By its label too: which one that is, is found out here."""
        found = token_of(self.tokens(), ref)
        answer = self._write("tokens", found.id, "revoke")
        return Reply(
            existing=answer.field("existing", bool),
            data={"id": answer.field("id", str), "revoked_at": answer.field("revoked_at", int)},
        )

    def set_pool(self, name: str, size: int) -> Reply:
        answer = self._write("pools", name, body={"size": size}, method="PUT")
        return Reply(existing=answer.field("existing", bool), data={"used": answer.field("used", int)})

    def drain(self, ref: str, deadline_ms: int, reason: str = "drained by request") -> tuple[NodeInfo, Reply]:
        body = {"deadline_ms": deadline_ms, "reason": reason}
        answer = self._write("nodes", _node_name(ref), "drain", body=body)
        reply = Reply(existing=answer.field("existing", bool), data={"drain_at": answer.field("drain_at", int)})
        return self.node(answer.field("session", str)), reply

    def prune(
        self, finished_before: int, states: list[str] | None = None, *, cache: bool = False
    ) -> Iterator[list[str]]:
        body = {"before": max(0, finished_before), "states": states, "cache": cache}
        more = True
        while more:
            answer = self._write("runs:prune", body=body)
            yield answer.field("runs", list[str])
            more = answer.field("more", bool)

    def expire_dead(self) -> None:
        """The leader sees to it: nobody here can tell whether a process elsewhere is gone."""

    def tidy(self, ref: str) -> None:
        self._write("runs", _run_name(ref), "tidy")

    def close(self) -> None:
        self._wire.close()


def _run_name(ref: str) -> str:
    if _RUN.fullmatch(ref) is None:
        raise NotFound(f"{ref!r} is no run id")
    return ref


def _node_name(ref: str) -> str:
    if not 1 <= len(ref) <= 64 or "/" in ref or not ref.isprintable():
        raise NotFound(f"there is no node {ref}")
    return ref


def _each(name: str, values: list[str] | None) -> list[tuple[str, Any]]:
    return [(name, value) for value in values or ()]


def _of_batch(item: dict[str, Any]) -> Reply | Refused:
    if item.get("run") is not None:
        return Reply(item["run"], existing=item.get("existing", False))
    return Refused(item["code"], item["detail"])


class AskedFor:
    """One stream of an attempt, a piece for a request."""

    def __init__(self, control: RemoteControl, run_id: str, task: str, attempt: int, stream: StreamName) -> None:
        self._control = control
        self._of = (run_id, task, attempt, stream)

    def read(self, offset: int, limit: int = CHUNK_MAX) -> Piece:
        part = self._control.read_output(*self._of, offset=offset, limit=limit)
        if part.data:
            return Piece(part.offset, part.data, "more")
        # Whether its node runs it or only still sends what it wrote makes no difference here: more may come.
        return Piece(part.offset, b"", "whole" if part.ended else "sending")

    def over(self) -> None:
        pass

    def close(self) -> None:
        pass
