"""What clients can read besides calling tools: the definition language as resources, and prompts for common work.

Resources say nothing about the store, so they are the same for every caller."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from weft.core.definition.json_schema import definition_schema
from weft.core.definition.suggest import nearest
from weft.mcp.definition_language import TABLES, table

ROOT: Final = "weft://definitions"
SCHEMA: Final = f"{ROOT}/schema"
MARKDOWN, JSON_SCHEMA = "text/markdown", "application/schema+json"
VALUE_MAX: Final = 2000  # characters of a prompt's argument
PRIMER: Final = """# Weft definitions

A workflow is YAML or JSON: tasks by name, which run in parallel as soon as what they need has ended.

```yaml
name: nightly
inputs: {day: {type: string, format: date}}
defaults: {timeout: 10m, retry: {max: 2, backoff: 1s}}
output: ${{ tasks.count.output }}
tasks:
  fetch: curl -fsS -o data.csv "https://example.org/"${{ inputs.day }}.csv
  count:
    needs: [fetch]
    run: printf '{"lines":%d}' "$(wc -l < data.csv)" > "$WEFT_OUTPUT"
  approve:
    needs: [count]
    wait: {signal: approve, timeout: 24h}
  load:
    needs: [approve]
    if: tasks.count.output.lines > 0
    run: ./load.sh data.csv
  alarm:
    when: on_failure
    run: echo "nightly failed"
```

Over what an earlier task found, one element each:

```yaml
tasks:
  list: ls *.csv | jq -Rnc '[inputs]' > "$WEFT_OUTPUT"
  convert:
    needs: [list]
    map: ${{ tasks.list.output }}
    max_parallel: 4
    run: ./convert.sh ${{ item }}
```

- The smallest workflow is a list of commands, each of which waits for the one before it.
- A task does exactly one thing: `run` (a shell command), `argv`, `python` (`module:function`), `http`, `agent`,
  `wait`, `workflow` (another one, by name), `type` (a plugin). `container` and `kubernetes` say where a command runs.
- A command leaves its output as JSON in the file `$WEFT_OUTPUT`; others read it as `${{ tasks.NAME.output }}`.
- `${{ … }}` holds JavaScript's expressions on JSON values, over `inputs`, `tasks`, `context`, `item`, `index`, `run`.
  `if` is such an expression without the braces. In `run` a value travels in the environment: it needs no quotes and
  cannot become shell syntax.
- `needs` orders tasks; a task that another one's expression names is needed, too.
- Durations are written `10m`, `1h30m`; sizes `512MB`, `1GiB`.
- validate_workflow reports all mistakes of a definition at once, each with its place and fix.
"""


def _language() -> str:
    inner = ", ".join(f"`{_uri(name)}`" for name in TABLES if name not in ("workflow", "task"))
    return "\n\n".join(
        [
            PRIMER.rstrip(), "## Keys of a workflow", table(TABLES["workflow"]), "## Keys of a task",
            table(TABLES["task"]),
            f"A mapping of its own has a resource: {inner}. `{SCHEMA}` is the JSON Schema of all of it.",
        ]
    )  # fmt: skip


def _uri(name: str) -> str:
    return f"{ROOT}/{name.replace(' ', '-')}"


def _keys(name: str) -> Callable[[], str]:
    return lambda: f"# Keys of {name}\n\n{table(TABLES[name])}\n"


class Document(NamedTuple):
    uri: str
    name: str
    description: str
    mime_type: str
    text: Callable[[], str]


DOCUMENTS: Final = (
    Document(ROOT, "definitions", "How workflows are written: examples, and all keys of workflows and tasks",
        MARKDOWN, _language),
    Document(SCHEMA, "definitions-schema", "The JSON Schema of definitions, about 210 KB", JSON_SCHEMA,
        lambda: msgspec.json.encode(definition_schema()).decode()),
)  # fmt: skip
SECTIONS: Final = tuple(
    Document(_uri(name), f"definitions-{name.replace(' ', '-')}", f"The keys of {name}", MARKDOWN, _keys(name))
    for name in TABLES
)
BY_URI: Final = {one.uri: one for one in (*DOCUMENTS, *SECTIONS)}


async def list_resources(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    """Two, and not thirty: the first names the others."""
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type=one.mime_type)
            for one in DOCUMENTS
        ]
    )


async def list_templates(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    names = ", ".join(one.uri.removeprefix(f"{ROOT}/") for one in SECTIONS)
    template = types.ResourceTemplate(
        uri_template=f"{ROOT}/{{record}}", name="definitions-record", mime_type=MARKDOWN,
        description=f"The keys of one mapping: {names}",
    )  # fmt: skip
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    found = BY_URI.get(uri.rstrip("/"))
    if found is None:
        meant = nearest(uri, list(BY_URI))
        fix = f"; did you mean {meant}?" if meant else f"; {ROOT} names all of them"
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri[:100]!r}{fix}")
    content = types.TextResourceContents(uri=uri, mime_type=found.mime_type, text=found.text())
    return types.ReadResourceResult(contents=[content])


class GuidedTask(NamedTuple):
    """A prompt: `text` with its arguments in braces."""

    name: str
    description: str
    arguments: dict[str, str]
    text: str


PROMPTS: Final = (
    GuidedTask(
        "write_workflow", "Write a workflow for a goal, check it, and start it once it was agreed to",
        {"goal": "What it shall do"},
        """Write a Weft workflow for this goal: {goal}

1. Read the resource weft://definitions (how definitions are written, with examples).
2. Write it as YAML. Give tasks that may fail for a moment `retry`, and all of them a `timeout`. What cannot be undone
   comes after a `wait: {{signal: approve}}`.
3. Call validate_workflow until it is valid, then preview, and look at `problems`.
4. Show the definition and what it would do, and ask before you go on.
5. Call submit_workflow with a `key`, then get_workflow_status with wait_s until it has ended.""",
    ),
    GuidedTask(
        "repair_run", "Find out why a run failed, and go on with what is left of it",
        {"run": "The run's id, or last"},
        """The Weft run {run} did not end well. Repair it.

1. get_workflow_status names the tasks that failed; get_task_result shows what each printed and its error, and
   get_task_launch what it was given.
2. If something outside was the cause (a service, a disk), say so; once it is put right, resume_run goes on with
   what did not succeed.
3. If the definition was the cause, write a corrected one (weft://definitions) and call correct_run with
   preview: true. Show what would run again, ask, then call it without preview. Tasks that did not change keep
   their results.
4. If a task's work was done by hand, mark_tasks or skip_tasks lets the others go on. Ask first.
5. Wait for the end with get_workflow_status, and report what was wrong and what you did.""",
    ),
    GuidedTask(
        "explain_run", "Find out why a run waits, is slow or ended as it did, without changing anything",
        {"run": "The run's id, or last"},
        """Explain what happens in the Weft run {run}. Change nothing.

1. get_workflow_status: its state, what is under way, which signals it waits for.
2. explain_task says why each task is where it is; list_nodes shows who could run it.
3. list_events has what happened, in order; get_critical_path says what made it long.
4. If an earlier run of the same workflow did better (list_runs), diff_runs shows what differs.
5. Answer in a few sentences: what it waits for or why it failed, since when, and what would help.""",
    ),
    GuidedTask(
        "schedule_workflow", "Apply a workflow with a schedule, and check when it fires next",
        {"goal": "What shall run, and when"},
        """Set up this schedule in Weft: {goal}

1. Read weft://definitions and weft://definitions/trigger. A trigger looks like this:
   triggers: [{{cron: "0 3 * * *", timezone: Europe/Berlin, catch_up: last, overlap: skip}}]
2. Write the definition, call validate_workflow, and show it.
3. Once that is agreed to: apply_workflow (an admin's tool), then list_triggers to see when it fires next.
4. fire_trigger tries it now.""",
    ),
)  # fmt: skip
BY_NAME: Final = {one.name: one for one in PROMPTS}


async def list_prompts(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=one.name, description=one.description,
                arguments=[
                    types.PromptArgument(name=name, description=about, required=True)
                    for name, about in one.arguments.items()
                ],
            )
            for one in PROMPTS
        ]
    )  # fmt: skip


async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    found = BY_NAME.get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:64]!r}: {', '.join(BY_NAME)}")
    given = params.arguments or {}
    if sorted(given) != sorted(found.arguments):
        raise MCPError(types.INVALID_PARAMS, f"{found.name} takes {', '.join(found.arguments)}")
    values = {name: re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", " ", text)[:VALUE_MAX] for name, text in given.items()}
    content = types.TextContent(type="text", text=found.text.format(**values))
    return types.GetPromptResult(
        description=found.description, messages=[types.PromptMessage(role="user", content=content)]
    )
