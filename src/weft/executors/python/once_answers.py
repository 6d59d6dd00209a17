"""Answers to what functions ask of their node while they run (see once_questions), as the store gives them."""

import asyncio

from weft.executors.protocol import Answer, Question
from weft.executors.python.messages import ANSWER
from weft.executors.python.runner_link import RunnerLink
from weft.executors.spawner.messages import Message


class Answers:
    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[None], None] = {}

    def begin(self, runner: RunnerLink, message: Message) -> None:
        """An ASK message. The answer may take as long as the store does; other messages go on meanwhile."""
        task = asyncio.get_running_loop().create_task(_answer(runner, message))
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)

    def close(self) -> None:
        for task in list(self._under_way):
            task.cancel()


async def _answer(runner: RunnerLink, message: Message) -> None:
    _, id, number, key, ending, value, take_over = message
    attempt = runner.given.get(id)
    answer = Answer("stale", "the attempt is over")
    ask = None if attempt is None else attempt.launch.ask
    if attempt is not None and ask is not None:
        launch = attempt.launch
        try:
            answer = await ask(launch.task_id, launch.attempt, Question(key, ending, value, take_over))
        except Exception as error:
            # Whatever the store has against it, the function must hear it, and its neighbours must go on.
            answer = Answer("stale", f"the store refused it: {error}")
    runner.send((ANSWER, number, answer.status, answer.value))
