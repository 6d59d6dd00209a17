"""Ten thousand tasks: a key costs what the lines that are seen cost."""

import time

from tests.client.conftest import Place
from tests.conftest import Figure
from tests.tui.conftest import View, watch

TASKS = 10_000
KEY_S_MAX = 0.05  # of processor time


def test_a_key_at_ten_thousand_tasks(store: Place, figure: Figure) -> None:
    run = store.submit({"name": "large", "tasks": {f"t{n:05}": "true" for n in range(TASKS)}})

    async def story(view: View) -> None:
        await view.sees("t00000", "10000 queued")
        took = []
        for key in ["pagedown", "down", "pageup", "end", "home"] * 3:
            before = time.process_time()
            await view.press(key)
            took.append(time.process_time() - before)
        await view.press("end")
        await view.sees("t09999")
        took.sort()
        figure("a key in a list of 10,000 tasks", f"{took[len(took) // 2] * 1000:.0f} ms of processor time")
        assert took[len(took) // 2] < KEY_S_MAX
        await view.type("/t0777")
        await view.sees("t07770", "t07779")
        await view.sees_no("t09999")

    watch(store.connection, story, run=run, width=120)
