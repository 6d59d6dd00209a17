"""Assigns attempts to runners. Each runner belongs to one place: a directory, because that heads its sys.path, and an
interpreter.

A plain function has a runner to itself, quick ones queue there; async functions share a runner. The attempt that has
waited longest goes first, and a place without a runner gets the slot of a runner whose place had its turn.
"""

from collections import deque
from collections.abc import Callable

from weft.executors.linux import boottime
from weft.executors.python.runner_link import PythonAttempt, RunnerLink, RunnerPlace

_TURN_S = 1.0  # how long a runner works for its place before another place may have its slot
_FUNCTIONS_MAX = 10_000


class PlaceQueue:
    """The attempts that wait for a place, and the runners of that place."""

    def __init__(self) -> None:
        self.plain: deque[PythonAttempt] = deque()  # also of functions that have never been called here
        self.concurrent: deque[PythonAttempt] = deque()  # of async functions
        self.runners: list[RunnerLink] = []  # without retiring ones
        self.last_start = 0.0  # of a runner for this place

    @property
    def waiting(self) -> int:
        return len(self.plain) + len(self.concurrent)


class RunnerPool:
    def __init__(
        self,
        runners_max: int,
        start: Callable[[RunnerPlace], RunnerLink],
        assign: Callable[[RunnerLink, PythonAttempt], None],
        retire: Callable[[RunnerLink], None],
    ) -> None:
        self._runners_max = runners_max
        self._start = start
        self._assign = assign
        self._retire = retire
        self._async_functions: dict[tuple[RunnerPlace, str], bool] = {}  # by place and name, of functions called here
        self.queues: dict[RunnerPlace, PlaceQueue] = {}
        self.runners: dict[int, RunnerLink] = {}  # all, by number, retiring ones included

    # Waiting attempts

    def add(self, attempt: PythonAttempt) -> None:
        self._queue(attempt).append(attempt)

    def put_back(self, attempts: list[PythonAttempt]) -> None:
        """Ahead of all others, in their old order."""
        for attempt in sorted(attempts, key=lambda attempt: attempt.id, reverse=True):
            self._queue(attempt).appendleft(attempt)

    def _queue(self, attempt: PythonAttempt) -> deque[PythonAttempt]:
        queue = self.queues.get(attempt.place)
        if queue is None:
            queue = self.queues[attempt.place] = PlaceQueue()
        return queue.concurrent if self._is_async(attempt) else queue.plain

    def remove(self, attempt: PythonAttempt) -> None:
        queue = self.queues[attempt.place]
        (queue.concurrent if attempt in queue.concurrent else queue.plain).remove(attempt)

    def take_all(self, place: RunnerPlace) -> list[PythonAttempt]:
        """Remove and return all attempts that wait for a runner of this place."""
        queue = self.queues[place]
        waiting = [*queue.plain, *queue.concurrent]
        queue.plain.clear()
        queue.concurrent.clear()
        return waiting

    # Which functions are async

    def _is_async(self, attempt: PythonAttempt) -> bool | None:
        """None: the function has never been called here."""
        return self._async_functions.get((attempt.place, attempt.launch.spec["function"]))

    def learn(self, attempt: PythonAttempt, is_async: bool) -> None:
        if self._is_async(attempt) is is_async:
            return
        if len(self._async_functions) >= _FUNCTIONS_MAX:
            self._async_functions.clear()
        self._async_functions[attempt.place, attempt.launch.spec["function"]] = is_async
        queue = self.queues.get(attempt.place)
        if queue is not None and queue.waiting:
            waiting = sorted([*queue.plain, *queue.concurrent], key=lambda attempt: attempt.id)
            queue.plain = deque(attempt for attempt in waiting if not self._is_async(attempt))
            queue.concurrent = deque(attempt for attempt in waiting if self._is_async(attempt))

    # Dispatch

    def withdraw(self, runner: RunnerLink) -> None:
        """Assign nothing more to this runner."""
        queue = self.queues.get(runner.place)
        if queue is not None and runner in queue.runners:
            queue.runners.remove(runner)

    def dispatch(self) -> None:
        """Assign the attempts that can be assigned, and start runners for the others."""
        queues = list(self.queues.items())
        if len(queues) > 1:
            queues.sort(key=lambda item: item[1].last_start)  # a free slot goes to the place that waits longest
        for place, queue in queues:
            if queue.waiting:
                self._assign_waiting(queue)
            self._grow(place, queue)
            if not queue.waiting and not queue.runners:
                del self.queues[place]
        for place, queue in list(self.queues.items()):
            if queue.waiting and not queue.runners:
                self._free_slot(place, queue)

    def _assign_waiting(self, queue: PlaceQueue) -> None:
        while queue.waiting:
            plain, concurrent = queue.plain, queue.concurrent
            plain_first = bool(plain) and (not concurrent or plain[0].id < concurrent[0].id)
            if plain_first:
                assigned = self._assign_plain(queue) or self._assign_concurrent(queue)
            else:
                assigned = self._assign_concurrent(queue) or self._assign_plain(queue)
            if not assigned:
                return

    def _assign_plain(self, queue: PlaceQueue) -> bool:
        if not queue.plain:
            return False
        best = None
        for runner in queue.runners:
            if runner.plain_capacity > 0 and (best is None or len(runner.assigned) < len(best.assigned)):
                best = runner
        if best is None:
            return self._assign_unknown(queue)
        best.is_async = False
        self._assign(best, queue.plain.popleft())
        return True

    def _assign_unknown(self, queue: PlaceQueue) -> bool:
        """A function that was never called here may be async: a runner of async ones runs it, or returns it."""
        if self._is_async(queue.plain[0]) is not None:
            return False
        for runner in queue.runners:
            if runner.assigned and runner.async_capacity > 0:
                self._assign(runner, queue.plain.popleft())
                return True
        return False

    def _assign_concurrent(self, queue: PlaceQueue) -> bool:
        if not queue.concurrent:
            return False
        shared = [runner for runner in queue.runners if runner.assigned and runner.async_capacity > 0]
        if shared and queue.plain and queue.plain[0].id < queue.concurrent[0].id and self._all_run_async(queue):
            return False  # an older plain function waits for one of them to become idle
        available = shared or [runner for runner in queue.runners if runner.idle]
        if not available:
            return False
        runner = available[0]
        runner.is_async = True
        self._assign(runner, queue.concurrent.popleft())
        return True

    # Runners

    def _grow(self, place: RunnerPlace, queue: PlaceQueue) -> None:
        """One runner for each waiting plain attempt, those that wait in a runner included, up to the limit."""
        needed = len(queue.plain) + (1 if queue.concurrent else 0)
        needed += sum(len(runner.assigned) - 1 for runner in queue.runners if runner.assigned and not runner.is_async)
        starting = sum(not runner.ready for runner in queue.runners)
        while starting < needed and self._slots_taken() < self._runners_max:
            self._start_in(place, queue)
            starting += 1

    def _free_slot(self, place: RunnerPlace, queue: PlaceQueue) -> None:
        """Retire a runner of another place: the one that has been idle longest, else the first whose turn is
        over."""
        idle = [runner for runner in self.runners.values() if runner.idle and runner.place != place]
        if idle:
            self._retire(min(idle, key=lambda runner: runner.idle_since))
            self._start_in(place, queue)
            return
        if any(runner.retiring is not None and runner.assigned for runner in self.runners.values()):
            return  # its slot becomes free
        now = boottime()
        for runner in self.runners.values():
            if runner.ready and runner.retiring is None and now - runner.created > _TURN_S:
                self._retire(runner)
                return

    def _all_run_async(self, queue: PlaceQueue) -> bool:
        """All runners of the place have async calls, and no other runner may be started."""
        return (
            all(runner.is_async and runner.assigned for runner in queue.runners)
            and self._slots_taken() >= self._runners_max
        )

    def _slots_taken(self) -> int:
        """A retiring runner without assigned attempts does not count: it is about to exit."""
        return sum(runner.retiring is None or bool(runner.assigned) for runner in self.runners.values())

    def _start_in(self, place: RunnerPlace, queue: PlaceQueue) -> None:
        runner = self._start(place)
        queue.last_start = runner.created
        self.runners[runner.number] = runner
        queue.runners.append(runner)
