"""Which runner gets which attempt. Runners belong to one directory each, because that heads their sys.path.

Plain functions have a runner to themselves, quick ones queue there; async ones share one. Whoever has waited longest
goes first, and a directory without a runner gets one from a directory that has had its turn.
"""

from collections import deque
from collections.abc import Callable

from weft.executors.python_link import Attempt, RunnerLink

_TURN_S = 1.0  # how long a runner works for its directory before another one may have its place


class Directory:
    """What waits to run in a directory, and the runners there."""

    def __init__(self) -> None:
        self.plain: deque[Attempt] = deque()  # also those of functions that nobody has seen yet
        self.beside: deque[Attempt] = deque()  # of async functions
        self.runners: list[RunnerLink] = []  # not those that leave

    @property
    def waiting(self) -> int:
        return len(self.plain) + len(self.beside)


class Pool:
    def __init__(
        self,
        runners_max: int,
        start: Callable[[str], RunnerLink],
        give: Callable[[RunnerLink, Attempt], None],
        retire: Callable[[RunnerLink], None],
        clock: Callable[[], float],
    ) -> None:
        self._runners_max = runners_max
        self._start = start
        self._give = give
        self._retire = retire
        self._clock = clock
        self.directories: dict[str, Directory] = {}
        self.runners: dict[int, RunnerLink] = {}  # all there are, by number, those that leave included

    def add(self, attempt: Attempt, is_async: bool) -> None:
        directory = self.directories.setdefault(attempt.root, Directory())
        (directory.beside if is_async else directory.plain).append(attempt)

    def put_back(self, attempts: list[Attempt], is_async: Callable[[Attempt], bool]) -> None:
        """Ahead of everything else, in their old order."""
        for attempt in sorted(attempts, key=lambda a: a.id, reverse=True):
            directory = self.directories.setdefault(attempt.root, Directory())
            (directory.beside if is_async(attempt) else directory.plain).appendleft(attempt)

    def remove(self, attempt: Attempt) -> None:
        directory = self.directories[attempt.root]
        (directory.beside if attempt in directory.beside else directory.plain).remove(attempt)

    def now_async(self, root: str, is_async: Callable[[Attempt], bool]) -> None:
        """A function turned out to be async: those that wait for it can share a runner."""
        directory = self.directories.get(root)
        if directory is not None:
            directory.beside.extend(a for a in directory.plain if is_async(a))
            directory.plain = deque(a for a in directory.plain if not is_async(a))

    def leave(self, runner: RunnerLink) -> None:
        """It gets nothing more."""
        directory = self.directories.get(runner.root)
        if directory is not None and runner in directory.runners:
            directory.runners.remove(runner)

    def pump(self) -> None:
        """Give out what can be given, and see to it that there are runners for the rest."""
        for root, directory in list(self.directories.items()):
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
            return False
        best.is_async = False
        self._give(best, directory.plain.popleft())
        return True

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
        now = self._clock()
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
        self.runners[runner.number] = runner
        directory.runners.append(runner)
