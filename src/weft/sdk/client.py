"""weft.Client: a client of a Weft server."""

import json
import logging
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import config as settings
from weft.client.owner_token import token_for
from weft.client.remote import ServerConnection
from weft.operations.replies import RunInfo
from weft.operations.submission import submission
from weft.sdk.flows import Flow
from weft.sdk.runs import ConnectionOwner, load_for_run, output_of

if TYPE_CHECKING:
    from weft.authoring.load import Loaded

WAIT_MAX_S = 10.0  # while the server sends the end of the run


class Client(ConnectionOwner[ServerConnection]):
    """A client of a Weft server.

        with weft.Client("http://127.0.0.1:8700", token="…") as client:
            total = client.run(nightly, {"day": "2026-01-01"})  # on the server, durably
            run_id = client.start("deploy.yaml", key="deploy-7")  # one run per key

    Without a `token` it sends that of WEFT_TOKEN, or, to a server on this machine, that of the owner
    (`.weft/token`). Close it, or use it in a `with` statement; threads may share it."""

    _if_closed = "this client is closed: create another, or use it inside the `with` statement"

    def __init__(self, url: str, *, token: str | None = None) -> None:
        directory = Path.cwd()
        config = settings.load(os.environ, directory)
        self._defaults = config.definition_defaults
        token = token_for(url, config, directory) if token is None else token
        super().__init__(ServerConnection(url, token))

    def start(
        self,
        definition: "Flow[Any, Any] | str | Path | Loaded",
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        max_parallel: int | None = None,
        labels: Mapping[str, str] | None = None,
        source: str | Path | None = None,
        fresh: bool = False,
    ) -> str:
        """Submit a run of a flow or of a definition file, and return its id.

        `key` is an idempotency key: one run per key, however often it is submitted. `source` is the directory on the
        server's nodes where its tasks start, by default that of the file. `fresh`: tasks with `cache` run even if
        there is a kept result, and replace it.
        """
        loaded, values = load_for_run(definition, inputs or {}, self._defaults)
        if source is None:
            source = Path.cwd() if loaded.source_path is None else loaded.source_path.parent
        command = submission(
            loaded, json.dumps(values), source=str(source), priority=priority, max_parallel=max_parallel, key=key,
            labels=labels, fresh=fresh,
        )  # fmt: skip
        reply = self.connection.submit(command)
        assert reply.run_id is not None
        for warning in reply.data["warnings"]:
            logging.getLogger("weft").warning("run %s: %s", reply.run_id, warning)
        return reply.run_id

    def run(self, definition: "Flow[Any, Any] | str | Path | Loaded", *arguments: Any, **options: Any) -> Any:
        """Submit a run as `start` does, wait for it, and return its output: JSON, or, of a flow, the type of its
        return annotation. Raises RunFailed."""
        run_id = self.start(definition, *arguments, **options)
        self.wait(run_id)
        return output_of(self.connection, run_id, definition if isinstance(definition, Flow) else None)

    def wait(self, run_id: str, timeout_s: float | None = None) -> RunInfo:
        """Wait until the run ends. Raises TimeoutError after `timeout_s` seconds."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        if (run := self.connection.run(run_id)).finished:
            return run
        follower = self.connection.follow(run.id, after=self.connection.last_event(), kinds=["run_finished"])
        try:
            while not (run := self.connection.run(run.id)).finished:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {run.id} is {run.state} after {timeout_s:g} s")
                follower.wait(min(WAIT_MAX_S, left))
            return run
        finally:
            follower.close()
