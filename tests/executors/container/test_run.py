"""What runs in a container: commands, output, exit codes, variables, files, Python functions."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.executors.attempts import ends
from tests.executors.container.containers import ContainerAttempts, Containers
from tests.executors.container.podman import IMAGE
from weft.executors.protocol import Outcome


def stdout(outcome: Outcome) -> str:
    assert outcome.ok, outcome
    assert outcome.result is not None
    return str(outcome.result["stdout"])


async def all_of(*awaitables: Any) -> list[Outcome]:
    return list(await asyncio.gather(*awaitables))


def test_a_command_runs_with_output_and_exit_code(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            launch, future = attempts.start("echo out; echo err >&2; printf 'no newline'; exit 3")
            outcome = await ends(future, 60)
            assert not outcome.ok, outcome
            assert (outcome.exit_code, outcome.error) == (3, "exit code 3")
            assert outcome.result == {"exitCode": 3, "stdout": "out\nno newline", "stderr": "err\n"}
            assert outcome.started is not None
            assert outcome.started < outcome.ended
            assert attempts.output(launch) == b"out\nno newline"
            assert attempts.output(launch, "err") == b"err\n"
            assert not list(Path(launch.output_dir).glob("*.context"))
            assert containers.left() == []

    asyncio.run(story())


def test_what_runs_and_as_whom(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            found = await all_of(
                attempts.run(["echo", "$HOME", "a b"]),
                attempts.run(container={"command": ["echo", "by"], "args": ["command"]}),
                attempts.run(container={"entrypoint": ["echo", "entry"], "args": ["point"]}),
                attempts.run(["sh", "-c", "echo $0 $1"], container={"entrypoint": ["busybox"]}),
                attempts.run(container={"entrypoint": [], "args": ["echo", "no entry"]}),
                attempts.run(
                    'echo "$A $B $C"', env={"A": "task", "B": "task"}, container={"env": {"B": "own", "C": 3}}
                ),
                attempts.run("pwd; id -u; id -g", container={"workdir": "/tmp", "user": "1234:99"}),
                attempts.run("ls /sys/class/net; touch /new && echo writable"),
                attempts.run("touch /new || echo read-only", container={"read_only": True}),
                attempts.run("chown 5 /tmp || echo no chown", container={"cap_drop": ["CHOWN"]}),
                attempts.run("echo $WEFT_RUN_ID", env={"WEFT_RUN_ID": "r7"}),
            )
            assert [stdout(one) for one in found] == [
                "$HOME a b\n", "by command\n", "entry point\n", "sh\n", "no entry\n", "task own 3\n",
                "/tmp\n1234\n99\n", "lo\nwritable\n", "read-only\n", "no chown\n", "r7\n",
            ]  # fmt: skip
            assert containers.left() == []

    asyncio.run(story())


def test_files_of_this_machine(containers: Containers) -> None:
    source = containers.directory / "source"
    data = containers.directory / "data"
    for directory in (source / "sub", data):
        directory.mkdir(parents=True)
    (source / "file").write_text("from the definition\n")
    here: dict[str, Any] = {"source": str(source), "cwd": str(source / "sub")}

    async def story() -> None:
        async with containers.executor() as attempts:
            read = "pwd; cat ../file; echo x > ../new || echo refused"
            binds = [f"{data}:/data", f"{data}:/again:ro"]
            found = await all_of(
                attempts.run(read, **here),
                attempts.run("echo x > ../written; echo done", container={"mount": "rw"}, **here),
                attempts.run(f"ls {source} || echo not there", container={"mount": "none", "workdir": "/"}, **here),
                attempts.run("echo 1 > /data/a; echo 2 > /again/b || cat /again/a", container={"volumes": binds}),
                attempts.run("cat /rel/file", container={"volumes": [".:/rel:ro"]}, **here),
            )
            assert [stdout(one) for one in found] == [
                f"{source}/sub\nfrom the definition\nrefused\n", "done\n", "not there\n", "1\n",
                "from the definition\n",
            ]  # fmt: skip
            assert (source / "written").exists()
            assert not (source / "new").exists()
            assert not (data / "b").exists()

    asyncio.run(story())


def test_answers_and_input(containers: Containers, private_files: Path) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            write = "cat $WEFT_INPUT > $WEFT_OUTPUT; echo day=1 > $WEFT_CONTEXT"
            found = await all_of(
                attempts.run(write, input=b'{"rows": [1, 2]}', container={"user": "4321"}),
                attempts.run("echo not json > $WEFT_OUTPUT"),
                attempts.run("ln -s /etc/passwd $WEFT_OUTPUT"),
                attempts.run("echo '{}' > $WEFT_OUTPUT; exit 1"),
            )
            assert (found[0].output, found[0].context) == ({"rows": [1, 2]}, {"day": "1"}), found[0]
            assert not found[1].ok
            assert "$WEFT_OUTPUT is neither JSON nor key=value lines" in str(found[1].error)
            assert found[2].error == "$WEFT_OUTPUT is not a regular file"
            assert not found[3].ok
            assert found[3].output is not None  # unset: not read after a failure

    asyncio.run(story())
    assert list(private_files.iterdir()) == []


FUNCTIONS = """
import dataclasses, datetime, sys

@dataclasses.dataclass
class Row:
    day: datetime.date

def total(rows, factor=1):
    print("adding", file=sys.stderr)
    return {"total": sum(rows) * factor, "row": Row(datetime.date(2026, 1, 2))}

async def later():
    return None

def fail():
    raise LookupError("no such\\nthing")

def unsuitable():
    return object()
"""


def python_of_this_machine() -> dict[str, Any]:
    """For images without python3: the interpreter that runs the tests, with the libraries that it needs."""
    places = [place for place in ("/usr", "/lib", "/lib64", sys.base_prefix) if os.path.isdir(place)]
    volumes = [f"{place}:{place}:ro" for place in dict.fromkeys(places)]
    return {"volumes": volumes, "env": {"PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"}}


def test_python_functions(containers: Containers) -> None:
    (containers.directory / "work.py").write_text(FUNCTIONS)
    python = python_of_this_machine()

    def call(attempts: ContainerAttempts, function: str, **arguments: Any) -> Any:
        return attempts.run(container=python, spec={"function": function, "with": arguments})

    async def story() -> None:
        async with containers.executor() as attempts:
            found = await all_of(
                call(attempts, "work:total", rows=[1, 2], factor=3),
                call(attempts, "work.py:later"),
                call(attempts, "work:fail"),
                call(attempts, "work:total", rowz=[]),
                call(attempts, "work:absent"),
                call(attempts, "work:unsuitable"),
            )
            assert found[0].ok, found[0]
            assert found[0].output == {"total": 9, "row": {"day": "2026-01-02"}}
            assert found[0].result == {"exitCode": 0, "stdout": "", "stderr": "adding\n"}
            assert found[1].output is None, found[1]
            failed = found[2]
            assert failed.error == "LookupError: no such"
            assert failed.result is not None
            error = failed.result["error"]
            assert (error["type"], error["message"]) == ("LookupError", "no such\nthing")
            assert error["traceback"].startswith("Traceback")
            assert "work.py" in error["traceback"]
            assert "call_function" not in error["traceback"]
            assert "`with` does not match its parameters" in str(found[3].error)
            assert "has no function 'absent'" in str(found[4].error)
            assert "JSON cannot hold" in str(found[5].error)
            assert [(one.result or {})["error"]["type"] for one in found[3:]] == [
                "WrongArguments", "CannotLoad", "WrongValue",
            ]  # fmt: skip

    asyncio.run(story())


def test_what_cannot_start_says_why_at_once(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            found = await all_of(
                attempts.run("true", container={"image": "weft-absent", "pull": "never"}),
                attempts.run("true", container={"image": "localhost:1/weft-absent:2", "pull": "missing"}),
                attempts.run("true", container={"image": "localhost:1/weft-test", "pull": "always"}),
                attempts.run("true", container={"image": "Not An Image"}),
                attempts.run(["no-such-program"]),
                attempts.run("true", container={"engine": "docker"}),
                attempts.run("true", container={"gpus": 1}),
                attempts.run("true", container={"network": "no-such-network"}),
                attempts.run("true", container={"credentials": "REGISTRY"}),
            )
            errors = [str(one.error) for one in found]
            assert errors[0] == "image weft-absent is not on this engine, and pull is never"
            assert errors[1].startswith("image localhost:1/weft-absent:2 cannot be pulled: ")
            assert errors[2].startswith("image localhost:1/weft-test cannot be pulled: ")
            assert errors[3].startswith("image Not An Image")
            assert "no-such-program" in errors[4]
            assert found[4].exit_code == 127
            assert "the engine of this node is podman" in errors[5]
            assert "gives no GPUs" in errors[6]
            assert "no-such-network" in errors[7]
            assert "the secret REGISTRY has no value" in errors[8]
            assert all(one.started is None and not one.ok and one.startable for one in found)
            assert any(text == "pulling localhost:1/weft-test" for text in attempts.said)
            assert containers.left() == []

    asyncio.run(story())


def test_a_name_that_exists_is_refused_and_left_alone(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as first, containers.executor() as second:
            launch, future = first.start("echo one; sleep 60")
            await first.until_output(launch, b"one")
            refused = await second.run("echo two", attempt=launch.attempt, task=launch.task, handle=launch.handle)
            assert not refused.ok
            assert str(refused.error).startswith("refused: the container ")
            assert refused.started is None
            assert containers.left() == [launch.handle.name if launch.handle else ""]
            assert not future.done()

    asyncio.run(story())
    assert containers.left() == []


def test_labels_limits_and_options_reach_the_engine(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            requires = {"memory": 64 << 20, "cpus": 0.5}
            launch, _ = attempts.start("echo up; sleep 60", requires=requires, adoptable=False, task="load.3")
            await attempts.until_output(launch, b"up")
            assert launch.handle is not None
            found = containers.podman.inspect(launch.handle.name)
            labels = found["Config"]["Labels"]
            assert (labels["weft.run"], labels["weft.task"], labels["weft.attempt"]) == (
                containers.run_id,
                "load.3",
                "1",
            )
            assert len(labels["weft.process"]) == 16
            assert "weft.adoptable" not in labels
            assert found["HostConfig"]["Memory"] == 64 << 20
            assert found["HostConfig"]["NanoCpus"] == 500_000_000
            assert found["Config"]["Image"].endswith(f"{IMAGE}:latest") or found["Config"]["Image"] == IMAGE

    asyncio.run(story())
    assert containers.left() == []


def test_memory_that_runs_out_is_reported_as_that(containers: Containers) -> None:
    # A child is killed, and the shell goes on: neither 137 nor the engine's word says it. The child makes itself the
    # kernel's first choice.
    hog = "sh -c 'echo 1000 > /proc/self/oom_score_adj; exec tail -c 150000000 /dev/zero' || exit 7"

    async def story() -> None:
        async with containers.executor() as attempts:
            direct, child, apart = await all_of(
                attempts.run(["tail", "-c", "150000000", "/dev/zero"], requires={"memory": 32 << 20}),
                attempts.run(hog, requires={"memory": 32 << 20}),
                attempts.run("sh -c 'kill -9 $$' || exit $?", requires={"memory": 32 << 20}),
            )
            for outcome in (direct, child):
                assert outcome.cause == "oom", outcome
                assert "out of memory" in str(outcome.error)
                assert "32 MiB" in str(outcome.error)
            assert (direct.exit_code, child.exit_code) == (137, 7)
            assert apart.cause is None, apart
            assert apart.error == "killed by SIGKILL"

    asyncio.run(story())


def test_memory_that_ran_out_too_soon_for_a_look_at_the_cgroup(
    containers: Containers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.executors.container import oom

    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        pytest.skip("the kernel's log cannot be read here")
    monkeypatch.setattr(oom, "locate", lambda pid: None)

    async def story() -> None:
        async with containers.executor() as attempts:
            direct, apart = await all_of(
                attempts.run(["tail", "-c", "150000000", "/dev/zero"], requires={"memory": 32 << 20}),
                attempts.run("sh -c 'kill -9 $$' || exit $?", requires={"memory": 32 << 20}),
            )
            assert (direct.cause, apart.cause) == ("oom", None), (direct, apart)

    asyncio.run(story())


@pytest.mark.parametrize("text", ["", "tcp://", "ssh://host", "tcp://host"])
def test_addresses_that_cannot_be_used(text: str) -> None:
    from weft.executors.container.address import BadAddress, find_address, parse_address

    if text:
        with pytest.raises(BadAddress):
            parse_address(text)
    else:
        assert find_address(None, {"DOCKER_HOST": "unix:///nowhere"}) == ("/nowhere", "", 0)
        assert find_address("/chosen", {"DOCKER_HOST": "unix:///nowhere"}) == ("/chosen", "", 0)
