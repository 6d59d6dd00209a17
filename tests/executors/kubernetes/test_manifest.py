"""From a launch to a Job, and what a pod's status means."""

from typing import Any

import pytest

from tests.executors.kubernetes.schemas import problems
from weft.executors.kubernetes.manifest import BadTask, job_manifest, label_value, secret_manifest
from weft.executors.kubernetes.objects import Pod
from weft.executors.kubernetes.pod_patch import merge_patch
from weft.executors.kubernetes.pod_state import PodState, pod_state
from weft.executors.protocol import Handle, Launch

HANDLE = Handle("kubernetes:1", "weft-r-t-1", "default")


def job(given: dict[str, Any], **changes: Any) -> dict[str, Any]:
    spec = {"kubernetes": {"image": "busybox", **given}, **changes.pop("spec", {})}
    launch = Launch(1, 1, "r", "t", "kubernetes", spec, changes.pop("env", {}), None, "out", 1, **changes)
    manifest = job_manifest(launch, HANDLE, "p")
    assert problems(manifest) == []
    return manifest


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return spec


def test_what_was_reserved_becomes_limits() -> None:
    requires = {"memory": 1 << 30, "cpus": 1.5, "gpu": 2}
    (container,) = pod_of(job({"resources": {"requests": {"cpu": "1"}}}, requires=requires))["containers"]
    assert container["resources"] == {
        "limits": {"memory": str(1 << 30), "cpu": "1500m", "nvidia.com/gpu": "2"},
        "requests": {"cpu": "1"},
    }


def test_all_keys() -> None:
    spec = pod_of(
        job({
            "node_selector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "service_account": "reader",
            "pull": "always",
            "command": ["sh"],
            "args": ["-c", "true"],
            "env": {"A": 1},
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "d"}, "mountPath": "/data", "readOnly": True},
                {"name": "tmp", "emptyDir": {}, "mountPath": "/tmp", "subPath": "x"},
            ],
        })
    )  # fmt: skip
    (container,) = spec["containers"]
    assert (spec["nodeSelector"], spec["serviceAccountName"]) == ({"disk": "ssd"}, "reader")
    assert (container["imagePullPolicy"], container["command"], container["args"]) == (
        "Always",
        ["sh"],
        ["-c", "true"],
    )
    assert container["volumeMounts"] == [
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp", "subPath": "x"},
    ]
    assert spec["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}
    assert {"name": "A", "value": "1"} in container["env"]


def test_a_patch_of_the_whole_template_keeps_the_labels() -> None:
    patch = {"metadata": {"labels": {"team": "x", "weft.run": "wrong"}}, "spec": {"restartPolicy": "Always"}}
    template = job({"pod": patch})["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "x"
    assert template["metadata"]["labels"]["weft.run"] == "r"
    assert template["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize("given", [{"image": None}, {"volumes": [{"name": "x"}]}, {"pod": {"containers": ["x"]}}])
def test_what_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(BadTask):
        job(given)


def test_a_secret_holds_a_mebibyte() -> None:
    launch = Launch(1, 1, "r", "t", "kubernetes", {}, {}, None, "out", 1, input=b"x" * (1 << 20))
    with pytest.raises(BadTask, match="a Secret holds 1,048,576"):
        secret_manifest(launch, HANDLE, "p", "uid")
    launch = Launch(1, 1, "r", "t", "kubernetes", {}, {}, None, "out", 1, secrets={"A": "b"}, input=b"{}")
    manifest = secret_manifest(launch, HANDLE, "p", "uid")
    assert manifest is not None
    assert problems(manifest) == []


def test_labels() -> None:
    assert label_value("load.3") == "load.3"
    assert label_value("x" * 64).startswith("sha256-")
    assert label_value("-x").startswith("sha256-")
    assert label_value("a b") != label_value("a_b")


def test_patches() -> None:
    target = {"a": {"b": 1, "c": 2}, "containers": [{"name": "x", "image": "i"}, {"name": "y"}], "args": [1, 2]}
    patch = {
        "a": {"b": None, "d": 3},
        "containers": [{"name": "x", "tty": True}, {"name": "y", "$patch": "delete"}, {"name": "z"}],
        "args": [3],
    }
    assert merge_patch(target, patch) == {
        "a": {"c": 2, "d": 3},
        "containers": [{"name": "x", "image": "i", "tty": True}, {"name": "z"}],
        "args": [3],
    }
    assert merge_patch(target, {"a": {"$patch": "replace", "e": 1}})["a"] == {"e": 1}
    assert target["a"] == {"b": 1, "c": 2}


def state(status: dict[str, Any], node: str = "n1") -> PodState:
    import msgspec

    return pod_state(msgspec.convert({"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": status}, Pod))


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    terminated = {"exitCode": code, "reason": reason, "message": message}
    return {"containerStatuses": [{"name": "task", "state": {"terminated": terminated}}]}


@pytest.mark.parametrize(
    ("status", "phase", "text"),
    [
        ({}, "waiting", "its pod is assigned to node n1"),
        ({"containerStatuses": [{"name": "task", "state": {"running": {}}}]}, "running", "runs on node n1"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, "ended", "Evicted: low on disk"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "ended", "DeadlineExceeded"),
        ({"phase": "Failed", "reason": "NodeLost", "message": "n1"}, "ended", "NodeLost: n1"),
        (ended(0, "Completed"), "ended", ""),
        (ended(1), "ended", "exit code 1"),
        (ended(137), "ended", "exit code 137 (SIGKILL)"),
        (ended(137, "OOMKilled"), "ended", "out of memory: Kubernetes says OOMKilled"),
        ({**ended(137), "reason": "Evicted", "message": "m"}, "ended", "Evicted: m (exit code 137 (SIGKILL))"),
        (ended(255, "ContainerStatusUnknown", "gone"), "ended", "exit code 255: ContainerStatusUnknown: gone"),
        (
            {**ended(143), "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "t"}]},
            "ended", "DeletionByTaintManager: t (exit code 143 (SIGTERM))",
        ),
        (
            {"containerStatuses": [{"name": "task", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
            "retried", "ErrImagePull",
        ),
        (
            {"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "InvalidImageName"}}}]},
            "hopeless", "InvalidImageName",
        ),
    ],
)  # fmt: skip
def test_what_a_pod_says(status: dict[str, Any], phase: str, text: str) -> None:
    found = state(status)
    assert (found.phase, found.text) == (phase, text)
    assert found.oom == ("OOMKilled" in text)


def test_memory_of_a_sidecar_is_memory_of_the_attempt() -> None:
    status = ended(1)
    status["containerStatuses"].append(
        {"name": "side", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    )
    assert state(status).oom
    status["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 0
    assert not state(status).oom
