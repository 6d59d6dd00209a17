"""Definitions before they are stored: checked, their schema, as text, as a dry run, what applying would change."""

from typing import Any

from tests.api.conftest import Running

WRONG = "name: load\ntasks:\n  a: {run: make, tmeout: 5s}\n  b: {needs: [c], run: make}\n"
LOAD: dict[str, Any] = {
    "name": "load",
    "inputs": {"day": {"type": "string", "default": "d"}},
    "triggers": [{"name": "nightly", "cron": "0 2 * * *"}, {"name": "often", "every": "1h"}],
    "tasks": {
        "extract": "true",
        "train": {"needs": ["extract"], "run": "true", "requires": {"labels": ["gpu"]}},
        "ok": {"needs": ["extract"], "wait": {"signal": "go"}},
    },
}


def test_mistakes_stand_at_their_places(quiet: Running) -> None:
    checked = quiet.post("/v1/definitions:check", {"definition": WRONG}).json
    assert checked["valid"] is False
    places = {one["line"]: (one["column"], one.get("length", 1), one["message"]) for one in checked["errors"]}
    assert places[3][:2] == (18, len("tmeout"))
    assert "tmeout" in places[3][2]
    assert places[4][:2] == (15, 1)
    good = quiet.post("/v1/definitions:check", {"definition": LOAD}).json
    assert (good["valid"], good["name"], good["tasks"], good["levels"]) == (True, "load", 3, 2)
    assert good["inputs"] == LOAD["inputs"]
    text = quiet.post("/v1/definitions:check", {"definition": "tasks: {a: [", "format": "yaml"}).json
    assert text["valid"] is False
    assert quiet.get("/v1/workflows").json["workflows"] == []


def test_the_schema_and_the_text_of_a_version(quiet: Running) -> None:
    schema = quiet.get("/v1/definitions/schema").json["json_schema"]
    assert "shortTask" in schema["$defs"]
    hash = quiet.call("PUT", "/v1/workflows/load", {"definition": LOAD}).json["hash"]
    text = quiet.get(f"/v1/documents/{hash}/yaml").json["text"]
    again = quiet.call("PUT", "/v1/workflows/load", {"definition": text}).json
    assert (again["hash"], again["existing"]) == (hash, True)
    assert quiet.get(f"/v1/documents/{'0' * 64}/yaml").code == "not_found"


def test_a_dry_run_says_what_could_run_where(server: Running) -> None:
    plan = server.post("/v1/runs:plan", {"definition": LOAD, "inputs": {"day": "d"}}).json
    assert (plan["total"], plan["levels"], plan["widest"], plan["nodes"]) == (3, 2, 2, 1)
    tasks = {task["name"]: task for task in plan["tasks"]}
    assert len(tasks["extract"]["nodes"]) == 1
    assert tasks["train"]["nodes"] == []
    assert "gpu" in tasks["train"]["why"][0]
    assert "nodes" not in tasks["ok"]  # a wait takes none
    assert "train" in plan["problems"][0]
    assert server.post("/v1/runs:plan", {"definition": LOAD, "inputs": {"day": 3}}).code == "inputs"
    assert server.post("/v1/runs:plan", {"definition": WRONG}).code == "definition"
    assert server.post("/v1/runs:plan", {"workflow": "none"}).code == "not_found"
    part = server.post("/v1/runs:plan", {"definition": LOAD, "inputs": {"day": "d"}, "after": 1, "limit": 1}).json
    assert [task["name"] for task in part["tasks"]] == ["train"]
    assert server.get("/v1/runs").json["runs"] == []


def test_a_preview_of_applying_stores_nothing(quiet: Running) -> None:
    def apply(definition: Any, preview: bool) -> dict[str, Any]:
        found: dict[str, Any] = quiet.call(
            "PUT", "/v1/workflows/load", {"definition": definition, "preview": preview}
        ).json
        return found

    first = apply(LOAD, True)
    assert (first["existing"], first["added"]) == (False, ["nightly", "often"])
    assert "+name: load" in first["lines"]
    assert quiet.get("/v1/workflows").json["workflows"] == []
    assert apply(LOAD, False)["added"] == ["nightly", "often"]
    same = apply(LOAD, True)
    assert (same["existing"], same["lines"], same["added"], same["changed"]) == (True, [], [], [])
    other = {**LOAD, "triggers": [{"name": "nightly", "cron": "0 3 * * *"}, {"name": "new", "every": "2h"}]}
    changed = apply(other, True)
    assert (changed["added"], changed["changed"], changed["removed"]) == (["new"], ["nightly"], ["often"])
    assert "+  cron: 0 3 * * *" in changed["lines"]
    really = apply(other, False)
    assert {name: really[name] for name in ("added", "changed", "removed")} == {
        name: changed[name] for name in ("added", "changed", "removed")
    }
