"""Examples in the description of the API.

Those of replies are made from their types, so that none says what is not so: a field's value goes by the type's and
the field's name, or by the field's name alone; what no table knows gets the plainest value of its type. Those of
requests stand with their routes. All of them tell of one run of one workflow.
"""

import types
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec

RUN: Final = "k3v9x2m8qa4t"
HASH: Final = "6134cab031f25a1375cd0b3dd9a3e623771e5bd7efd58556366fd31a14328645"
OLD_HASH: Final = "5b94ec22778d3799edd27e73deeb3a97afabf36ef542ea9477c324b852f5f583"
SESSION: Final = "b012a7468b43eec5"
AT: Final = 1_769_821_200_000  # 2026-01-31T01:00:00Z
DEFINITION: Final = {"name": "nightly", "inputs": {"day": "string"}, "tasks": {"extract": "./extract.sh",
                     "load": {"needs": ["extract"], "run": "./load.sh ${{ inputs.day }}"}}}  # fmt: skip
_GRAPH: Final = {"names": ["extract", "load"], "kinds": ["shell"], "kind": [0, 0], "level": [0, 1], "column": [0, 1],
                 "row": [0, 0], "columns": 2, "rows": 1, "edges": [0, 1]}  # fmt: skip
RESULT: Final = {"exitCode": 0, "stdout": "42 rows\n", "stderr": "", "output": {"rows": 42}}

FIELDS: Final[dict[str, Any]] = {
    "active_at": AT + 1200, "actor": "0a1b2c3d ci", "address": "worker-1:4711", "at": AT, "attempt": 1,
    "cause": "2026-01-31T02:00:00+01:00", "changed": 1,
    "claimed_at": AT + 3, "claims": 128, "context": {"day": "2026-01-31"}, "created_at": AT,
    "current": {"nightly": HASH}, "document": DEFINITION, "drain_at": AT + 60_000, "due_at": AT, "elements": None,
    "events": 1234, "exchanges": 900, "expires_at": AT + 7_776_000_000, "expires_in_ms": 29_000, "generation": 1,
    "hash": HASH, "health": "healthy", "host": "worker-1", "id": RUN, "idx": -1, "inputs": {"day": "2026-01-31"},
    "kinds": ["python", "shell"], "label": "ci", "last": 1234, "last_event": 1234, "lease_expires_at": AT + 30_000,
    "lease_ms": 28_000, "library": "SQLite 3.54.1", "location": "/var/lib/weft/weft.db",
    "measured_at": AT, "memory": 8 * 2**30, "name": "nightly", "needs": ["extract"], "new": HASH, "next": None,
    "next_at": AT + 86_400_000, "no": 42, "node": "worker-1", "now": AT, "old": OLD_HASH,
    "outcomes": {"succeeded": 120, "failed": 7}, "output": {"rows": 42}, "overlap": "skip", "pid": 4711, "pos": 1,
    "ready_at": AT + 2, "resources": {"cores": 8, "load": 0.7}, "revoked_at": None, "role": "operator", "root": RUN,
    "run": RUN, "run_id": RUN, "running_count": 1, "schema": 1, "seen_at": AT, "seq": 1234, "session": SESSION,
    "sessions_live": 3, "signal": "approve", "size": 4, "size_bytes": 1_726_288, "slots": 8,
    "source": "/srv/flows", "started": 2, "started_at": AT + 5, "state": "running", "task": "load",
    "tasks": 2, "term": 3, "token": "weft_0a1b2c3d_6dfd96e04327b106c78866c29d881701604504f89374d22d7fd74f959536c34d",
    "total": 2, "trigger": "nightly/cron", "url": "http://127.0.0.1:8700", "used": 1, "version": "0.1.0",
    "versions": 2, "waiting": 0, "workflow": HASH,
}  # fmt: skip

OF: Final[dict[str, dict[str, Any]]] = {
    "AppliedWorkflow": {"workflow": "nightly", "triggers": 1, "added": ["cron"], "changed": [], "existing": False},
    "ArtifactInfo": {"attempt": 1, "bytes": 1_234, "path": "dist/app.whl", "sha256": "5e8f" * 16, "task": "build"},
    "AttemptInfo": {"outcome": "succeeded", "finished_at": AT + 1200, "exit_code": 0, "result": RESULT},
    "Batch": {"runs": [{"run": RUN}, {"code": "not_found", "detail": "there is no workflow nighly; did you mean"
              " 'nightly'?"}], "started": 1, "refused": 1},
    "EventInfo": {"kind": "assigned", "data": {"attempt": 1}},
    "Explanation": {"summary": "it waits for extract", "state": "pending",
                    "details": ["extract is running", "when: all_success"]},
    "FireInfo": {"outcome": "started"},
    "Counts": {"runs": {"running": 1, "succeeded": 41}},
    "Health": {"status": "ok"},
    "HookTaken": {"trigger": "deploy/webhook", "outcome": "started"},
    "NodeInfo": {"state": "live", "started_at": AT, "labels": {"gpu": ""}, "running": 1, "leader": True,
                 "role": "auto", "drain_at": None},
    "NodeWork": {"running_count": 1},
    "NotificationInfo": {"id": "6134cab031f25a1375cd", "event": "failed", "workflow": "nightly", "state": "delivered",
                         "target": "webhook https://example.com", "tries": 1, "next_at": None,
                         "delivered_at": AT + 1500, "facts": {"state": "failed", "reason": "load: exit code 1"}},
    "NotifyDefault": {"notify": [{"on": ["failed"], "webhook": "https://example.com/hook"}]},
    "PoolInfo": {"name": "database", "holders": [f"{RUN}/load"]},
    "PoolSet": {"name": "database"},
    "PrunedRuns": {"runs": [RUN], "more": False, "kept": []},
    "LevelRecords": {"lines": ['{"level":0,"task":"extract","state":"succeeded"}']},
    "RunGraph": _GRAPH,
    "WorkflowGraph": _GRAPH,
    "RunStates": {"states": "sr", "letters": {"s": "succeeded", "r": "running"}, "attempts": [1, 1]},
    "HistoryEvent": {"kind": "assigned", "number": 5},
    "PastMoment": {"total": 7, "previous": 1233, "next": 1235},
    "ElementStates": {"task": "load", "elements": 3, "states": "ssr", "letters": {"s": "succeeded", "r": "running"}},
    "Timeline": {"nodes": ["worker-1"], "pos": [0, 1], "idx": [-1, -1], "attempt": [1, 1], "generation": [1, 1],
                 "node": [0, 0], "ready": [2, 1300], "began": [5, 1304], "ended": [1200, -1],
                 "began_event": [1230, 1234], "ended_event": [1233, 0], "states": "sr", "path": [0, 1],
                 "slack": [0, 0]},
    "ClusterTimeline": {"since": AT - 300_000, "nodes": ["worker-1"], "runs": [RUN], "node": [0], "run": [0],
                        "task": ["load"], "attempt": [1], "began": [AT + 5], "ended": [0], "states": "r"},
    "ClusterMark": {"kind": "leader_elected"},
    "RunHistoryInfo": {"total": 7, "every": 1, "events": [1228, 1229, 1230, 1231, 1232, 1233, 1234]},
    "SignInLink": {"code": "6dfd96e04327b106c78866c29d881701", "expires_in_ms": 60_000},
    "CallerInfo": {"name": "dashboard", "role": "viewer"},
    "RunInfo": {"state": "succeeded", "finished_at": AT + 1200, "succeeded": 2},
    "RunWorkflows": {"workflows": [HASH]},
    "RunDiff": {"inputs": {"day": ["2026-01-30", "2026-01-31"]}, "definition": []},
    "TaskDiff": {"changed": True},
    "Correction": {"again": ["load", "report"], "changed": ["load"], "new": [], "kept": 1},
    "BackfillInfo": {"trigger": "nightly/cron", "state": "active", "parallel": 2, "total": 31, "left": 20,
                     "started": 10, "existing": 1, "succeeded": 8, "running": 2, "first_ms": AT,
                     "last_ms": AT + 2_592_000_000},
    "BackfillTime": {"time": "2026-01-31T02:00:00+01:00", "due_at": AT},
    "BackfillStarted": {"trigger": "nightly/cron", "total": 31, "existing": 1},
    "RerunPlan": {"again": ["load", "report"], "taken_over": ["extract"]},
    "StoreInfo": {"kind": "sqlite", "runs": {"succeeded": 41}, "tasks": {"succeeded": 83}},
    "Stored": {"document": DEFINITION},
    "TaskInfo": {"name": "load", "kind": "shell", "level": 1, "state": "succeeded", "finished_at": AT + 1200,
                 "exit_code": 0},
    "TimeList": {"times": [{"time": "2026-01-31T02:00:00+01:00", "due_at": AT, "at": AT}]},
    "TokenInfo": {"id": "0a1b2c3d", "state": "valid"},
    "NewToken": {"id": "0a1b2c3d"},
    "TokenRevoked": {"id": "0a1b2c3d", "revoked_at": AT},
    "TriggerDone": {"outcome": "started"},
    "TriggerInfo": {"id": "nightly/cron", "workflow": "nightly", "name": "cron", "kind": "cron",
                    "what": "0 2 * * * Europe/Berlin", "catch_up": "none"},
    "VersionDiff": {"lines": ["--- 5b94ec22778d", "+++ 6134cab031f2", "@@ -3 +3 @@", "-  load: ./old.sh",
                              "+  load: ./load.sh"]},
    "VersionPage": {"versions": [{"name": "nightly", "hash": HASH, "created_at": AT}]},
    "Verification": {"events": 7, "tasks": 2, "differences": []},
}  # fmt: skip

#: Of what is not JSON, by its media type.
TEXTS: Final = {
    "text/event-stream": 'id: 1234\ndata: {"seq":1234,"kind":"assigned","task":"load"}\n\n'
    'event: end\nid: 1240\ndata: {"reason":"finished","last":"1240"}\n\n',
    "text/plain": "# HELP weft_dead_letters Tasks whose retries are used up\n# TYPE weft_dead_letters gauge\n"
    "weft_dead_letters 0.0\n",
    "text/html": "<!doctype html>\n<html lang=\"en\"><head><title>Weft</title></head><body>…</body></html>\n",
    "application/octet-stream": "42 rows\n",
    "application/vnd.weft.worker+msgpack": "(bytes: version, whether it is compressed, msgpack)",
}  # fmt: skip


def of_reply(kind: Any) -> Any:
    """An example of a reply of this type, as it is sent."""
    return msgspec.to_builtins(_value(kind, ""))


def _value(kind: Any, name: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        parts = [part for part in get_args(kind) if part is not types.NoneType]
        return _value(parts[0], name) if _is_struct(parts[0]) else None
    if _is_struct(kind):
        own = OF.get(kind.__name__, {})
        return kind(**{field.name: _field(own, field) for field in msgspec.structs.fields(kind)})
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        return [_value(of, name)] if _is_struct(of) else []
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    return {str: "", int: 0, bool: False, float: 0.0}.get(kind, {})


def _field(own: dict[str, Any], field: msgspec.structs.FieldInfo) -> Any:
    if field.name in own:
        value = own[field.name]
    elif field.name in FIELDS and not _holds_structs(field.type):
        value = FIELDS[field.name]
    elif field.required:
        return _value(field.type, field.name)
    else:
        return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return msgspec.convert(value, field.type)


def _holds_structs(kind: Any) -> bool:
    return _is_struct(kind) or any(_holds_structs(part) for part in get_args(kind))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
