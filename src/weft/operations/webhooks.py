"""Webhooks: calls from outside that fire a trigger, each checked against the trigger's own secret."""

import hashlib
import hmac
import math
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from weft.core import commands as c
from weft.core.expressions import ExpressionError, parse_condition
from weft.core.rows import TriggerRow
from weft.core.rules.apply import trigger_of
from weft.core.workflow import TriggerDef
from weft.node.attempts.secrets import MissingSecret, Secrets
from weft.operations.access import StoreAccess
from weft.operations.ids import new_id
from weft.operations.resources.triggers import fires_of
from weft.triggers.timetable import local_text

BODY_MAX: Final = 1 << 20
CAUSE_MAX: Final = 200
FIRES_READ_MAX: Final = 1000
#: In which a caller says that this is the same call as before.
DELIVERY_HEADERS: Final = ("idempotency-key", "x-weft-delivery", "x-github-delivery")
TIME_HEADER: Final = "x-weft-timestamp"
TIME_MAX_S: Final = 300
SIGNATURE_HEADERS: Final = ("x-weft-signature", "x-hub-signature-256")


class HookRefused(Exception):
    """A call of a webhook that is not followed: `status` for HTTP, the text for the caller, `detail` for the log;
    `again_s`: after so many seconds it would be."""

    def __init__(self, status: int, message: str, detail: str = "", again_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail or message
        self.again_s = again_s


def fire_webhook(
    access: StoreAccess, name: str, body: bytes, headers: Mapping[str, str], secrets: Secrets
) -> c.Reply:
    """A call from outside. Raises HookRefused with a code for HTTP; who may not call learns nothing but that."""
    if len(body) > BODY_MAX:
        raise HookRefused(413, f"the body is larger than {BODY_MAX:,} bytes")
    rows = [row for row in _hooks(access, name) if row.active]
    given = {key.lower(): value for key, value in headers.items()}
    if not rows or not _authentic(rows[0], body, given, secrets):
        raise HookRefused(401, "no such webhook, or not with this signature or token")
    row = rows[0]
    definition = trigger_of(row)
    if row.paused:
        raise HookRefused(409, f"the trigger {row.id} is paused")
    run_id = new_id()
    cause = _cause_of(definition, body, given) or f"hook-{run_id}"
    names = {"time": local_text(definition, access.now()), "body": _value_of(body)}
    if definition.condition is not None:
        try:
            if not parse_condition(definition.condition).truth({"trigger": names}):
                return c.Reply(state="ignored", data={"trigger": row.id, "outcome": "ignored"})
        except ExpressionError as error:
            raise HookRefused(422, f"if: {error.message}") from None
    try:
        return access.commit(c.Fire(row.id, [c.Firing(cause, run_id, names)]))
    except c.Refused as refused:
        if refused.code == "rate_limited":
            raise HookRefused(429, refused.message, again_s=_again_s(access, row.id, definition)) from None
        raise


def _delivery(headers: Mapping[str, str]) -> str:
    return next((headers[key] for key in DELIVERY_HEADERS if headers.get(key)), "")


def _signed(body: bytes, headers: Mapping[str, str]) -> bytes:
    """What the signature is of: the body; with a time, that and the delivery's id before it, so that neither can be
    changed."""
    if TIME_HEADER not in headers:
        return body
    return f"{headers[TIME_HEADER]}.{_delivery(headers)}.".encode("utf-8", "surrogateescape") + body


def _cause_of(definition: TriggerDef, body: bytes, headers: Mapping[str, str]) -> str | None:
    """By which a delivery is known when it comes again: one run for each, on all servers and for good. None: with a
    token, which nobody can send again who does not have it, an id is not needed."""
    delivery = _delivery(headers)
    if len(delivery) > CAUSE_MAX or not delivery.isprintable():
        raise HookRefused(
            400, f"the delivery's id has more than {CAUSE_MAX} characters, or others than printable ones"
        )
    timed = definition.secret is not None and TIME_HEADER in headers
    if timed:
        at = headers[TIME_HEADER]
        if not at.isdecimal() or abs(time.time() - int(at[:12])) > TIME_MAX_S:
            raise HookRefused(400, f"X-Weft-Timestamp must be the time in seconds, at most {TIME_MAX_S} s from now")
    if delivery:
        return f"delivery-{delivery}"
    if timed:
        return f"signed-{hashlib.sha256(_signed(body, headers)).hexdigest()}"
    if definition.secret is not None:
        raise HookRefused(
            400, "a signed delivery needs an id (Idempotency-Key, X-GitHub-Delivery) or a signed X-Weft-Timestamp"
        )
    return None


def _again_s(access: StoreAccess, trigger: str, definition: TriggerDef) -> int | None:
    """How long until a fire within its rate is old enough not to count."""
    if definition.rate is None:
        return None
    count, within_ms = definition.rate
    fires = fires_of(access, trigger, min(count, FIRES_READ_MAX))
    left_ms = fires[-1].at + within_ms - access.now() if fires else 0
    return max(1, math.ceil(left_ms / 1000))


def _hooks(access: StoreAccess, name: str) -> list[TriggerRow]:
    return [TriggerRow(*values) for values in access.read("webhook_by_name", name)]


def _authentic(row: TriggerRow, body: bytes, headers: Mapping[str, str], secrets: Secrets) -> bool:
    """Compared in constant time, whatever was given."""
    definition = trigger_of(row)
    name = definition.secret or definition.token
    assert name is not None
    try:
        value = secrets.values((name,))[name].encode("utf-8", "surrogateescape")
    except MissingSecret as error:
        raise HookRefused(
            503, "this webhook cannot be checked: its secret is missing", f"{row.id}: {error}"
        ) from None
    if definition.secret is not None:
        wanted = "sha256=" + hmac.new(value, _signed(body, headers), hashlib.sha256).hexdigest()
        given = next((headers[key] for key in SIGNATURE_HEADERS if key in headers), "")
        given = given if given.startswith("sha256=") else f"sha256={given}"
        return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "surrogateescape"))
    scheme, _, token = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(value, token.strip().encode("utf-8", "surrogateescape"))
    return same and scheme.lower() == "bearer"


def _value_of(body: bytes) -> Any:
    """JSON if it is, else the text."""
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode("utf-8", "replace")
