"""How definitions differ: as lines of a unified diff, and what applying one would change. Nothing is stored."""

from typing import TYPE_CHECKING, Any

from weft.core.rules.apply import trigger_of
from weft.operations.on_demand import submissions
from weft.store.queries import TriggerView

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.operations.access import StoreAccess
    from weft.operations.resources.submissions import AppliedWorkflow


def document_diff(old: Any, new: Any, old_name: str, new_name: str) -> list[str]:
    """Each as the YAML that `weft export` prints."""
    import difflib

    return list(difflib.unified_diff(yaml_lines(old), yaml_lines(new), old_name, new_name, lineterm=""))


def yaml_lines(document: Any) -> list[str]:
    import yaml

    if not document:
        return []
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return text.splitlines()


def preview_of_apply(access: "StoreAccess", loaded: "Loaded") -> "AppliedWorkflow":
    name, workflow = loaded.name, loaded.workflow
    current = next((row[1] for row in access.read("applied_all") if row[0] == name), None)
    old = {} if current is None else access.document(current)
    rows = [TriggerView.of(values)[0] for values in access.read("triggers_all", name)]
    active = {definition.name: definition for definition in map(trigger_of, rows)}
    new = {one.name: one for one in workflow.triggers}
    return submissions.AppliedWorkflow(
        workflow=name, hash=loaded.hash, existing=current == loaded.hash, triggers=len(new),
        added=[one for one in new if one not in active],
        changed=[one for one in new if one in active and active[one] != new[one]],
        removed=[one for one in active if one not in new],
        lines=document_diff(old, loaded.document, "nothing" if current is None else current[:12], loaded.hash[:12]),
    )  # fmt: skip
