"""The long form: accepted as it stands, and told apart from the short form where it means something else."""

from typing import Any

from weft.authoring.load import load_value

PIPELINE: dict[str, Any] = {
    "name": "CI pipeline",
    "context": {"branch": "main"},
    "tasks": [
        {"key": "lint", "type": "shell", "spec": {"command": "npm run lint"}, "priority": 5},
        {"key": "test", "name": "Unit tests", "type": "shell",
         "spec": {"command": "npm", "args": ["test", 3], "cwd": "app", "env": {"CI": "1"},
         "timeoutMs": 1500}},
        {"id": "build", "type": "shell", "spec": {"command": ["make", "all"]}, "dependsOn": ["lint", "test"],
         "retryPolicy": {"maxRetries": 2, "backoffMs": 250, "backoffMultiplier": 1.5, "retryable": False},
         "constraints": {"requiresGpu": True, "avoidGaming": True, "minMemoryMb": 512, "minDiskGb": 1,
                         "nodeLabels": ["a", "b"], "targetNode": "n1"}},
        {"key": "deploy", "type": "shell", "spec": {"argv": ["./deploy"]}, "dependsOn": ["build"],
         "condition": "parent.build.exitCode === 0 && parent.test.result.stdout.includes('0 failures')"},
        {"key": "notify-failure", "type": "shell", "spec": {"command": "mail"}, "dependsOn": ["build"],
         "condition": "parent.build.exitCode !== 0"},
    ],
}  # fmt: skip


def test_it_becomes_the_short_form() -> None:
    document = load_value(PIPELINE).document
    assert document["name"] == "CI pipeline"
    assert document["context"] == {"branch": "main"}
    assert document["tasks"]["lint"] == {"run": "npm run lint", "priority": 5, "long_form": True}
    assert document["tasks"]["test"] == {
        "description": "Unit tests", "argv": ["npm", "test", "3"], "env": {"CI": "1"}, "cwd": "app",
        "timeout": "1s500ms", "long_form": True,
    }  # fmt: skip
    assert document["tasks"]["build"] == {
        "argv": ["make", "all"],
        "needs": ["lint", "test"],
        "retry": {"max": 2, "backoff": "250ms", "multiplier": 1.5, "on_lost": False},
        "constraints": PIPELINE["tasks"][2]["constraints"],
        "long_form": True,
    }


def test_what_runs() -> None:
    workflow = load_value(PIPELINE).workflow
    task = {t.name: t for t in workflow.tasks}
    assert all(t.long_form and t.kind == "shell" for t in workflow.tasks)
    assert task["build"].requires == {
        "any_labels": ["a", "b"], "memory": 512_000_000, "disk": 10**9, "gpu": 1, "node": "n1",
        "not_labels": ["gaming"],
    }  # fmt: skip
    assert task["build"].retry.on_lost is False
    assert task["build"].retry.backoff_ms == 250
    assert task["test"].timeout_ms == 1500


def test_a_condition_over_parents_accepts_their_failure() -> None:
    workflow = load_value(PIPELINE).workflow
    task = {t.name: t for t in workflow.tasks}
    at = workflow.position
    # `parent.test` is an ancestor through `build`, so naming it reads its result and makes it no need
    assert task["deploy"].needs == (at["build"],)
    assert task["deploy"].accepts == (at["build"],)
    assert task["deploy"].reads == (at["test"], at["build"])
    assert task["notify-failure"].accepts == (at["build"],)
    assert task["notify-failure"].accepts_failure
    assert task["notify-failure"].survives_halt
    assert not task["build"].accepts_failure


def test_tasks_may_be_a_mapping() -> None:
    long = {"type": "shell", "spec": {"command": "x"}}
    loaded = load_value({"tasks": {"a": long, "b": {**long, "dependsOn": "a"}, "c": "short"}})
    assert [t.long_form for t in loaded.workflow.tasks] == [True, True, False]
    assert loaded.workflow.tasks[1].needs == (0,)
