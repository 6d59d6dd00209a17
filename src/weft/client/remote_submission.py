"""A submission as a request's body: the definition, what its tasks run from files and flows, and all that was said
about the run. Documents, inputs and labels are JSON already, and are sent as they are."""

from typing import Any

import msgspec

from weft.core.commands import Submit


def submit_body(command: Submit) -> dict[str, Any]:
    body: dict[str, Any] = {
        "definition": msgspec.Raw(command.document), "inputs": msgspec.Raw(command.inputs),
        "priority": command.priority, "max_parallel": command.max_parallel, "key": command.key,
        "labels": msgspec.Raw(command.labels), "source": command.source, "fresh": command.fresh,
        "manual_advance": command.manual_advance,
    }  # fmt: skip
    if command.pins:
        body["calls"], body["children"] = _children(command)
    return body


def _children(command: Submit) -> tuple[dict[str, str], dict[str, Any]]:
    """(what the run's own tasks call by which key, every definition in every directory under its key)."""
    calls: dict[tuple[str, str | None], dict[str, str]] = {}
    places: dict[str, tuple[str, str | None]] = {}
    for pin in command.pins:
        key = f"{pin.child} {pin.child_source or ''}"
        places[key] = (pin.child, pin.child_source)
        calls.setdefault((pin.workflow, pin.source), {})[pin.name] = key
    documents = {hash: msgspec.Raw(document) for hash, _, document in command.children}
    children = {
        key: {"definition": documents[hash], "source": source, "calls": calls.get((hash, source), {})}
        for key, (hash, source) in places.items()
    }
    return calls.get((command.workflow, command.source), {}), children
