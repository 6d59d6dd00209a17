"""An agent's program for tests: it takes the flags of `claude -p`, and prints the messages that claude prints.

The prompt holds a script: a JSON object whose `do` is a list of actions, each a list of a name and arguments. With
`--resume`, `resumed` is done instead, if it is there. Sessions are files in the directory $AGENT_HOME.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

USAGE = {
    "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 5,
    "service_tier": "standard",
}  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-p", "--print", action="store_true", required=True)
    parser.add_argument("--output-format", choices=["stream-json"], required=True)
    parser.add_argument("--verbose", action="store_true", required=True)
    parser.add_argument("--model")
    parser.add_argument("--append-system-prompt-file")
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--max-budget-usd", type=float)
    parser.add_argument("--json-schema", type=json.loads)
    parser.add_argument("--mcp-config")
    parser.add_argument("--resume")
    parser.add_argument("--allowedTools", nargs="+")
    return parser.parse_args()


class Agent:
    def __init__(self, flags: argparse.Namespace, prompt: str) -> None:
        self.flags = flags
        self.prompt = prompt
        self.session = flags.resume or str(uuid.uuid4())
        self.turns = 0
        self.usage = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_input_tokens"), 0)
        self.cost = 0.0
        self.denials: list[dict[str, Any]] = []

    def line(self, message: dict[str, Any]) -> None:
        print(json.dumps({**message, "session_id": self.session, "uuid": str(uuid.uuid4())}), flush=True)

    def begin(self) -> None:
        self.line({
            "type": "system", "subtype": "init", "cwd": os.getcwd(), "tools": ["Bash", "Read"], "mcp_servers": [],
            "model": self.flags.model or "claude-scripted-1", "permissionMode": "default", "apiKeySource": "none",
        })  # fmt: skip

    def assistant(self, content: list[dict[str, Any]], usage: dict[str, Any] | None = None, **more: Any) -> None:
        """As claude does: one line for each block, all with the id and the usage of the whole message."""
        self.turns += 1
        usage = {**USAGE, **(usage or {})}
        for name in self.usage:
            self.usage[name] += usage[name]
        self.cost += 0.01
        id = f"msg_{uuid.uuid4().hex[:16]}"
        for block in content:
            body = {
                "id": id, "type": "message", "role": "assistant", "model": "claude-scripted-1", "content": [block],
                "stop_reason": None, "stop_sequence": None, "usage": usage,
            }  # fmt: skip
            self.line({"type": "assistant", "message": body, "parent_tool_use_id": None, **more})

    def tool_result(self, content: Any, is_error: bool) -> None:
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": is_error}
        self.line({"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None})

    def result(self, subtype: str = "success", **more: Any) -> None:
        self.line({
            "type": "result", "subtype": subtype, "is_error": subtype != "success", "duration_ms": 12,
            "duration_api_ms": 10, "num_turns": self.turns, "total_cost_usd": self.cost, "usage": self.usage,
            "modelUsage": {}, "permission_denials": self.denials, **more,
        })  # fmt: skip

    def answer(self, text: str) -> None:
        self.assistant([{"type": "text", "text": text}])
        self.result(result=text)

    def do(self, name: str, *values: Any) -> None:
        match name:
            case "say":
                self.assistant([{"type": "text", "text": values[0]}], *values[1:])
            case "tool":
                blocks = [
                    {"type": "text", "text": "a look"},
                    {"type": "tool_use", "id": "toolu_1", "name": values[0], "input": values[1]},
                ]
                self.assistant(blocks)
                self.tool_result(*values[2:4])
            case "answer":
                self.answer(values[0])
            case "structured":
                self.assistant([{"type": "text", "text": "done"}])
                self.result(result="done", structured_output=values[0])
            case "error":
                self.result(values[0], errors=list(values[1:]))
            case "refused":
                self.assistant([{"type": "text", "text": values[1]}], error=values[0])
                self.result(result=values[1], is_error=True)
            case "show":
                self.answer(json.dumps({
                    "flags": vars(self.flags), "prompt": self.prompt, "cwd": os.getcwd(), "argv": sys.argv,
                    "files": {name: Path(path).read_text() for name, path in vars(self.flags).items()
                              if isinstance(path, str) and path.startswith("/dev/fd/")},
                    "env": {name: os.environ.get(name) for name in values[0]},
                }))  # fmt: skip
            case _:
                self.awkward(name, *values)

    def awkward(self, name: str, *values: Any) -> None:
        match name:
            case "raw":
                sys.stdout.write(values[0])
                sys.stdout.flush()
            case "huge":
                self.assistant([{"type": "text", "text": "x" * values[0]}])
            case "stderr":
                print(values[0], file=sys.stderr, flush=True)
            case "ignore_term":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "flee":
                code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.fork() and os._exit(0)"
                code += "; f = open(os.environ['FLED'], 'w'); f.write(str(os.getpid())); f.close(); time.sleep(300)"
                subprocess.Popen([sys.executable, "-c", code], start_new_session=True).wait()
                fled = Path(os.environ["FLED"])
                while not fled.exists() or not fled.read_text():
                    time.sleep(0.01)
            case "denied":
                self.denials.append({"tool_name": values[0], "tool_use_id": "toolu_1", "tool_input": {}})
            case "touch":
                Path(values[0]).write_text(self.session)
            case "sleep":
                time.sleep(values[0])
            case "exit":
                sys.exit(values[0])
            case _:
                sys.exit(f"no such action: {name}")


def main() -> None:
    flags = arguments()
    prompt = sys.stdin.read()
    home = Path(os.environ.get("AGENT_HOME", "."))
    agent = Agent(flags, prompt)
    known = home / f"{agent.session}.session"
    if flags.resume and not known.exists():
        if os.environ.get("AGENT_PLAIN"):
            sys.exit(f"No conversation found with session ID: {flags.resume}")
        agent.result("error_during_execution", errors=[f"No conversation found with session ID: {flags.resume}"])
        sys.exit(1)
    known.touch()
    agent.begin()
    match = re.search(r"\{.*\}", prompt, re.DOTALL)
    assert match is not None, prompt
    script, _ = json.JSONDecoder().raw_decode(match[0])
    for name, *values in script.get("resumed", script["do"]) if flags.resume else script["do"]:
        agent.do(name, *values)


main()
