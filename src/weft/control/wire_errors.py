"""Problems that a server tells of, turned back into the errors that a store within reach raises, in its words."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from weft.authoring.errors import DefinitionErrors, LocatedError
from weft.control.records import Ambiguous, LeaderInfo, NotFound, Observing
from weft.core.commands import Refused
from weft.store.artifact_files import ArtifactError
from weft.store.protocol import CommandUsed, StoreBusy, StoreError, StoreFull, StoreUnusable

TEXT_SHOWN = 200


class ServerSilent(StoreBusy):
    """Nobody answers there, or not in time."""

    def __init__(self, url: str, reason: Exception) -> None:
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        super().__init__(f"the server {url} does not answer: {words}")


class ServerFailed(StoreError):
    """It answered, but not as it should."""


class _Problem(msgspec.Struct):
    code: str
    detail: str
    fix: str | None = None
    errors: list[Any] | None = None
    more: int = 0
    leader: LeaderInfo | None = None


def is_passing(error: Exception) -> bool:
    """Trying again in a moment may help."""
    return isinstance(error, StoreBusy)


def error_of(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    if headers.get("content-type", "").partition(";")[0] != "application/problem+json":
        return ServerFailed(f"{url} answered with {status}, and not as a Weft server does: {_start(body)}")
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except msgspec.MsgspecError:
        return ServerFailed(f"{url} answered with {status} and something that cannot be read: {_start(body)}")
    return _of_code(status, problem)


def _of_code(status: int, problem: _Problem) -> Exception:
    code, detail = problem.code, problem.detail
    if code == "definition" and problem.errors:
        return DefinitionErrors(msgspec.convert(problem.errors, list[LocatedError]), problem.more)
    if code == "observer" and problem.leader is not None:
        return Observing(problem.leader)
    if code == "not_found":
        return NotFound(detail)
    if code == "ambiguous":
        return Ambiguous(detail)
    if code == "command_used":
        return CommandUsed(detail)
    if code == "artifact_elsewhere":
        return ArtifactError(detail)
    if code == "store_unusable":
        return StoreUnusable(detail)
    if code == "store_full":
        return StoreFull(detail)
    if status == 503:
        return StoreBusy(detail)
    if status >= 500:
        return ServerFailed(f"the server failed: {detail}")
    if code == "unauthorized":
        return Refused(
            cast(Any, code),
            f"the server says: {detail}; put one that it knows into WEFT_TOKEN"
            " (its owner's is in the file that its log names when it starts, mostly .weft/token)",
        )
    if code not in ("conflict", "invalid", "stale_term") and problem.fix:
        detail += f"\n  fix: {problem.fix}"
    return Refused(cast(Any, code), detail)


def _start(body: bytes) -> str:
    return repr(body[:TEXT_SHOWN].decode("utf-8", "replace"))
