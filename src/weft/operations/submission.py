"""From a definition and what somebody says about it to the command that starts a run: the same for the command line,
for applications that embed Weft and for requests over HTTP, so that the same words always mean the same run."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.commands import Submit
from weft.core.definition.document import encode_document
from weft.core.rows import Pin
from weft.operations.ids import new_id

if TYPE_CHECKING:
    from weft.authoring.load import Loaded

PRIORITY_MAX = 10
KEY_MAX = 256
LABEL_NAME_MAX = 64
LABEL_VALUE_MAX = 256


def submission(
    loaded: "Loaded",
    inputs: str,
    *,
    source: str | None,
    run_id: str | None = None,
    priority: int = 0,
    max_parallel: int | None = None,
    key: str | None = None,
    labels: Mapping[str, str] | None = None,
    fresh: bool = False,
    manual_advance: bool = False,
) -> Submit:
    """`inputs` are JSON, complete and checked. Under one `key` only the same definition, inputs and limits are the
    same run; where its tasks start is not asked."""
    from weft.authoring.children import family_of  # reads YAML, which looking at runs does not need

    children, pins = family_of(loaded, source or "")
    same = msgspec.json.encode(msgspec.json.decode(inputs), order="sorted").decode()  # however it is written
    body = f"{loaded.hash}\n{same}\n{max_parallel}\n{priority}" + ("\nby hand" if manual_advance else "")
    body += "".join(f"\n{pin.name} {pin.child}" for pin in pins)
    return Submit(
        run_id=run_id or new_id(),
        workflow=loaded.hash,
        name=loaded.name,
        document=loaded.encoded,
        inputs=inputs,
        priority=priority,
        max_parallel=max_parallel,
        key=key,
        body_hash=hashlib.sha256(body.encode()).hexdigest(),
        source=source,
        labels=json.dumps(dict(labels or {})),
        fresh=fresh,
        manual_advance=manual_advance,
        children=children,
        pins=pins,
    )


def same_again(old: Any, document: Mapping[str, Any], pins: list[Pin], fresh: bool) -> Submit:
    """A new run with the definition and the inputs of an old one (a RunInfo)."""
    return Submit(
        run_id=new_id(),
        workflow=old.workflow,
        name=old.name,
        document=encode_document(dict(document)),
        inputs=json.dumps(old.inputs),
        priority=old.priority,
        max_parallel=old.max_parallel,
        source=old.source,
        labels=json.dumps(old.labels),
        fresh=fresh,
        manual_advance=old.advance_state is not None,
        pins=pins,
    )
