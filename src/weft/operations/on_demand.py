"""The modules of `resources` for callers that need few of their operations, such as a command: each is imported when
something of it is first used. All of them take 8 ms."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.operations.resources import backfills as backfills
    from weft.operations.resources import bulk as bulk
    from weft.operations.resources import events as events
    from weft.operations.resources import history as history
    from weft.operations.resources import nodes as nodes
    from weft.operations.resources import notifications as notifications
    from weft.operations.resources import repair as repair
    from weft.operations.resources import run_changes as run_changes
    from weft.operations.resources import runs as runs
    from weft.operations.resources import store as store
    from weft.operations.resources import submissions as submissions
    from weft.operations.resources import tasks as tasks
    from weft.operations.resources import tokens as tokens
    from weft.operations.resources import triggers as triggers
    from weft.operations.resources import workflows as workflows
else:

    class _Module:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    def __getattr__(name: str) -> _Module:
        return _Module(f"{__package__}.resources.{name}")
