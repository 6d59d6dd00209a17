"""Workflows by name: their versions, and what changed between two of them."""

import difflib
from typing import TYPE_CHECKING, Any

from weft.control.records import NotFound, VersionDiff, VersionInfo, WorkflowInfo
from weft.core.definition.suggest import nearest

if TYPE_CHECKING:
    from weft.control.local import LocalControl
    from weft.control.protocol import Control

NAMES_SEARCHED = 1000


def names(control: "LocalControl", after: str, limit: int) -> list[WorkflowInfo]:
    return [
        WorkflowInfo(name=name, hash=hash, created_at=created, versions=versions)
        for name, hash, created, versions in control._read("workflows_page", after, limit)
    ]


def versions(control: "LocalControl", name: str, before: tuple[int, str] | None, limit: int) -> list[VersionInfo]:
    """Newest first; `before` is (created_at, hash) of the last one of the page before."""
    rows = control._read("workflow_versions", name, *(before or (None, "")), limit)
    if not rows and before is None:
        raise NotFound(_unknown(control, name))
    return [VersionInfo(name=name, hash=hash, created_at=created) for hash, created in rows]


def version(control: "LocalControl", name: str, hash: str | None) -> VersionInfo:
    """The newest, or the one with this hash or a unique beginning of it."""
    if hash is None:
        found = versions(control, name, None, 1)
    else:
        rows = control._read("workflow_versions_by_prefix", name, hash, hash + "~")
        found = [VersionInfo(name=name, hash=row[0], created_at=row[1]) for row in rows]
        if len(found) != 1:
            versions(control, name, None, 1)  # an unknown name says so
            what = "no version" if not found else "more than one version"
            raise NotFound(f"{name} has {what} {hash}")
    return VersionInfo(
        name=name, hash=found[0].hash, created_at=found[0].created_at, document=control.document(found[0].hash)
    )


def diff(control: "LocalControl", name: str, old: str, new: str) -> VersionDiff:
    before, after = version(control, name, old), version(control, name, new)
    lines = difflib.unified_diff(
        _lines(before.document), _lines(after.document), before.hash[:12], after.hash[:12], lineterm=""
    )
    return VersionDiff(name=name, old=before.hash, new=after.hash, lines=list(lines))


def last_change(control: "Control", name: str, old: str | None = None, new: str | None = None) -> tuple[str, str]:
    """What to compare where not both are named: the current (or newest) version with the one before it."""
    if old is not None and new is not None:
        return old, new
    known = [one.hash for one in control.versions(name, limit=1000)]
    if new is None:
        new = control.applied().get(name, known[0])
    at = next((at for at, hash in enumerate(known) if hash.startswith(new)), None)
    older = [] if at is None else known[at + 1 :]
    if old is None and not older:
        raise NotFound(f"{name} has no version before {new[:12]}")
    return old or older[0], new


def _lines(document: Any) -> list[str]:
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return text.splitlines()


def _unknown(control: "LocalControl", name: str) -> str:
    meant = nearest(name, [known.name for known in names(control, "", NAMES_SEARCHED)])
    return f"there is no workflow {name}" + (f"; did you mean {meant!r}?" if meant else "")
