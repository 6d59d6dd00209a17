"""Outputs that are too large for the store: the same on a store and through a server."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.api.conftest import Running
from tests.client.conftest import Place
from weft.authoring.load import load_value
from weft.core.commands import Refused
from weft.operations.errors import NotFound
from weft.store.artifact_files import ArtifactError

COUNT = 300_000
LARGE: dict[str, Any] = {
    "name": "large",
    "output": {
        "all": "${{ tasks.make.output }}", "last": "${{ tasks.make.output[2] }}",
        "small": "${{ tasks.small.output }}",
    },
    "tasks": {
        "make": {"run": f"seq {COUNT} | paste -sd, | sed 's/^/[/; s/$/]/' > $WEFT_OUTPUT"},
        "small": {"run": "echo '{\"$artifact\": {\"path\": \"mine\"}}' > $WEFT_OUTPUT"},
    },
}  # fmt: skip


def file_of(directory: Path) -> Path:
    (found,) = (directory / ".weft" / "artifacts").rglob("*.json")
    return found


def test_it_is_read_where_it_can_be(place: Place) -> None:
    place.work()
    run = place.submit(LARGE)
    assert place.ended(run) == "succeeded"
    data = file_of(place.directory).read_bytes()
    reference, file = place.connection.open_artifact(run, "make")
    with file:
        assert file.read() == data
    assert (reference.bytes, reference.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    with place.connection.open_artifact(run, "make", 1)[1] as file:
        assert file.read(5) == data[:5]
    look_alike = {"$artifact": {"path": "mine"}}
    shown = place.connection.output(run, whole=True)
    assert shown == {"all": list(range(1, COUNT + 1)), "last": 3, "small": look_alike}
    with pytest.raises(NotFound, match="make has no attempt 2; its last is 1"):
        place.connection.open_artifact(run, "make", 2)
    with pytest.raises(NotFound, match="attempt 1 of small has no artifact"):
        place.connection.open_artifact(run, "small")
    with pytest.raises(NotFound, match="no task nobody"):
        place.connection.open_artifact(run, "nobody")


def test_without_being_asked_there_are_references(place: Place) -> None:
    place.work()
    run = place.submit({**LARGE, "output": "${{ tasks.make.output }}"})
    assert place.ended(run) == "succeeded"
    reference, file = place.connection.open_artifact(run, "make")
    file.close()
    shown = {"path": reference.path, "bytes": reference.bytes, "sha256": reference.sha256, "node": "here"}
    assert place.connection.output(run) == {"$artifact": shown}


def test_a_file_that_is_not_here_or_was_changed_is_named(place: Place) -> None:
    place.work()
    run = place.submit(LARGE)
    assert place.ended(run) == "succeeded"
    path = file_of(place.directory)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(ArtifactError, match=f"{path} does not hold what node here wrote"):
        place.connection.open_artifact(run, "make")
    path.unlink()
    with pytest.raises(ArtifactError, match=f"written on node here, and node here cannot read {path}: No such file"):
        place.connection.open_artifact(run, "make")
    with pytest.raises(Refused, match=r"output: this output is in the artifact .* cannot read"):
        place.connection.output(run, whole=True)


def test_a_task_that_has_not_run_has_none(place: Place) -> None:
    run = place.submit(LARGE)
    with pytest.raises(NotFound, match="make has not run yet"):
        place.connection.open_artifact(run, "make")


def test_through_http_by_range(tmp_path: Path) -> None:
    server = Running(tmp_path)
    try:
        run = server.submit(LARGE)
        assert server.ended(run)["state"] == "succeeded"
        path = file_of(tmp_path)
        data = path.read_bytes()
        url = f"/v1/runs/{run}/tasks/make/artifact"
        whole = server.get(url)
        assert (whole.status, whole.body) == (200, data)
        assert whole.headers["content-type"] == "application/octet-stream"
        assert whole.headers["etag"] == f'"{path.stem}"'
        assert json.loads(whole.headers["weft-artifact"])["bytes"] == len(data)
        size = len(data)
        for asked, begin, end in (("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=-7", size - 7, size),
                                  (f"bytes={size - 3}-", size - 3, size), ("bytes=9-99999999999", 9, size),
                                  ("bytes=-99999999999", 0, size)):  # fmt: skip
            part = server.get(url, Range=asked)
            assert (part.status, part.body) == (206, data[begin:end]), asked
            assert part.headers["content-range"] == f"bytes {begin}-{end - 1}/{size}"
        for asked in ("bytes=", "bytes=-", "bytes=9-5", "bytes=0-1,5-6", "rows=0-1", "bytes=x-1"):
            assert (server.get(url, Range=asked).status, asked) == (200, asked)
        assert server.get(url, Range="bytes=0-0", If_Range=f'"{path.stem}"').status == 206
        assert server.get(url, Range="bytes=0-0", If_Range='"another"').status == 200
        for asked in (f"bytes={size}-", "bytes=-0"):
            refused = server.get(url, Range=asked)
            assert (refused.status, refused.code) == (416, "range")
            assert refused.headers["content-range"] == f"bytes */{size}"
        assert server.get(f"/v1/runs/{run}/tasks/small/artifact").code == "not_found"
        with weft.Client(f"http://127.0.0.1:{server.port}") as client:
            assert client.output(run)["last"] == 3
            assert client.run(load_value(LARGE), source=tmp_path)["all"][-1] == COUNT
        (tmp_path / ".weft" / "artifacts").rename(tmp_path / "away")
        missing = server.get(url)
        assert (missing.status, missing.code) == (409, "artifact_elsewhere")
        assert "share" in missing.json["fix"]
        assert "written on node here" in missing.json["detail"]
    finally:
        server.close()


def test_a_server_holds_only_so_much_of_them_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.operations.resources.runs.WHOLE_MAX", 1 << 20)
    server = Running(tmp_path)
    try:
        run = server.submit(LARGE)
        server.ended(run)
        shown = server.get(f"/v1/runs/{run}/output?whole=true").json
        assert shown["output"] is None
        assert "bytes of artifacts, over 1,048,576: read each by itself" in shown["error"]
    finally:
        server.close()
