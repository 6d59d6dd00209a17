"""What methods do, for whom, and what they refuse: asked by the generated client."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.api.conftest import CHAIN, until
from tests.api.test_request_guard import TOKEN, Everybody
from tests.executors.remote.test_http_connection import certificate
from tests.grpc_api.conftest import MESSAGE_MAX, WAIT_S, GrpcRunning
from weft.api.access.auth import OneToken
from weft.api.access.token_gate import FAILURES_MAX, Tokens
from weft.grpc_api import weft_pb2 as m
from weft.grpc_api import weft_pb2_grpc
from weft.grpc_api.calls import Method
from weft.grpc_api.methods import METHODS
from weft.grpc_api.server import SERVICE
from weft.operations.declare import RANK
from weft.operations.errors import ApiError

FAILS = {"name": "fails", "tasks": {"bad": {"run": "exit 3", "retry": {"max": 1, "backoff": "1ms"}}}}
NAMES = {"run": "abc", "task": "a", "node": "n", "name": "x", "operation": "get_leader"}


def sample(method: str) -> Any:
    """A message with what the method cannot do without."""
    descriptor = SERVICE.methods_by_name[method].input_type
    kind = getattr(m, descriptor.name)
    given = {f.name: NAMES[f.name] for f in descriptor.fields if f.name in NAMES and not f.is_repeated}
    return kind(**given)


@pytest.mark.parametrize(("name", "method"), METHODS.items(), ids=METHODS)
def test_every_method_asks_for_its_role(serving_grpc: Callable[..., GrpcRunning], name: str, method: Method) -> None:
    server = serving_grpc(node=False, gate=Everybody())
    if method.stream is not None:
        server.stop_streams()
    role = "viewer" if method.operation is None else method.operation.role  # that of get_leader
    for token in (None, "garbage", "viewer", "operator", "admin"):
        client = server.rpc(token)
        try:
            client.whole(name, sample(name))
            code = ""
        except grpc.RpcError as error:
            code = error.code().name
        rank = RANK.get(token or "", 0)
        if rank == 0:
            assert code == "UNAUTHENTICATED", token
        elif rank < RANK[role]:
            assert code == "PERMISSION_DENIED", token
        else:
            assert code not in ("UNAUTHENTICATED", "PERMISSION_DENIED", "INTERNAL", "UNKNOWN"), (token, code)


def test_a_workflow_in_messages_is_its_long_form(idle: GrpcRunning) -> None:
    client = idle.rpc()
    constraints = m.TaskConstraints(
        requires_gpu=True, avoid_gaming=True, min_memory_mb=512, min_disk_gb=1.5, node_labels=["a", "b"],
        target_node="big",
    )  # fmt: skip
    policy = m.RetryPolicy(max_retries=0, backoff_ms=250, backoff_multiplier=2, retryable=False, max_backoff_ms=9000)
    first = m.TaskSpec(
        name="extract", command="echo $A", env={"A": "1"}, cwd="in", timeout_ms=5000, constraints=constraints,
        retry_policy=policy, priority=3,
    )  # fmt: skip
    second = m.TaskSpec(name="load", argv=["echo", "x"], options_json='{"when": "always", "grace": "3s"}')
    third = m.TaskSpec(name="box", type="container", command="true", spec_json='{"image": "alpine"}')
    request = m.SubmitWorkflowRequest(
        name="nightly",
        tasks=[
            m.WorkflowTaskDef(spec=first),
            m.WorkflowTaskDef(spec=second, depends_on=["extract"], condition="parent.extract.state == 'completed'"),
            m.WorkflowTaskDef(spec=third, depends_on=["extract", "load"]),
        ],
        labels={"team": "data"}, priority=4, max_parallel=2, options_json='{"context": {"day": 1}}',
    )  # fmt: skip
    submitted = client("SubmitWorkflow", request)
    long_form = {
        "name": "nightly", "context": {"day": 1},
        "tasks": [
            {
                "key": "extract", "type": "shell", "priority": 3,
                "spec": {"command": "echo $A", "env": {"A": "1"}, "cwd": "in", "timeoutMs": 5000},
                "constraints": {
                    "requiresGpu": True, "avoidGaming": True, "minMemoryMb": 512, "minDiskGb": 1.5,
                    "nodeLabels": ["a", "b"], "targetNode": "big",
                },
                "retryPolicy": {
                    "maxRetries": 0, "backoffMs": 250, "backoffMultiplier": 2, "retryable": False,
                    "maxBackoffMs": 9000,
                },
            },
            {
                "key": "load", "type": "shell", "spec": {"argv": ["echo", "x"]}, "when": "always", "grace": "3s",
                "dependsOn": ["extract"], "condition": "parent.extract.state == 'completed'",
            },
            {
                "key": "box", "type": "container", "spec": {"command": "true", "image": "alpine"},
                "dependsOn": ["extract", "load"],
            },
        ],
    }  # fmt: skip
    assert submitted.workflow == idle.post("/v1/runs", {"definition": long_form}).json["workflow"]
    status = client("GetWorkflowStatus", m.GetWorkflowStatusRequest(run=submitted.run))
    assert (status.id, status.name, status.state) == (submitted.run, "nightly", "running")
    assert [(one.name, one.state, list(one.needs)) for one in status.task_statuses] == [
        ("extract", "queued", []), ("load", "pending", ["extract"]), ("box", "pending", ["extract", "load"]),
    ]  # fmt: skip
    assert json.loads(status.context_json) == {"day": 1}
    assert (status.run.priority, dict(status.run.labels), status.run.total) == (4, {"team": "data"}, 3)


def test_work_is_done_and_seen(working: GrpcRunning) -> None:
    client = working.rpc()
    task = client("SubmitTask", m.SubmitTaskRequest(spec=m.TaskSpec(name="hello", command="echo hello")))
    working.ended(task.run)
    details = client("GetTaskStatus", m.GetTaskStatusRequest(run=task.run, task="hello"))
    assert (details.task.state, details.task.exit_code, details.task.HasField("reason")) == ("succeeded", 0, False)
    assert [one.outcome for one in details.attempts] == ["succeeded"]
    failed = client("SubmitWorkflow", m.SubmitWorkflowRequest(definition=json.dumps(FAILS), inputs_json="{}"))
    assert working.ended(failed.run)["state"] == "failed"
    dead = client("ListDeadLetters", m.ListDeadLettersRequest())
    assert [(one.run_id, one.name, one.exit_code) for one in dead.tasks] == [(failed.run, "bad", 3)]
    again = client("RetryDeadLetters", m.RetryDeadLettersRequest(run=failed.run, tasks=["bad"]))
    assert (again.state, again.changed) == ("running", 1)
    working.ended(failed.run)
    page = client("ListWorkflows", m.ListWorkflowsRequest(limit=1))
    assert [one.id for one in page.runs] == [failed.run]
    rest = client("ListWorkflows", m.ListWorkflowsRequest(limit=1, cursor=page.next, state=["succeeded"]))
    assert [one.id for one in rest.runs] == [task.run]
    assert len(client("ListTasks", m.ListTasksRequest(state=["dead_letter"])).tasks) == 1
    (node,) = client("ListNodes", m.ListNodesRequest()).nodes
    drained = client("DrainNode", m.DrainNodeRequest(node=node.node, deadline_ms=0, reason="enough"))
    assert (drained.node, drained.existing) == (node.node, False)
    until(lambda: not client("ListNodes", m.ListNodesRequest()).nodes)


def test_runs_are_stopped_and_signalled(idle: GrpcRunning) -> None:
    client = idle.rpc()
    run = idle.submit({"name": "w", "tasks": {"a": {"wait": {"signal": "go"}}, "b": {"run": "true"}}})
    assert client("CancelTask", m.CancelTaskRequest(run=run, task="b", reason="no")).changed == 1
    assert not client("SignalWorkflow", m.SignalWorkflowRequest(run=run, name="go", data_json="[1]")).existing
    twice = client.refused("SignalWorkflow", m.SignalWorkflowRequest(run=run, name="go", data_json="[2]"))
    assert (twice.status, twice.code) == ("FAILED_PRECONDITION", "conflict")
    other = idle.submit(CHAIN)
    assert client("CancelWorkflow", m.CancelWorkflowRequest(run=other)).state == "cancelled"
    assert client("CancelWorkflow", m.CancelWorkflowRequest(run=other)).existing
    assert client("ResumeWorkflow", m.ResumeWorkflowRequest(run=other)).state == "running"


def test_any_operation_is_called_by_its_name(serving_grpc: Callable[..., GrpcRunning]) -> None:
    server = serving_grpc(node=False, gate=Everybody())
    run = server.client("operator").post("/v1/runs", {"definition": CHAIN}).json["run"]
    viewer = server.rpc("viewer")
    asked = m.CallRequest(operation="explain_run", request_json=json.dumps({"run": run}))
    over_http = server.client("viewer").get(f"/v1/runs/{run}/why").json
    assert json.loads(viewer("Call", asked).reply_json) == over_http
    denied = viewer.refused("Call", m.CallRequest(operation="pause_run", request_json=json.dumps({"run": run})))
    assert (denied.status, denied.code) == ("PERMISSION_DENIED", "forbidden")
    wrong = viewer.refused("Call", m.CallRequest(operation="explain_run", request_json='{"runs": 1}'))
    assert (wrong.status, wrong.code) == ("INVALID_ARGUMENT", "body")
    missing = viewer.refused("Call", m.CallRequest(operation="explain_rum"))
    assert (missing.status, "explain_run" in missing.message) == ("NOT_FOUND", True)
    assert viewer.refused("Call", m.CallRequest(operation="submit_run")).status == "NOT_FOUND"


def test_what_is_sent_again_is_applied_once(idle: GrpcRunning) -> None:
    client = idle.rpc()
    message = m.SubmitTaskRequest(spec=m.TaskSpec(command="true"))
    first = client("SubmitTask", message, idempotency_key="k1")
    again = client("SubmitTask", message, idempotency_key="k1")
    assert (again.run, again.existing, first.existing) == (first.run, True, False)
    other = m.SubmitTaskRequest(spec=m.TaskSpec(command="false"))
    assert client.refused("SubmitTask", other, idempotency_key="k1").status == "FAILED_PRECONDITION"
    runs = {client("SubmitTask", message, weft_command="0123456789").run for _ in range(2)}
    assert len(runs) == 1
    used = client.refused("CancelWorkflow", m.CancelWorkflowRequest(run=first.run), weft_command="0123456789")
    assert (used.status, used.code) == ("ALREADY_EXISTS", "command_used")
    assert client.refused("SubmitTask", message, weft_command="NO").code == "parameters"
    assert client.refused("SubmitTask", message, idempotency_key="x" * 300).code == "body"


def test_mistakes_are_told_with_their_place(idle: GrpcRunning) -> None:
    client = idle.rpc()
    spec = m.TaskSpec(name="a", command="true")
    wrong = client.refused(
        "SubmitWorkflow",
        m.SubmitWorkflowRequest(name="w", tasks=[m.WorkflowTaskDef(spec=spec, depends_on=["b"])]),
    )
    assert (wrong.status, wrong.code) == ("INVALID_ARGUMENT", "definition")
    assert wrong.problem["errors"][0]["path"] == "tasks[0].dependsOn[0]"
    for message in (
        m.SubmitWorkflowRequest(),
        m.SubmitWorkflowRequest(tasks=[m.WorkflowTaskDef()]),
        m.SubmitWorkflowRequest(workflow="w", tasks=[m.WorkflowTaskDef(spec=spec)]),
        m.SubmitWorkflowRequest(tasks=[m.WorkflowTaskDef(spec=spec)], options_json="[]"),
        m.SubmitWorkflowRequest(definition="- true", inputs_json="{"),
    ):
        assert client.refused("SubmitWorkflow", message).status == "INVALID_ARGUMENT", message
    assert client.refused("SubmitTask", m.SubmitTaskRequest()).code == "body"
    assert client.refused("GetTaskStatus", m.GetTaskStatusRequest(run="abc")).problem["fix"] == "it takes run, task"
    unknown = client.refused("GetWorkflowStatus", m.GetWorkflowStatusRequest(run="abc"))
    assert (unknown.status, unknown.code) == ("NOT_FOUND", "not_found")
    assert client.refused("ListTasks", m.ListTasksRequest(limit=-1)).code == "body"


def raw(server: GrpcRunning, data: bytes, method: str = "SubmitTask", **options: Any) -> str:
    """The status that these bytes get."""
    client = server.rpc(options.pop("token", None))
    call = client.channel.unary_unary(f"/weft.v1.Weft/{method}")
    try:
        call(data, timeout=WAIT_S, metadata=client.metadata({}), **options)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.mark.timeout(60)
def test_hostile_messages_are_refused(idle: GrpcRunning) -> None:
    assert raw(idle, b"\x0a\x04\x0a\x02\xff\xfe") == "INVALID_ARGUMENT"  # spec.name is not UTF-8
    assert raw(idle, b"\x0a\xff\xff\xff\xff\x0f") == "INVALID_ARGUMENT"  # longer than it is
    assert raw(idle, b"\xff" * 1000) == "INVALID_ARGUMENT"
    assert raw(idle, b"") == "INVALID_ARGUMENT"
    assert raw(idle, b"\x0a" * 10_000) == "INVALID_ARGUMENT"
    assert raw(idle, b"x" * (MESSAGE_MAX + 1)) == "RESOURCE_EXHAUSTED"
    assert raw(idle, b"", "Nothing") == "UNIMPLEMENTED"
    packed = m.SubmitTaskRequest(spec=m.TaskSpec(command="x" * 100_000)).SerializeToString()
    assert raw(idle, packed, compression=grpc.Compression.Gzip) == "UNIMPLEMENTED"
    deep = "[" * 50_000 + "]" * 50_000
    nested = m.SubmitTaskRequest(spec=m.TaskSpec(command="true", spec_json=deep)).SerializeToString()
    assert raw(idle, nested) == "INVALID_ARGUMENT"
    signal = m.SignalWorkflowRequest(run="abc", name="go", data_json=deep).SerializeToString()
    assert raw(idle, signal, "SignalWorkflow") == "INVALID_ARGUMENT"
    huge = idle.rpc()
    with pytest.raises(grpc.RpcError) as found:
        huge.stub.ListNodes(m.ListNodesRequest(), metadata=(("x", "y" * 100_000),), timeout=WAIT_S)
    assert found.value.code().name == "RESOURCE_EXHAUSTED"
    assert idle.rpc()("ListNodes", m.ListNodesRequest()) == m.NodePage()


def test_a_stranger_cannot_make_the_server_hold_a_large_message(serving_grpc: Callable[..., GrpcRunning]) -> None:
    server = serving_grpc(node=False, gate=OneToken(TOKEN))
    large = b"x" * (MESSAGE_MAX + 1)
    assert raw(server, large) == "UNAUTHENTICATED"
    assert raw(server, large, token=TOKEN) == "RESOURCE_EXHAUSTED"


def test_bytes_that_are_no_http2_end_nothing_else(idle: GrpcRunning) -> None:
    host, _, port = idle.address.rpartition(":")
    for data in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0" * 1000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 99,
    ):
        with socket.create_connection((host, int(port)), WAIT_S) as connection:
            connection.sendall(data)
            while connection.recv(4096):
                pass
    assert idle.rpc()("ListNodes", m.ListNodesRequest()) == m.NodePage()


def test_wrong_tokens_are_not_listened_to_for_long(serving_grpc: Callable[..., GrpcRunning]) -> None:
    server = serving_grpc(node=False, gate=Tokens(lambda token: None, TOKEN))
    stranger = server.rpc("wrong-token")
    for _ in range(FAILURES_MAX):
        assert stranger.refused("ListNodes", m.ListNodesRequest()).status == "UNAUTHENTICATED"
    late = stranger.refused("ListNodes", m.ListNodesRequest())
    assert (late.status, late.code) == ("RESOURCE_EXHAUSTED", "too_many_failures")
    assert int(late.trailers["retry-after"]) >= 1
    assert server.client("other-wrong").get("/v1/runs").code == "too_many_failures"  # one count for both
    assert server.rpc(TOKEN)("ListNodes", m.ListNodesRequest()) == m.NodePage()


def test_a_deadline_ends_the_wait(idle: GrpcRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    goes_on = threading.Event()
    monkeypatch.setattr(idle.app.state.connection, "call", lambda *given: goes_on.wait(WAIT_S))
    client = idle.rpc()
    with pytest.raises(grpc.RpcError) as found:
        client.stub.ListNodes(m.ListNodesRequest(), timeout=0.2)
    assert found.value.code().name == "DEADLINE_EXCEEDED"
    until(lambda: idle.app.state.waiting == 0)
    goes_on.set()


def test_an_unexpected_error_says_nothing_of_our_insides(
    idle: GrpcRunning, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: object) -> None:
        raise ZeroDivisionError("the secret plan")

    monkeypatch.setattr(idle.app.state.connection, "for_request", broken)
    found = idle.rpc().refused("ListNodes", m.ListNodesRequest())
    assert (found.status, found.code) == ("INTERNAL", "bug")
    assert "plan" not in found.message
    assert "plan" in caplog.text


def test_health_needs_no_token(serving_grpc: Callable[..., GrpcRunning]) -> None:
    why: list[str | None] = [None]
    server = serving_grpc(node=False, gate=OneToken(TOKEN), ready=lambda: why[0])
    stub = health_pb2_grpc.HealthStub(server.rpc().channel)
    for service in ("", "weft.v1.Weft"):
        asked = health_pb2.HealthCheckRequest(service=service)
        assert stub.Check(asked, timeout=WAIT_S).status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as found:
        stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=WAIT_S)
    assert found.value.code().name == "NOT_FOUND"
    watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
    assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
    why[0] = "its node has no session"
    assert stub.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    server.stop_streams()
    assert [one.status for one in watched] == [health_pb2.HealthCheckResponse.NOT_SERVING]


def test_a_client_learns_the_service_by_reflection(serving_grpc: Callable[..., GrpcRunning]) -> None:
    server = serving_grpc(node=False, gate=OneToken(TOKEN))
    database = ProtoReflectionDescriptorDatabase(server.rpc().channel)
    names = ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "weft.v1.Weft"]
    assert sorted(database.get_services()) == names
    found = DescriptorPool(database).FindServiceByName("weft.v1.Weft")
    assert [one.name for one in found.methods] == list(METHODS)
    assert {f.name for f in found.methods_by_name["SubmitWorkflow"].input_type.fields} >= {"name", "tasks"}


def test_too_much_at_once_is_refused(idle: GrpcRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(work: object) -> None:
        raise ApiError("overloaded", "1,000 requests wait already", "come back in a moment")

    monkeypatch.setattr(idle.app.state, "off_loop", full)
    found = idle.rpc().refused("ListNodes", m.ListNodesRequest())
    assert (found.status, found.code, found.trailers["retry-after"]) == ("UNAVAILABLE", "overloaded", "2")


def test_the_servers_certificate_is_that_of_grpc(serving_grpc: Callable[..., GrpcRunning], tmp_path: Path) -> None:
    certificate(tmp_path)
    key, crt = tmp_path / "key.pem", tmp_path / "crt.pem"
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + crt.read_bytes())
    for tls in ((crt, key), (both, None)):
        server = serving_grpc(node=False, gate=OneToken(TOKEN), tls=tls)
        trusting = grpc.ssl_channel_credentials(crt.read_bytes())
        with grpc.secure_channel(server.address, trusting) as channel:
            stub = weft_pb2_grpc.WeftStub(channel)  # type: ignore[no-untyped-call]
            metadata = (("authorization", f"Bearer {TOKEN}"),)
            assert stub.ListNodes(m.ListNodesRequest(), metadata=metadata, timeout=WAIT_S) == m.NodePage()
        assert server.rpc(TOKEN).refused("ListNodes", m.ListNodesRequest()).status == "UNAVAILABLE"
