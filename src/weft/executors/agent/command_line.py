"""The command line of an agent's program: claude by default, a template of the definition, or Weft's own program for
an API.

The flags are those of Claude Code 2.1 (`claude --help`). The prompt goes through standard input, a system prompt and
the configuration of MCP servers through files without a name, as /dev/fd/N: none of them shows up in a list of
processes, and none of them has to fit into one argument (Linux allows 128 KiB).
"""

import os
import re
import sys
import tempfile
from contextlib import suppress
from typing import IO, Any, Final

import msgspec

from weft.core.definition.checks.agents import PLACEHOLDERS
from weft.executors.agent.answer import instruction
from weft.executors.agent.messages import AgentRequest
from weft.executors.agent.usage import MILLION

ARGUMENT_MAX: Final = 131_071  # bytes, Linux's MAX_ARG_STRLEN without its final zero
_ROOT: Final = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
_PLACEHOLDER: Final = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
_SESSION: Final = "{session}"
WEFT_TOOL: Final = "weft"


def python_command(module: str, function: str, *arguments: str) -> list[str]:
    """Runs a function of Weft. With -P and -c: a file in the working directory must not stand for a module."""
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); from {module} import {function}; sys.exit({function}())"
    return [sys.executable, "-P", "-c", code, *arguments]


class CannotBuild(Exception):
    """The definition asks for something that cannot be passed to the program."""


class CommandLine(msgspec.Struct):
    argv: list[str]
    stdin: IO[bytes]
    files: list[IO[bytes]]  # whose descriptors the program inherits
    format: str  # what it prints: claude or text
    conversation: int | None = None  # a descriptor that it inherits, too

    @property
    def inherited(self) -> list[int]:
        found = [file.fileno() for file in self.files]
        return found if self.conversation is None else [*found, self.conversation]

    def close(self) -> None:
        for file in (self.stdin, *self.files):
            with suppress(OSError):
                file.close()


def build_command(request: AgentRequest, session: str | None, conversation: int) -> CommandLine:
    """`conversation` is the descriptor of the file that keeps an API's. Raises CannotBuild."""
    agent = {key: _as_text(value) if key in _TEXTS else value for key, value in request.agent.items()}
    if "api" in agent:
        return _api(agent, request, session, conversation)
    if "command" in agent:
        return _template(agent, request, session)
    return _claude(agent, request, session)


_TEXTS: Final = ("prompt", "system", "model", "url")


def _as_text(value: Any) -> str:
    """A `${{ }}` that is the whole text keeps its type: what is not text becomes JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _claude(agent: dict[str, Any], request: AgentRequest, session: str | None) -> CommandLine:
    argv = [*request.program, "-p", "--output-format", "stream-json", "--verbose"]
    line = CommandLine(argv, _file(_prompt(agent, request, session, told=False)), [], "claude")
    if "model" in agent:
        argv += ["--model", agent["model"]]
    if "system" in agent:
        argv += ["--append-system-prompt-file", _passed(line, agent["system"])]
    if "max_turns" in agent:
        argv += ["--max-turns", str(agent["max_turns"])]
    if request.usd is not None:
        argv += ["--max-budget-usd", f"{request.usd / MILLION:.6f}"]
    if "output_schema" in agent:
        argv += ["--json-schema", msgspec.json.encode(agent["output_schema"]).decode()]
    servers = mcp_servers(agent, request)
    if servers:
        argv += ["--mcp-config", _passed(line, _claude_servers(servers))]
    if session is not None:
        argv += ["--resume", session]
    tools = [f"mcp__{WEFT_TOOL}" if tool == WEFT_TOOL else tool for tool in agent.get("tools", ())]
    if tools:
        argv += ["--allowedTools", *tools]
    return _checked(line)


def _template(agent: dict[str, Any], request: AgentRequest, session: str | None) -> CommandLine:
    written = [_as_text(argument) for argument in agent["command"]]
    named = set(_PLACEHOLDER.findall("\n".join(written)))
    prompt = _prompt(agent, request, session if "session" in named else None, told=True)
    line = CommandLine([], _file("" if "prompt" in named else prompt), [], agent.get("format", "text"))
    values = {
        "prompt": prompt, "model": agent.get("model", ""), "system": agent.get("system", ""),
        "session": session or "", "tools": ",".join(agent.get("tools", ())),
        "max_turns": str(agent.get("max_turns", "")),
        "max_budget_usd": "" if request.usd is None else f"{request.usd / MILLION:.6f}",
    }  # fmt: skip
    if "mcp_config" in named:
        values["mcp_config"] = _passed(line, _claude_servers(mcp_servers(agent, request)))
    line.argv = [
        _PLACEHOLDER.sub(lambda match: values[match[1]], argument)
        for argument in written
        if session is not None or _SESSION not in argument  # a program takes an empty one for a session's id
    ]
    return _checked(line)


def _api(agent: dict[str, Any], request: AgentRequest, session: str | None, conversation: int) -> CommandLine:
    asked: dict[str, Any] = {
        **{key: agent[key] for key in _API_KEYS if key in agent},
        "prompt": _prompt(agent, request, session, told=True),
        "mcp": mcp_servers(agent, request),
        "usd": request.usd,
        "tokens": request.tokens,
        "session": session,
        "conversation": conversation,
        "masked": list(request.secrets),
    }
    argv = python_command("weft.executors.agent.api.program", "main")
    return CommandLine(argv, _file(msgspec.json.encode(asked).decode()), [], "claude", conversation)


_API_KEYS: Final = ("api", "url", "model", "system", "max_turns", "max_tokens", "key", "prices", "idle_s")


def _prompt(agent: dict[str, Any], request: AgentRequest, session: str | None, *, told: bool) -> str:
    """`told`: the program learns of a schema from the prompt only."""
    text: str = agent["prompt"]
    if told and "output_schema" in agent:
        text = f"{text}\n\n{instruction(agent['output_schema'])}"
    if session is not None:
        return f"An earlier attempt at this ended early: {request.problem or 'it was stopped'}. Go on.\n\n{text}"
    return f"{text}\n\nAn earlier answer was refused: {request.problem}." if request.rejected else text


def mcp_servers(agent: dict[str, Any], request: AgentRequest) -> dict[str, dict[str, Any]]:
    """By name: {command, args, env} or {url, token}. With `api`, `tools` chooses among them."""
    servers: dict[str, dict[str, Any]] = {}
    for name, server in agent.get("mcp", {}).items():
        if "api" in agent and "tools" in agent and name not in agent["tools"]:
            continue
        if "url" in server:
            token = request.secrets.get(server.get("token", ""))
            servers[name] = {"url": _as_text(server["url"]), **({} if token is None else {"token": token})}
        else:
            argv = [_as_text(argument) for argument in server["command"]]
            env = {key: _as_text(value) for key, value in server.get("env", {}).items()}
            servers[name] = {"command": argv[0], "args": argv[1:], "env": env}
    if WEFT_TOOL in agent.get("tools", ()) and WEFT_TOOL not in servers:
        servers[WEFT_TOOL] = _own_server(request)
    return servers


def _own_server(request: AgentRequest) -> dict[str, Any]:
    """`weft mcp`, on a server that the task names in its environment, or on the run's own store; with the token of
    the attempt, so that it opens this run only."""
    env = {}
    token = request.secrets.get("WEFT_TOKEN") or os.environ.get("WEFT_TOKEN")
    if token is not None:
        env["WEFT_TOKEN"] = token
    if not os.environ.get("WEFT_SERVER"):
        if request.store is None:
            raise CannotBuild("the tools of weft need a store on SQLite, or WEFT_SERVER in the task's env")
        env["WEFT_STORE"] = request.store
    argv = python_command("weft.__main__", "script", "mcp")
    return {"command": argv[0], "args": argv[1:], "env": env}


def _claude_servers(servers: dict[str, dict[str, Any]]) -> str:
    out: dict[str, Any] = {}
    for name, server in servers.items():
        if "url" in server:
            out[name] = {"type": "http", "url": server["url"]}
            if "token" in server:
                out[name]["headers"] = {"Authorization": f"Bearer {server['token']}"}
        else:
            out[name] = {"type": "stdio", **server}
    return msgspec.json.encode({"mcpServers": out}).decode()


def _passed(line: CommandLine, text: str) -> str:
    """The path under which the program finds a file without a name."""
    file = _file(text)
    line.files.append(file)
    return f"/dev/fd/{file.fileno()}"


def _file(text: str) -> IO[bytes]:
    file: IO[bytes] = tempfile.TemporaryFile(prefix="weft-agent-")  # noqa: SIM115 - the program inherits it
    file.write(text.encode("utf-8", "surrogatepass"))
    file.flush()
    file.seek(0)
    return file


def _checked(line: CommandLine) -> CommandLine:
    for argument in line.argv:
        if "\0" in argument:
            line.close()
            raise CannotBuild("an argument of its command holds a NUL character")
        if len(argument.encode("utf-8", "surrogatepass")) > ARGUMENT_MAX:
            line.close()
            raise CannotBuild(
                f"an argument of its command has more than {ARGUMENT_MAX:,} bytes:"
                " a prompt that `command` does not name goes through standard input"
            )
    return line
