"""What a page draws: graph, states, counts, whose token it is, one-time links, and streams of some runs only."""

from collections.abc import Callable

from tests.api.conftest import CHAIN, Running
from tests.api.test_streams import Reader, shown
from weft.api.access.auth import Caller, OneToken
from weft.api.access.sign_in_codes import GOOD_S, SignInCodes
from weft.core.states import TERMINAL
from weft.operations.graph.reading import LETTERS

TOKEN = "a-token-of-some-length"
MAPPED = {
    "name": "mapped",
    "on_failure": "continue",
    "tasks": {
        "first": "true",
        "part": {"needs": ["first"], "replicas": 5, "run": "test $WEFT_INDEX != 3"},
        "after": {"needs": ["part"], "run": "true"},
        "handler": {"when": "on_failure", "run": "true"},
    },
}


def test_the_graph_of_a_run(quiet: Running) -> None:
    run = quiet.submit(CHAIN)
    graph = quiet.get(f"/v1/runs/{run}/graph").json
    assert graph["names"] == ["a", "b"]
    assert (graph["edges"], graph["column"], graph["row"]) == ([0, 1], [0, 1], [0, 0])
    assert [graph["kinds"][one] for one in graph["kind"]] == ["shell", "shell"]
    again = quiet.submit(CHAIN)
    assert quiet.get(f"/v1/runs/{again}/graph").json == {**graph, "run": again}


def test_states_say_what_the_list_of_tasks_says(server: Running) -> None:
    run = server.submit(MAPPED)
    server.ended(run)
    for _ in range(2):  # before and after a resume, which keeps the elements that succeeded
        states = server.get(f"/v1/runs/{run}/states?times=true").json
        tasks = server.get(f"/v1/runs/{run}/tasks").json["tasks"]
        whole = {task["pos"]: task for task in tasks if task["idx"] < 0}
        assert [states["letters"][letter] for letter in states["states"]] == [whole[pos]["state"] for pos in range(4)]
        assert states["attempts"] == [whole[pos]["attempt"] for pos in range(4)]
        for pos, task in whole.items():
            if task["state"] in TERMINAL and task["started_at"]:
                assert states["ended"][pos] == task["finished_at"] - states["created_at"]
        counted: dict[str, int] = {}
        for task in tasks:
            if task["idx"] >= 0:
                counted[task["state"]] = counted.get(task["state"], 0) + 1
        assert states["elements"] == {"1": {"elements": 5, "states": counted}}
        assert counted == {"succeeded": 4, "failed": 1}
        server.post(f"/v1/runs/{run}/resume")
        server.ended(run)
    assert states["generation"] == 2
    assert states["last_event"] > 0
    elements = server.get(f"/v1/runs/{run}/tasks?elements_of=part").json["tasks"]
    assert [task["name"] for task in elements if task["generation"] == 1] + ["part.3"] == [
        "part.0", "part.1", "part.2", "part.4", "part.3",
    ]  # fmt: skip
    assert server.get(f"/v1/runs/{run}/tasks?elements_of=nothing").code == "not_found"


def test_letters_are_one_a_state(quiet: Running) -> None:
    run = quiet.submit(CHAIN)
    states = quiet.get(f"/v1/runs/{run}/states").json
    assert states["letters"] == {letter: state for state, letter in LETTERS.items()}
    assert states["states"] == "qp"
    assert states["began"] == states["ended"] == []


def test_counts(quiet: Running) -> None:
    runs = [quiet.submit(CHAIN) for _ in range(3)]
    quiet.connection.cancel(runs[0], None, "no")
    counts = quiet.get("/v1/counts").json
    assert counts["runs"] == {"cancelled": 1, "running": 2}
    assert counts["dead_letters"] == 0
    assert counts["last_event"] == quiet.connection.last_event()


class Everybody:
    """The token is the role."""

    async def caller(self, token: str | None, request: object) -> Caller | None:
        return Caller(f"{token}'s", token) if token in ("viewer", "operator", "admin") else None  # type: ignore[arg-type]


def test_whose_token_it_is(serving: Callable[..., Running]) -> None:
    server = serving(node=False, gate=Everybody())
    assert server.client("viewer").get("/v1/caller").json["role"] == "viewer"
    assert server.client("admin").get("/v1/caller").json["name"] == "admin's"
    code = server.client("viewer").post("/v1/sign-ins").json["code"]  # a viewer opens the page by a link, too
    assert server.post(f"/v1/sign-ins/{code}").json == {"token": "viewer"}
    assert server.get("/v1/caller").code == "unauthorized"


def test_a_link_works_once(serving: Callable[..., Running]) -> None:
    server = serving(node=False, gate=OneToken(TOKEN))
    made = server.client(TOKEN).post("/v1/sign-ins")
    assert made.status == 201
    code = made.json["code"]
    assert server.post(f"/v1/sign-ins/{code}").json == {"token": TOKEN}
    assert server.post(f"/v1/sign-ins/{code}").code == "not_found"
    assert server.post(f"/v1/sign-ins/{'0' * 32}").code == "not_found"
    assert server.post("/v1/sign-ins").code == "unauthorized"


def test_a_link_ages() -> None:
    now = 100.0
    codes = SignInCodes(lambda: now)
    old, fresh = codes.create("one"), codes.create("two")
    now += GOOD_S - 1
    assert codes.use(fresh) == "two"
    now += 1
    assert codes.use(old) is None
    held = [codes.create(str(number)) for number in range(200)]
    assert codes.use(held[0]) is None
    assert codes.use(held[-1]) == "199"


def test_a_stream_of_some_runs(quiet: Running) -> None:
    runs = [quiet.submit(CHAIN) for _ in range(3)]
    for run in runs:
        quiet.connection.cancel(run, None, "enough")
    wanted = [event for run in runs[1:] for event in quiet.connection.events(run, limit=100)]
    seen = Reader(quiet, f"/v1/events/stream?after=0&run={runs[1]}&run={runs[2]}").take(len(wanted))
    assert shown(seen) == sorted(event.seq for event in wanted)
    (ended,) = Reader(quiet, f"/v1/events/stream?after=0&run={runs[2]}&kind=run_finished").take(1)
    assert (ended.data["run_id"], ended.data["kind"]) == (runs[2], "run_finished")
