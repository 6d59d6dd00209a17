"""The types of the keys `http`, `cloud_run` and `agent` of a task: work that a service or an agent does."""

import re
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, FieldType, Json, ListOf, MapOf, OneOf, Record
from weft.core.definition.field_types.scalars import Boolean, Duration, Enum, Number, Pattern, Size, Text
from weft.core.definition.problems import ProblemCollector, has_expression, mismatch

USD_MAX: Final = 1_000_000  # of one budget
TOKENS_MAX: Final = 10**12

HEADER_NAME: Final = Pattern(
    expected="the name of a header",
    regex=r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}",
    fix="use letters, digits and -, as in Content-Type",
)
_HEADER_VALUE: Final = Text("the header's value as text", templates=True, empty=True, integers=True)
_POINTER: Final = Pattern(
    expected="a JSON pointer", regex=r"(/[^\x00-\x1f]*)?", fix="write the way to a value, as in /links/status"
)
_STATUS: Final = OneOf(
    (Pattern("a status, or a class of them", "[1-5]xx", "write 201, or 2xx"), Number(100, 599)),
    pick=lambda value: 0 if isinstance(value, str) else 1,
)
_STATUSES: Final = ListOf(_STATUS, "a list of statuses", least=1)
_WORDS: Final = ListOf(Text("text"), "a list of texts", single=True, once=True, least=1)
_NAME: Final = Text("a name", templates=True)
BUDGET: Final = Record(
    (
        Field("usd", Number(0.000001, USD_MAX, whole=False), "US dollars."),
        Field("tokens", Number(1, TOKENS_MAX), "Tokens, of input and output together."),
    ),
    "budget",
    least=1,
)


class ServiceType(msgspec.Struct, frozen=True):
    """A mapping in which some keys must be there; `single`: the key that a text alone is."""

    record: Record
    required: tuple[str, ...]
    single: str | None = None

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if self.single is not None and isinstance(value, str):
            value = {self.single: value}
        out = self.record.read(collector, value)
        if isinstance(value, dict):
            for key in self.required:
                if key not in value and not collector.misspelled(value, self.record.by_name, (key,)):
                    collector.problem(f"`{self.record.what}` has no {key}", f"add {key}: …", at="key")
        return out

    def schema(self) -> dict[str, Any]:
        schema = {**self.record.schema(), "required": list(self.required)}
        return schema if self.single is None else {"anyOf": [self.record.by_name[self.single].type.schema(), schema]}


_PRICE: Final = Number(0, 1_000_000, whole=False)
PRICES: Final = ServiceType(
    Record(
        (
            Field("input", _PRICE, "A million tokens of input, in US dollars."),
            Field("output", _PRICE, "A million tokens of output."),
            Field("cache_read", _PRICE, "Input that was read from a cache; by default as much as other input."),
            Field("cache_write", _PRICE, "Input that was written to a cache; by default as much as other input."),
        ),
        "prices",
    ),
    ("input", "output"),
)


_URL: Final = re.compile(r"^https?://[^/?#\s]+([/?#]\S*)?$")


class Address(msgspec.Struct, frozen=True):
    """Of a service: absolute, because a definition has no address of its own."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        text = Text("a URL", templates=True).read(collector, value)
        if not isinstance(text, str) or has_expression(text) or _URL.match(text):
            return text
        fix = "write it as in https://example.com/path"
        if _URL.match(f"https://{text}") and ":/" not in text:
            fix = f"write https://{text}"
        return mismatch(collector, "a URL", value, fix)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": rf"{_URL.pattern}|\$\{{\{{"}


class Statuses(msgspec.Struct, frozen=True):
    """One status, or a list of them."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        return _STATUSES.read(collector, value if isinstance(value, (list, tuple)) else [value])

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [*_STATUS.schema()["anyOf"], _STATUSES.schema()]}


HTTP: Final = Record(
    (
        Field("url", Address(), "The address."),
        Field("method", Enum(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")),
              "The method; GET by default, POST if there is something to send."),
        Field("headers", MapOf(HEADER_NAME, _HEADER_VALUE, "a mapping of headers to values"),
              "Headers. `$NAME` stands for a secret that the task lists; so it does in url, json and body."),
        Field("json", Json(expressions=True), "What is sent, as JSON.", null=True),
        Field("body", Text("what is sent, as text", templates=True, empty=True), "What is sent, as text."),
        Field("expect", Record(
            (Field("status", Statuses(), "Statuses that are a success; 2xx by default."),
             Field("json", MapOf(_POINTER, Json(expressions=False), "a mapping of JSON pointers to values"),
                   "Values that the answer must have, by JSON pointer.")), "expect", least=1),
            "What the answer must be for a success."),
        Field("poll", Record(
            (Field("every", Duration(least_ms=100), "The first delay; 2s by default."),
             Field("max_every", Duration(least_ms=100), "The longest delay; 30s by default."),
             Field("url", Address(), "What is asked; by default where the answer's Location points."),
             Field("url_at", _POINTER, "Where in the answer's JSON that address stands."),
             Field("state_at", _POINTER, "Where in the JSON the state stands; without it, 202 means not yet."),
             Field("done", _WORDS, "States that are a success."),
             Field("failed", _WORDS, "States that are a failure."),
             Field("cancel", Enum(("DELETE", "POST")), "The method with which a stop is requested at that address."),
             Field("cancel_at", _POINTER, "Where in the JSON the address for that stands; by default the same.")),
            "poll"),
            "How to ask for the end of what was only accepted: after 202, or while the state is another one."),
        Field("timeout", Duration(least_ms=1), "How long one request may take; 30s by default."),
        Field("redirects", Boolean(), "Whether redirects are followed; false by default."),
        Field("max_bytes", Size(), "How much of an answer is read; more is a failure; 1MiB by default."),
    ),
    "http",
)  # fmt: skip


def cloud_run_record(argument: FieldType, env: FieldType) -> Record:
    return Record(
        (
            Field("project", _NAME, "The project."),
            Field("region", _NAME, "The region."),
            Field("job", _NAME, "The Cloud Run job that is executed."),
            Field("overrides", Record(
                (Field("args", ListOf(argument, "a list of arguments"), "Instead of the job's arguments."),
                 Field("env", env, "Variables, added to the job's own."),
                 Field("tasks", Number(1, 10_000), "How many tasks the execution has, each with its index."),
                 Field("timeout", Duration(least_ms=1000), "How long each of them may take."),
                 Field("container", Text("a container's name"), "The container of the job that this is for.")),
                "overrides"),
                "What is different in this execution."),
        ),
        "cloud_run",
    )  # fmt: skip


def agent_record(argument: FieldType, env: FieldType, secret: FieldType) -> Record:
    command = ListOf(argument, "a list of arguments, the program first", least=1, fix="write [program, argument, …]")
    server = Record(
        (
            Field("command", command, "A program that speaks MCP over its standard input and output."),
            Field("env", env, "Its variables."),
            Field("url", Address(), "Or the address of a server."),
            Field("token", secret, "The secret that is sent there as a bearer token."),
        ),
        "an MCP server",
        least=1,
    )
    return Record(
        (
            Field("prompt", Text("a prompt", templates=True), "What the agent is asked to do."),
            Field("system", Text("a prompt", templates=True), "What it is told about its role, before that."),
            Field("model", Text("a model", templates=True), "The model."),
            Field("tools", ListOf(Text("a tool"), "a list of tools", single=True, once=True),
                  "Tools that it may use, as its program names them. With `api`: `weft`, or a server of `mcp`."),
            Field("mcp", MapOf(Text("a name"), server, "a mapping of names to MCP servers"),
                  "MCP servers whose tools it gets."),
            Field("output_schema", Json(expressions=False),
                  "A JSON Schema of its answer, which is then JSON; another answer is a failure that is retried."),
            Field("max_turns", Number(1, 10_000), "How many turns it may take."),
            Field("budget", BUDGET, "What the task may spend, all attempts together."),
            Field("prices", PRICES, "What tokens cost, where the program or API does not say it."),
            Field("idle", Duration(least_ms=1),
                  "How long nothing may come from it; then it is ended, and retried. With `api`: 2m by default."),
            Field("resume", Boolean(),
                  "Whether a later attempt on the same machine goes on with the conversation; true by default."),
            Field("command", command,
                  "The program, instead of claude: `{prompt}`, `{system}`, `{model}`, `{tools}`, `{max_turns}`, "
                  "`{max_budget_usd}`, `{session}` and `{mcp_config}` stand for values; a prompt that it does not "
                  "name comes through standard input, and an argument with `{session}` is left out without one."),
            Field("format", Enum(("claude", "text")),
                  "What that program prints: messages as claude does, or its answer as text, the default."),
            Field("api", Enum(("anthropic", "openai-compatible")), "No program: the model is asked directly."),
            Field("url", Address(), "The address of that API; by default the provider's own."),
            Field("key", secret, "The secret that is its key."),
            Field("max_tokens", Number(1, 10_000_000), "The longest answer of the model, in tokens."),
        ),
        "agent",
    )  # fmt: skip


def budget_of(task: dict[str, Any]) -> dict[str, Any] | None:
    """The one place that knows where a task says what it may spend."""
    agent = task.get("agent")
    budget = agent.get("budget") if isinstance(agent, dict) else None
    return budget if isinstance(budget, dict) else None
