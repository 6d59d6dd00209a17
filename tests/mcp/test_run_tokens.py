"""Tokens of attempts, attacked: they open their own run and what their task is allowed, while the attempt runs."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import until
from tests.mcp.conftest import Agents, Calls
from weft.api.access.token_gate import Tokens
from weft.client.local import StoreConnection
from weft.mcp.server import TOOLS
from weft.node.attempts.run_tokens import mint
from weft.operations.access import StoreAccess
from weft.operations.reading.run_tokens import scope_of_token
from weft.operations.run_scope import need_of
from weft.operations.table import OPERATIONS
from weft.store.sqlite.driver import SqliteStore

OWNER = "0123456789abcdef-owner"
#: Writes its token where the test finds it, and runs until the file `NAME.go` is there.
TASK = (
    'printf %s "$WEFT_TOKEN" > "$WEFT_TASK.$WEFT_ATTEMPT.tmp"; mv "$WEFT_TASK.$WEFT_ATTEMPT.tmp" '
    '"$WEFT_TASK.$WEFT_ATTEMPT"; while [ ! -e "$WEFT_TASK.go" ]; do sleep 0.05; done'
)
GOING_ON = f'{TASK}; rm "$WEFT_TASK.go"; exit 3'


class Attempts:
    """A server with a node; tasks whose tokens the test has."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "here"
        self.directory.mkdir()
        connection = StoreConnection(StoreAccess(SqliteStore(self.directory / ".weft" / "weft.db")))
        gate = Tokens(connection.token_holder, OWNER, scope_of=partial(scope_of_token, connection.access))
        self.server = Agents(self.directory, connection=connection, gate=gate, token=OWNER)

    def started(self, name: str, attempt: int = 1, run: str | None = None, **task: Any) -> tuple[str, str]:
        """(run, token) of a new run's task, or of a later attempt of one."""
        if run is None:
            tasks = {name: {"run": TASK, **task}, "approve": {"wait": {"signal": "approve"}}}
            run = self.server.submit({"name": name, "tasks": tasks})
        file = self.directory / f"{name}.{attempt}"
        until(file.exists)
        return run, file.read_text()

    def end(self, name: str) -> None:
        (self.directory / f"{name}.go").touch()

    def codes(self, token: str, *calls: tuple[str, str]) -> list[str]:
        client = self.server.client(token)
        return [_code(client(method, path, *_body(method))) for method, path in calls]


def _body(method: str) -> tuple[Any, ...]:
    return () if method == "GET" else ({},)


def _code(answer: Any) -> str:
    return "ok" if answer.status < 300 else str(answer.code)


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Attempts]:
    made = Attempts(tmp_path)
    yield made
    for name in ("a", "b", "w"):
        made.end(name)
    made.server.close()


def test_it_reads_its_own_run_and_nothing_else(attempts: Attempts) -> None:
    run, token = attempts.started("a", allow=[])
    other, foreign = attempts.started("b", allow=[])
    own = [f"/v1/runs/{run}", "/v1/runs/last", f"/v1/runs/{run}/tasks/a", f"/v1/runs/{run}/why",
           f"/v1/runs/{run}/events", f"/v1/runs/{run}/context", f"/v1/runs/{run}/tasks/a/output/stdout"]  # fmt: skip
    assert attempts.codes(token, *(("GET", path) for path in own)) == ["ok"] * len(own)
    assert attempts.server.client(token).get("/v1/runs/last").json["run"]["id"] == run
    others = [path.replace(run, other) for path in own if run in path]
    assert attempts.codes(token, *(("GET", path) for path in others)) == ["not_found"] * len(others)
    unknown = attempts.server.client(token).get("/v1/runs/nothing")
    hidden = attempts.server.client(token).get(f"/v1/runs/{other}")
    assert unknown.json["detail"].replace("nothing", other) == hidden.json["detail"]
    assert attempts.codes(token, ("GET", f"/v1/runs/{other[:6]}")) == ["not_found"]
    assert attempts.codes(token, ("GET", f"/v1/runs/{other}/events/stream"), ("GET", "/v1/runs")) == [
        "not_found",
        "forbidden",
    ]
    assert attempts.codes(foreign, ("GET", f"/v1/runs/{other}")) == ["ok"]


def test_every_other_operation_is_closed(attempts: Attempts) -> None:
    """All of the table, so that a new operation is closed until it is opened here."""
    run, token = attempts.started("a", allow=[])
    client = attempts.server.client(token)
    closed = [one for one in OPERATIONS if one.role != "anyone" and need_of(one) != "run"]
    assert len(closed) > 40
    for operation in closed:
        path = operation.path.format(
            run=run, task="a", other=run, name="a", trigger="t", node="here", hash="0" * 64, id="abcd1234",
            stream="stdout", backfill="abd", event="1", call="look",
        )  # fmt: skip
        answer = client(operation.method, path, *_body(operation.method))
        assert answer.code == "forbidden", (operation.route, answer)
    signals = attempts.server.connection.why(run, "approve")
    assert signals[0].state == "waiting"
    document = attempts.server.connection.run(run).workflow
    assert attempts.codes(token, ("GET", f"/v1/documents/{document}")) == ["ok"]
    assert attempts.codes(token, ("GET", f"/v1/documents/{'0' * 64}")) == ["not_found"]


def test_it_ends_with_the_attempt(attempts: Attempts) -> None:
    run, token = attempts.started("a", allow=[])
    assert attempts.codes(token, ("GET", f"/v1/runs/{run}")) == ["ok"]
    attempts.end("a")
    until(lambda: attempts.server.connection.task(run, "a").state == "succeeded")
    assert attempts.codes(token, ("GET", f"/v1/runs/{run}")) == ["unauthorized"]


def test_a_retry_has_another(attempts: Attempts) -> None:
    tasks = {"w": {"run": GOING_ON, "allow": [], "retry": {"max": 1, "backoff": "0s"}}}
    run = attempts.server.submit({"name": "w", "tasks": tasks})
    _, first = attempts.started("w", 1, run)
    attempts.end("w")
    _, second = attempts.started("w", 2, run)
    assert first != second
    assert attempts.codes(first, ("GET", f"/v1/runs/{run}")) == ["unauthorized"]
    assert attempts.codes(second, ("GET", f"/v1/runs/{run}")) == ["ok"]
    assert attempts.codes(first.replace("_1_", "_2_"), ("GET", f"/v1/runs/{run}")) == ["unauthorized"]


def test_it_cannot_be_made_up(attempts: Attempts) -> None:
    _, token = attempts.started("a", allow=["read_all", "signal"])
    scheme, task_id, number, signature = token.split("_")
    wrong = [
        token[:-1], f"{token}0", token.replace(signature, "0" * 64), mint("00" * 32, int(task_id), int(number)),
        f"{scheme}_{task_id}_99999_{signature}", f"{scheme}_{int(task_id) + 1}_{number}_{signature}", "weftrun_",
    ]  # fmt: skip
    for one in wrong:
        assert scope_of_token(attempts.server.connection.access, one) is None, one
    assert scope_of_token(attempts.server.connection.access, token) is not None
    node = attempts.server.get("/v1/nodes").json["nodes"][0]
    assert "token_key" not in str(node)
    assert signature not in str(attempts.server.get("/v1/events").json)


def test_a_session_that_lost_its_lease_opens_nothing(attempts: Attempts) -> None:
    _, token = attempts.started("a", allow=[])
    connection = attempts.server.connection
    late = StoreAccess(connection.store, connection.link)
    assert scope_of_token(late, token) is not None
    now = connection.now()
    late.now = lambda: now + 3_600_000  # type: ignore[method-assign]
    assert scope_of_token(late, token) is None


def test_signals_need_to_be_allowed_and_reach_its_own_run(attempts: Attempts) -> None:
    run, token = attempts.started("a", allow=["signal", "read_all"])
    other, plain = attempts.started("b", allow=["read_all"])
    signal = {"name": "approve", "data": {"by": "agent"}}
    assert attempts.server.client(plain).post(f"/v1/runs/{other}/signal", signal).code == "forbidden"
    assert attempts.server.client(token).get(f"/v1/runs/{other}").status == 200
    assert attempts.server.client(token).post(f"/v1/runs/{other}/signal", signal).code == "not_found"
    assert attempts.server.client(token).post(f"/v1/runs/{run}/signal", signal).status == 200
    (event,) = attempts.server.connection.events(run, kinds=["signalled"])[:1]
    assert event.data["actor"] == f"task {run}/a"
    for path in (f"/v1/runs/{run}/mark", f"/v1/runs/{run}/skip", f"/v1/runs/{run}/correct", "/v1/tokens"):
        assert attempts.server.client(token).post(path, {}).code == "forbidden"


def test_submitting_needs_to_be_allowed(attempts: Attempts) -> None:
    _, token = attempts.started("a", allow=["submit"])
    answer = attempts.server.client(token).post("/v1/runs", {"task": {"run": "true"}})
    assert answer.status == 201
    assert attempts.codes(token, ("GET", f"/v1/runs/{answer.json['run']}")) == ["not_found"]


def test_tools_are_those_of_the_scope(attempts: Attempts) -> None:
    run, token = attempts.started("a", allow=[])
    other, more = attempts.started("b", allow=["signal", "submit", "read_all"])
    own = {tool.name for tool in TOOLS if tool.scope == "run"}

    async def limited(calls: Calls) -> None:
        assert set(await calls.names()) == own
        assert (await calls("get_workflow_status", run="last"))["run"]["run"] == run
        assert (await calls("get_task_launch", run=run, task="a"))["kind"] == "shell"
        assert (await calls("explain_task", run=run))["explanations"]
        assert (await calls("list_events", run=run))["events"]
        assert (await calls("get_critical_path", run=run))["run"] == run
        hidden: dict[str, dict[str, Any]] = {
            "get_workflow_status": {"run": other}, "get_task_result": {"run": other}, "list_tasks": {"run": other},
            "stream_task_output": {"run": other, "task": "b"},
        }  # fmt: skip
        for name, given in hidden.items():
            assert (await calls.refused(name, **given))[0] == "not_found", name
        closed: dict[str, dict[str, Any]] = {
            "list_tasks": {}, "list_events": {}, "signal": {"run": run, "name": "approve"}, "list_runs": {},
            "submit_task": {"task": "true"}, "cancel_run": {"run": run}, "preview": {"workflow": "a"},
        }  # fmt: skip
        for name, given in closed.items():
            assert (await calls.refused(name, **given))[0] == "forbidden", name

    async def opened(calls: Calls) -> None:
        assert {"signal", "submit_task", "list_runs"} <= set(await calls.names())
        assert "cancel_run" not in await calls.names()
        assert (await calls("get_workflow_status", run=run))["run"]["run"] == run
        await calls("signal", run="last", name="approve")
        assert (await calls.refused("signal", run=run, name="approve"))[0] == "not_found"

    attempts.server.tell(limited, token=token)
    attempts.server.tell(opened, token=more)


def test_the_token_is_masked_and_only_where_it_is_asked_for(attempts: Attempts) -> None:
    tasks = {"a": {"run": 'echo "<$WEFT_TOKEN>"', "allow": []}, "b": 'echo "<$WEFT_TOKEN>"'}
    run = attempts.server.submit({"name": "seen", "tasks": tasks})
    attempts.server.ended(run)
    outputs = [attempts.server.connection.read_output(run, name, 1, "stdout").data for name in ("a", "b")]
    assert outputs == [b"<***>\n", b"<>\n"]
