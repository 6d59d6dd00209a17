"""A plugin of pytest that writes what its process has measured when the tests have ended, not when the process ends.

xdist kills a worker that has not exited after ten seconds. Ours first waits for the databases and the processes that
its tests have started; coverage's own exit handler, the first that was registered, would be the last to run.
"""

import coverage
import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.save()
