"""Definitions before anything is stored: what is wrong with one, its schema, its text, and what a run would do."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import NoArguments, Request, Resource
from weft.operations.examples import DEFINITION
from weft.operations.parameters import WholeHash
from weft.operations.resources.submissions import SUBMITTABLE

resource = Resource("workflows")

Definition = Annotated[
    Any, Meta(description="An object (or a list of commands) as JSON, or a text in YAML (`format`)")
]


class DefinitionSchema(msgspec.Struct, kw_only=True):
    json_schema: dict[str, Any]


@resource.operation("GET", "/v1/definitions/schema", role="viewer")
def get_definition_schema(access: StoreAccess, request: NoArguments) -> DefinitionSchema:
    """The JSON Schema of definitions, for editors: what `weft schema` prints."""
    from weft.core.definition.json_schema import definition_schema

    return DefinitionSchema(json_schema=definition_schema())


class CheckDefinitionRequest(Request):
    definition: Definition
    format: Literal["yaml", "json"] = "yaml"


class DefinitionMistake(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`line` and `column` count from 1, in characters; a definition that is no text has only a `path`."""

    message: str
    fix: str | None = None
    line: int | None = None
    column: int | None = None
    length: int = 1
    path: str | None = None


class CheckedDefinition(msgspec.Struct, kw_only=True):
    """`more` mistakes are left out of the list. What follows them is there where there are none."""

    valid: bool
    errors: list[DefinitionMistake]
    more: int
    name: str | None = None
    tasks: int = 0
    levels: int = 0
    inputs: dict[str, Any] = {}


@resource.operation("POST", "/v1/definitions:check", role="viewer", example={"definition": DEFINITION})
def check_definition(access: StoreAccess, request: CheckDefinitionRequest) -> CheckedDefinition:
    """Check a definition without storing or running anything: all mistakes at once, each with its place and fix."""
    from weft.authoring.errors import DefinitionErrors  # reads YAML, which looking at runs does not need
    from weft.authoring.load import load_text, load_value

    try:
        if isinstance(request.definition, str):
            loaded = load_text(request.definition, format=request.format)
        else:
            loaded = load_value(request.definition)
    except DefinitionErrors as wrong:
        errors = [
            DefinitionMistake(
                message=one.message, fix=one.fix, line=one.line, column=one.column, path=one.path,
                length=len((one.caret or "^").strip()),
            )
            for one in wrong.errors
        ]  # fmt: skip
        return CheckedDefinition(valid=False, errors=errors, more=wrong.more)
    workflow = loaded.workflow
    return CheckedDefinition(
        valid=True, errors=[], more=0, name=workflow.name, tasks=len(workflow.tasks),
        levels=max(workflow.levels, default=-1) + 1, inputs=loaded.document.get("inputs", {}),
    )  # fmt: skip


class DefinitionText(msgspec.Struct, kw_only=True):
    hash: str
    text: str


class ExportDocumentRequest(Request):
    hash: WholeHash


@resource.operation("GET", "/v1/documents/{hash}/yaml", role="viewer", errors=("not_found",))
def export_document(access: StoreAccess, request: ExportDocumentRequest) -> DefinitionText:
    """A stored definition as YAML that reads back to the same. Comments of its file are not kept."""
    from weft.authoring.yaml_export import yaml_of

    return DefinitionText(hash=request.hash, text=yaml_of(access.document(request.hash)))


class PlannedTask(msgspec.Struct, kw_only=True, omit_defaults=True):
    name: str
    level: int  # all tasks of level 0 could start at once, those of level 1 after some of level 0, and so on
    type: str
    needs: list[str] = []
    when: str = "all_success"
    condition: str | None = None
    mapped: bool = False  # becomes as many tasks as its array has elements, known when it starts
    replicas: int | None = None
    retries: int = 0
    timeout_ms: int | None = None
    allow_failure: bool = False
    pools: list[str] = []
    secrets: list[str] = []  # by name; never their values
    spec: str = ""  # what its executor gets, as JSON; templates are not resolved yet
    nodes: list[str] | None = None  # that could run it now; None: it needs none
    why: list[str] = []  # why no node could, one line a node


class Plan(msgspec.Struct, kw_only=True):
    """`problems` would hold up the run, or have it refused. `widest` is the largest number of tasks in one level."""

    name: str
    hash: str
    inputs: dict[str, Any]
    on_failure: str
    max_parallel: int | None
    total: int
    levels: int
    widest: int
    nodes: int  # alive now
    problems: list[str]
    tasks: list[PlannedTask]


class PlanRunRequest(Request):
    """Exactly one of `definition` and `workflow`."""

    definition: Definition = None
    format: Literal["yaml", "json"] = "yaml"
    workflow: Annotated[str, Meta(min_length=1, max_length=128, description="A workflow that is known")] | None = None
    version: (
        Annotated[str, Meta(pattern="^[0-9a-f]{4,64}$", description="Of the workflow; the newest if left out")] | None
    ) = None
    inputs: Annotated[dict[str, Any], Meta(description="Values of the inputs that the workflow declares")] = (
        msgspec.field(default_factory=dict)
    )
    after: Annotated[int, Meta(ge=0, le=10**9, description="Leave out so many tasks, in the order of levels")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many tasks")] = 200


plan_run = resource.handwritten(
    "plan_run", "POST", "/v1/runs:plan",
    """
    A dry run: what a run would do, without storing anything. Its tasks level by level, which of the nodes that are
    alive could run each, or why none could, and what would hold the run up.
    """,
    role="viewer", request=PlanRunRequest, reply=Plan, errors=("not_found", *SUBMITTABLE),
    example={"definition": DEFINITION, "inputs": {"day": "2026-01-01"}},
)  # fmt: skip
