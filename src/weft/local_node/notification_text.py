"""What a notification says: the text that Weft writes, and the values that texts of definitions see."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from weft.core.expressions import ExpressionError, resolve_value
from weft.core.rows import NotificationRow
from weft.core.workflow import NotifyTarget

LINES_MAX: Final = 10  # of the output of a failed task
LINE_MAX: Final = 400
TEXT_MAX: Final = 32_000


class Message(msgspec.Struct, frozen=True):
    subject: str
    text: str
    body: dict[str, Any]  # for programs


def message_of(row: NotificationRow, target: NotifyTarget, result: str | None, public_url: str | None) -> Message:
    facts: dict[str, Any] = msgspec.json.decode(row.facts)
    link = None if public_url is None or row.run is None else f"{public_url}/#/runs/{row.run}"
    title = _title(row, facts)
    text = "\n".join([title, *_details(row, facts, result), *([] if link is None else [link])])
    run = {
        "id": row.run, "name": row.workflow, "generation": facts.get("generation"), "state": facts.get("state"),
        "reason": facts.get("reason"), "failed": facts.get("failed", []),
    }  # fmt: skip
    about = {"id": row.id, "event": row.event, "task": facts.get("task"), "text": text, "link": link}
    names = {"run": run, "notification": about}
    subject = title
    if target.text is not None:
        text = _resolved(target.text, names)
    if target.email is not None and "subject" in target.email:
        subject = _resolved(target.email["subject"], names)
    body = {
        "id": row.id, "event": row.event, "workflow": row.workflow, "run": row.run, "created_at": row.created_at,
        "text": text[:TEXT_MAX], "link": link, **facts,
    }  # fmt: skip
    return Message(" ".join(subject.split())[:LINE_MAX], text[:TEXT_MAX], body)


def _resolved(text: str, names: dict[str, Any]) -> str:
    """A text that cannot be worked out says why: the notification is worth more than its form."""
    try:
        value = resolve_value(text, names)
    except ExpressionError as error:
        return f"{names['notification']['text']}\n(the text of the definition cannot be used: {error.message})"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _title(row: NotificationRow, facts: dict[str, Any]) -> str:
    name, task = row.workflow, facts.get("task")
    if row.event == "failed":
        return f"{name} failed: {facts.get('reason') or 'no reason is known'}"
    if row.event == "recovered":
        return f"{name} succeeded again"
    if row.event == "dead_letter":
        return f"{name}: {task} is a dead letter: {facts.get('error') or 'no reason is known'}"
    if row.event == "waiting":
        return f"{name}: {task} waits for the signal {facts['signal']} (weft signal {row.run} {facts['signal']})"
    if "trigger" in facts:
        return f"{facts['trigger']} did not start in time: {facts['reason']}"
    what = "started" if facts["by"] == "start_by" else "ended"
    return f"{name}{f': {task}' if task else ''} has not {what} by {_moment(facts['at'])}"


def _details(row: NotificationRow, facts: dict[str, Any], result: str | None) -> list[str]:
    out = [f"workflow: {row.workflow}"]
    if row.run is not None:
        out.append(f"run: {row.run}, {facts.get('state')}")
    if "trigger" in facts:
        span = _moment(facts["first"]) + (f" to {_moment(facts['last'])}" if facts["times"] > 1 else "")
        out.append(f"times without a run: {facts['times']}, {span}")
    if facts.get("failed"):
        out.append(f"failed tasks: {', '.join(facts['failed'])}")
    lines = _last_lines(result) if row.event in ("failed", "dead_letter") else []
    return [*out, *(["last lines of its output:"] if lines else []), *lines]


def _last_lines(result: str | None) -> list[str]:
    """Of stderr, else of stdout; masked when the result was stored."""
    value = None if result is None else msgspec.json.decode(result)
    if not isinstance(value, dict):
        return []
    for stream in ("stderr", "stdout"):
        text = value.get(stream)
        if isinstance(text, str) and text.strip():
            return [f"  {line[:LINE_MAX]}" for line in text.rstrip().splitlines()[-LINES_MAX:]]
    return []


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
