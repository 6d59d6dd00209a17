"""Defaults from the settings, for definitions that set no value of their own."""

from typing import TYPE_CHECKING, Any, NamedTuple

from weft.core.definition.field_types.text_formats import format_duration

if TYPE_CHECKING:
    from weft.core.definition.document import Document
    from weft.core.definition.field_types.collections import Record


class SiteDefaults(NamedTuple):
    on_failure: str | None = None
    task_timeout_ms: int | None = None


NO_DEFAULTS = SiteDefaults()


def with_site_defaults(document: "Document", defaults: SiteDefaults) -> "Document":
    """The document with the settings of a site where it has no value of its own. They are stored with it, so that a
    run means the same on every node; its hash is that of a document in which the author wrote them."""
    from weft.core.definition.fields import DEFAULTS
    from weft.core.definition.read import WORKFLOW

    out = dict(document)
    policy = defaults.on_failure
    if policy is not None and not (
        policy == "continue" and document.get("mode") == "levels"
    ):  # which cannot continue
        out.setdefault("on_failure", policy)
    if defaults.task_timeout_ms is not None:
        timeout = format_duration(defaults.task_timeout_ms)
        out["defaults"] = _in_order({"timeout": timeout, **document.get("defaults", {})}, DEFAULTS)
    return _in_order(out, WORKFLOW)


def _in_order(value: dict[str, Any], record: "Record") -> dict[str, Any]:
    """Keys in the order that `read` gives them: the hash depends on it."""
    names = [field.target or field.name for field in record.fields]
    return {name: value[name] for name in dict.fromkeys(names) if name in value}
