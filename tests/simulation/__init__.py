import sys
from typing import Any

_genuine = sys.unraisablehook


def _quiet(unraisable: Any) -> None:
    """A crashed node's coroutines are dropped in the middle of an await: they cannot end properly."""
    if "coroutine object" not in repr(unraisable.object):
        _genuine(unraisable)


sys.unraisablehook = _quiet
