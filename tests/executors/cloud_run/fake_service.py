"""A Cloud Run that speaks the v2 REST protocol: jobs.run, operations, executions, tasks, cancel; with quotas, errors,
lost answers, late executions and slow operations. Executions last as long as their variable FAKE_SECONDS says, and
end with FAKE_EXIT.

python -m tests.executors.cloud_run.fake_service DIRECTORY    serves until its input ends; prints its port
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "good-token"
PLACE = "projects/p/locations/r/jobs/j"
#: An answer is lost, and after so many seconds what was asked for shows.
LOST = {"lost": 0.0, "lost_late": 0.6, "lost_hidden": 1e9}
_CANCEL_S = 0.2  # until a cancelled execution is over


def error(code: int, status: str, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"error": {"code": code, "message": message, "status": status}}


class FakeExecution:
    def __init__(self, name: str, overrides: dict[str, Any], delay_s: float) -> None:
        self.name = name
        self.container = overrides.get("containerOverrides", [{}])[0]
        self.env = {one["name"]: one["value"] for one in self.container.get("env", [])}
        self.tasks = overrides.get("taskCount", 1)
        self.created = time.monotonic() + delay_s
        self.ends = self.created + float(self.env.get("FAKE_SECONDS", "0"))
        self.cancelled: float | None = None

    def body(self) -> dict[str, Any]:
        now = time.monotonic()
        out: dict[str, Any] = {
            "name": self.name, "taskCount": self.tasks, "logUri": f"https://logs.example/{self.name}",
            "createTime": "2026-01-01T00:00:00.123456Z", "startTime": "2026-01-01T00:00:01Z",
            "template": {"containers": [{"env": [{"name": k, "value": v} for k, v in self.env.items()]}]},
        }  # fmt: skip
        failed = int(self.env.get("FAKE_EXIT", "0")) != 0
        if self.cancelled is not None and now >= self.cancelled:
            out |= {"cancelledCount": self.tasks, "completionTime": "2026-01-01T00:00:05Z"}
            state = {
                "state": "CONDITION_FAILED",
                "executionReason": "CANCELLED",
                "message": "The execution was cancelled.",
            }
        elif self.cancelled is not None:
            out["runningCount"] = self.tasks
            state = {"state": "CONDITION_RECONCILING", "executionReason": "CANCELLING"}
        elif now < self.ends:
            out["runningCount"] = self.tasks
            state = {"state": "CONDITION_RECONCILING", "message": "Waiting for execution to complete."}
        else:
            out["completionTime"] = "2026-01-01T00:00:03Z"
            done = 1 if failed else 0
            out |= {"failedCount": done, "succeededCount": self.tasks - done}
            state = {"state": "CONDITION_SUCCEEDED"}
            if failed:
                state = {"state": "CONDITION_FAILED", "executionReason": "NON_ZERO_EXIT_CODE",
                         "message": "Task failed with message: The container exited with an error."}  # fmt: skip
        out["conditions"] = [{"type": "Started", "state": "CONDITION_SUCCEEDED"}, {"type": "Completed", **state}]
        return {name: value for name, value in out.items() if value not in (0, "")}

    @property
    def over(self) -> bool:
        return "runningCount" not in self.body()


class FakeService:
    def __init__(self) -> None:
        self.executions: dict[str, FakeExecution] = {}
        self.operations: dict[str, tuple[str, float]] = {}  # the execution, and when it gets its name
        self.asked: list[str] = []
        self.faults: list[tuple[str, Any]] = []  # (part of a request, what happens to the next such one)
        self.naming_s = 0.0  # until an operation names its execution
        self.page = 2
        self.port = 0
        self._numbers = itertools.count(1)
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail(self, part: str, what: Any, times: int = 1) -> None:
        """(code, body): that answer. One of LOST: it is done, and not answered. drop: it is not done."""
        self.faults += [(part, what)] * times

    def alive(self) -> list[str]:
        return [name for name, one in self.executions.items() if not one.over]

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
                data = await reader.readexactly(int(headers.get("content-length", 0)))
                answer = self.answer(method, target, headers, json.loads(data) if data else {})
                if answer is None:
                    return
                code, body = answer
                out = json.dumps(body).encode()
                writer.write(
                    b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                    % (code, len(out))
                )
                writer.write(out)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]] | None:
        """None: the connection is closed without a word."""
        parts = urlsplit(target)
        if parts.path == "/fake":
            return 200, {name: {"env": one.env, "over": one.over} for name, one in self.executions.items()}
        self.asked.append(f"{method} {target}")
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        for fault in self.faults:
            if fault[0] in f"{method} {target}":
                self.faults.remove(fault)
                if isinstance(fault[1], str) and fault[1] in LOST:
                    self.route(method, parts.path, {}, body, LOST[fault[1]])
                    return None
                return None if fault[1] == "drop" else fault[1]
        return self.route(method, parts.path, parse_qs(parts.query), body, 0.0)

    def route(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any], delay_s: float
    ) -> tuple[int, dict[str, Any]]:
        name = path.removeprefix("/v2/")
        known = {key: one for key, one in self.executions.items() if time.monotonic() >= one.created}
        if method == "POST" and name.endswith(":run"):
            return self._run(name.removesuffix(":run"), body, delay_s)
        if method == "POST" and name.endswith(":cancel"):
            return self._cancel(known.get(name.removesuffix(":cancel")))
        if name in self.operations:
            return 200, self._operation(name)
        if name.endswith("/executions"):
            mine = [one.body() for key, one in reversed(known.items()) if key.startswith(f"{name}/")]
            first = int(query.get("pageToken", ["0"])[0])
            more = {"nextPageToken": str(first + self.page)} if len(mine) > first + self.page else {}
            return 200, {"executions": mine[first : first + self.page], **more}
        if name.endswith("/tasks"):
            execution = known[name.removesuffix("/tasks")]
            code = int(execution.env.get("FAKE_EXIT", "0"))
            result = {"exitCode": code, "status": {"code": 2, "message": "it failed"}}
            return 200, {"tasks": [{"index": 0, "lastAttemptResult": {}}, {"index": 1, "lastAttemptResult": result}]}
        if name in known:
            return 200, known[name].body()
        return error(404, "NOT_FOUND", f"Resource '{name}' was not found")

    def _run(self, place: str, body: dict[str, Any], delay_s: float) -> tuple[int, dict[str, Any]]:
        if not place.endswith("/jobs/j"):
            return error(404, "NOT_FOUND", f"Job '{place}' was not found")
        number = next(self._numbers)
        execution = FakeExecution(f"{place}/executions/j-{number:05}", body.get("overrides", {}), delay_s)
        self.executions[execution.name] = execution
        operation = f"projects/p/locations/r/operations/{number}"
        self.operations[operation] = (execution.name, time.monotonic() + self.naming_s)
        return 200, self._operation(operation)

    def _operation(self, name: str) -> dict[str, Any]:
        execution, named_at = self.operations[name]
        named = time.monotonic() >= named_at
        metadata = {"@type": "type.googleapis.com/google.cloud.run.v2.Execution"}
        return {"name": name, "metadata": {**metadata, "name": execution} if named else metadata}

    def _cancel(self, execution: FakeExecution | None) -> tuple[int, dict[str, Any]]:
        if execution is None:
            return error(404, "NOT_FOUND", "no such execution")
        if execution.over:
            return error(400, "FAILED_PRECONDITION", "the execution has completed")
        execution.cancelled = execution.cancelled or time.monotonic() + _CANCEL_S
        return 200, {"name": "projects/p/locations/r/operations/c"}

    def close_connections(self) -> None:
        for writer in list(self._writers):
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[FakeService]:
    service = FakeService()
    server = await asyncio.start_server(service.accept, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        service.close_connections()


async def _main(directory: Path) -> None:
    async with serving() as service:
        service.page = 100
        (directory / "token").write_text(TOKEN)
        print(service.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
