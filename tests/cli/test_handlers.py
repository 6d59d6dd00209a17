"""Handlers of a run: what they read of it, and of tasks that they name, with real commands."""

from pathlib import Path

import pytest

from .conftest import Weft

TEXT = """
on_failure: continue
inputs: {code: integer}
tasks:
  build: 'printf 7 > "$WEFT_OUTPUT"'
  test: {needs: [build], run: "exit ${{ inputs.code }}"}
  slow: sleep 0.2
  alarm: {when: on_failure, run: "echo alarm ${{ run.failed.join(' ') }} ${{ tasks.build.output }}"}
  report:
    when: always
    env: {REASON: "${{ run.reason }}"}
    run: echo ${{ run.state }} "$REASON" ${{ tasks.test.exitCode }} ${{ tasks.slow.state }}
"""


@pytest.mark.parametrize(("code", "printed"), [
    (0, "succeeded null 0 succeeded\n"),
    (3, "alarm test 7\nfailed test: exit code 3 3 succeeded\n"),
])  # fmt: skip
def test_handlers_read_how_the_run_has_ended(weft: Weft, look: Weft, tmp_path: Path, code: int, printed: str) -> None:
    (tmp_path / "w.yaml").write_text(TEXT)
    assert weft("run", "w.yaml", "-i", f"code={code}").code == (1 if code else 0)
    shown = [look("logs", "last", task).out for task in ("alarm", "report")]
    assert "".join(shown) == printed
    assert look("verify", "last").code == 0
