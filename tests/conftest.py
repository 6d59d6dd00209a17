"""What tests measure of faults is shown together at the end: one line for each. And what Hypothesis tries is the same
each time, so that a change is what makes a test fail; WEFT_HUNT=1 tries something new."""

import os
import signal
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings

# Started in the background or under nohup, this process ignores SIGINT, and so would every process that a test starts
# and interrupts. xdist's workers come from here, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("same", derandomize=True, database=None)
settings.register_profile("hunt", derandomize=False)
settings.load_profile("hunt" if os.environ.get("WEFT_HUNT") else "same")

FIGURE = "figure"
DIFF_MAX = 20_000
Text = TypeVar("Text", str, bytes)
Figure = Callable[[str, str], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """(the fault, what was measured). A property of the report: so it comes back from the processes of xdist too."""
    return lambda fault, measured: record_property(FIGURE, (fault, measured))


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Long texts that differ: where, not how. A diff of half a megabyte takes longer than a test may."""
    if op == "==" and isinstance(left, bytes) and isinstance(right, bytes):
        return _where(left, right)
    return _where(left, right) if op == "==" and isinstance(left, str) and isinstance(right, str) else None


def _where(left: Text, right: Text) -> list[str] | None:
    if max(len(left), len(right)) < DIFF_MAX:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    first = next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))
    near = slice(max(0, first - 40), first + 40)
    return [
        f"{len(left):,} and {len(right):,} long, the same up to {first:,}",
        f"left there:  {left[near]!r}",
        f"right there: {right[near]!r}",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = sorted(
        tuple(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == FIGURE
    )
    if figures:
        terminalreporter.section("faults on real processes")
        width = max(len(fault) for fault, _ in figures)
        for fault, measured in figures:
            terminalreporter.write_line(f"{fault:{width}}  {measured}")
