"""What strangers send before it is known who they are: heads that are too large or too slow, forged addresses, pages
of other sites; and a server behind a proxy that gives it a prefix."""

import http.client
import json
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.api.conftest import CHAIN, WAIT_S, Running, until
from weft.api import serving as serving_module
from weft.api.access.token_gate import Tokens
from weft.api.serving import HEAD_MAX

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


def opened(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)


def answer_of(connection: socket.socket) -> http.client.HTTPResponse:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer


def test_headers_are_bounded(quiet: Running) -> None:
    for head in (
        HEAD + b"X: " + b"x" * (HEAD_MAX - len(HEAD) - 100) + b"\r\n\r\n",
        HEAD + b"".join(b"X%d: y\r\n" % n for n in range(1000)) + b"\r\n",
    ):
        with opened(quiet) as connection:
            connection.sendall(head)
            assert answer_of(connection).status == 200
    for head in (
        HEAD + b"X: " + b"x" * (HEAD_MAX + 1) + b"\r\n\r\n",
        HEAD + b"".join(b"X%d: y\r\n" % n for n in range(20_000)) + b"\r\n",
        b"GET /" + b"x" * HEAD_MAX + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        with opened(quiet) as connection:
            connection.sendall(head)
            answer = answer_of(connection)
            assert (answer.status, answer.headers["content-type"]) == (431, "application/problem+json")
            assert json.load(answer)["code"] == "headers_too_large"


CHUNKED = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


@pytest.mark.parametrize("before", [HEAD, CHUNKED], ids=["header", "trailer"])
def test_a_header_without_an_end_is_cut_off(quiet: Running, before: bytes) -> None:
    """The bound acts on what has come, not on what is whole."""
    taken = 0
    with opened(quiet) as connection, suppress(ConnectionError):
        connection.sendall(before + b"X: ")
        while taken < 256 * HEAD_MAX:
            connection.sendall(b"x" * HEAD_MAX)
            taken += HEAD_MAX
    assert taken < 256 * HEAD_MAX


def test_headers_must_arrive_in_time(quiet: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "HEAD_MAX_S", 0.3)
    with opened(quiet) as silent, opened(quiet) as slow:
        slow.sendall(HEAD)
        for connection in (slow, silent):
            assert answer_of(connection).status == 408
            assert connection.recv(1) == b"", "it hangs up"
    with opened(quiet) as kept:  # an idle connection between two requests is no slow head
        for _ in range(2):
            kept.sendall(HEAD + b"\r\n")
            answer = answer_of(kept)
            assert (answer.status, len(answer.read()) > 0) == (200, True)
            time.sleep(0.5)


def test_invalid_utf8_in_a_body_is_400(quiet: Running) -> None:
    for path, body in (
        ("runs", b'{"definition": "\xff"}'), ("tasks", b'{"run": "\xff"}'), ("runs", b'{"\xc3\x28": 1}'),
        ("runs:batch", b'{"runs": [{"definition": "\xff"}]}'), ("tokens", b"\xff"),
    ):  # fmt: skip
        answer = quiet.post(f"/v1/{path}", body)
        assert (answer.status, answer.code) == (400, "json"), (path, answer)


def test_pages_of_other_sites_are_refused(quiet: Running) -> None:
    for path in ("/", "/v1/runs", "/healthz"):
        assert quiet.get(path, Sec_Fetch_Site="cross-site").code == "origin"
        for fine in ("same-origin", "none"):
            assert quiet.get(path, Sec_Fetch_Site=fine).status == 200


def test_head_works_where_get_does(quiet: Running) -> None:
    quiet.submit(CHAIN)
    for path in ("/", "/healthz", "/readyz", "/v1/runs", "/v1/runs/last", "/metrics", "/openapi.json", "/nothing"):
        got, asked = quiet.get(path), quiet.call("HEAD", path)
        assert (asked.status, asked.body) == (got.status, b""), path
        assert asked.headers["content-type"] == got.headers["content-type"]
    stream = quiet.client()
    assert stream("HEAD", "/v1/events/stream").headers["content-type"].startswith("text/event-stream")
    until(lambda: quiet.app.state.hub.readers == 0)
    assert quiet.call("HEAD", "/v1/tokens/x/revoke").status == 405


def test_a_prefix_works_whether_the_proxy_removes_it_or_not(serving: Callable[..., Running]) -> None:
    server = serving(node=False, root_path="/weft", gate=Tokens(lambda token: None, "0123456789abcdef"))
    call = server.client("0123456789abcdef")
    assert call.get("/weft").headers["location"] == "/weft/"
    made = call.post("/weft/v1/runs", {"definition": CHAIN})
    assert made.headers["location"] == f"/weft/v1/runs/{made.json['run']}"
    for prefix in ("/weft", ""):
        assert call.get(f"{prefix}/v1/runs").json["runs"][0]["id"] == made.json["run"]
        assert call.get(f"{prefix}/openapi.json").json["servers"] == [{"url": "/weft"}]
        shell = call.get(f"{prefix}/").body.decode()
        assert 'src="ui/' in shell
        assert not re.search(r'(href|src)="/', shell)
        (script,) = re.findall(r'src="(ui/[^"]+)"', shell)
        assert call.get(f"{prefix}/{script}").headers["content-type"].startswith("text/javascript")
        page = call.get(f"{prefix}/plain", Accept="text/html").body.decode()
        assert f'href="plain?run={made.json["run"]}"' in page
        assert 'href="/' not in page
        form = server.client().get(f"{prefix}/plain", Accept="text/html")
        assert (form.status, b"<form" in form.body) == (401, True)
        stream = server.client("0123456789abcdef")
        assert stream("HEAD", f"{prefix}/v1/events/stream").status == 200
    assert call.get("/wefty/v1/runs").status == 404
    assert call.get("/weft/weft/v1/runs").status == 404
