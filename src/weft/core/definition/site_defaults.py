"""What settings say for definitions that do not."""

from typing import TYPE_CHECKING, Any, NamedTuple

from weft.core.definition.document import Document
from weft.core.definition.text_formats import format_duration

if TYPE_CHECKING:
    from weft.core.definition.container_types import Record


class SiteDefaults(NamedTuple):
    on_failure: str | None = None
    task_timeout_ms: int | None = None


NO_DEFAULTS = SiteDefaults()


def completed(document: Document, defaults: SiteDefaults) -> Document:
    """With the settings of a site where the document says nothing. They are part of what is stored, so that a run
    means the same wherever it goes on; its hash is the one of a document in which they are written."""
    from weft.core.definition.fields import DEFAULTS
    from weft.core.definition.read import WORKFLOW

    out = dict(document)
    policy = defaults.on_failure
    if policy is not None and not (policy == "continue" and document.get("mode") == "levels"):  # which cannot
        out.setdefault("on_failure", policy)
    if defaults.task_timeout_ms is not None:
        timeout = format_duration(defaults.task_timeout_ms)
        out["defaults"] = _in_order({"timeout": timeout, **document.get("defaults", {})}, DEFAULTS)
    return _in_order(out, WORKFLOW)


def _in_order(value: dict[str, Any], record: "Record") -> dict[str, Any]:
    """As reading would have made it: the order of the keys counts for the hash."""
    names = [field.target or field.name for field in record.fields]
    return {name: value[name] for name in dict.fromkeys(names) if name in value}
