"""Attempts as Jobs: commands, output, exits, values, secrets, limits, and reasons for what does not run."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import msgspec

from tests.executors.attempts import ends
from tests.executors.kubernetes.clusters import IMAGE, Cluster
from weft.executors.protocol import Outcome

Tell = Callable[..., None]


def test_a_command_runs_to_its_end(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo hello; echo world >&2")
        outcome = await ends(future)
        assert outcome.ok, outcome
        assert (outcome.exit_code, outcome.stopped, outcome.termination, outcome.cause) == (0, None, None, None)
        assert outcome.result == {"exitCode": 0, "stdout": "hello\nworld\n", "stderr": ""}
        assert outcome.started is not None
        assert outcome.started <= outcome.ended
        assert cluster.stored(launch) == b"hello\nworld\n"
        assert len(cluster.kubelet.started) == 1

    tell(story)


def test_an_exit_code_is_a_failure(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run("echo before; exit 7")
        assert (outcome.ok, outcome.exit_code, outcome.error) == (False, 7, "exit code 7")
        assert outcome.result is not None
        assert outcome.result["stdout"] == "before\n"

    tell(story)


def test_nothing_printed_leaves_no_file(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("true")
        assert (await ends(future)).result == {"exitCode": 0, "stdout": "", "stderr": ""}
        assert cluster.stored(launch) == b""

    tell(story)


def test_output_without_a_last_newline(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("printf 'a\\n\\nb'")
        await ends(future)
        assert cluster.stored(launch) == b"a\n\nb"

    tell(story)


def test_output_is_there_while_it_runs(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo early; while :; do sleep 0.05; done")
        await cluster.until_printed(launch, b"early\n")
        assert cluster.executor.started(launch.task_id, 1, 0.0) is not None
        cluster.stop(launch, grace_s=5)
        assert (await ends(future)).stopped == "cancel"

    tell(story)


def test_texts_reach_the_command_as_they_are(tell: Tell) -> None:
    """Kubernetes replaces $(NAME) and $$; `run`, `argv` and variables are literal, `command` and `args` are not."""

    async def story(cluster: Cluster) -> None:
        env = {"A": "value", "B": "$(A) $$ $A"}
        outcome = await cluster.run('echo "$B" $((1+1)) $(echo in)', env=env)
        assert _stdout(outcome) == "$(A) $$ $A 2 in\n"
        outcome = await cluster.run({"kubernetes": {"image": IMAGE}, "argv": ["echo", "$(A)", "$$"]}, env=env)
        assert _stdout(outcome) == "$(A) $$\n"
        spec = {"kubernetes": {"image": IMAGE, "command": ["echo"], "args": ["$(A)", "$$(A)"], "env": {"C": "c"}}}
        assert _stdout(await cluster.run(spec, env=env)) == "value $(A)\n"

    tell(story)


def test_a_value_comes_back(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run('echo \'{"rows": [1, 2]}\' > "$WEFT_OUTPUT"')
        assert (outcome.ok, outcome.output) == (True, {"rows": [1, 2]})
        outcome = await cluster.run("true")
        assert outcome.output is msgspec.UNSET

    tell(story)


def test_a_value_that_kubernetes_would_cut_fails(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run('printf \'"%04000d"\' 1 > "$WEFT_OUTPUT"')
        assert (outcome.ok, outcome.output) == (True, f"{1:04000d}")
        outcome = await cluster.run('printf \'"%05000d"\' 1 > "$WEFT_OUTPUT"')
        assert not outcome.ok
        assert outcome.error is not None
        assert "4,096 bytes at which Kubernetes cuts it" in outcome.error

    tell(story)


def test_input_and_secrets_travel_in_a_secret(tell: Tell) -> None:
    secret = "s3cr3t-of-ours"

    async def story(cluster: Cluster) -> None:
        command = 'cat "$WEFT_INPUT"; echo "<$TOKEN>"; while :; do sleep 0.05; done'
        launch, future = cluster.start(command, secrets={"TOKEN": secret}, input=b'{"a": 1}')
        assert launch.handle is not None
        await cluster.until_printed(launch, b"***")
        assert cluster.stored(launch) == b'{"a": 1}<***>\n'
        await _seen_only_in_the_secret(cluster, launch.handle.name, secret)
        cluster.stop(launch, grace_s=1)
        await ends(future)

    tell(story)


async def _seen_only_in_the_secret(cluster: Cluster, name: str, secret: str) -> None:
    job = await cluster.api.request("GET", f"/apis/batch/v1/namespaces/default/jobs/{name}")
    pods = await cluster.api.request("GET", "/api/v1/namespaces/default/pods", {"labelSelector": f"weft.name={name}"})
    for text in (job, pods):
        assert secret.encode() not in text
        assert base64.b64encode(secret.encode()) not in text
    found = msgspec.json.decode(await cluster.api.request("GET", f"/api/v1/namespaces/default/secrets/{name}"))
    assert base64.b64decode(found["data"]["TOKEN"]).decode() == secret
    owner = found["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Job", msgspec.json.decode(job)["metadata"]["uid"])


def test_labels_and_names(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("sleep 60", task="Daten laden.3")
        assert launch.handle is not None
        name = launch.handle.name
        assert len(name) <= 63
        await cluster.until(lambda: bool(cluster.kubelet.started))
        job = await cluster.find("jobs", name)
        assert job is not None
        labels = job.metadata.labels
        assert labels["weft.run"] == cluster.run_id
        assert labels["weft.task"].startswith("sha256-")
        assert (labels["weft.attempt"], labels["weft.process"]) == ("1", cluster.executor.process)
        assert "weft.adoptable" not in labels
        raw = msgspec.json.decode(await cluster.api.request("GET", f"/apis/batch/v1/namespaces/default/jobs/{name}"))
        assert raw["metadata"]["annotations"]["weft.readable"] == f"weft-{cluster.run_id}-Daten laden.3-1"
        spec = raw["spec"]
        assert (spec["backoffLimit"], spec["suspend"], spec["ttlSecondsAfterFinished"]) == (0, False, 3600)
        cluster.stop(launch, grace_s=1)
        await ends(future)

    tell(story)


def test_another_namespace(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        spec = {"kubernetes": {"image": IMAGE, "namespace": "other"}, "run": "echo there"}
        launch, future = cluster.start(spec)
        assert launch.handle is not None
        assert launch.handle.place == "other"
        assert _stdout(await ends(future)) == "there\n"
        spec["kubernetes"] = {"image": IMAGE, "namespace": "nowhere"}
        outcome = await cluster.run(spec)
        assert not outcome.ok
        assert outcome.error is not None
        assert '"nowhere"' in outcome.error  # not found, or forbidden to who has no rights there

    tell(story)


def test_limits_and_out_of_memory(tell: Tell) -> None:
    lines = ["x = bytearray(300 << 20)", "for i in range(0, len(x), 4096): x[i] = 1", "import time", "time.sleep(60)"]
    program = 'python3 -c "{}"'.format("\n".join(lines))

    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run(program, requires={"memory": 100 << 20, "cpus": 0.5})
        assert (outcome.ok, outcome.exit_code, outcome.cause) == (False, 137, "oom"), outcome
        assert outcome.error == "out of memory: Kubernetes says OOMKilled"

    tell(story)


def test_images_without_hope_fail_at_once(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run({"kubernetes": {"image": "NOT An image"}, "run": "true"})
        assert not outcome.ok
        assert outcome.started is None
        assert "InvalidImageName" in (outcome.error or "")
        outcome = await cluster.run({"kubernetes": {"image": "missing", "pull": "never"}, "run": "true"})
        assert "ErrImageNeverPull" in (outcome.error or "")

    tell(story, patience_s=1000.0)


def test_an_image_that_cannot_be_pulled_fails_after_a_while(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run({"kubernetes": {"image": "missing"}, "run": "true"})
        assert outcome.error == "ImagePullBackOff: cannot pull missing (for 0.5 s)"
        assert any("ImagePullBackOff" in text for text in cluster.progress)

    tell(story, patience_s=0.5)


def test_a_pod_that_no_node_takes_waits_and_says_so(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        spec: dict[str, Any] = {"kubernetes": {"image": IMAGE, "node_selector": {"disk": "none"}}, "run": "true"}
        launch, future = cluster.start(spec)
        await cluster.until(lambda: any("Unschedulable" in text for text in cluster.progress))
        assert cluster.executor.started(launch.task_id, 1, 0.0) is None
        cluster.stop(launch, grace_s=30)
        outcome = await ends(future)
        assert (outcome.stopped, outcome.started, outcome.exit_code) == ("cancel", None, None)
        assert outcome.termination is not None
        assert outcome.termination["after_s"] < 10

    tell(story)


def test_a_command_that_is_not_there(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run({"kubernetes": {"image": IMAGE}, "argv": ["no-such-command"]})
        assert (outcome.ok, outcome.exit_code) == (False, 128)
        assert "StartError: no-such-command" in (outcome.error or "")

    tell(story)


def test_a_patch_of_the_pod(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        patch = {
            "containers": [{"name": "task", "env": [{"name": "P", "value": "patched"}]}],
            "restartPolicy": "Always",
        }
        spec = {"kubernetes": {"image": IMAGE, "pod": patch, "env": {"E": "kept"}}, "run": "echo $P $E"}
        assert _stdout(await cluster.run(spec)) == "patched kept\n"
        assert len(cluster.kubelet.started) == 1

    tell(story)


def test_many_at_once(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        futures = [cluster.start(f"echo {number}")[1] for number in range(20)]
        outcomes = await asyncio.wait_for(asyncio.gather(*futures), 120)
        assert [_stdout(outcome) for outcome in outcomes] == [f"{number}\n" for number in range(20)]
        assert len(cluster.kubelet.started) == 20

    tell(story)


def _stdout(outcome: Outcome) -> str:
    assert outcome.ok, outcome
    assert outcome.result is not None
    text = outcome.result["stdout"]
    assert isinstance(text, str)
    return text
