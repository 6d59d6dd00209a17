"""Which engine is asked, and what it is asked: Docker's identity, pulls, credentials, engines of other machines."""

import asyncio
import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executors.attempts import ends
from tests.executors.container.containers import ContainerAttempts, Containers, until
from tests.executors.container.fake_engine import DOCKER, Answer, fake_engine, said
from weft.executors.container.address import EngineFacts, choose_api, parse_address, read_facts
from weft.executors.container.create_request import BadContainer, create_request
from weft.executors.container.executor import ContainerExecutor
from weft.executors.container.images import PullProgress, split_tag
from weft.executors.protocol import Launch, Outcome

GPU_ENGINE = EngineFacts("docker", (27, 1), "docker:x")


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Short: a Unix socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "e.sock"


def launch_of(container: dict[str, Any], **changes: Any) -> Launch:
    spec = {"container": {"image": "img", **container}, **changes.pop("spec", {})}
    return Launch(1, 1, "r", "t", "container", spec, {}, "/work", "/out", 1000, **changes)


def docker(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
    if path == "/version":
        return said(DOCKER)
    if path == "/info":
        return said({"ID": "stable-id"})
    return said({"message": "no such thing"}, 404)


def test_docker_has_an_id_and_podman_a_place(socket_path: Path) -> None:
    async def story() -> None:
        executor = ContainerExecutor(f"unix://{socket_path}")
        await executor.open()
        assert "no such file" in str(await executor.check())
        assert executor.engine is None
        async with fake_engine(socket_path, docker):
            assert await executor.check() is None
            found: tuple[str | None, str | None] = (executor.engine, executor.flavor)
            assert found == ("docker:stable-id", "docker")
            name = executor.handle(launch_of({})).name
            assert name == "weft-r-t-1"
        await executor.close()

    asyncio.run(story())
    podman = {"Components": [{"Name": "Podman Engine"}], "Version": "4.3.1"}
    address = parse_address(str(socket_path))
    facts = read_facts(address, podman, {"ID": "changes-each-time"})
    assert facts.version == (4, 3, 1)
    assert facts.identity.endswith(f":{socket_path.parent.resolve() / socket_path.name}")
    assert read_facts(parse_address("tcp://host:2375"), podman, None).identity == "engine:tcp://host:2375"


def test_the_real_engine_is_the_same_for_two_nodes(containers: Containers) -> None:
    async def story() -> None:
        link = containers.directory / "link.sock"
        link.symlink_to(containers.podman.socket)
        found = []
        for path in (containers.podman.socket, f"unix://{containers.podman.socket}", str(link)):
            executor = ContainerExecutor(path)
            await executor.open()
            assert await executor.check() is None
            found.append(executor.engine)
            await executor.close()
        assert len(set(found)) == 1
        assert found[0] is not None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"),
    [("1.41", "4.0.0", "1.41"), ("1.41", "1.12", "1.41"), ("1.52", "1.44", "1.47"), ("1.60", "1.50", "1.50")],
)
def test_the_version_of_the_api_is_one_that_both_speak(newest: str, oldest: str, spoken: str) -> None:
    assert choose_api({"ApiVersion": newest, "MinAPIVersion": oldest}) == spoken


def test_no_socket_is_an_answer_too() -> None:
    async def story() -> None:
        executor = ContainerExecutor("/nowhere/p.sock")
        await executor.open()
        assert "/nowhere/p.sock: no such file" in str(await executor.check())
        outcomes: list[Outcome] = []
        executor.start(launch_of({}), outcomes.append)
        await asyncio.sleep(0.01)
        assert not outcomes[0].startable
        assert await executor.remove([executor.handle(launch_of({}))]) == []
        await executor.close()

    asyncio.run(story())


def test_pulls_say_what_they_do_and_can_be_stopped(socket_path: Path) -> None:
    lines = [{"status": "Downloading", "id": "a", "progressDetail": {"current": n, "total": 200}} for n in (50, 150)]

    def answers(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        if path.startswith("/images/create"):
            assert "fromImage=private%2Fimg&tag=2" in path
            parts = [(0.0, json.dumps(lines[0]).encode() + b"\r\n"), (2.1, json.dumps(lines[1]).encode() + b"\n")]
            return 200, [*parts, (60.0, b"{}\n")]
        return docker(method, path, headers, body)

    async def story() -> None:
        async with fake_engine(socket_path, answers) as engine:
            executor = ContainerExecutor(str(socket_path))
            await executor.open()
            assert await executor.check() is None
            attempts = ContainerAttempts(socket_path.parent, executor, "r")
            container = {"image": "private/img:2", "pull": "always", "credentials": "REGISTRY"}
            launch, future = attempts.start("true", container=container, credentials="me:pass:word")
            await until(lambda: any("%" in text for text in attempts.said))
            assert attempts.said == ["pulling private/img:2", "pulling private/img:2: downloading, 75 %"]
            auth = next(found["x-registry-auth"] for found in engine.headers if "x-registry-auth" in found)
            assert json.loads(base64.urlsafe_b64decode(auth)) == {"username": "me", "password": "pass:word"}
            attempts.stop(launch, "cancel", 10.0)
            outcome = await ends(future, 10)
            assert (outcome.stopped, outcome.started) == ("cancel", None), outcome
            assert ("POST", "/containers/create?name=weft-r-t1-1") not in engine.asked
            await executor.close()

    asyncio.run(story())


def test_a_pull_that_fails_half_way_is_an_error_at_once(socket_path: Path) -> None:
    def answers(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        if path.startswith("/images/create"):
            return 200, [(0.0, b'{"status": "Pulling"}\n'), (0.0, b'{"error": "manifest unknown to me:password"}')]
        return docker(method, path, headers, body)

    async def story() -> None:
        async with fake_engine(socket_path, answers):
            executor = ContainerExecutor(str(socket_path))
            await executor.open()
            assert await executor.check() is None
            outcome = await ContainerAttempts(socket_path.parent, executor, "r").run(
                "true", container={"image": "img"}, credentials="me:password"
            )
            assert outcome.error == "image img cannot be pulled: manifest unknown to ***"
            await executor.close()

    asyncio.run(story())


def test_progress_is_bounded() -> None:
    now = 0.0
    said_texts: list[str] = []
    progress = PullProgress("img", said_texts.append, lambda: now)
    for step in range(10_000):
        now = step / 1000
        progress.take({"status": "Downloading", "id": str(step), "progressDetail": {"current": 1, "total": 2}})
    assert said_texts[0] == "pulling img"
    assert len(said_texts) == 5
    assert said_texts[-1] == "pulling img: downloading, 50 %"


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("img", ("img", "latest")),
        ("img:1", ("img", "1")),
        ("host:5000/img", ("host:5000/img", "latest")),
        ("host:5000/img:2", ("host:5000/img", "2")),
        ("img@sha256:ab", ("img@sha256:ab", "")),
    ],
)
def test_tags(image: str, parts: tuple[str, str]) -> None:
    assert split_tag(image) == parts


def test_an_engine_of_another_machine_gets_no_paths() -> None:
    def create(container: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return create_request(launch_of({"mount": "none", **container}, **changes), {}, None, GPU_ENGINE)

    plain = create({}, spec={"run": "true"})
    assert "Mounts" not in plain["HostConfig"]
    assert not [variable for variable in plain["Env"] if variable.startswith("WEFT_")]
    refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"mount": "ro"}, {}, "mount: none"),
        ({}, {"spec": {"function": "m:f"}}, "Python function"),
        ({}, {"input": b"{}"}, "$WEFT_INPUT"),
        ({"secrets_as": "files"}, {"secrets": {"A": "b"}}, "secrets_as: env"),
        ({}, {"spec": {"run": "echo 1 > $WEFT_OUTPUT"}}, "$WEFT_OUTPUT"),
        ({"command": ["sh", "-c", "cat $WEFT_CONTEXT"]}, {}, "$WEFT_CONTEXT"),
    ]
    for container, changes, text in refused:
        with pytest.raises(BadContainer, match="on another machine") as error:
            create(container, **changes)
        assert text in str(error.value)


def test_gpus_and_limits_in_the_request() -> None:
    body = create_request(
        launch_of({"gpus": 2, "init": True, "mount": "none"}, requires={"memory": 1 << 30, "cpus": 1.5}), {}, "/p",
        GPU_ENGINE,
    )  # fmt: skip
    host = body["HostConfig"]
    assert host["DeviceRequests"] == [{"Driver": "", "Count": 2, "Capabilities": [["gpu"]]}]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["Init"]) == (
        1 << 30,
        1 << 30,
        1_500_000_000,
        True,
    )
    podman = EngineFacts("podman", (5, 4), "p")
    by_requires = create_request(launch_of({}, requires={"gpu": 1}), {}, "/p", podman)
    assert by_requires["HostConfig"]["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]


def test_a_create_whose_answer_was_lost_is_recognised(socket_path: Path) -> None:
    """The first answer to `create` is cut off; the second says that the name exists, with this process's label."""
    created: dict[str, Any] = {}

    def answers(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        if path.startswith("/images/"):
            return said({})
        if path.startswith("/containers/create"):
            if not created:
                created.update(body)
                raise ConnectionError  # nothing is answered
            return said({"message": "name is already in use"}, 409)
        if path.endswith("/json") and created:
            return said({"Config": {"Labels": created["Labels"]}, "State": {"Status": "created"}})
        if path.startswith("/containers/weft-r-t1-1/attach"):
            return said({"message": "far enough"}, 500)
        if method == "DELETE":
            created.clear()
            return said({})
        return docker(method, path, headers, body)

    async def story() -> None:
        async with fake_engine(socket_path, answers):
            executor = ContainerExecutor(str(socket_path))
            await executor.open()
            assert await executor.check() is None
            outcome = await ContainerAttempts(socket_path.parent, executor, "r").run("true")
            assert "far enough" in str(outcome.error) or "no such thing" in str(outcome.error), outcome
            assert not created, "it was not removed"
            await executor.close()

    asyncio.run(story())


def test_the_request_is_plain_json() -> None:
    body = create_request(launch_of({}, spec={"run": "true"}), {"weft.run": "r"}, "/p", GPU_ENGINE)
    assert msgspec.json.decode(msgspec.json.encode(body)) == body
