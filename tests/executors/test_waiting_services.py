"""What an attempt costs its node while a service works for it: little memory, no thread, nothing open."""

import pytest
from bench.waiting import measure

from tests.conftest import Figure

COUNT = 1000
KILOBYTES_MAX = 50.0
KEPT_CONNECTIONS = 8  # to the API of Cloud Run


@pytest.mark.parametrize("kind", ["http", "cloud_run"])
def test_a_waiting_attempt_is_small(kind: str, figure: Figure) -> None:
    kilobytes, threads, descriptors = measure(kind, COUNT)
    figure(f"a waiting attempt of {kind}", f"{kilobytes:.1f} KB, {threads} more threads, {descriptors} descriptors")
    assert kilobytes < KILOBYTES_MAX
    assert threads == 0
    assert descriptors <= KEPT_CONNECTIONS
