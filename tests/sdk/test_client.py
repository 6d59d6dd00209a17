"""weft.Client: a server, from Python."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from tests.api.conftest import Running
from tests.client.test_reading import CHAIN
from weft.api.access.auth import OneToken
from weft.authoring.load import load_value

TOKEN = "a-token-of-some-length"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, gate=OneToken(TOKEN))
    yield made
    made.close()


def test_a_run_there_gives_its_output_here(server: Running) -> None:
    with weft.Client(f"http://127.0.0.1:{server.port}/", token=TOKEN) as client:
        assert client.run(load_value(CHAIN), {"who": "them"}) == "one\n"
        run_id = client.start(load_value(CHAIN), key="k", priority=3, labels={"a": "b"})
        assert client.start(load_value(CHAIN), key="k", priority=3) == run_id
        assert client.wait(run_id).state == "succeeded"
        assert client.output(run_id) == "one\n"
        assert client.connection.run(run_id).priority == 3


def test_a_submission_that_no_live_node_can_run_is_logged(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    with weft.Client(f"http://127.0.0.1:{server.port}", token=TOKEN) as client:
        run_id = client.start(load_value({"tasks": {"a": {"run": "true", "requires": {"labels": ["gpu"]}}}}))
        assert client.connection.run(run_id).state == "running"
    assert [(r.name, r.levelname) for r in caplog.records if "lacks the label gpu" in r.getMessage()] == [
        ("weft", "WARNING")
    ]


def test_a_file_and_what_is_wrong_with_a_run(server: Running, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\ntasks: {a: exit 3}\n")
    with weft.Client(f"http://127.0.0.1:{server.port}", token=TOKEN) as client:
        with pytest.raises(weft.RunFailed) as caught:
            client.run(tmp_path / "bad.yaml")
        assert [failure.task for failure in caught.value.failures] == ["a"]
        (tmp_path / "wait.yaml").write_text("name: wait\ntasks: {a: {wait: {signal: go}}}\n")
        run_id = client.start(tmp_path / "wait.yaml")
        with pytest.raises(TimeoutError, match="is running after"):
            client.wait(run_id, timeout_s=0.1)
        client.connection.signal(run_id, "go")
        client.wait(run_id)


def test_the_token_of_the_environment(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with weft.Client(url) as client, pytest.raises(Exception, match="WEFT_TOKEN"):
        client.connection.now()
    monkeypatch.setenv("WEFT_TOKEN", TOKEN)
    with weft.Client(url) as client:
        assert client.connection.now() > 0


def test_threads_share_a_client(server: Running) -> None:
    with weft.Client(f"http://127.0.0.1:{server.port}", token=TOKEN) as client:
        found: list[str] = []
        definition = load_value(CHAIN)
        threads = [threading.Thread(target=lambda: found.append(client.run(definition))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["one\n"] * 8
