"""Regular expressions that are compiled when they are first used: most commands use few of them."""

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, text: str, flags: int) -> None:
        self._source = (text, flags)

    def __getattr__(self, name: str) -> Any:
        """Called once for each method: the bound one is kept, and later calls cost what they cost on a pattern."""
        value = getattr(re.compile(*self._source), name)  # `re` keeps what it has compiled
        setattr(self, name, value)
        return value


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """For its methods and attributes; functions of `re` want a real pattern."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))
