"""What must come out, computed the dumb way: by looking at every need of every task, level by level."""

from weft.core.workflow import Workflow


def expected_states(workflow: Workflow, failures: dict[str, int]) -> dict[str, str]:
    """Final states under `on_failure: continue` without cancels. `failures[name]` attempts of a task fail before
    one succeeds (a large number: it never does)."""
    states: dict[str, str] = {}
    seen_as: dict[str, str] = {}
    order = sorted(range(len(workflow.tasks)), key=lambda pos: (workflow.tasks[pos].final, workflow.levels[pos]))
    for pos in order:
        task = workflow.tasks[pos]
        needs = [seen_as[workflow.tasks[need].name] for need in task.needs]
        if task.final and not task.needs:
            bad = any(
                states[t.name] in ("failed", "dead_letter") and not t.allow_failure
                for t in workflow.tasks
                if not t.final
            )
            needs = ["failed"] if bad else ["ok"]
        start = {
            "all_success": all(n == "ok" for n in needs),
            "none_failed": all(n != "failed" for n in needs),
            "any_success": any(n == "ok" for n in needs),
            "on_failure": any(n == "failed" for n in needs),
            "always": True,
        }[task.when]
        if not start:
            states[task.name] = "skipped"
            bad = any(n == "failed" for n in needs) and task.when != "on_failure"
            seen_as[task.name] = "failed" if bad else "skipped"
            continue
        if task.kind == "wait" or failures.get(task.name, 0) <= task.retry.max:
            states[task.name] = "succeeded"
        else:
            states[task.name] = "dead_letter" if task.retry.max else "failed"
        ok = states[task.name] == "succeeded" or task.allow_failure
        seen_as[task.name] = "ok" if ok else "failed"
    return states
