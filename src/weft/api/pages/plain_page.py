"""A plain page: recent runs, nodes and the tasks of a run, made here, without scripts. Everything in it is escaped.

Its one style sheet is allowed by its hash; nothing else may be loaded or run (Content-Security-Policy).
"""

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import Final

from starlette.responses import Response

from weft.api.calls import OperationCall, handles
from weft.operations.replies import LeaderInfo, NodeInfo, RunInfo, TaskInfo
from weft.operations.resources.server import GetPageRequest, get_page

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left; white-space: nowrap; }
th { color: var(--soft); font-weight: 500; }
td.text { max-width: 22rem; overflow: hidden; text-overflow: ellipsis; }
code, .id { font-family: ui-monospace, monospace; font-size: .92em; }
.soft { color: var(--soft); }
.succeeded, .healthy { color: #188038; } .failed, .dead { color: #c5221f; }
.running, .draining { color: #1967d2; } .cancelled, .stale { color: #b06000; }
@media (prefers-color-scheme: dark) {
  .succeeded, .healthy { color: #81c995; } .failed, .dead { color: #f28b82; }
  .running, .draining { color: #8ab4f8; } .cancelled, .stale { color: #fdd663; }
}
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: A page without a referrer would send its forms with the origin `null`.
HEADERS: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
REFRESH_S: Final = 10
TASKS_SHOWN: Final = 500
NODES_SHOWN: Final = 200


@handles(get_page)
def show_page(call: OperationCall) -> Response:
    connection, request = call.connection, call.request(GetPageRequest)
    if request.run is not None:
        tasks, more = connection.tasks(request.run, limit=TASKS_SHOWN)
        text = run_page(connection.run(request.run), tasks, connection.now(), more=more is not None)
        return Response(text, media_type="text/html", headers=HEADERS)
    runs = connection.runs(states=request.state, before=request.before, limit=request.limit, children=False)
    text = page(
        runs, connection.nodes(), connection.leader(), connection.now(), more=len(runs) == request.limit,
        first=request.before is None,
    )  # fmt: skip
    return Response(text, media_type="text/html", headers=HEADERS)


def page(runs: list[RunInfo], nodes: list[NodeInfo], leader: LeaderInfo, now: int, *, more: bool, first: bool) -> str:
    older = f'<p><a href="?before={runs[-1].no}">older runs</a></p>' if more and runs else ""
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_S}">' if first else ""
    leads = (
        f"led by {escape(leader.node or '?')} (term {leader.term})" if leader.session else "nobody leads right now"
    )
    hidden = f", the first {NODES_SHOWN}" if len(nodes) > NODES_SHOWN else ""
    runs_table = _table(
        ("run", "workflow", "state", "tasks", "took", "started", "why"), [_run(run, now) for run in runs], "no runs"
    )
    nodes_table = _table(
        ("node", "session", "role", "state", "running", "labels", "seen"),
        [_node(node, now) for node in nodes[:NODES_SHOWN]],
        "no nodes: start one with weft worker",
    )
    return _page(
        f"""<h1>Weft</h1>
<h2>Runs</h2>
{runs_table}
{older}
<h2>Nodes <span class="soft">{len(nodes):,}{hidden}; {leads}</span></h2>
{nodes_table}""",
        refresh,
    )


def run_page(run: RunInfo, tasks: list[TaskInfo], now: int, *, more: bool) -> str:
    """One run with its tasks."""
    refresh = "" if run.finished_at else f'<meta http-equiv="refresh" content="{REFRESH_S}">'
    hidden = f", the first {len(tasks):,}" if more else ""
    runs = _table(("run", "workflow", "state", "tasks", "took", "started", "why"), [_run(run, now)], "")
    shown = _table(
        ("task", "state", "type", "attempt", "node", "took", "why"), [_task(task, now) for task in tasks], "no tasks"
    )
    return _page(
        f"""<p><a href="plain">all runs</a></p>
<h1>{escape(run.name)}</h1>
{runs}
<h2>Tasks <span class="soft">{run.total:,}{hidden}</span></h2>
{shown}""",
        refresh,
    )


def _page(body: str, refresh: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Weft</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{refresh}
<style>{STYLE}</style></head><body>
{body}
<form method="post" action="plain/forget"><p><button>forget the token</button></p></form>
</body></html>
"""


def _table(heads: tuple[str, ...], rows: Iterable[str], nothing: str) -> str:
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    if not body:
        return f'<p class="soft">{escape(nothing)}</p>'
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _run(run: RunInfo, now: int) -> str:
    ended = run.succeeded + run.failed + run.dead_letter + run.cancelled + run.skipped
    wrong = (
        f', <span class="failed">{run.failed + run.dead_letter:,} failed</span>'
        if run.failed + run.dead_letter
        else ""
    )
    began = run.started_at or run.created_at
    return (
        f'<td class="id"><a href="plain?run={escape(run.id)}">{escape(run.id)}</a></td><td>{escape(run.name)}</td>'
        f'<td class="{escape(run.state)}">{escape(run.state)}</td><td>{ended:,}/{run.total:,}{wrong}</td>'
        f"<td>{_span((run.finished_at or now) - began)}</td><td>{_span(now - began)} ago</td>"
        f'<td class="text soft">{escape(run.reason or "")}</td>'
    )


def _task(task: TaskInfo, now: int) -> str:
    took = "" if task.started_at is None else _span((task.finished_at or now) - task.started_at)
    return (
        f'<td class="text">{escape(task.name)}</td><td class="{escape(task.state)}">{escape(task.state)}</td>'
        f"<td>{escape(task.kind)}</td><td>{task.attempt or ''}</td><td>{escape(task.node or '')}</td><td>{took}</td>"
        f'<td class="text soft">{escape(task.reason or "")}</td>'
    )


def _node(node: NodeInfo, now: int) -> str:
    labels = " ".join(f"{name}={value}" if value else name for name, value in node.labels.items())
    slots = "" if node.slots is None else f"/{node.slots:,}"
    seen = "" if node.seen_at is None else f"{_span(now - node.seen_at)} ago"
    return (
        f'<td>{escape(node.node)}</td><td class="id">{escape(node.session)}</td><td>{escape(node.role)}</td>'
        f'<td class="{escape(node.health)}">{escape(node.health)}</td><td>{node.running:,}{slots}</td>'
        f'<td class="text">{escape(labels)}</td><td>{seen}</td>'
    )


def _span(ms: int) -> str:
    seconds = max(0, ms) / 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(0, ms)} ms"
