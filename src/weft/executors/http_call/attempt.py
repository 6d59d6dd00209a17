"""One attempt: a request, its answer, and polls until what was accepted has ended.

It is one coroutine. Between two polls it holds a timer and what the next poll needs: no connection, no file, no
thread, and nothing of the answers before.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from weft.core.definition.field_types.text_formats import parse_duration_ms
from weft.executors.boot_clock import boottime
from weft.executors.http_call.answers import (
    KEPT_HEADERS,
    Judgement,
    is_retryable,
    judge,
    pointed_text,
    retry_after_s,
    value_of,
)
from weft.executors.http_call.client import HttpAnswer, HttpClient, NotAnswered
from weft.executors.http_call.request import (
    BadRequest,
    HttpRequest,
    Limits,
    Url,
    first_request,
    limits_of,
    own_url,
    parse_url,
)
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.remote.followed_output import FollowedOutput

EVERY_S = 2.0
MAX_EVERY_S = 30.0
_GROWTH = 1.5
_JITTER = 0.1
_POLLS_FAILED_MAX = 5  # one after the other
_VERIFY_S = 0.5  # between two looks whether a stop was carried out
_BODY_KEPT = 4096  # bytes of a failure's answer in the result


class HttpEnding(msgspec.Struct):
    error: str | None
    answer: HttpAnswer | None = None
    cause: int | str | None = None
    retryable: bool = True
    retry_after_s: float | None = None


class HttpAttempt:
    def __init__(self, client: HttpClient, launch: Launch) -> None:
        self._client = client
        self.launch = launch
        self._spec: Mapping[str, Any] = launch.spec["http"]
        self._poll: Mapping[str, Any] = self._spec.get("poll") or {}
        self._log = FollowedOutput(launch, "stderr")
        self._requests = 0
        self._status: int | None = None
        self._polled: HttpRequest | None = None  # the request that asks how it is going
        self._cancel: HttpRequest | None = None  # the request that asks for its end
        self._task: asyncio.Task[None] | None = None
        self._stop: tuple[StopReason, float] | None = None  # why, and when it was asked for
        self._grace: asyncio.Timeout | None = None
        self._grace_end = 0.0
        self._entered = False
        self.started: float | None = boottime()

    def begin(self, on_ended: Ended) -> "asyncio.Task[None]":
        self._task = asyncio.get_running_loop().create_task(self._run(on_ended))
        return self._task

    @property
    def stopping(self) -> StopReason | None:
        return None if self._stop is None else self._stop[0]

    def stop(self, reason: StopReason, grace_s: float) -> None:
        end = asyncio.get_running_loop().time() + grace_s
        if self._stop is not None:
            self._stop = (reason, self._stop[1])
            self._grace_end = min(end, self._grace_end)
            if self._grace is not None and not self._grace.expired():
                self._grace.reschedule(self._grace_end)
            return
        self._stop, self._grace_end = (reason, boottime()), end
        if self._entered and self._task is not None:
            self._task.cancel()

    async def _run(self, on_ended: Ended) -> None:
        self._entered = True  # a task that is cancelled before would never come here
        try:
            ending = await self._live() if self._stop is None else HttpEnding("")
        except asyncio.CancelledError:
            if self._stop is None or self._task is None:
                raise
            self._task.uncancel()
            ending = HttpEnding("")
        except Exception as error:
            ending = HttpEnding(f"the executor failed: {error!r}")
        on_ended(self._outcome(ending) if self._stop is None else await self._stopped())

    # -- requests ----------------------------------------------------------------------------------------

    async def _live(self) -> HttpEnding:
        try:
            request, limits = first_request(self.launch), limits_of(self._spec)
        except BadRequest as error:
            return HttpEnding(f"cannot start: {error}", retryable=False)
        try:
            answer = await self._fetch(request, limits)
        except NotAnswered as error:
            return _unanswered(error)
        judgement = judge(answer, self._spec)
        if judgement.done or judgement.failure is not None:
            return _judged(answer, judgement)
        try:
            url = self._polled_url(answer)
        except BadRequest as error:
            return HttpEnding(f"it cannot be polled: {error}", answer, answer.status, retryable=False)
        if url is None:
            where = "url_at" if "url_at" in self._poll else "Location"
            text = f"{answer.url.shown} answers {answer.status} without an address to poll ({where}): set poll.url"
            return HttpEnding(text, answer, answer.status, retryable=False)
        own = msgspec.structs.replace(request, url=url) if "url" in self._poll else request
        self._polled = own.at(url, "GET")
        wait_s = retry_after_s(answer)
        self._note_cancel(answer)
        del answer, request, own  # a waiting attempt is small
        return await self._until_over(limits, wait_s)

    def _polled_url(self, answer: HttpAnswer) -> Url | None:
        if "url" in self._poll:
            return own_url(self._poll["url"], self.launch.secrets)
        found = (
            pointed_text(answer, self._poll["url_at"]) if "url_at" in self._poll else answer.headers.get("location")
        )
        if not found:
            return None
        url = parse_url(found, answer.url)
        if answer.url.scheme == "https" and url.scheme == "http":
            raise BadRequest(f"{answer.url.shown} names {url.shown}, which is not encrypted")
        return url

    async def _until_over(self, limits: Limits, wait_s: float | None) -> HttpEnding:
        assert self._polled is not None
        every = _seconds(self._poll.get("every"), EVERY_S)
        most = max(every, _seconds(self._poll.get("max_every"), MAX_EVERY_S))
        failed = 0
        while True:
            await asyncio.sleep(max(every * random.uniform(1 - _JITTER, 1 + _JITTER), wait_s or 0.0))
            every = min(every * _GROWTH, most)
            try:
                answer = await self._fetch(self._polled, limits)
            except NotAnswered as error:
                failed += 1
                if error.final or failed >= _POLLS_FAILED_MAX:
                    return _unanswered(error)
                wait_s = None
                continue
            judgement = judge(answer, self._spec)
            wait_s = retry_after_s(answer)
            if judgement.failure is not None and isinstance(judgement.cause, int) and is_retryable(judgement.cause):
                failed += 1  # the service is overloaded, say: that is not how what it accepted has ended
                if failed < _POLLS_FAILED_MAX:
                    continue
            if judgement.done or judgement.failure is not None:
                return _judged(answer, judgement)
            failed = 0
            self._note_cancel(answer)

    def _note_cancel(self, answer: HttpAnswer) -> None:
        """Where a stop would be requested: the address may come with any answer."""
        method = self._poll.get("cancel")
        if method is None or self._polled is None:
            return
        url = self._polled.url
        if "cancel_at" in self._poll:
            found = pointed_text(answer, self._poll["cancel_at"])
            if not found:
                return
            try:
                url = parse_url(found, answer.url)
            except BadRequest:
                return
        self._cancel = self._polled.at(url, method)

    async def _fetch(self, request: HttpRequest, limits: Limits) -> HttpAnswer:
        """One line for each request."""
        self._requests += 1
        said = f"{request.method} {request.url.shown} "
        try:
            answer = await self._client.fetch(request, limits)
            said += f"{answer.status} {answer.ms} ms"
            self._status = answer.status
        except NotAnswered as error:
            said += f"failed: {error}"
            raise
        except asyncio.CancelledError:
            said += "was given up: the attempt is stopped"
            raise
        finally:
            self._log.write(f"{said}\n".encode("utf-8", "replace"))
            self._log.release()
        return answer

    # -- stops -------------------------------------------------------------------------------------------

    async def _stopped(self) -> Outcome:
        """A stop is requested of the service only if the attempt is over for good: after a drain or a lost lease the
        next one goes on with the same idempotency key, and what that started must not be ended."""
        requested = verified = False
        assert self._stop is not None
        if self._stop[0] in ("cancel", "timeout") and self._cancel is not None:
            try:
                async with asyncio.timeout_at(self._grace_end) as self._grace:
                    requested = await self._ask_for_end()
                    while requested and not verified:
                        verified = await self._is_over()
                        if not verified:
                            await asyncio.sleep(_VERIFY_S)
            except TimeoutError:
                pass
            self._grace = None
        reason, asked = self._stop
        outcome = self._outcome(HttpEnding(f"stopped ({reason})"))
        outcome.stopped = reason
        if requested:
            after_s = round(outcome.ended - asked, 3)
            outcome.termination = {"asked": reason, "requested": True, "verified": verified, "after_s": after_s}
        return outcome

    async def _ask_for_end(self) -> bool:
        assert self._cancel is not None
        while True:
            try:
                answer = await self._fetch(self._cancel, limits_of(self._spec))
            except NotAnswered as error:
                if error.final:
                    return False
            else:
                if not is_retryable(answer.status):
                    return answer.status < 400 or answer.status in (404, 409, 410)
            await asyncio.sleep(_VERIFY_S)

    async def _is_over(self) -> bool:
        assert self._polled is not None
        try:
            answer = await self._fetch(self._polled, limits_of(self._spec))
        except NotAnswered:
            return False
        if answer.status in (404, 410):
            return True
        judgement = judge(answer, self._spec)
        if "state_at" in self._poll:
            return judgement.done or isinstance(judgement.cause, str)
        return answer.status != 202 and not is_retryable(answer.status) and answer.status not in (401, 403)

    # -- the outcome -------------------------------------------------------------------------------------

    def _outcome(self, ending: HttpEnding) -> Outcome:
        launch, answer = self.launch, ending.answer
        outcome = Outcome(
            launch.task_id, launch.attempt, ending.error is None, None, self.started, boottime(), ending.error,
            cause=ending.cause, retryable=ending.retryable, retry_after_s=ending.retry_after_s,
        )  # fmt: skip
        result: dict[str, Any] = {"requests": self._requests}
        if self._status is not None:
            result["status"] = self._status
        if answer is not None:
            self._describe(answer, outcome, result)
        self._log.finish()
        outcome.result = result
        return outcome

    def _describe(self, answer: HttpAnswer, outcome: Outcome, result: dict[str, Any]) -> None:
        result["headers"] = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
        body = FollowedOutput(self.launch, "stdout")
        body.write(answer.body)
        body.finish()
        try:
            value = value_of(answer)
        except ValueError as error:
            value = answer.body[:_BODY_KEPT].decode("utf-8", "replace")
            if outcome.ok:
                outcome.ok, outcome.error = False, str(error)
        if outcome.ok:
            outcome.output = value
        elif len(answer.body) <= _BODY_KEPT and value is not msgspec.UNSET:
            result["text" if isinstance(value, str) else "json"] = value
        elif answer.body:
            result["text"] = answer.body[:_BODY_KEPT].decode("utf-8", "replace")


def _seconds(written: Any, default: float) -> float:
    return default if written is None else parse_duration_ms(written) / 1000


def _unanswered(error: NotAnswered) -> HttpEnding:
    return HttpEnding(str(error), None, "timeout" if error.timeout else None, retryable=not error.final)


def _judged(answer: HttpAnswer, judgement: Judgement) -> HttpEnding:
    wait_s = None if judgement.done else retry_after_s(answer)
    return HttpEnding(judgement.failure, answer, judgement.cause, judgement.retryable, wait_s)
