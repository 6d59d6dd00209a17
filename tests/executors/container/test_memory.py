"""What a waiting attempt costs its node: little memory, and no thread."""

import asyncio

from tests.executors.container.waiting_attempts import waiting_memory


def test_a_waiting_attempt_costs_little() -> None:
    bytes_each, threads = asyncio.run(waiting_memory(300))
    assert threads == 0
    assert bytes_each <= 50_000, f"{bytes_each:,.0f} bytes"
