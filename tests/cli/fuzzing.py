"""Command lines of all kinds, made from the table of commands; and a directory to try them in."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from tests import forked
from weft.cli.command_table import Command, Option
from weft.cli.parser import all_options
from weft.config import SETTINGS

NUMBERS = (
    "0", "1", "-1", "-0", "+7", "007", "1_0", "٣", "1e3", "1.5", "nan", "NaN", "inf", "-Infinity", "0x10", str(2**31),
    str(2**32), str(2**53), str(2**63 - 1), str(2**63), str(-(2**63) - 1), str(2**64), "9" * 40, "9" * 5000, "1e400",
    "0" * 30 + "7", "0000000009999999999",
)  # fmt: skip
TEXTS = (
    "", " ", "\n", "\x01", "\x7f", "\x1b[31m", "--", "-", "@", "=", "a=", "=b", "a=@", "a=@/", "a=@missing", ".",
    "..",
    "/", "a\udcffb", "\udcff", "a=\udcff", "a=@\udcff", "\U0001f4a3", "é" * 300, "x" * 5000, "a/b", "a.b", "*", "%",
    "%s", "{}", "${{ x }}", "null", "[]", '{"a": 1e999}', '"\\ud800"', "[" * 100_000, '{"a":', "NaN", "last", "-x",
    "--x",
)  # fmt: skip
TIMES = (
    "1s", "0s", "90d", "-1s", "1e308s", "9" * 30 + "d", "1w", "never", "2020-01-01", "99999-01-01",
    "0001-01-01T00:00:00", "9999-12-31T23:59:59",
)  # fmt: skip
STORES = (
    ".", "/", "/dev/null", "/dev/full", "/proc/self/mem", "missing/weft.db", "w.yaml", "w.yaml/weft.db", "pipe",
    "x" * 300,
    "~nobody-here/x", "postgresql://", "postgresql://127.0.0.1:9/x", "postgresql://127.0.0.1:99999999999/x",
    "postgresql://u:\udcff@127.0.0.1:9/x", "postgresql://[::1/x", "mysql://x", "empty", "locked", "garbage",
)  # fmt: skip
SERVERS = (
    "http://127.0.0.1:9", "http://127.0.0.1:99999999999", "http://127.0.0.1:9/\udcff", "http://[::1",
    "ftp://127.0.0.1",
    "http://", "http://\udcff", "http://127.0.0.1:9/" + "x" * 5000, "http://127.0.0.1:-1", "http://u:p@127.0.0.1:9",
)  # fmt: skip
HOSTS = ("127.0.0.1", "::1", "", " ", "\udcff", "127.0.0.1:80", "é" * 300)  # no name that would be looked up
FILES = (
    "w.yaml", "bad.yaml", "waits.yaml", "empty", "garbage", "pipe", ".", "/dev/null", "/dev/full", "missing.yaml",
    "w.yaml/x", "locked", "flow.py:f", "flow.py:missing", "flow.py:", "missing.py:f", ":", "os:path",
    "missing.module:f", "numbers.yaml", "-", "surrogate.json", "nan.json", "deep.json", "w.yaml\udcff",
    "latin\udce9.yaml",
)  # fmt: skip
RUNS = (
    "last",
    "succeeded",
    "failed",
    "cancelled",
    "queued",
    "waiting",
    "awaiting_advance",
    "dead",
    "00",
    "zzz",
    "a" * 64,
)
TASKS = ("t", "t.0", "m.1", "m.99999999999999999999", "m.-1", "m.", ".1", "ask", "h", "missing", "m.2.3", "m.٣")
#: By an option's first name. What is not here gets anything.
KNOWN: dict[str, tuple[str, ...]] = {
    "run": RUNS, "task": TASKS, "tasks": TASKS, "file": FILES, "files": FILES, "--store": STORES, "--from": STORES,
    "--to": STORES, "--server": SERVERS, "--host": HOSTS, "--dir": (".", "w.yaml", "missing", "locked", "\udcff"),
    "--state": ("succeeded", "running", "failed,running", "dead-letter", "nonsense", ","),
    "name": ("w", "ask", "go", "pool"), "--data": ("1", "{}", '{"a": 1}'), "--body": ("1", "{}"),
    "trigger": ("w/hourly", "w", "hourly", "w/missing", "/"), "--kind": ("finished", "claimed,x"),
    "--input": ("n=1", "n=x", "n", "text=@w.yaml", "text=@garbage", "text=@pipe"), "node": ("here", "0", "missing"),
    "--label": ("a", "a=b"), "size": ("3", "0", "-1"), "--expires": ("never", "1s"),
}  # fmt: skip
VARIABLES = ("COLUMNS", "LINES", "HOME", "TERM", "WEFT_TOKEN", "NO_COLOR", "FORCE_COLOR", "TZ", "USER", "LANG")
INPUTS = (
    b"", b"- echo x\n", b"\xff\xfe", b"{}", b"[" * 10_000, b'{"tasks": {"t": "\\ud800"}}', b"\0",
    b'{"jsonrpc": "2.0", "id": 1e400, "method": "ping"}\n', b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}\n',
)  # fmt: skip
DEFINITIONS = {
    "w.yaml": """\
name: w
triggers: [{name: hourly, cron: "0 * * * *"}, {webhook: {name: hook, secret: HOOK}}]
inputs: {n: {type: integer, default: 1}, text: {type: string, default: a}}
tasks:
  t: echo hello
  m: {replicas: 3, run: "echo $WEFT_INDEX"}
  h: {needs: [t], run: "true"}
""",
    "bad.yaml": "name: bad\ntasks: {t: {run: 'exit 3', retry: {max: 1, backoff: 1ms}}, m: {replicas: 2, run: ':'}}\n",
    "waits.yaml": "name: waits\ntasks: {ask: {wait: {signal: go}}, t: {needs: [ask], run: 'true'}}\n",
    "levels.yaml": "name: levels\nmode: levels\ntasks: {t: 'true', m: {needs: [t], run: 'true'}}\n",
    "numbers.yaml": f"name: numbers\nmax_parallel: {2**70}\ntasks: {{t: {{run: 'true', retry: {{max: {2**64}}}}}}}\n",
    "surrogate.json": '{"name": "s", "tasks": {"t": {"run": "echo \\ud800"}}}',
    "nan.json": '{"name": "s", "tasks": {"t": {"run": "true", "retry": {"max": NaN}}}}',
    "deep.json": '{"tasks": ' + "[" * 50_000,
    "flow.py": "import weft\n@weft.task\ndef a(): return 1\n@weft.flow\ndef f(): return a()\n",
    "empty": "",
}  # fmt: skip


class Place(NamedTuple):
    """A directory with definitions of all kinds, and a store with a run in every state."""

    directory: Path
    runs: dict[str, str]  # state -> id

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.directory, to, ignore=shutil.ignore_patterns("pipe", "locked"))
        _add_special_files(to)
        return to


def make_place(directory: Path, env: dict[str, str]) -> Place:
    for name, text in DEFINITIONS.items():
        (directory / name).write_text(text)
    (directory / "garbage").write_bytes(bytes(range(256)) * 20)
    Path(os.fsdecode(bytes(directory) + b"/latin\xe9.yaml")).write_text(DEFINITIONS["w.yaml"])
    _add_special_files(directory)
    return Place(directory, _make_runs(directory, env))


def _add_special_files(directory: Path) -> None:
    os.mkfifo(directory / "pipe")
    (directory / "locked").mkdir(mode=0)


def _make_runs(directory: Path, env: dict[str, str]) -> dict[str, str]:
    def weft(*words: str, code: int = 0) -> Any:
        done = forked.run([words[0], "--json", *words[1:]], directory, env)
        assert done.returncode == code, (words, done)
        return json.loads(done.stdout if done.stdout[:2] == b"{\n" else done.stdout.splitlines()[-1])

    runs = {
        "succeeded": weft("run", "w.yaml")["run"],
        "dead": weft("run", "bad.yaml", code=1)["run"],
        "failed": weft("run", "--", "false", code=1)["run"],
    }
    for name, file in (("cancelled", "w.yaml"), ("queued", "w.yaml"), ("waiting", "waits.yaml")):
        runs[name] = weft("submit", file)["run"]
    runs["awaiting_advance"] = weft("submit", "levels.yaml", "--step")["run"]
    weft("cancel", runs["cancelled"])
    weft("apply", "w.yaml")
    weft("pools", "set", "pool", "2")
    return runs


class Draw:
    """One call of a command, from a seed."""

    def __init__(self, seed: str, command: Command, runs: dict[str, str]) -> None:
        self._random = random.Random(seed)
        self._runs = runs
        self.words = self._words(command)
        self.env = self._env()
        self.input = self._random.choice(INPUTS)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _words(self, command: Command) -> list[str]:
        words = [command.name]
        shares = {"--store": 0.12, "--server": 0.12, "--json": 0.5}
        for option in all_options(command):
            positional = not option.names[0].startswith("-")
            if positional or option.given.get("required") or self._chance(shares.get(option.names[0], 0.25)):
                words += self._given(option, positional)
        if command.name == "run" and self._chance(0.1):
            words += ["--", *(self._text() for _ in range(self._random.randrange(3)))]
        if self._chance(0.05):
            words.insert(self._random.randrange(len(words) + 1), self._text())
        return words

    def _given(self, option: Option, positional: bool) -> list[str]:
        if option.given.get("action") == "store_true":
            return [self._random.choice(option.names)]
        counts = {
            "?": self._random.choice([0, 1, 1]),
            "*": self._random.randrange(3),
            "+": self._random.choice([1, 2]),
        }
        values = [self._value(option) for _ in range(counts.get(option.given.get("nargs", ""), 1))]
        if positional:
            return values
        if len(values) == 1 and self._chance(0.5):
            return [f"{option.names[0]}={values[0]}"]
        return [self._random.choice(option.names), *values]

    def _value(self, option: Option) -> str:
        if option.given.get("choices") and self._chance(0.9):
            return str(self._random.choice(option.given["choices"]))
        known = KNOWN.get(option.names[0])
        if known is not None and (option.names[0] == "--host" or self._chance(0.7)):
            value = self._random.choice(known)
            return self._runs.get(value, value)
        if option.given.get("metavar") == "TIME" and self._chance(0.5):
            return self._random.choice(TIMES)
        return self._text()

    def _text(self) -> str:
        return self._random.choice(self._random.choice((NUMBERS, TEXTS)))

    def _env(self) -> dict[str, str]:
        """A store that does not answer is not waited for; and a variable or two of those that are read."""
        env = {"WEFT_STORE_WAIT": "100ms", "WEFT_LEASE_TTL": "3s", "WEFT_RENEW_EVERY": "500ms"}
        if self._chance(0.15):
            setting = self._random.choice([setting for setting in SETTINGS if setting.name != "host"])
            known = {"server": SERVERS, "store": STORES}.get(setting.name, TIMES)
            env[setting.variable] = self._random.choice([self._random.choice(known), self._text()])
        if self._chance(0.1):
            env[self._random.choice(VARIABLES)] = self._text()
        return env
