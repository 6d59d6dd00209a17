"""What a node and the runner of an agent's attempt send each other over a socket pair: one request, then messages of
the runner, each a line of JSON. JSON, and not the frames of other runners: an agent's processes are trusted least.

With the request come two descriptors: of the file that keeps the program's messages as they came, and of the file
that keeps the conversation of an API.
"""

from typing import Any

import msgspec


class AgentRequest(msgspec.Struct):
    agent: dict[str, Any]  # the mapping of the definition, resolved
    program: list[str]  # what runs without `command` and `api`
    secrets: dict[str, str]
    output_max: int  # bytes kept of the program's messages
    answer_max: int  # bytes that an answer may have
    usd: int | None = None  # the most that it may spend, in millionths
    tokens: int | None = None
    session: str | None = None  # of an earlier attempt
    problem: str | None = None  # how an earlier attempt ended
    rejected: bool = False  # its answer did not match the schema
    store: str | None = None  # the file of the run's store, for the tools of `weft mcp`


class SpentSoFar(msgspec.Struct, tag="spent"):
    usd: int | None
    tokens: int


class SessionKnown(msgspec.Struct, tag="session"):
    id: str


class AgentEnded(msgspec.Struct, tag="ended", kw_only=True, omit_defaults=True):
    error: str | None = None  # None: a success
    cause: str | None = None
    retryable: bool = True
    retry_after_s: float | None = None
    text: str = ""
    value: Any = msgspec.UNSET  # the answer as JSON, where a schema asks for it
    usage: dict[str, Any] = {}
    turns: int = 0
    model: str | None = None
    session: str | None = None
    warning: str | None = None  # of a success


RunnerMessage = SpentSoFar | SessionKnown | AgentEnded
