"""A worker that says what it likes: the server believes it about its own attempts, and nothing else."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running
from tests.workers.conftest import TOKEN, Served, bomb, bound
from weft.api.access.token_gate import Tokens
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.node.ports import LinkLost
from weft.node.workers import messages as m
from weft.node.workers.service import ServiceLimits
from weft.operations.access import StoreAccess
from weft.operations.table import OPERATIONS
from weft.store.shipment import Chunk
from weft.store.sqlite.driver import SqliteStore

OTHER = bound("t2", "other")
SHELL = {"tasks": {"a": {"run": "true"}}}


def reported(claim: c.Claim, result: Any = None, **more: Any) -> c.Report:
    text = None if result is None else json.dumps(result)
    hash = None if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]
    return c.Report(
        claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", 0, result=text, result_hash=hash, **more
    )


def test_a_session_is_only_its_tokens(served: Served) -> None:
    served.register("one")
    calls: dict[str, Any] = {
        "exchange": c.Exchange("one", 1, [], 1, ["shell"], 0), "renew": m.RenewCall("one", 60_000),
        "leave": m.SessionCall("one"), "drain": c.Drain("one", 1), "reconcile": c.Reconcile("one", 0, []),
        "once": c.Once("one", 1, 1, "k"), "open_handle": c.OpenHandle("one", 1, 1, "container", "e", "n"),
        "ship": m.ShipCall("one", [Chunk(1, 1, "one", "stdout", 0, b"x")]), "wait": m.WaitCall("one", [], 0),
        "facts": m.FactsCall("one", [1]), "register": c.Register("one", "x", 60_000, None, "{}"),
    }  # fmt: skip
    for name, request in calls.items():
        with pytest.raises(m.Rejected, match="is not one of this token"):
            served.call(name, request, OTHER)
    assert served.connection.node("one").state == "live"
    assert not served.call("exchange", c.Exchange("one", 1, [], 1, ["shell"], 0)).dead


def test_the_binding_of_a_session_outlives_the_server(served: Served, tmp_path: Path) -> None:
    served.register("one")
    again = Served(tmp_path)
    try:
        with pytest.raises(m.Rejected, match="is not one of this token"):
            again.exchange("one", token=OTHER)
        assert not again.exchange("one").dead
    finally:
        again.close()


def test_role_name_and_scope_are_the_servers_to_give(served: Served) -> None:
    command = c.Register("one", "leader", 60_000, "some run", json.dumps({"kinds": ["inline"], "url": "x"}), "leader")
    reply = served.call("register", command)
    node = served.connection.node("one")
    assert (node.role, node.node, node.scope, node.url, node.kinds) == ("worker", "edge-leader", None, None, [])
    assert reply.data == {"node": "edge-leader", "labels": {}}


def test_labels_come_from_the_token(served: Served) -> None:
    token = bound("t3", "gpu", labels={"gpu": "", "zone": "eu"})
    with pytest.raises(m.Rejected, match="the token gpu does not allow the label secure"):
        served.register("one", token, labels={"secure": ""})
    assert served.register("two", token).data["labels"] == {"gpu": "", "zone": "eu"}


def test_demands_are_judged_by_the_server(served: Served) -> None:
    served.submit("r1", {"tasks": {"a": {"run": "true", "requires": {"labels": ["secure"]}}}})
    served.submit("r2", {"tasks": {"a": {"run": "true", "requires": {"memory": "8GiB"}}}})
    served.register("one")
    known = served.exchange("one", want=0).demands
    demands = [id for _, id, _ in known]
    assert len(demands) == 2
    free = {"memory": 2**40, "disk": 2**40, "gpu": 9, "cpus": 9000}
    reply = served.exchange("one", 2, demands=[*demands, "session:two"], free=free, costs={})
    assert reply.claims == [], "it has neither the label nor the memory that it registered with"
    served.register("able", labels={"secure": ""})
    assert len(served.exchange("able", demands=demands).claims) == 1


def test_workflows_are_those_of_the_token(served: Served) -> None:
    token = bound("t4", "nightly", workflows=("nightly*", "exact"))
    for name in ("nightly-load", "exact", "exactly", "other"):
        served.submit(f"run-{name}", SHELL, name)
    served.register("one", token)
    claims = served.exchange("one", token=token).claims
    names = {facts.name for facts in served.call("facts", m.FactsCall("one", [x.run_no for x in claims]), token)}
    assert names == {"nightly-load", "exact"}
    served.register("two")
    assert len(served.exchange("two").claims) == 2


def test_placement_and_why_know_what_a_token_is_bound_to(served: Served) -> None:
    """Whatever the worker says of itself: the leader gives it nothing that it could not claim."""
    token = bound("t7", "narrow", workflows=("mine*",))
    served.register("one", token, workflows=["*"])
    served.submit("r1", {"placement": "scored", **SHELL}, "other")
    committer = served.connection.link.committer
    assert committer.commit(c.Place()).changed == 0
    (why,) = served.connection.why("r1")
    assert why.summary == "no live node may take it"
    assert why.details == ["narrow-one: its token is bound to the workflows mine*"]
    served.submit("r2", {"placement": "scored", **SHELL}, "mine-1")
    assert committer.commit(c.Place()).changed == 1
    served.register("two", node="two")
    assert committer.commit(c.Place()).changed == 1, "a worker that is bound to none takes it"


def test_only_runs_that_it_works_on_can_be_read(served: Served) -> None:
    served.submit("r1", SHELL)
    served.submit("r2", {"inputs": {"secret": {"default": "hush"}}, "tasks": {"a": {"run": "true", "priority": 0}}})
    served.register("one")
    (claim,) = served.exchange("one", want=1).claims
    other = 3 - claim.run_no
    reads: dict[str, Any] = {
        "facts": m.FactsCall("one", [other]), "ends": m.EndsCall("one", other, [0]),
        "context": m.RunCall("one", other), "array": m.ArrayCall("one", other, 0, 1),
        "document": m.DocumentCall("one", served.connection.run("r2" if other == 2 else "r1").workflow),
    }  # fmt: skip
    for name, request in reads.items():
        with pytest.raises(LinkLost, match="claimed tasks"):
            served.call(name, request)
    with pytest.raises(m.Rejected, match="claimed tasks"):
        served.call("put_artifact", m.PutArtifactCall("one", "../../etc", b"{}"))
    assert len(served.call("facts", m.FactsCall("one", [claim.run_no]))) == 1


def test_reports_of_others_attempts_change_nothing(served: Served) -> None:
    served.submit("r1", SHELL)
    served.register("one")
    served.register("two", OTHER)
    (claim,) = served.exchange("one").claims
    reply = served.exchange("two", token=OTHER, reports=[reported(claim)])
    assert reply.stale == [(claim.task_id, claim.attempt)]
    assert served.connection.run("r1").state == "running"
    assert served.call("ship", m.ShipCall("two", [Chunk(claim.task_id, 1, "two", "stdout", 0, b"x")]), OTHER) == [
        (claim.task_id, 1)
    ]
    served.exchange("one", 2, reports=[reported(claim)])
    assert served.connection.run("r1").state == "succeeded"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"result": "{nonsense"}, "not JSON"),
        ({"result": '{"output":1}', "result_hash": "0" * 32}, "another hash"),
        ({"result": "x" * 5_000_000}, "result_max"),
        ({"usage": (-5, 0)}, "out of its range"),
        ({"ended_ago_ms": -1}, "out of its range"),
        ({"error": "x" * 100_000}, "too long"),
        ({"context": {"k": "x" * 2_000_000}}, "result_max"),
    ],
    ids=["json", "hash", "large", "money", "time", "error", "context"],
)
def test_a_report_must_be_sound(served: Served, change: dict[str, Any], why: str) -> None:
    served.submit("r1", SHELL)
    served.register("one")
    (claim,) = served.exchange("one").claims
    report = reported(claim)
    for name, value in change.items():
        setattr(report, name, value)
    with pytest.raises(m.Rejected, match=why):
        served.exchange("one", 2, reports=[report])
    assert served.connection.run("r1").state == "running"


def test_a_result_refers_to_nothing_but_its_own(served: Served) -> None:
    served.submit("r1", SHELL)
    served.register("one")
    (claim,) = served.exchange("one").claims
    sha = "a" * 64
    file = {"path": "x", "bytes": 1, "sha256": sha, "executable": False, "at": 0}
    kept = {"run": "r1", "task": claim.task_id, "attempt": 1, "place": "store", "list": [file]}
    for result in (
        {"artifact": {"path": "p", "bytes": 1, "sha256": "../../../etc/passwd", "node": "n"}},
        {"artifact": {"path": "p", "bytes": 1, "sha256": sha, "node": "n", "run": "other"}},
        {"files": {**kept, "run": "r2"}}, {"files": {**kept, "task": 1}}, {"files": {**kept, "place": "directory"}},
        {"files": {**kept, "list": [{**file, "path": "../x"}]}},
    ):  # fmt: skip
        with pytest.raises(m.Rejected, match="not its own"):
            served.exchange("one", 2, reports=[reported(claim, result)])
    served.exchange("one", 2, reports=[reported(claim, {"files": kept})])
    assert served.connection.run("r1").state == "succeeded"


def test_a_bound_token_has_a_cache_of_its_own(served: Served) -> None:
    token = bound("t5", "narrow", workflows=("w",))
    definition = {"tasks": {"a": {"run": "true", "cache": {"key": "k"}}}}
    served.submit("r1", definition)
    served.register("one", token)
    (claim,) = served.exchange("one", token=token).claims
    served.exchange("one", 2, token, reports=[reported(claim, {"output": 1}, keep=("cache:1", None))])
    assert [memo.key for memo in served.call("cached", m.CachedCall("one", ["cache:1"]), token)] == ["cache:1"]
    served.register("two")
    assert served.call("cached", m.CachedCall("two", ["cache:1"])) == []


def test_orphans_of_other_tokens_are_left_alone(served: Served) -> None:
    """It neither sees nor closes nor adopts what nodes that are not its own have left on an engine."""
    served.submit("r1", {"tasks": {"a": {"run": "true", "container": {"image": "x"}, "retry": {"on_lost": "adopt"}}}})
    served.register("one", kinds=["container"])
    (claim,) = served.exchange("one", demands=["container"]).claims
    key = (claim.task_id, claim.attempt)
    served.call("open_handle", c.OpenHandle("one", *key, "container", "e", "n", adoptable=True))
    served.connection.link.committer.commit(c.Expire("one", "process"))
    served.register("two", OTHER, kinds=["container"])
    assert served.call("orphans", m.OrphansCall("two", ["e"]), OTHER) == []
    assert served.call("close_handles", m.GoneCall("two", [key]), OTHER).changed == 0
    assert served.exchange("two", token=OTHER, demands=["container"], adopt=[key]).claims == []
    served.register("three", kinds=["container"])
    assert len(served.call("orphans", m.OrphansCall("three", ["e"]))) == 1
    assert [one.adopted for one in served.exchange("three", demands=["container"], adopt=[key]).claims] == [True]


def test_states_are_told_of_runs_that_the_token_allows(served: Served) -> None:
    token = bound("t6", "narrow", workflows=("mine*",))
    served.submit("r1", SHELL, "mine-1")
    served.submit("r2", SHELL, "other")
    served.register("one", token)
    assert served.call("run_states", m.RunStatesCall("one", ["r1", "r2"]), token) == {"r1": "running"}
    served.register("two")
    assert len(served.call("run_states", m.RunStatesCall("two", ["r1", "r2"]))) == 2


def test_output_is_bounded_by_the_server(served: Served) -> None:
    served.submit("r1", SHELL)
    served.register("one")
    (claim,) = served.exchange("one").claims
    served.service._limits = ServiceLimits(output_max=1000)

    def ship(at: int) -> Any:
        chunk = Chunk(claim.task_id, claim.attempt, "one", "stdout", at, b"x" * 500)
        return served.call("ship", m.ShipCall("one", [chunk]))

    for number in range(8):
        assert ship(number * 500) == []
    for at in (4000, 1, 2):
        with pytest.raises(m.Rejected, match="output_max"):
            ship(at)


@pytest.fixture
def http(served: Served, serving: Callable[..., Running], tmp_path: Path) -> Running:
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db"), root=tmp_path))
    return serving(
        node=False,
        connection=connection,
        gate=Tokens(connection.token_holder),
        workers=served.service,
        body_max=2**20,
    )


def test_a_workers_token_opens_its_calls_and_nothing_else(http: Running) -> None:
    worker = http.client(http.connection.create_token("edge", "worker").token)
    for operation in OPERATIONS:
        if operation.role == "anyone":
            continue
        path = operation.path.replace("{", "").replace("}", "")
        answer = worker(operation.method, path, {} if operation.writes else None)
        assert (answer.status == 403) == (operation.role != "worker"), operation.name
    for role in ("viewer", "operator", "admin"):
        other = http.client(http.connection.create_token(role, role).token)
        assert other.post("/v1/workers/leave", b"x").code == "forbidden"
    assert http.client().post("/v1/workers/leave", b"x").status == 401
    assert http.client("weft_0000_guess").post("/v1/workers/leave", b"x").status == 401


def test_the_edge_refuses_what_cannot_be_read(http: Running) -> None:
    worker = http.client(http.connection.create_token("edge", "worker").token)
    assert worker.post("/v1/workers/nothing", b"x").code == "no_route"
    assert worker.post("/v1/workers/leave", bytes((9, 0, 0))).code == "worker_message"
    assert worker.post("/v1/workers/exchange", bomb(30 * 2**20)).code == "worker_message"
    assert worker.post("/v1/workers/exchange", b"\0" * (2**20 + 1)).code == "too_large"
    assert worker.post("/v1/workers/leave", m.encode(m.SessionCall("of nobody"))).status == 200


def test_what_a_token_may_be_bound_to(served: Served) -> None:
    create = served.connection.create_token
    made = create("edge", "worker", labels={"gpu": ""}, workflows=["nightly*"])
    (found,) = [one for one in served.connection.tokens() if one.id == made.id]
    assert (found.role, found.labels, found.workflows) == ("worker", {"gpu": ""}, ["nightly*"])
    with pytest.raises(c.Refused, match="for tokens with the role worker"):
        create("x", "viewer", labels={})
    with pytest.raises(c.Refused, match="names of a worker's nodes"):
        create("two words", "worker")
    assert TOKEN.binding.workflows == ()
