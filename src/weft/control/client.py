"""A server, from Python:

    with weft.Client("http://127.0.0.1:8700", token="…") as client:
        total = client.run(nightly, {"day": "2026-01-01"})   # there, durably; the result, or RunFailed
        run_id = client.start("deploy.yaml", key="deploy-7")  # one run per key
        client.wait(run_id)

`client.control` has all other verbs: the same as of a store within reach.
"""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.control.embedded import RunFailed, checked_inputs, failures_of, loaded_from
from weft.control.records import RunInfo
from weft.control.remote import RemoteControl
from weft.control.submission import submission

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.authoring.sdk_flows import TracedFlow

TOLD_MAX_S = 10.0  # the server says when it has ended
LOOK_S = 0.02  # while it cannot
LOOK_MAX_S = 0.5
SLOWER = 1.2


class Client:
    """`token` is the one in WEFT_TOKEN if none is given. Close it, or use it in a `with`; threads may share it."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.control = RemoteControl(url, token or os.environ.get("WEFT_TOKEN") or None)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.control.close()

    def start(
        self,
        definition: "TracedFlow[Any, Any] | str | Path | Loaded",
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        max_parallel: int | None = None,
        labels: Mapping[str, str] | None = None,
        source: str | Path | None = None,
        fresh: bool = False,
    ) -> str:
        """Hand over a run of a flow or of a definition's file; its id. `source` is the directory on the server's
        nodes where its tasks start: that of the file, if none is given."""
        loaded = loaded_from(definition)
        if source is None:
            source = Path.cwd() if loaded.source_path is None else loaded.source_path.parent
        command = submission(
            loaded, checked_inputs(loaded.workflow, dict(inputs or {})), source=str(source), priority=priority,
            max_parallel=max_parallel, key=key, labels=labels, fresh=fresh,
        )  # fmt: skip
        reply = self.control.submit(command)
        assert reply.run_id is not None
        return reply.run_id

    def run(self, definition: "TracedFlow[Any, Any] | str | Path | Loaded", *given: Any, **more: Any) -> Any:
        """Hand over a run as `start` does, and wait: its output, or RunFailed."""
        run_id = self.start(definition, *given, **more)
        self.wait(run_id)
        return self.output(run_id)

    def wait(self, run_id: str, timeout_s: float | None = None) -> RunInfo:
        """Until the run has ended; TimeoutError if that takes longer."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        if (found := self.control.run(run_id)).finished:
            return found
        pause = LOOK_S
        followed = self.control.follow(found.id, after=self.control.last_event(), kinds=["run_finished"])
        try:
            while not (found := self.control.run(found.id)).finished:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {found.id} is {found.state} after {timeout_s:g} s")
                followed.wait(min(pause, left), min(TOLD_MAX_S, left))
                pause = min(LOOK_MAX_S, pause * SLOWER)
            return found
        finally:
            followed.close()

    def output(self, run_id: str) -> Any:
        """The output of a run that has ended; RunFailed if it did not succeed."""
        from weft.core.commands import Refused

        run = self.control.run(run_id)
        if run.state != "succeeded":
            raise RunFailed(run.id, run.name, run.state, run.reason, failures_of(self.control, run.id))
        try:
            return self.control.output(run.id, artifacts_max=2**62)
        except Refused as refused:
            raise RunFailed(run.id, run.name, run.state, f"it has no output: {refused}", []) from None
