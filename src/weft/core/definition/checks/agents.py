"""Checks of `agent` that depend on more than one of its keys, and of its JSON Schema as far as it can be judged
without a library for that."""

import re
from collections.abc import Iterator
from typing import Any, Final

from weft.core.definition.problems import Path, ProblemCollector
from weft.core.definition.suggest import nearest

#: What `{…}` in an agent's command stands for. Other words in braces are the program's own.
PLACEHOLDERS: Final = (
    "prompt", "model", "system", "session", "tools", "max_turns", "max_budget_usd", "mcp_config",
)  # fmt: skip
_NEEDED: Final = ("model", "system", "max_turns", "tools")
_IN_BRACES: Final = re.compile(r"\{([A-Za-z_]+)\}")
_OF_API: Final = ("url", "max_tokens")
#: Keywords of JSON Schema whose value is a schema, a list of them, or a mapping of names to them.
_SCHEMA: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED_SCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


def check_agent(collector: ProblemCollector, agent: dict[str, Any]) -> None:
    path = (*collector.path, "agent")
    _check_program(collector, agent, path)
    _check_servers(collector, agent, path)
    _check_budget(collector, agent, path)
    if "output_schema" in agent:
        for at, message, fix in schema_problems(agent["output_schema"], (*path, "output_schema")):
            collector.problem_at(at, message, fix)


def _check_program(collector: ProblemCollector, agent: dict[str, Any], path: Path) -> None:
    if "api" in agent:
        if "command" in agent:
            message = "with `api` no program runs, so it has no command"
            collector.problem_at((*path, "command"), message, "keep one of them", "key")
        if "model" not in agent:
            collector.problem_at(path, "`api` needs a model", "add model: …", "key")
        if "key" not in agent and "url" not in agent:
            message = "the API needs a key, which is a secret of the task"
            collector.problem_at((*path, "api"), message, "add key: ANTHROPIC_API_KEY", "key")
    for key in _OF_API:
        if key in agent and "api" not in agent:
            collector.problem_at((*path, key), f"`{key}` is about an `api`", "remove it", "key")
    if "format" in agent and "command" not in agent:
        collector.problem_at((*path, "format"), "`format` is about a `command`", "remove it", "key")
    for at, argument in enumerate(agent.get("command", ())):
        for name in _IN_BRACES.findall(argument):
            if name in _NEEDED and name not in agent:
                message = f"`command` names {{{name}}}, which the task does not have"
                collector.problem_at((*path, "command", at), message, f"add {name}: …, or remove it")
            elif name not in PLACEHOLDERS and (meant := nearest(name, PLACEHOLDERS)):
                message = f"`command` names {{{name}}}, which stands for nothing"
                collector.problem_at((*path, "command", at), message, f"did you mean {{{meant}}}?")


def _check_servers(collector: ProblemCollector, agent: dict[str, Any], path: Path) -> None:
    servers = agent.get("mcp", {})
    for name, server in servers.items():
        at = (*path, "mcp", name)
        if ("command" in server) == ("url" in server):
            collector.problem_at(at, "an MCP server has a command or a url", "keep one of them", "key")
        elif "token" in server and "url" not in server:
            fix = "list the secret in `secrets`: the server's process gets it as a variable"
            collector.problem_at((*at, "token"), "`token` is sent to a url", fix, "key")
        elif "env" in server and "command" not in server:
            collector.problem_at((*at, "env"), "`env` is about a command", "remove it", "key")
    if "api" not in agent:
        return
    for at_tool, tool in enumerate(agent.get("tools", ())):
        if tool != "weft" and tool not in servers:
            message = f"with `api` a tool is weft or a server of `mcp`, and there is no server {tool!r}"
            collector.problem_at((*path, "tools", at_tool), message, f"add mcp: {{{tool}: …}}")


def _check_budget(collector: ProblemCollector, agent: dict[str, Any], path: Path) -> None:
    budget = agent.get("budget")
    if budget is None:
        return
    if "command" in agent and agent.get("format", "text") == "text":
        message = "a program that prints text does not say what it spends, so no budget can hold it"
        collector.problem_at((*path, "budget"), message, "remove it, or use format: claude", "key")
    elif "usd" in budget and "api" in agent and "prices" not in agent:
        message = "the API counts tokens and names no prices, so dollars need some"
        fix = "add prices: {input: 3, output: 15}, in dollars for a million tokens"
        collector.problem_at((*path, "budget", "usd"), message, fix, "key")


def schema_problems(schema: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, message, fix) of what can be no JSON Schema. Without recursion: a schema may be deep."""
    stack: list[tuple[Any, Path]] = [(schema, path)]
    while stack:
        one, at = stack.pop()
        if isinstance(one, bool):
            continue
        if not isinstance(one, dict):
            yield at, "a JSON Schema is a mapping", "write {type: object, …}"
            continue
        yield from _keyword_problems(one, at)
        stack += [(one[key], (*at, key)) for key in _SCHEMA if key in one and not isinstance(one[key], list)]
        for key in _SCHEMAS:
            if isinstance(one.get(key), list):
                stack += [(item, (*at, key, number)) for number, item in enumerate(one[key])]
        for key in _NAMED_SCHEMAS:
            if isinstance(one.get(key), dict):
                stack += [(item, (*at, key, name)) for name, item in one[key].items()]


def _keyword_problems(schema: dict[str, Any], path: Path) -> Iterator[tuple[Path, str, str]]:
    types = schema.get("type", [])
    for type_ in types if isinstance(types, list) else [types]:
        if type_ not in _TYPES:
            yield (*path, "type"), f"no type of JSON Schema: {type_!r}", f"use {', '.join(_TYPES)}"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield (*path, "required"), "`required` is a list of names", "write required: [name]"
    if not isinstance(schema.get("enum", []), list):
        yield (*path, "enum"), "`enum` is a list of values", "write enum: [a, b]"
    for key in _NAMED_SCHEMAS:
        if not isinstance(schema.get(key, {}), dict):
            yield (*path, key), f"`{key}` is a mapping of names to schemas", "write {name: {type: string}}"
    for key in _SCHEMAS:
        if not isinstance(schema.get(key, []), list):
            yield (*path, key), f"`{key}` is a list of schemas", "write [{type: string}]"
    reference = schema.get("$ref", "#")
    if not isinstance(reference, str) or not reference.startswith("#"):
        yield (*path, "$ref"), "no other document is fetched for a schema", "put it under $defs: '#/$defs/name'"
