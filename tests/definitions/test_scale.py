"""100,000 tasks and a million edges are ordinary input. The bounds are an order of magnitude above what is measured:
they are here to catch an algorithm that has become quadratic."""

import subprocess
import sys
import textwrap
import time

import pytest

from weft.authoring.load import load_text

MAKERS = """
def chain(n):
    return "tasks:\\n" + "".join(f"  t{i}: {{run: x, needs: [t{i - 1}]}}\\n" for i in range(1, n)) + "  t0: x\\n"

def fan(n):
    return ("tasks:\\n  a: x\\n" + "".join(f"  t{i}: {{run: x, needs: a}}\\n" for i in range(n))
            + "  z: {run: x, needs: [" + ", ".join(f"t{i}" for i in range(n)) + "]}\\n")

def layers(n):
    before = "[" + ", ".join(f"a{i}" for i in range(n)) + "]"
    return ("tasks:\\n" + "".join(f"  a{i}: x\\n" for i in range(n))
            + "".join(f"  b{i}: {{run: x, needs: {before}}}\\n" for i in range(n)))

def templated(n):
    return ("inputs: {x: string}\\ntasks:\\n"
            + "".join(f"  t{i}: {{run: 'echo ${{{{ inputs.x }}}}', if: inputs.x !== 'y'}}\\n" for i in range(n)))

def inferred(n):
    return ("tasks:\\n  t0: x\\n"
            + "".join(f"  t{i}: {{run: x, if: tasks.t{i - 1}.exitCode === 0}}\\n" for i in range(1, n)))

def ancestors(n):
    return ("tasks:\\n  t0: x\\n"
            + "".join(f"  t{i}: {{needs: t{i - 1}, run: 'echo ${{{{ tasks.t{i // 2}.state }}}}'}}\\n"
                      for i in range(1, n)))
"""

PROBE = (
    MAKERS
    + """
import re, sys, time
from weft.authoring.load import load_text
text = eval(sys.argv[1])
began = time.process_time()
workflow = load_text(text).workflow
# not ru_maxrss: that one remembers the parent's size from before the exec
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
print(time.process_time() - began, peak, len(workflow.tasks),
      sum(map(len, workflow.successors)), max(workflow.levels) + 1)
"""
)


@pytest.mark.parametrize(
    ("what", "tasks", "edges", "levels"),
    [
        ("chain(100_000)", 100_000, 99_999, 100_000),
        ("fan(100_000)", 100_002, 200_000, 3),
        ("layers(1000)", 2000, 1_000_000, 2),
        ("templated(100_000)", 100_000, 0, 1),
        ("inferred(15_000)", 15_000, 14_999, 15_000),
        ("ancestors(15_000)", 15_000, 14_999, 15_000),
    ],
)
def test_large_graphs(what: str, tasks: int, edges: int, levels: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROBE), what], capture_output=True, text=True, check=True
    )
    seconds, mib, *counts = done.stdout.split()
    assert [int(count) for count in counts] == [tasks, edges, levels]
    assert float(seconds) < 30
    assert int(mib) < 200


def test_errors_in_a_large_file_come_quickly() -> None:
    text = (
        "tasks:\n"
        + "".join(f"  t{i}: {{run: x, needs: [t{i - 1}]}}\n" for i in range(1, 30_000))
        + "  z: {rum: x, needs: [t5o]}\n"
    )
    began = time.process_time()
    with pytest.raises(Exception, match="needs 't0'") as caught:
        load_text(text)
    shown = str(caught.value)
    assert "did you mean 'run'?" in shown
    assert "did you mean 't5'?" in shown
    assert ":30001:" in shown
    assert time.process_time() - began < 15
