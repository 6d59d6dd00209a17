"""Definitions in requests, loaded; and the commands that start their runs."""

import re
import threading
import time
from collections import OrderedDict
from typing import Any

import msgspec

from weft.authoring.children import workflows_of
from weft.authoring.load import Loaded, load_text, load_value, with_defaults
from weft.client.child_definitions import with_children
from weft.client.local import StoreConnection
from weft.client.plan import live_nodes
from weft.client.verbs import Connection
from weft.core.commands import Submit
from weft.core.definition.document import encode_document
from weft.core.definition.inputs import resolve_inputs
from weft.core.definition.site_defaults import NO_DEFAULTS, SiteDefaults
from weft.core.placement.eligibility import NodeFacts
from weft.core.workflow import Workflow
from weft.operations.errors import ApiError, bad_inputs
from weft.operations.ids import id_from
from weft.operations.reading.placement import facts_of, waits_for_nodes
from weft.operations.replies import VersionInfo
from weft.operations.resources.submissions import ApplyWorkflowRequest, ChildDefinition, RunRequest
from weft.operations.submission import submission

NODES_FOR_S = 1.0  # what nodes there are is asked for once a second, not once a run
KNOWN_MAX = 200  # definitions kept loaded
KNOWN_BYTES_MAX = 256 * 1024  # a larger one is loaded each time
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_TASK_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class DefinitionLoader:
    """Keeps definitions that come again and again, and which nodes are alive, for a moment each."""

    def __init__(self, connection: Connection, source: str, defaults: SiteDefaults = NO_DEFAULTS) -> None:
        self._connection = connection
        #: Of this process: it shares the workflows that it has compiled.
        self._committer = connection.link.committer if isinstance(connection, StoreConnection) else None
        self._source = source
        self._defaults = defaults  # for definitions that do not state them; stored ones are as they are
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Loaded] = OrderedDict()
        self._nodes: list[NodeFacts] = []
        self._nodes_until = 0.0
        self._waits: dict[str, list[str]] = {}

    def command(
        self, body: RunRequest, key: str | None = None, command_id: str | None = None
    ) -> tuple[Submit, list[str]]:
        """(the command, warnings), with all that is wrong as ApiError or DefinitionErrors. Under a command id the
        run's id follows from it, so that the same request makes the same command."""
        if key is not None and body.key is not None and key != body.key:
            raise ApiError("conflict", "the header Idempotency-Key and `key` differ", "set one of them")
        loaded = self.loaded(body)
        if body.children:
            loaded = with_children(loaded, body.calls, body.children, self._child)
        workflow = loaded.workflow
        values, problems = resolve_inputs(workflow.inputs, body.inputs)
        if problems:
            raise bad_inputs(problems)
        if body.max_parallel == 0 and workflow.level_plan is None:
            raise ApiError("body", "max_parallel must be at least 1")
        warnings: dict[str, None] = {}
        for one in workflows_of(loaded) if body.children else (workflow,):
            if self._committer is not None:
                self._committer.know(one)
            warnings |= dict.fromkeys(self._waits_for_nodes(one))
        command = submission(
            loaded, msgspec.json.encode(values).decode(), source=body.source or self._source,
            run_id=None if command_id is None else id_from(command_id), priority=body.priority,
            max_parallel=body.max_parallel, key=key or body.key, labels=body.labels, fresh=body.fresh,
            manual_advance=body.manual_advance,
        )  # fmt: skip
        return command, list(warnings)

    def applied(self, body: ApplyWorkflowRequest) -> tuple[Loaded, str]:
        """(the definition, where its tasks start)."""
        loaded = self._load(RunRequest(definition=body.definition, format=body.format, name=body.name[:64]))
        return loaded, body.source or self._source

    def loaded(self, body: RunRequest) -> Loaded:
        named = [name for name in ("definition", "workflow", "task") if getattr(body, name) is not None]
        if len(named) != 1:
            found = "none of them" if not named else " and ".join(named)
            raise ApiError("body", f"expected one of definition, workflow and task, found {found}")
        if body.version is not None and body.workflow is None:
            raise ApiError("body", "a version is of a workflow", "give its name in `workflow`")
        if body.workflow is not None:
            version = self._connection.version(body.workflow, body.version)
            return self._kept(version.hash.encode(), lambda: self._stored(version))
        what = [body.format, body.name, body.definition, body.task]
        return self._kept(msgspec.json.encode(what), lambda: self._load(body))

    def _load(self, body: RunRequest) -> Loaded:
        loaded = with_defaults(_load(body), self._defaults)
        return msgspec.structs.replace(loaded, compiled=self._compiled(loaded.hash))

    def _stored(self, version: VersionInfo) -> Loaded:
        """What is stored was checked before."""
        assert version.document is not None
        encoded = encode_document(version.document)
        return Loaded(version.document, encoded, version.hash, compiled=self._compiled(version.hash))

    def _compiled(self, hash: str) -> Workflow | None:
        return None if self._committer is None else self._committer.workflows.get(hash)

    def _child(self, body: ChildDefinition) -> Loaded:
        return self.loaded(RunRequest(definition=body.definition, format=body.format, name=body.name))

    def _kept(self, key: bytes, load: Any) -> Loaded:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        loaded: Loaded = load()
        if len(key) <= KNOWN_BYTES_MAX:
            with self._lock:
                self._known[key] = loaded
                while len(self._known) > KNOWN_MAX:
                    self._known.popitem(last=False)
        return loaded

    def _waits_for_nodes(self, workflow: Workflow) -> list[str]:
        now = time.monotonic()
        if now >= self._nodes_until:
            nodes = live_nodes(self._connection)
            with self._lock:
                self._nodes = [facts_of(node) for node in nodes]
                self._waits = {}
                self._nodes_until = now + NODES_FOR_S
        known = self._waits
        if workflow.hash not in known:
            known[workflow.hash] = waits_for_nodes((workflow,), self._nodes)
        return known[workflow.hash]


def _load(body: RunRequest) -> Loaded:
    if body.task is not None:
        name = body.name or "task"
        if _TASK_NAME.fullmatch(name) is None:
            raise ApiError("body", f"{name!r} is not a task's name", "letters, digits, _ and -, no digit first")
        return load_value({"name": name, "tasks": {name: body.task}}, name)
    name = body.name or "workflow"
    if _NAME.fullmatch(name) is None:
        raise ApiError("body", f"{name!r} is not a workflow's name", "letters, digits, _, . and -")
    if isinstance(body.definition, str):
        return load_text(body.definition, name, body.format, file="definition")
    return load_value(body.definition, name)
