"""`workflow: …` of a task: the name of a stored workflow, a file, or a flow in Python.

A file begins with ./, ../ or / or ends with .yaml, .yml or .json; a flow has a colon: `module:flow`, `file.py:flow`.
Anything else is the name of a workflow that has been stored before.
"""

import re
from typing import Any, Final, Literal

import msgspec

from weft.core.definition.field_types.scalars import Text
from weft.core.definition.problems import ProblemCollector, mismatch, quoted
from weft.core.workflow import Workflow

#: How deep workflows may run each other. No definition that people still understand is deeper.
DEPTH_MAX: Final = 32
#: The other keys that such a task may have: it runs on no node itself, the tasks of its child run do.
CHILD_TASK_KEYS: Final = (
    "description", "with", "map", "matrix", "label", "batch", "tolerate", "replicas", "max_parallel", "needs", "when",
    "if", "condition", "timeout", "retry", "priority", "allow_failure", "deadline", "long_form",
)  # fmt: skip

_FLOW: Final = re.compile(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*|.+\.py):[A-Za-z_]\w*", re.ASCII)
_FILE: Final = re.compile(r"\.{0,2}/.*|.*\.(yaml|yml|json)", re.ASCII | re.IGNORECASE | re.DOTALL)
_LENGTH_MAX: Final = 1024


def kind_of(reference: str) -> Literal["name", "file", "flow"]:
    if _FLOW.fullmatch(reference):
        return "flow"
    return "file" if _FILE.fullmatch(reference) else "name"


class WorkflowReference(msgspec.Struct, frozen=True):
    """The text of the reference. Whether the workflow exists is checked where files or the store can be read."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, dict):
            return mismatch(
                collector, "a workflow's name or file", value, "put its tasks into a file, and name that file"
            )
        text = Text("a workflow's name or file").read(collector, value)
        if isinstance(text, str) and (len(text) > _LENGTH_MAX or text != text.strip() or not text.isprintable()):
            return collector.problem(
                f"expected a workflow's name or file, found the text {quoted(text)}", "write it on one line"
            )
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": _LENGTH_MAX}


def references_of(workflow: Workflow) -> list[str]:
    """The workflows that its tasks run, each once, in the order of the document."""
    return list(dict.fromkeys(t.spec["workflow"] for t in workflow.tasks if t.kind == "workflow"))
