"""What people and callers from outside do with triggers: apply, list, pause, fire."""

import hashlib
import hmac
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from weft.control.records import FireInfo, HookRefused, NotFound, TriggerInfo
from weft.core import commands as c
from weft.core.definition.document import encode_document
from weft.core.definition.suggest import nearest
from weft.core.definition.text_formats import format_duration
from weft.core.expressions import ExpressionError, parse_condition
from weft.core.rows import FireRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.core.workflow import TriggerDef
from weft.node.secrets import MissingSecret, Secrets
from weft.store.queries import FIRE_COLUMNS, TRIGGER_COLUMNS
from weft.triggers.protocol import BadTrigger
from weft.triggers.timetable import local_text, upcoming

if TYPE_CHECKING:
    from weft.authoring import Loaded
    from weft.control.local import LocalControl

BODY_MAX = 1 << 20
CAUSE_MAX = 200
FIRES_TOLD_MAX = 1000
#: In which a caller says that this is the same call as before.
DELIVERY_HEADERS = ("idempotency-key", "x-weft-delivery", "x-github-delivery")
TIME_HEADER = "x-weft-timestamp"
TIME_MAX_S = 300
SIGNATURE_HEADERS = ("x-weft-signature", "x-hub-signature-256")


def apply(control: "LocalControl", loaded: "Loaded", source: str | None, by: str | None) -> c.Reply:
    workflow = loaded.workflow
    if workflow.triggers and loaded.children:
        named = ", ".join(sorted(loaded.children))
        raise c.Refused(
            "invalid",
            f"{workflow.name} runs {named} by file, and what a trigger starts has no file to look in; apply"
            " that one too, and name it: `workflow: NAME`",
        )
    control.link.committer.know(workflow)
    return control._commit(
        c.Apply(workflow.hash, workflow.name, encode_document(loaded.document), source, workflow.triggers, by)
    )


def triggers(control: "LocalControl", workflow: str | None) -> list[TriggerInfo]:
    width = len(TRIGGER_COLUMNS)
    now = control.now()
    out = []
    for values in control._read("triggers_all", workflow):
        row = TriggerRow(*values[:width])
        cause, due_at, at, outcome, run, reason, queued, unfinished = values[width:]
        last = None if cause is None else FireInfo(row.id, cause, due_at, at, outcome, run, reason)
        definition = trigger_of(row)
        next_at, problem = None, None
        if definition.timed and not row.paused:
            try:
                ahead = upcoming(row.id, definition, max(row.since_ms, now), 1)
                next_at = ahead[0][1] if ahead else None
            except BadTrigger as error:
                problem = error.message
        out.append(
            TriggerInfo(
                id=row.id, workflow=row.workflow, name=definition.name, kind=row.kind, hash=row.hash,
                what=described(row), paused=bool(row.paused), overlap=definition.overlap,
                catch_up=definition.catch_up, next_at=next_at, last=last, queued=queued, unfinished=unfinished,
                problem=problem,
            )
        )  # fmt: skip
    return out


def described(row: TriggerRow) -> str:
    definition = trigger_of(row)
    if definition.kind == "cron":
        return f"{definition.cron} {definition.timezone}"
    if definition.kind == "every":
        return f"every {format_duration(definition.every_ms or 0)}"
    if definition.kind == "webhook":
        return f"webhook {definition.hook}"
    return f"after {definition.after} {definition.after_state}"


def find(control: "LocalControl", ref: str) -> TriggerInfo:
    return trigger_named(triggers(control, None), ref)


def trigger_named(known: list[TriggerInfo], ref: str) -> TriggerInfo:
    """By its id; or by its workflow's name or its own, where that is only one's."""
    for wanted in ("id", "workflow", "name"):
        found = [one for one in known if getattr(one, wanted) == ref]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotFound(f"{ref} could be any of {', '.join(one.id for one in found)}")
    close = nearest(ref, [one.id for one in known])
    raise NotFound(f"there is no trigger {ref}" + (f"; did you mean {close}?" if close else ""))


def fires(control: "LocalControl", trigger: str, limit: int) -> list[FireInfo]:
    width = len(FIRE_COLUMNS)
    out = []
    for values in control._read("fires_page", trigger, limit):
        row = FireRow(*values[:width])
        out.append(FireInfo(row.trigger, row.cause, row.due_at, row.at, row.outcome, row.run, row.reason))
    return out


def next_times(control: "LocalControl", ref: str, count: int) -> list[dict[str, Any]]:
    found = find(control, ref)
    row = _row(control, found.id)
    definition = trigger_of(row)
    if not definition.timed:
        return []
    after = max(row.since_ms, control.now())
    return [
        {"trigger": row.id, "time": local_text(definition, due_at), "due_at": due_at, "at": at}
        for due_at, at in upcoming(row.id, definition, after, count)
    ]


def fire(control: "LocalControl", ref: str, run_id: str, body: Any = None) -> c.Reply:
    """By hand, now: paused or not, but with the trigger's own way about overlaps."""
    found = find(control, ref)
    row = _row(control, found.id)
    definition = trigger_of(row)
    names: dict[str, Any] = {"time": local_text(definition, control.now())}
    if row.kind == "webhook":
        names["body"] = body
    if row.kind == "after":
        names["run"] = body if isinstance(body, dict) else {"id": None, "name": definition.after, "state": None}
    return control._commit(c.Fire(row.id, [c.Firing(f"hand-{run_id}", run_id, names)]))


def fire_webhook(
    control: "LocalControl", name: str, body: bytes, headers: Mapping[str, str], secrets: Secrets, run_id: str
) -> c.Reply:
    """A call from outside. Raises HookRefused with a code for HTTP; who may not call learns nothing but that."""
    if len(body) > BODY_MAX:
        raise HookRefused(413, f"the body is larger than {BODY_MAX:,} bytes")
    rows = [row for row in _hooks(control, name) if row.active]
    given = {key.lower(): value for key, value in headers.items()}
    if not rows or not _authentic(rows[0], body, given, secrets):
        raise HookRefused(401, "no such webhook, or not with this signature or token")
    row = rows[0]
    definition = trigger_of(row)
    if row.paused:
        raise HookRefused(409, f"the trigger {row.id} is paused")
    cause = _cause_of(definition, body, given) or f"hook-{run_id}"
    names = {"time": local_text(definition, control.now()), "body": _value_of(body)}
    if definition.condition is not None:
        try:
            if not parse_condition(definition.condition).truth({"trigger": names}):
                return c.Reply(state="ignored", data={"trigger": row.id, "outcome": "ignored"})
        except ExpressionError as error:
            raise HookRefused(422, f"if: {error.message}") from None
    try:
        return control._commit(c.Fire(row.id, [c.Firing(cause, run_id, names)]))
    except c.Refused as refused:
        if refused.code == "rate_limited":
            raise HookRefused(429, refused.message, again_s=_again_s(control, row.id, definition)) from None
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


def _again_s(control: "LocalControl", trigger: str, definition: TriggerDef) -> int | None:
    """How long until a fire within its rate is old enough not to count."""
    if definition.rate is None:
        return None
    count, within_ms = definition.rate
    told = fires(control, trigger, min(count, FIRES_TOLD_MAX))
    left_ms = told[-1].at + within_ms - control.now() if told else 0
    return max(1, math.ceil(left_ms / 1000))


def _hooks(control: "LocalControl", name: str) -> list[TriggerRow]:
    return [TriggerRow(*values) for values in control._read("webhook_by_name", name)]


def _row(control: "LocalControl", id: str) -> TriggerRow:
    rows = control._read("trigger_now", id)
    if not rows:
        raise NotFound(f"there is no trigger {id}")
    return TriggerRow(*rows[0])


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
