"""What tests measure of faults is shown together at the end: one line for each. And what Hypothesis tries is the same
each time, so that a change is what makes a test fail; WEFT_HUNT=1 tries something new."""

import os
import signal
from collections.abc import Callable

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
Figure = Callable[[str, str], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """(the fault, what was measured). A property of the report: so it comes back from the processes of xdist too."""
    return lambda fault, measured: record_property(FIGURE, (fault, measured))


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
