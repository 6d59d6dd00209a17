"""weft.proto, the generated code, the methods and the table of operations say the same."""

import re
from typing import Any

import msgspec
import pytest

from tests.architecture.source import ROOT, SRC
from weft.grpc_api import weft_pb2, weft_pb2_grpc
from weft.grpc_api.calls import Method, peer_host
from weft.grpc_api.methods import METHODS, RunStatus
from weft.grpc_api.statuses import MESSAGE_MAX, PROBLEM_MAX, encoded, message_of_problem, status_of
from weft.operations.errors import ERRORS, ApiError
from weft.operations.resources.submissions import RunRequest

SERVICE = weft_pb2.DESCRIPTOR.services_by_name["Weft"]
PROTO = re.sub(r"//.*", "", (SRC / "grpc_api/weft.proto").read_text())
_MESSAGE = re.compile(r"message (\w+) \{(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"(optional |repeated )?(map<\w+, \w+>|\w+) (\w+) = (\d+);")
_RPC = re.compile(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\)")
#: Fields of messages that are not fields of the operation's request, with what they become.
OWN = {
    "SubmitTask": {"spec"},  # the task
    "SubmitWorkflow": {"tasks", "options"},  # a definition
    "StreamOutput": {"after"},  # Last-Event-ID
}


def test_the_generated_code_is_in_step_with_the_proto() -> None:
    """`make proto` writes it anew."""
    written = {name: _FIELD.findall(body) for name, body in _MESSAGE.findall(PROTO)}
    assert list(written) == list(weft_pb2.DESCRIPTOR.message_types_by_name)
    for name, fields in written.items():
        known = weft_pb2.DESCRIPTOR.message_types_by_name[name].fields
        assert [(field, int(number)) for _, _, field, number in fields] == [(one.name, one.number) for one in known]
        for (label, kind, _, _), one in zip(fields, known, strict=True):
            assert (label == "repeated " or kind.startswith("map")) == one.is_repeated, (name, one.name)
            assert (label == "optional ") == (one.containing_oneof is not None), (name, one.name)
            if one.message_type is not None and not kind.startswith("map"):
                assert one.message_type.name == kind
            else:
                assert getattr(one, f"TYPE_{kind.upper()}", one.TYPE_MESSAGE) == one.type, (name, one.name)
    rpcs = {name: (takes, bool(stream), gives) for name, takes, stream, gives in _RPC.findall(PROTO)}
    known_rpcs = {
        one.name: (one.input_type.name, one.server_streaming, one.output_type.name) for one in SERVICE.methods
    }
    assert rpcs == known_rpcs
    assert all(hasattr(weft_pb2_grpc.WeftServicer, name) for name in rpcs)


def test_every_method_of_the_proto_is_there() -> None:
    assert list(METHODS) == [method.name for method in SERVICE.methods]
    for name, method in METHODS.items():
        assert (method.stream is not None) == SERVICE.methods_by_name[name].server_streaming
        assert (method.unary is None) == (method.stream is not None)


def test_the_guide_lists_them_all() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", (ROOT / "docs/guides/grpc.md").read_text(), re.MULTILINE)
    assert [name for name, _, _ in rows] == list(METHODS)
    for name, operations, role in rows:
        operation = METHODS[name].operation
        if operation is not None:
            assert (operations.split(", ")[0], role) == (f"`{operation.name}`", operation.role)


def _names(descriptor: Any) -> set[str]:
    return {field.name.removesuffix("_json") for field in descriptor.fields}


@pytest.mark.parametrize(("name", "method"), METHODS.items(), ids=METHODS)
def test_messages_have_the_names_of_operations(name: str, method: Method) -> None:
    if method.operation is None:
        return
    descriptor = SERVICE.methods_by_name[name]
    takes = RunRequest if name.startswith("Submit") else method.operation.request
    assert _names(descriptor.input_type) - OWN.get(name, set()) <= set(takes.__struct_fields__)
    if method.operation.reply is None:
        return  # a stream: what is sent is tested there
    _compare(descriptor.output_type, RunStatus if name == "GetWorkflowStatus" else method.operation.reply)


def _compare(descriptor: Any, reply: Any) -> None:
    known = reply.__annotations__ if reply is RunStatus else {f.name: f.type for f in msgspec.structs.fields(reply)}
    assert _names(descriptor) <= known.keys()
    for field in descriptor.fields:
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        inner = known[field.name]
        inner = getattr(inner, "__args__", (inner,))[0]  # list[X]
        _compare(field.message_type, inner)


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_has_a_status(code: str) -> None:
    assert status_of(code).name != "OK"
    retried = ERRORS[code].status == 503 and code != "too_many_readers"
    assert (status_of(code).name == "UNAVAILABLE") == retried


def test_a_problem_fits_into_trailers() -> None:
    errors = [{"path": f"tasks.t{number}", "message": "wrong " * 10, "fix": None} for number in range(500)]
    problem = ApiError("definition", "x" * 100_000, "…" * 100_000, errors=errors, more=7).problem
    problem.fix = "put it right"
    data = encoded(problem)
    assert len(data) <= PROBLEM_MAX
    found = msgspec.json.decode(data)
    assert found["errors"] == errors[: len(found["errors"])]
    assert len(found["errors"]) + found["more"] == 507
    assert len(message_of_problem(problem)) == MESSAGE_MAX


def test_the_address_of_a_peer() -> None:
    assert peer_host("ipv4:127.0.0.1:40000") == "127.0.0.1"
    assert peer_host("ipv6:%5B::1%5D:40000") == "::1"
