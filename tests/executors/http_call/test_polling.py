"""What was only accepted: polls until it has ended, and stops that are requested and verified."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.executors.http_call.service import Asked, Service, calling, said, serving, until
from weft.executors.http_call.answers import retry_after_s
from weft.executors.http_call.client import HttpAnswer
from weft.executors.http_call.request import parse_url
from weft.executors.protocol import Outcome

FAST = {"every": "100ms", "max_every": "100ms"}


def polled(directory: Path, answers: list[bytes], poll: dict[str, Any], **spec: Any) -> tuple[Outcome, Service]:
    async def main() -> tuple[Outcome, Service]:
        async with serving(answers) as service, calling(directory) as caller:
            return await caller.call({"url": f"{service.url}/start", "poll": {**FAST, **poll}, **spec}), service

    return asyncio.run(main())


def test_until_it_is_no_longer_202(tmp_path: Path) -> None:
    answers = [said(202, Location="/jobs/1"), said(202), said(200, {"n": 1})]
    outcome, service = polled(tmp_path, answers, {}, json={}, headers={"Authorization": "x"})
    assert [(asked.method, asked.target) for asked in service.asked] == [
        ("POST", "/start"), ("GET", "/jobs/1"), ("GET", "/jobs/1")
    ]  # fmt: skip
    assert service.asked[1].headers["authorization"] == "x"
    assert "idempotency-key" not in service.asked[1].headers
    assert (outcome.ok, outcome.output) == (True, {"n": 1})
    assert outcome.result is not None
    assert outcome.result["requests"] == 3


def test_until_its_state_is_one_of_the_last(tmp_path: Path) -> None:
    poll = {"url_at": "/links/self", "state_at": "/state", "done": ["ok"], "failed": ["broken", "gone"]}
    start = said(200, {"state": "new", "links": {"self": "/s?x=1"}})
    outcome, service = polled(tmp_path, [start, said(200, {"state": "busy"}), said(200, {"state": "ok"})], poll)
    assert (outcome.ok, outcome.output) == (True, {"state": "ok"})
    assert service.asked[1].target == "/s?x=1"
    outcome, _ = polled(tmp_path, [start, said(200, {"state": "broken", "why": "disk"})], poll)
    assert (outcome.ok, outcome.cause, outcome.retryable) == (False, "broken", True)
    assert "disk" in (outcome.error or "")


def test_done_at_once_asks_nothing_more(tmp_path: Path) -> None:
    outcome, service = polled(tmp_path, [said(200, {"s": "ok"})], {"state_at": "/s", "done": ["ok"]})
    assert (outcome.ok, len(service.asked)) == (True, 1)


def test_an_address_is_needed(tmp_path: Path) -> None:
    outcome, _ = polled(tmp_path, [said(202)], {})
    assert (outcome.ok, outcome.retryable) == (False, False)
    assert "without an address to poll (Location): set poll.url" in (outcome.error or "")


def test_polls_survive_a_service_that_is_overloaded_for_a_while(tmp_path: Path) -> None:
    answers = [said(202, Location="/p"), said(503), b"", said(429), said(200, "end")]
    outcome, _ = polled(tmp_path, answers, {})
    assert (outcome.ok, outcome.output) == (True, "end")


def test_but_not_for_ever(tmp_path: Path) -> None:
    outcome, service = polled(tmp_path, [said(202, Location="/p"), said(503, Retry_After="0")], {})
    assert (outcome.ok, outcome.cause, len(service.asked)) == (False, 503, 6)


def test_what_the_service_has_forgotten_is_a_failure(tmp_path: Path) -> None:
    outcome, service = polled(tmp_path, [said(202, Location="/p"), said(404)], {})
    assert (outcome.ok, outcome.cause, outcome.retryable, len(service.asked)) == (False, 404, False, 2)


def test_the_service_says_when_to_ask_again(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome, _ = polled(tmp_path, [said(202, Location="/p", Retry_After="1"), said(200)], {})
    assert outcome.ok
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("Thu, 01 Jan 1970 00:01:00 GMT", 60.0), ("Wed, 31 Dec 1969 00:00:00 GMT", 0.0), ("soon", None),
     ("-1", None), ("999999999", 86400.0), ("\u0665", None)],
)  # fmt: skip
def test_retry_after(text: str, seconds: float | None) -> None:
    answer = HttpAnswer(503, {"retry-after": text}, b"", parse_url("http://x/"), 0)
    assert retry_after_s(answer, now=0.0) == seconds


def test_another_server_gets_no_credentials(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving([said(200, "end")]) as other:
            start = said(202, Location=f"http://localhost:{other.port}/p")
            async with serving([start]) as service, calling(tmp_path) as caller:
                headers = {"Authorization": "x", "X-Api-Key": "y", "Accept": "text/plain"}
                outcome = await caller.call({"url": service.url, "headers": headers, "poll": FAST})
                assert outcome.ok, outcome.error
                assert {"authorization", "x-api-key", "accept"} <= set(service.asked[0].headers)
                assert not {"authorization", "x-api-key"} & set(other.asked[0].headers)
                assert other.asked[0].headers["accept"] == "text/plain"
                # An address that the definition itself names gets them.
                own = {**FAST, "url": f"http://localhost:{other.port}/own"}
                assert (await caller.call({"url": service.url, "headers": headers, "poll": own})).ok
                assert other.asked[1].headers["authorization"] == "x"

    asyncio.run(main())


def test_nothing_is_open_between_polls(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving([said(202, Location="/p")]) as service, calling(tmp_path) as caller:
            for _ in range(20):
                caller.begin({"url": service.url, "poll": {"every": "1h", "max_every": "1h"}})
            await until(lambda: len(service.asked) == 20 and service.open == 0)
            output = str(tmp_path / "out")
            links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
            assert not [link for link in links if str(link).startswith(output)]

    asyncio.run(main())


class Operation:
    """Something that runs until it is asked to end."""

    def __init__(self, ends_after: int = 2, gone: bool = False) -> None:
        self.asked_to_end: list[str] = []
        self._ends_after = ends_after  # polls after the request
        self._gone = gone

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target == "/start":
            writer.write(said(202, {"state": "busy", "stop": "/op:cancel"}, Location="/op"))
        elif asked.method != "GET":
            self.asked_to_end.append(f"{asked.method} {asked.target}")
            writer.write(said(200))
        elif self.asked_to_end and self._ends_after <= 0:
            writer.write(said(404) if self._gone else said(200, {"state": "cancelled"}))
        else:
            self._ends_after -= bool(self.asked_to_end)
            writer.write(said(200 if not self._gone else 202, {"state": "busy"}))


STATES = {**FAST, "state_at": "/state", "done": ["done"], "failed": ["failed", "cancelled"]}


def stopped(
    directory: Path, operation: Operation, poll: dict[str, Any], reason: str = "cancel", grace_s: float = 10.0
) -> Outcome:
    async def main() -> Outcome:
        async with serving(operation) as service, calling(directory) as caller:
            launch, future = caller.begin({"url": f"{service.url}/start", "poll": poll})
            await until(lambda: len(service.asked) >= 2)
            caller.stop(launch, reason, grace_s)
            return await asyncio.wait_for(future, 30)

    return asyncio.run(main())


@pytest.mark.parametrize("reason", ["cancel", "timeout"])
def test_a_stop_is_requested_and_verified(tmp_path: Path, reason: str) -> None:
    operation = Operation()
    outcome = stopped(tmp_path, operation, {**STATES, "cancel": "POST", "cancel_at": "/stop"}, reason)
    assert operation.asked_to_end == ["POST /op:cancel"]
    assert outcome.stopped == reason
    assert outcome.termination is not None
    assert (outcome.termination["requested"], outcome.termination["verified"]) == (True, True)


def test_what_is_gone_has_ended(tmp_path: Path) -> None:
    operation = Operation(gone=True)
    outcome = stopped(tmp_path, operation, {**FAST, "cancel": "DELETE"})
    assert operation.asked_to_end == ["DELETE /op"]
    assert outcome.termination is not None
    assert outcome.termination["verified"]


def test_a_stop_that_is_not_carried_out_is_not_verified(tmp_path: Path) -> None:
    operation = Operation(ends_after=1_000_000)
    began = time.monotonic()
    outcome = stopped(tmp_path, operation, {**STATES, "cancel": "DELETE"}, grace_s=1.5)
    assert time.monotonic() - began < 15
    assert outcome.termination is not None
    assert (outcome.termination["requested"], outcome.termination["verified"]) == (True, False)


@pytest.mark.parametrize("reason", ["drain", "lease"])
def test_what_goes_on_elsewhere_is_not_asked_to_end(tmp_path: Path, reason: str) -> None:
    operation = Operation()
    outcome = stopped(tmp_path, operation, {**STATES, "cancel": "DELETE"}, reason)
    assert operation.asked_to_end == []
    assert (outcome.stopped, outcome.termination) == (reason, None)


def test_a_second_stop_shortens_the_grace(tmp_path: Path) -> None:
    async def main() -> None:
        operation = Operation(ends_after=1_000_000)
        async with serving(operation) as service, calling(tmp_path) as caller:
            poll = {**STATES, "cancel": "DELETE"}
            launch, future = caller.begin({"url": f"{service.url}/start", "poll": poll})
            await until(lambda: len(service.asked) >= 2)
            caller.stop(launch, "cancel", 3600.0)
            await until(lambda: operation.asked_to_end)
            caller.stop(launch, "cancel", 0.0)
            outcome = await asyncio.wait_for(future, 10)
            assert outcome.stopped == "cancel"

    asyncio.run(main())
