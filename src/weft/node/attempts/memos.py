"""Records that outlive attempts, as a node uses them: results to take instead of running, effects to have once.

A result is looked for when its task has been claimed, all of a batch together; what is found is reported as a
success without a slot or a process. What a running function asks for `weft.once` goes to the store one by one, and is
answered after COMMIT.
"""

import asyncio
import hashlib
from typing import Any, NamedTuple

from weft.core.commands import Claim, Once
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.memo_keys import content_key, named_key
from weft.core.rows import MemoRow
from weft.core.workflow import Workflow
from weft.executors.protocol import OnceAnswer, OnceQuestion
from weft.executors.python_functions.source import FunctionSources
from weft.node.attempts.env_files import EnvFileError
from weft.node.attempts.launch import OWN_VARIABLES, make_launch
from weft.node.attempts.secrets import MissingSecret
from weft.node.attempts.worker import Worker
from weft.node.lease import LeaseKeeper
from weft.node.ports import LinkLost, NodeSettings, Ports, RunFacts

RETRY_S = 0.1


class Attempting(NamedTuple):
    """A claim whose task has `cache`, and what its templates see."""

    claim: Claim
    facts: RunFacts
    workflow: Workflow
    names: dict[str, Any] | None


class ResultKeeper:
    def __init__(self, ports: Ports, settings: NodeSettings, session: str, lease: LeaseKeeper) -> None:
        self._ports = ports
        self._settings = settings
        self._session = session
        self._lease = lease
        self._sources = FunctionSources()

    # -- cache -------------------------------------------------------------------------------------------

    async def take(self, wanted: list[Attempting], worker: Worker) -> None:
        """Hand all of them to the worker: with a result, with a key to keep one under, or with neither."""
        keyed: list[tuple[Attempting, str | None]] = []
        for one in wanted:
            try:
                keyed.append((one, self._key(one)))
            except ExpressionError as error:
                worker.refuse(one.claim, error.message)
            except (MissingSecret, EnvFileError) as error:
                worker.refuse(one.claim, str(error))
        found = await self._look([key for one, key in keyed if key is not None and not one.facts.fresh])
        for one, key in keyed:
            memo = found.get(key) if key is not None and not one.facts.fresh else None
            if memo is not None:
                worker.take_cached(one.claim, memo)
            else:
                worker.take(one.claim, one.facts, one.workflow, one.names, key)

    def _key(self, one: Attempting) -> str | None:
        claim, workflow = one.claim, one.workflow
        definition = workflow.tasks[claim.pos]
        assert definition.cache is not None
        if definition.cache.key is not None:
            key = definition.cache.key
            value = resolve_value(key, one.names) if one.names is not None else key
            return named_key(workflow.name, definition.name, value)
        launch = make_launch(claim, one.facts, workflow, self._settings, one.names, self._ports.secrets)
        source = None
        if "function" in launch.spec:
            own = "interpreter" not in launch.spec  # another one has packages of its own
            source = self._sources.of(launch.spec["function"], launch.cwd or self._settings.workdir, installed=own)
            if source is None:
                function = launch.spec["function"]
                self._ports.log("not cached: its source was not found; give it a cache key", {"function": function})
                return None
        env = {name: value for name, value in launch.env.items() if name not in OWN_VARIABLES}
        spec = launch.spec
        if launch.kind == "http" and launch.secrets:
            from weft.executors.http_call.secret_references import unmarked  # most runs have no such task

            spec = unmarked(spec)
        return content_key(definition.kind, spec, env, launch.cwd, claim.idx, source)

    async def _look(self, keys: list[str]) -> dict[str, MemoRow]:
        while keys:
            try:
                return {memo.key: memo for memo in await self._ports.link.cached(list(dict.fromkeys(keys)))}
            except LinkLost:
                await asyncio.sleep(RETRY_S)
        return {}

    # -- once --------------------------------------------------------------------------------------------

    async def ask(self, task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
        """Said again until it is answered: the same attempt may begin or end the same thing twice. Past the lease's
        trust the attempt may be somebody else's, and gets no leave any more."""
        value = question.value
        hash = None if value is None else hashlib.sha256(value.encode()).hexdigest()[:32]
        command = Once(
            self._session, task_id, attempt, question.key, question.ending, value, hash, question.take_over
        )
        while self._lease.trusted:
            try:
                reply = await self._ports.link.once(command)
            except LinkLost as error:
                self._lease.outage.goes_on(error)
                await asyncio.sleep(RETRY_S)
                continue
            return OnceAnswer(reply.status, reply.value)
        return OnceAnswer("stale", "its node's lease has passed")
