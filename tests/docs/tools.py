"""docs/reference/mcp.md, made from the tools themselves."""

from typing import Any

from weft.mcp.server import TOOLS
from weft.mcp.tools import Tool, schema_of

_HEAD = """# Tools of MCP

<!-- Made by make docs from src/weft/mcp. -->

What `weft mcp` and `weft serve` offer to AI agents; [the guide](../guides/mcp.md) says how to set it up. A tool is
there for tokens of its role and above; `--read-only` leaves those of the role viewer. Clients are told what a tool
may do: *looks* is `readOnlyHint`, *changes* `destructiveHint`, *starts work* `openWorldHint` (commands may do
anything), *said twice, done once* `idempotentHint`.

"""


def tools_reference() -> str:
    lines = ["| tool | role | |", "| --- | --- | --- |"]
    lines += [f"| [{tool.name}](#{tool.name}) | {tool.role} | {_hints(tool)} |" for tool in TOOLS]
    return _HEAD + "\n".join(lines) + "\n\n" + "\n".join(_section(tool) for tool in TOOLS)


def _hints(tool: Tool) -> str:
    if tool.reads_only:
        return "looks"
    words = ["changes", *(["starts work"] if tool.open_world else [])]
    return ", ".join([*words, *(["said twice, done once"] if tool.idempotent else [])])


def _section(tool: Tool) -> str:
    schema = schema_of(tool.takes)
    parts = schema.get("$defs", {})
    lines = [f"## {tool.name}", "", tool.description, ""]
    if schema["properties"]:
        lines += ["| argument | | |", "| --- | --- | --- |"]
    for name, one in schema["properties"].items():
        about = one.get("description") or _resolved(one, parts).get("description", "")
        lines.append(f"| `{name}` | {_kind(one, parts, name in schema['required'])} | {about} |")
    gives = [f"`{name}`" for name in schema_of(tool.gives)["properties"]]
    return "\n".join([*lines, "", f"Gives {', '.join(gives)}.", ""])


def _resolved(one: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = parts.get(one.get("$ref", "").rpartition("/")[2], one)
    return found


def _kind(one: dict[str, Any], parts: dict[str, Any], required: bool) -> str:
    one = _resolved(one, parts)
    words = [" or ".join(_type(kind, parts) for kind in one.get("anyOf", [one]))]
    if "minimum" in one and one["minimum"] >= 0:
        words.append(f"{one['minimum']:,} to {one['maximum']:,}")
    default = one.get("default")
    if required:
        words.append("needed")
    elif default not in (None, {}, False):
        words.append(f"default `{default}`")
    return ", ".join(words)


def _type(one: dict[str, Any], parts: dict[str, Any]) -> str:
    one = _resolved(one, parts)
    if "enum" in one:
        return " or ".join(f"`{value}`" for value in one["enum"])
    if one.get("type") == "array":
        return "list of " + _type(one["items"], parts) if one.get("items") else "list"
    return str(one.get("type", "any value"))
