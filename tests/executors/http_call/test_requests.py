"""One request and one answer: what is sent, what is made of the answer, and what is a failure that is retried."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executors.http_call.service import Asked, Service, calling, said, serving, until
from tests.executors.remote.test_http_connection import certificate
from weft.executors.http_call.secret_references import marked
from weft.executors.protocol import Outcome


def one_call(
    directory: Path, answers: Any, spec: dict[str, Any], secrets: dict[str, str] | None = None
) -> tuple[Outcome, Service]:
    """`spec` without a host gets the service's."""

    async def main() -> tuple[Outcome, Service]:
        async with serving(answers) as service, calling(directory) as caller:
            whole = marked({**spec, "url": service.url + spec.get("url", "/x")}, tuple(secrets or ()))
            return await caller.call(whole, secrets), service

    return asyncio.run(main())


def test_json_goes_and_comes(tmp_path: Path) -> None:
    answer = said(201, {"id": 7}, ETag="v1", X_Other="no")
    outcome, service = one_call(tmp_path, [answer], {"json": {"a": [1, None]}, "headers": {"X-A": 5}})
    asked = service.asked[0]
    assert (asked.method, asked.target, asked.body) == ("POST", "/x", b'{"a":[1,null]}')
    assert asked.headers["idempotency-key"] == "r/t"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["x-a"] == "5"
    assert not [name for name in asked.headers if name.startswith("x-weft")]
    assert (outcome.ok, outcome.output, outcome.exit_code) == (True, {"id": 7}, None)
    assert outcome.result == {
        "requests": 1, "status": 201, "headers": {"content-type": "application/json", "etag": "v1"}
    }  # fmt: skip
    assert (tmp_path / "out" / "t1.1.out").read_bytes() == b'{"id":7}'
    assert (tmp_path / "out" / "t1.1.err").read_text().startswith(f"POST {service.url}/x 201 ")


@pytest.mark.parametrize(
    ("spec", "method"),
    [({}, "GET"), ({"body": "x"}, "POST"), ({"json": None}, "POST"), ({"method": "DELETE"}, "DELETE")],
)
def test_methods(tmp_path: Path, spec: dict[str, Any], method: str) -> None:
    _, service = one_call(tmp_path, [said(200, "text")], spec)
    assert service.asked[0].method == method


def test_the_answer_to_head_has_no_body(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nETag: v\r\n\r\n"
    outcome, _ = one_call(tmp_path, [head], {"method": "HEAD", "timeout": "5s"})
    assert (outcome.ok, outcome.output) == (True, msgspec.UNSET)
    assert outcome.result is not None
    assert outcome.result["headers"] == {"etag": "v"}


def test_text_is_the_output_if_it_does_not_say_json(tmp_path: Path) -> None:
    outcome, _ = one_call(tmp_path, [said(200, '{"a": 1}', Content_Type="text/plain")], {})
    assert outcome.output == '{"a": 1}'


@pytest.mark.parametrize(("body", "output"), [(b'{"a": 1}', {"a": 1}), (b"{a", "{a"), (b"text", "text")])
def test_an_answer_that_says_nothing_is_json_if_it_can_be(tmp_path: Path, body: bytes, output: Any) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    outcome, _ = one_call(tmp_path, [answer], {})
    assert (outcome.ok, outcome.output) == (True, output)


def test_what_says_json_and_is_not_is_a_failure(tmp_path: Path) -> None:
    outcome, _ = one_call(tmp_path, [said(200, "{", Content_Type="application/json")], {})
    assert not outcome.ok
    assert "is not JSON" in (outcome.error or "")


def test_a_key_of_the_definition_wins(tmp_path: Path) -> None:
    _, service = one_call(tmp_path, [said()], {"headers": {"idempotency-key": "mine"}})
    assert service.asked[0].headers["idempotency-key"] == "mine"


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (404, False), (408, True), (425, True), (429, True), (500, True), (503, True)],
)
def test_statuses(tmp_path: Path, status: int, retryable: bool) -> None:
    outcome, _ = one_call(tmp_path, [said(status, {"why": "not now"}, Retry_After="7")], {})
    assert (outcome.ok, outcome.cause, outcome.retryable, outcome.retry_after_s) == (False, status, retryable, 7.0)
    assert f"HTTP {status} from http://127.0.0.1" in (outcome.error or "")
    assert "not now" in (outcome.error or "")
    assert outcome.result is not None
    assert outcome.result["json"] == {"why": "not now"}


def test_expected_statuses(tmp_path: Path) -> None:
    outcome, _ = one_call(tmp_path, [said(404)], {"expect": {"status": [404, "3xx"]}})
    assert outcome.ok
    outcome, _ = one_call(tmp_path, [said(200)], {"expect": {"status": [404, "3xx"]}})
    assert (outcome.ok, outcome.cause, outcome.retryable) == (False, 200, False)


def test_expected_values(tmp_path: Path) -> None:
    answer = [said(200, {"a": {"b/c": [0, True]}, "n": 1})]
    outcome, _ = one_call(tmp_path, answer, {"expect": {"json": {"/a/b~1c/1": True, "/n": 1}}})
    assert outcome.ok, outcome.error
    outcome, _ = one_call(tmp_path, answer, {"expect": {"json": {"/a/b~1c/0": False}}})
    assert (outcome.ok, outcome.cause) == (False, 200)
    assert "has 0 at /a/b~1c/0, and false was expected" in (outcome.error or "")
    outcome, _ = one_call(tmp_path, answer, {"expect": {"json": {"/gone": None}}})
    assert "has nothing at /gone" in (outcome.error or "")


def test_secrets_stand_only_where_the_definition_names_them(tmp_path: Path) -> None:
    """A value that came into a text with an expression is not searched for names."""
    secrets = {"TOKEN": "s3cret&x", "OTHER": "0ther-secret"}

    async def main() -> Asked:
        async with serving([said(200, "the s3cret&x came")]) as service, calling(tmp_path) as caller:
            url = service.url + "/a?t=$TOKEN&u=$UNLISTED"
            spec = {"url": url, "headers": {"Authorization": "Bearer ${TOKEN}"}, "json": {"a": ["$TOKEN$OTHER"]}}
            spec = marked(spec, ("TOKEN", "OTHER"))
            spec["json"]["b"] = "$TOKEN from elsewhere"  # as an expression would have put it there
            outcome = await caller.call(spec, secrets)
            assert outcome.ok, outcome.error
            assert "s3cret" not in caller.output(), caller.output()
            assert caller.output(stream="out") == "the *** came"
            return service.asked[0]

    asked = asyncio.run(main())
    assert asked.target == "/a?t=s3cret%26x&u=$UNLISTED"
    assert asked.headers["authorization"] == "Bearer s3cret&x"
    assert msgspec.json.decode(asked.body) == {"a": ["s3cret&x0ther-secret"], "b": "$TOKEN from elsewhere"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"url": "ftp://x/"}, "no URL of http"),
        ({"url": "http://u:p@127.0.0.1/"}, "has a user name"),
        ({"url": "http://[::1/"}, "is no URL"),
        ({"url": "http://127.0.0.1/", "headers": {"A": "x\r\nB: y"}}, "line break"),
        ({"url": "http://127.0.0.1/", "headers": {"A": "\u20ac"}}, "no header can have"),
        ({"url": "http://127.0.0.1/", "headers": {"Host": "other"}}, "cannot be set"),
        ({"url": "http://127.0.0.1/", "method": "GET", "body": "x"}, "sends no body"),
    ],
)
def test_what_cannot_be_sent(tmp_path: Path, spec: dict[str, Any], words: str) -> None:
    async def main() -> Outcome:
        async with calling(tmp_path) as caller:
            return await caller.call(spec)

    outcome = asyncio.run(main())
    assert (outcome.ok, outcome.retryable) == (False, False)
    assert words in (outcome.error or "")


def test_paths_are_encoded_and_cannot_break_a_line(tmp_path: Path) -> None:
    _, service = one_call(tmp_path, [said()], {"url": "/a b/\u00e4?q=x y&z=%20"})
    assert service.asked[0].target == "/a%20b/%C3%A4?q=x%20y&z=%20"


def test_over_tls_with_the_name_that_was_asked_for(tmp_path: Path) -> None:
    server, client = certificate(tmp_path)

    async def main(tls: ssl.SSLContext) -> Outcome:
        async with serving([said(200, "safe")], server) as service, calling(tmp_path, tls=tls) as caller:
            return await caller.call({"url": f"https://127.0.0.1:{service.port}/"})

    assert asyncio.run(main(client)).output == "safe"
    refused = asyncio.run(main(ssl.create_default_context()))
    assert "its certificate: self" in (refused.error or "")
    assert refused.retryable


def test_stopped_while_it_waits_for_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
            await release.wait()

        async with serving(never) as service, calling(tmp_path) as caller:
            launch, future = caller.begin({"url": service.url})
            await until(lambda: service.asked)
            caller.stop(launch, "timeout")
            outcome = await asyncio.wait_for(future, 10)
            assert (outcome.stopped, outcome.termination, outcome.result) == ("timeout", None, {"requests": 1})
            assert "was given up" in caller.output(launch)
            release.set()
            launch, future = caller.begin({"url": service.url})
            caller.stop(launch)  # before it has begun
            assert (await future).stopped == "cancel"

    asyncio.run(main())


def test_trust_that_ends_stops_all(tmp_path: Path) -> None:
    async def main() -> None:
        from weft.executors.boot_clock import boottime

        async with serving([said(202, Location="/p")]) as service, calling(tmp_path) as caller:
            poll = {"every": "1h", "cancel": "DELETE"}
            futures = [caller.begin({"url": service.url, "poll": poll})[1] for _ in range(3)]
            await until(lambda: len(service.asked) == 3)
            caller.executor.trust(boottime() + 0.2)
            outcomes = await asyncio.gather(*futures)
            assert {outcome.stopped for outcome in outcomes} == {"lease"}
            assert [asked.method for asked in service.asked] == ["GET"] * 3  # nothing was asked to end

    asyncio.run(main())
