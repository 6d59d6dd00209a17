"""What tests measure of faults is shown together at the end: one line for each."""

from collections.abc import Callable

import pytest

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
