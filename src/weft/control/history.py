"""Events: of one run, or of everything that happens in the store, with filters."""

from typing import TYPE_CHECKING, Any

import msgspec

from weft.control.records import EventInfo, NotFound
from weft.core.events import RECORD_KINDS, canonical_lines

if TYPE_CHECKING:
    from weft.control.local import LocalControl


def events(
    control: "LocalControl",
    ref: str | None,
    after: int,
    limit: int,
    *,
    node: str | None = None,
    task: str | None = None,
    kinds: list[str] | None = None,
    since: int | None = None,
    until: int | None = None,
) -> list[EventInfo]:
    """In the order of their numbers. `since` and `until` are moments of the store's clock, `node` is a node's name or
    a session's id, `task` a task's name, or one element's."""
    sessions = None if node is None else _sessions(control, node)
    given = [after, _json(kinds), _json(sessions), since, until]
    run_no = None if ref is None else control.find(ref)[0]
    settled = control.store.settled_event()
    found: list[EventInfo] = []
    while len(found) < limit:
        page = limit if task is None else max(limit, 500)
        if run_no is None:
            rows = control._read("events_found", *given, page, settled)
        else:
            rows = control._read("events_found_of_run", *given, page, settled, run_no)
        infos = [_info(control, row) for row in rows]
        found += [e for e in infos if task is None or (e.task is not None and _is(e.task, task))]
        if len(rows) < page:
            break
        given[0] = rows[-1][0]
    return found[:limit]


def canonical(control: "LocalControl", ref: str) -> list[str]:
    found: list[tuple[str, str | None, dict[str, Any]]] = []
    after = 0
    while page := control.events(ref, after=after):
        found += [(e.kind, e.task, e.data) for e in page if e.kind in RECORD_KINDS]
        after = page[-1].seq
    return canonical_lines(found)


def _sessions(control: "LocalControl", node: str) -> list[str]:
    found = [n.session for n in control.nodes(ended=True) if node == n.node or n.session.startswith(node)]
    if not found:
        raise NotFound(f"there is no node {node}, and none has been here")
    return found


def _is(name: str, wanted: str) -> bool:
    return name == wanted or name.rpartition(".")[0] == wanted


def _json(value: list[str] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _info(control: "LocalControl", row: Any) -> EventInfo:
    seq, at, _, pos, idx, kind, session, data, node, run_id, workflow = row
    name = None
    if pos is not None and workflow is not None:
        name = control._workflow(workflow).tasks[pos].called(-1 if idx is None else idx)
    return EventInfo(
        seq=seq, at=at, run_id=run_id, kind=kind, task=name, node=node, session=session,
        data=msgspec.json.decode(data),
    )  # fmt: skip
