"""The spawner: starts shell attempts for a node, watches them, and ends them.

One thread, one poll: the node's socket, a pipe that SIGCHLD writes to, and the node's pidfd. An attempt is
reported when its leader was reaped and nothing of it is left. Nothing wakes the spawner while nothing runs;
while something does, a sweep every 100 ms looks at the sizes of output files and for new orphans.

When the node is gone, or past the deadline it is trusted until, everything below the spawner is frozen,
killed and reaped. The spawner is a subreaper: no descendant can leave it, short of root's ways out.
"""

import gc
import os
import select
import signal
import time
from collections import deque

from weft.executors import linux
from weft.executors.output_files import Files, MiddleNotDroppable, Stream
from weft.executors.spawner.attempt import Attempt
from weft.executors.spawner.masking_pipes import Pipes
from weft.executors.spawner.messages import CLOSE, ENDED, HELLO, PIDS, START, STOP, TOKEN, TRUST, Message
from weft.executors.spawner.node_socket import NodeSocket
from weft.executors.spawner.orphans import Orphans
from weft.executors.spawner.process_start import CannotStart, Starter, cannot_store
from weft.executors.spawner.process_tree import kill_tree, kill_trees, terminate_tree

SWEEP_S = 0.1
SWEEP_FLOOD_S = 0.02  # while some output is over its cap and grows
CLEAR_S = 0.02  # how soon to look again for what was killed, should no SIGCHLD tell
STARTS_PER_TURN = 4  # a long queue of starts must not keep ends and stops waiting
_NOTHING = (0, 0, 0)


def serve(fd: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    linux.become_subreaper()
    linux.deny_inspection()
    gc.disable()  # nothing in here makes cycles that live on
    spawner = Spawner(NodeSocket(fd))
    try:
        spawner.run()
    finally:
        spawner.end_everything()


class Spawner:
    def __init__(self, node: NodeSocket) -> None:
        self._node = node
        self._poll = select.poll()
        self._starter = Starter()
        self._files = Files()
        self._pipes = Pipes(self._poll)
        self._node_pidfd: int | None = None
        self._by_pid: dict[int, Attempt] = {}  # all attempts that are not reported, by their leader's pid
        self._by_id: dict[int, Attempt] = {}
        self._by_token: dict[bytes, Attempt] = {}
        self._ending: list[Attempt] = []  # leader reaped, not reported
        self._stopping: dict[int, Attempt] = {}  # with a moment at which they are killed
        self._orphans = Orphans(self._by_pid, self._by_token)
        self._queue: deque[Message] = deque()
        self._base_env: dict[bytes, bytes] = {}
        self._token_prefix = b""
        self._trusted_until = float("inf")
        self._lapsed = False  # past that, and acted upon
        self._next_sweep: float | None = None
        self._leftovers = False
        self._told_orphans: list[int] = []
        self._closing = False

    def run(self) -> None:
        node = self._node
        child_signals = linux.child_signal_fd()
        self._poll.register(node.fd, node.interest)
        self._poll.register(child_signals, select.POLLIN)
        while not node.ended:
            reap = False
            for fd, _ in self._poll.poll(self._patience_ms()):
                if fd == child_signals:
                    os.read(child_signals, 4096)
                    reap = True
                elif fd == node.fd:
                    for message in node.receive():
                        self._obey(message)
                elif fd in self._pipes:
                    self._pipes.pump(fd)
                elif fd == self._node_pidfd:
                    node.ended = True
            self._start_some()
            if reap:
                self._reap()
            self._keep_time()
            node.flush()
            self._poll.modify(node.fd, node.interest)
            if self._closing and not self._by_id and not self._queue and node.drained:
                return

    # What the node says

    def _obey(self, message: Message) -> None:
        kind = message[0]
        if kind == START:
            self._queue.append((*message[:-1], self._node.channels.popleft() if message[-1] else None))
        elif kind == STOP:
            self._stop(message[1], message[2], message[3])
        elif kind == TRUST:
            self._trusted_until = message[1]
            self._lapsed = False
        elif kind == HELLO:
            _, self._base_env, self._token_prefix, node_pid, user = message
            self._starter.user = self._files.user = user
            self._watch_node(node_pid)
        elif kind == CLOSE:
            self._closing = True
            self._stop_all("drain")

    def _watch_node(self, pid: int) -> None:
        """The socket's end can outlive the node, in a process that it forked; its pidfd cannot."""
        pidfd = linux.watch_process(pid)
        if os.getppid() != pid:
            self._node.ended = True
        elif pidfd is not None:
            self._node_pidfd = pidfd
            self._poll.register(pidfd, select.POLLIN)

    # Starting

    def _start_some(self) -> None:
        for _ in range(min(STARTS_PER_TURN, len(self._queue))):
            self._start(self._queue.popleft())

    def _start(self, message: Message) -> None:
        _, id, argv, search, extra_env, cwd, directory, stem, cap, hidden, forms, channel = message
        if self._closing or linux.boottime() >= self._trusted_until:
            self._drop(message, "drain" if self._closing else "lease")
            return
        token = b"%s%d" % (self._token_prefix, id)
        streams: list[Stream] = []
        try:
            for suffix in (b".out", b".err"):
                try:
                    streams.append(self._files.open(directory, stem + suffix, cap))
                except OSError as error:
                    raise cannot_store(error) from None
            env = {**self._base_env, **extra_env, TOKEN: token}
            for name in hidden:
                if name not in extra_env:
                    env.pop(name, None)
            now = linux.boottime()  # before: nothing that it makes can be older than it
            pid = self._start_process(argv, search, env, cwd, streams, forms, channel)
        except CannotStart as refusal:
            for stream in streams:
                self._close(stream)
            self._report_unstarted(id, refusal.error, code=refusal.code, startable=refusal.startable)
            return
        finally:
            if channel is not None:
                os.close(channel)
        attempt = Attempt(id, token, pid, now, *streams)
        self._by_pid[pid] = self._by_id[id] = self._by_token[token] = attempt
        if self._next_sweep is None:
            self._next_sweep = now + SWEEP_S

    def _start_process(
        self,
        argv: tuple[bytes, ...],
        search: bool,
        env: dict[bytes, bytes],
        cwd: bytes,
        streams: list[Stream],
        forms: tuple[bytes, ...],
        channel: int | None,
    ) -> int:
        fds: list[int] = []
        try:
            try:
                for stream in streams:
                    if forms:
                        fds.append(self._pipes.open(stream, forms))
                        self._files.give(fds[-1])
                    else:
                        fds.append(self._files.open_for_child(stream))
            except OSError as error:
                raise cannot_store(error) from None
            return self._starter.start(argv, search, env, cwd, channel, *fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _drop(self, message: Message, reason: str) -> None:
        """A start that is called off."""
        if message[-1] is not None:
            os.close(message[-1])
        self._report_unstarted(message[1], "stopped before it started", stop=reason)

    def _report_unstarted(
        self, id: int, error: str, *, stop: str | None = None, code: int | None = None, startable: bool = True
    ) -> None:
        now = linux.boottime()
        self._node.send((ENDED, id, None, None, now, stop, 0, error, code, startable, _NOTHING, _NOTHING))

    # Ending

    def _reap(self) -> None:
        """Collect every child that ended, then settle the attempts whose leader is gone."""
        now = linux.boottime()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            attempt = self._by_pid.get(pid)
            if attempt is None or attempt.status is not None:
                self._orphans.reaped(pid)
                continue
            attempt.status = status
            attempt.ended = now
            self._ending.append(attempt)
        if self._ending:
            self._settle(now)

    def _settle(self, now: float) -> None:
        """Report what is over, and kill what is left of attempts that have no grace (any more)."""
        by_attempt, left = self._orphans.find()
        self._kill_leftovers(left)
        still_ending = []
        for attempt in self._ending:
            orphans = by_attempt.get(attempt)
            if not orphans:
                self._report(attempt)
                continue
            still_ending.append(attempt)
            if attempt.kill_at is None or attempt.kill_at <= now:
                attempt.victims.update(kill_tree(orphans))
        self._ending = still_ending
        self._orphans.release()

    def _kill_leftovers(self, pids: list[int]) -> None:
        """Of no attempt that is known any more: there should be none, so look again until there is."""
        self._leftovers = bool(pids)
        kill_tree(pids)

    def _report(self, attempt: Attempt) -> None:
        attempt.reported = True
        if self._by_pid.get(attempt.pid) is attempt:
            del self._by_pid[attempt.pid]
        del self._by_id[attempt.id], self._by_token[attempt.token]
        self._stopping.pop(attempt.id, None)
        self._orphans.reported(attempt)
        sizes = []
        for stream in (attempt.out, attempt.err):
            try:
                sizes.append(self._close(stream))
            except MiddleNotDroppable:
                sizes.append((stream.size, stream.size, 0))
                attempt.error = _not_droppable(stream)
            except OSError as error:
                sizes.append(_NOTHING)
                attempt.error = f"its output could not be stored: {error.strerror}"
        self._node.send(
            (
                ENDED,
                attempt.id,
                attempt.status,
                attempt.started,
                attempt.ended,
                attempt.stop,
                len(attempt.victims),
                attempt.error,
                None,
                True,
                *sizes,
            )
        )

    def _close(self, stream: Stream) -> tuple[int, int, int]:
        try:
            self._pipes.finish(stream)
        except OSError:
            self._files.close(stream)
            raise
        return self._files.close(stream)

    # Stopping

    def _stop(self, id: int, reason: str, grace_s: float) -> None:
        attempt = self._by_id.get(id)
        if attempt is None:
            for message in self._queue:
                if message[1] == id:
                    self._queue.remove(message)
                    self._drop(message, reason)
                    return
            return
        if attempt.status is None:
            self._reap()  # one that has ended by itself was not stopped
        if attempt.status is not None:
            return
        kill_at = linux.boottime() + grace_s
        if attempt.stop is None:
            attempt.stop = reason
            if grace_s > 0:
                orphans = self._orphans.find(certain=False)[0].get(attempt, [])
                terminate_tree(attempt.pid, orphans)
        if attempt.kill_at is None or kill_at < attempt.kill_at:
            attempt.kill_at = kill_at
        self._stopping[id] = attempt

    def _stop_all(self, reason: str) -> None:
        now = linux.boottime()
        self._reap()
        while self._queue:
            self._drop(self._queue.popleft(), reason)
        for attempt in self._by_id.values():
            attempt.stop = attempt.stop or reason
            attempt.kill_at = now
            self._stopping[attempt.id] = attempt

    def _kill_due(self, now: float) -> None:
        due = [a for a in self._stopping.values() if a.kill_at is not None and a.kill_at <= now]
        if not due:
            return
        by_attempt, _ = self._orphans.find()
        for attempt in due:
            roots = by_attempt.get(attempt, [])
            if attempt.status is None:
                roots = [attempt.pid, *roots]
            attempt.victims.update(kill_tree(roots))
            # Once more unless it is gone by then: a fork may have slipped through.
            attempt.kill_at = now + CLEAR_S
        self._orphans.release()

    # Time

    def _patience_ms(self) -> float | None:
        if self._queue:
            return 0
        if self._next_sweep is None:
            return None
        wake = self._next_sweep if self._lapsed else min(self._next_sweep, self._trusted_until)
        if self._ending:
            wake = min(wake, linux.boottime() + CLEAR_S)
        for attempt in self._stopping.values():
            if attempt.kill_at is not None and attempt.kill_at < wake:
                wake = attempt.kill_at
        return max(0.0, (wake - linux.boottime()) * 1000)

    def _keep_time(self) -> None:
        if self._next_sweep is None:
            return
        now = linux.boottime()
        if now >= self._trusted_until and not self._lapsed:
            self._lapsed = True
            self._stop_all("lease")
        if self._stopping:
            self._kill_due(now)
        if self._ending:
            self._settle(now)
        if now >= self._next_sweep:
            self._sweep(now)
        if not self._by_id and not self._leftovers:
            self._next_sweep = None
            self._files.forget_directories()
            os.chdir("/")  # hold no directory that somebody may want to unmount

    def _sweep(self, now: float) -> None:
        self._files.forget_directories()
        flood = False
        fresh: dict[int, int] = {}
        for attempt in self._by_id.values():
            if not attempt.announced:
                attempt.announced = True
                fresh[attempt.id] = attempt.pid
            for stream in (attempt.out, attempt.err):
                try:
                    flood |= stream.sweep()
                except MiddleNotDroppable:
                    self._give_up(attempt, _not_droppable(stream))
                except OSError as error:
                    self._give_up(attempt, f"its output could not be stored: {error.strerror}")
        self._kill_leftovers(self._orphans.find(certain=False)[1])
        orphans = self._orphans.known()
        if fresh or orphans != self._told_orphans:
            self._told_orphans = orphans
            self._node.send((PIDS, fresh, orphans))
        self._next_sweep = now + (SWEEP_FLOOD_S if flood else SWEEP_S)

    def _give_up(self, attempt: Attempt, error: str) -> None:
        if attempt.error is None:
            attempt.error = error
            attempt.kill_at = 0.0
            self._stopping[attempt.id] = attempt

    # The last act

    def end_everything(self) -> None:
        """Freeze, kill and reap all descendants until there is none. Output that has no name yet gets one."""
        pause_s = 0.001
        while True:
            if not self._orphans.children():
                break
            kill_trees(self._orphans.children)
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.1)
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break
        for attempt in self._by_id.values():
            for stream in (attempt.out, attempt.err):
                try:
                    self._close(stream)
                except (OSError, MiddleNotDroppable):
                    continue


def _not_droppable(stream: Stream) -> str:
    return f"output over {stream.cap} bytes and this filesystem cannot drop the middle"
