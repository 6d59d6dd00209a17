"""typing_cases.py through the type checker: what it must accept, what it must refuse, and what it must infer."""

import re
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("typing_cases.py")
ROOT = Path(__file__).parents[2]


def test_the_types_are_what_they_say() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "--no-pretty",
         "--config-file=", "--cache-dir=.mypy_cache/typing_cases", "--follow-imports=silent", str(CASES)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr + done.stdout
    said: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():
        found = re.match(r".*typing_cases\.py:(\d+): (error|note): (.*)", line)
        assert found, line
        if found[2] == "error" or "Revealed type" in found[3]:
            said.setdefault(int(found[1]), []).append(found[3])
    wrong = []
    for number, line in enumerate(CASES.read_text().splitlines(), 1):
        shown = " | ".join(said.pop(number, []))
        expected = re.search(r"# (E|R): (.*)", line)
        if expected is None:
            matches = not shown
        elif expected[1] == "E":
            matches = expected[2] in shown
        else:
            matches = _plain(shown) == f'Revealed type is "{expected[2]}"'
        if not matches:
            wrong.append(f"{number}: {line.strip()}\n    said: {_plain(shown)}")
    assert not wrong, "\n".join(wrong)
    assert not said


def _plain(text: str) -> str:
    return text.replace("builtins.", "").replace("weft.sdk.tasks.", "")
