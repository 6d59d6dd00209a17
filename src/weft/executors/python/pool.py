"""Which runner gets which attempt. Runners belong to one directory each, because that heads their sys.path.

Plain functions have a runner to themselves, quick ones queue there; async ones share one. Whoever has waited longest
goes first, and a directory without a runner gets one from a directory that has had its turn.
"""

from collections import deque
from collections.abc import Callable

from weft.executors.linux import boottime
from weft.executors.python.runner_link import Attempt, RunnerLink

_TURN_S = 1.0  # how long a runner works for its directory before another one may have its place


class Directory:
    """What waits to run in a directory, and the runners there."""

    def __init__(self) -> None:
        self.plain: deque[Attempt] = deque()  # also those of functions that nobody has seen yet
        self.beside: deque[Attempt] = deque()  # of async functions
        self.runners: list[RunnerLink] = []  # not those that leave
        self.served = 0.0  # when it last got a new runner

    @property
    def waiting(self) -> int:
        return len(self.plain) + len(self.beside)


class Pool:
    def __init__(
        self,
        runners_max: int,
        is_async: Callable[[Attempt], bool | None],
        start: Callable[[str], RunnerLink],
        give: Callable[[RunnerLink, Attempt], None],
        retire: Callable[[RunnerLink], None],
    ) -> None:
        """`is_async` is None of a function that has never been called here."""
        self._runners_max = runners_max
        self._is_async = is_async
        self._start = start
        self._give = give
        self._retire = retire
        self.directories: dict[str, Directory] = {}
        self.runners: dict[int, RunnerLink] = {}  # all there are, by number, those that leave included

    def add(self, attempt: Attempt) -> None:
        self._queue(attempt).append(attempt)

    def put_back(self, attempts: list[Attempt]) -> None:
        """Ahead of everything else, in their old order."""
        for attempt in sorted(attempts, key=lambda a: a.id, reverse=True):
            self._queue(attempt).appendleft(attempt)

    def _queue(self, attempt: Attempt) -> deque[Attempt]:
        directory = self.directories.get(attempt.root)
        if directory is None:
            directory = self.directories[attempt.root] = Directory()
        return directory.beside if self._is_async(attempt) else directory.plain

    def remove(self, attempt: Attempt) -> None:
        directory = self.directories[attempt.root]
        (directory.beside if attempt in directory.beside else directory.plain).remove(attempt)

    def sort_again(self, root: str) -> None:
        """More is known of a function than when attempts of it began to wait."""
        directory = self.directories.get(root)
        if directory is not None and directory.waiting:
            waiting = sorted([*directory.plain, *directory.beside], key=lambda a: a.id)
            directory.plain = deque(a for a in waiting if not self._is_async(a))
            directory.beside = deque(a for a in waiting if self._is_async(a))

    def leave(self, runner: RunnerLink) -> None:
        """It gets nothing more."""
        directory = self.directories.get(runner.root)
        if directory is not None and runner in directory.runners:
            directory.runners.remove(runner)

    def pump(self) -> None:
        """Give out what can be given, and see to it that there are runners for the rest."""
        directories = list(self.directories.items())
        if len(directories) > 1:
            directories.sort(key=lambda item: item[1].served)  # a free place goes to who has waited longest for one
        for root, directory in directories:
            if directory.waiting:
                self._give_out(directory)
            self._grow(root, directory)
            if not directory.waiting and not directory.runners:
                del self.directories[root]
        for root, directory in list(self.directories.items()):
            if directory.waiting and not directory.runners:
                self._make_room(root, directory)

    def _give_out(self, directory: Directory) -> None:
        while directory.waiting:
            plain, beside = directory.plain, directory.beside
            plain_first = bool(plain) and (not beside or plain[0].id < beside[0].id)
            if plain_first:
                done = self._give_plain(directory) or self._give_beside(directory)
            else:
                done = self._give_beside(directory) or self._give_plain(directory)
            if not done:
                return

    def _give_plain(self, directory: Directory) -> bool:
        if not directory.plain:
            return False
        best = None
        for runner in directory.runners:
            if runner.room > 0 and (best is None or len(runner.given) < len(best.given)):
                best = runner
        if best is None:
            return self._give_unknown(directory)
        best.is_async = False
        self._give(best, directory.plain.popleft())
        return True

    def _give_unknown(self, directory: Directory) -> bool:
        """A function that nobody has seen may be async: a runner of async ones finds out, or hands it back."""
        if self._is_async(directory.plain[0]) is not None:
            return False
        for runner in directory.runners:
            if runner.given and runner.room_beside > 0:
                self._give(runner, directory.plain.popleft())
                return True
        return False

    def _give_beside(self, directory: Directory) -> bool:
        if not directory.beside:
            return False
        shared = [r for r in directory.runners if r.given and r.room_beside > 0]
        if (
            shared
            and directory.plain
            and directory.plain[0].id < directory.beside[0].id
            and self._all_shared(directory)
        ):
            return False  # a plain function waits for one of them to become idle
        free = shared or [r for r in directory.runners if r.idle]
        if not free:
            return False
        runner = free[0]
        runner.is_async = True
        self._give(runner, directory.beside.popleft())
        return True

    def _grow(self, root: str, directory: Directory) -> None:
        """One runner for each that waits, also for those that wait in a runner, as far as there may be more."""
        wanted = len(directory.plain) + (1 if directory.beside else 0)
        wanted += sum(len(r.given) - 1 for r in directory.runners if r.given and not r.is_async)
        starting = sum(not r.ready for r in directory.runners)
        while starting < wanted and self._places_taken() < self._runners_max:
            self._start_in(root, directory)
            starting += 1

    def _make_room(self, root: str, directory: Directory) -> None:
        """End a runner elsewhere: the one that has been idle longest, else the first whose turn is over."""
        idle = [r for r in self.runners.values() if r.idle and r.root != root]
        if idle:
            self._retire(min(idle, key=lambda r: r.idle_since))
            self._start_in(root, directory)
            return
        if any(r.leaving is not None and r.given for r in self.runners.values()):
            return  # its place comes free
        now = boottime()
        for runner in self.runners.values():
            if runner.ready and runner.leaving is None and now - runner.born > _TURN_S:
                self._retire(runner)
                return

    def _all_shared(self, directory: Directory) -> bool:
        """Every runner there is has async functions, and there can be no other."""
        return all(r.is_async and r.given for r in directory.runners) and self._places_taken() >= self._runners_max

    def _places_taken(self) -> int:
        """One that leaves and has nothing more to do is as good as gone."""
        return sum(r.leaving is None or bool(r.given) for r in self.runners.values())

    def _start_in(self, root: str, directory: Directory) -> None:
        runner = self._start(root)
        directory.served = runner.born
        self.runners[runner.number] = runner
        directory.runners.append(runner)
