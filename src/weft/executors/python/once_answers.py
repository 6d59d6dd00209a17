"""Answers the requests of weft.once that runners send: each is passed to the node, and its answer to the runner."""

import asyncio

from weft.executors.protocol import OnceAnswer, OnceQuestion
from weft.executors.python.messages import OnceRequest, OnceResponse
from weft.executors.python.runner_link import RunnerLink


class OnceAnswers:
    def __init__(self) -> None:
        self._pending: dict[asyncio.Task[None], None] = {}

    def answer(self, runner: RunnerLink, request: OnceRequest) -> None:
        """In a task of its own: it may take as long as the store does, and other messages must not wait for it."""
        task = asyncio.get_running_loop().create_task(_answer(runner, request))
        self._pending[task] = None
        task.add_done_callback(self._pending.pop)

    def close(self) -> None:
        for task in list(self._pending):
            task.cancel()


async def _answer(runner: RunnerLink, request: OnceRequest) -> None:
    attempt = runner.assigned.get(request.id)
    answer = OnceAnswer("stale", "the attempt has ended")
    ask = None if attempt is None else attempt.launch.ask
    if attempt is not None and ask is not None:
        launch = attempt.launch
        question = OnceQuestion(request.key, request.ending, request.value, request.take_over)
        try:
            answer = await ask(launch.task_id, launch.attempt, question)
        except Exception as error:
            # Whatever error the store raises, the function must get it, and the runner's other calls must go on.
            answer = OnceAnswer("stale", f"the store refused the request: {error}")
    runner.send(OnceResponse(request.number, answer.status, answer.value))
