"""What settings say for definitions that do not. `definition.completed` puts it into a document."""

from typing import NamedTuple


class SiteDefaults(NamedTuple):
    on_failure: str | None = None
    task_timeout_ms: int | None = None


NO_DEFAULTS = SiteDefaults()
