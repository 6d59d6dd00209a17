"""The spawner's loop: starts attempts for a node, watches their processes, and kills them.

One thread, one poll: the node's socket, SIGCHLD as a descriptor, and the node's pidfd. An attempt is reported when
its leader was reaped and none of its processes is left. The spawner sleeps while no attempt runs; while one does, a
sweep every 100 ms checks the sizes of output files and looks for new orphans.

When the node is gone, or past the deadline until which it is trusted, all descendants of the spawner are frozen,
killed and reaped. The spawner is a subreaper: no descendant can escape it, short of what root can do.
"""

import gc
import os
import select
import time

from weft.executors import linux
from weft.executors.output_file import NOTHING_WRITTEN, CannotPunchHole, OutputFile, Written
from weft.executors.spawner.attempt import SpawnedAttempt
from weft.executors.spawner.last_will import carry_out
from weft.executors.spawner.masking_pipes import MaskingPipes
from weft.executors.spawner.messages import (
    TOKEN,
    CloseSpawner,
    Hello,
    LastWill,
    LivePids,
    ProcessEnded,
    StartProcess,
    StopProcess,
    TrustUntil,
)
from weft.executors.spawner.node_socket import NodeSocket
from weft.executors.spawner.orphans import Orphans
from weft.executors.spawner.output_files import OutputFiles
from weft.executors.spawner.process_start import CannotStart, ProcessStarter, cannot_create_output
from weft.executors.spawner.process_tree import kill_tree, kill_trees, terminate_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from weft.executors.protocol import StopReason
else:
    import _signal as signal

SWEEP_S = 0.1
SWEEP_FLOOD_S = 0.02  # while an output file is over its cap and grows
RECHECK_S = 0.02  # after a kill: when to check again, should no SIGCHLD arrive
_POLL_MS_MAX = 3_600_000.0  # a deadline may be infinite
WILL_S = 5.0  # for the last will of a node past its trust, which may go on afterwards
WILL_S_DEAD = 20.0  # of a dead one
STARTS_PER_TURN = 4  # a long queue of starts must not delay ends and stops


def serve(fd: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    linux.become_subreaper()
    linux.deny_inspection()
    gc.disable()  # the spawner creates no reference cycles that live on
    spawner = Spawner(NodeSocket(fd))
    try:
        spawner.run()
    finally:
        spawner.kill_everything()
        spawner.carry_out_will()


class Spawner:
    def __init__(self, node: NodeSocket) -> None:
        self._node = node
        self._poll = select.poll()
        self._starter = ProcessStarter()
        self._files = OutputFiles()
        self._pipes = MaskingPipes(self._poll)
        self._node_pidfd: int | None = None
        self._by_pid: dict[int, SpawnedAttempt] = {}  # all attempts that are not reported, by their leader's pid
        self._by_id: dict[int, SpawnedAttempt] = {}
        self._by_token: dict[bytes, SpawnedAttempt] = {}
        self._ending: list[SpawnedAttempt] = []  # leader reaped, not reported
        self._stopping: dict[int, SpawnedAttempt] = {}  # those that have a `kill_at`
        self._orphans = Orphans(self._by_pid, self._by_token)
        self._start_queue: list[tuple[StartProcess, int | None]] = []  # with the descriptor for its stdin
        self._base_env: dict[bytes, bytes] = {}
        self._token_prefix = b""
        self._trusted_until = float("inf")
        self._trust_expired = False  # and all attempts have been stopped for it
        self._next_sweep: float | None = None
        self._unowned_found = False  # the last search found processes of no known attempt
        self._orphans_sent: list[int] = []
        self._closing = False
        self._will: tuple[bytes, ...] | None = None  # carried out when the node is dead, or past its trust

    def run(self) -> None:
        node = self._node
        child_signals = linux.child_signal_fd()
        events = node.poll_events
        self._poll.register(node.fd, events)
        self._poll.register(child_signals, select.POLLIN)
        while not node.ended:
            child_ended = False
            for fd, _ in self._poll.poll(self._poll_timeout_ms()):
                if fd == child_signals:
                    os.read(child_signals, 4096)
                    child_ended = True
                elif fd == node.fd:
                    for message in node.receive():
                        self._handle(message)
                elif fd in self._pipes:
                    self._pipes.pump(fd)
                elif fd == self._node_pidfd:
                    node.ended = True
            self._start_queued()
            if child_ended:
                self._reap()
            self._run_timers()
            node.flush()
            if events != node.poll_events:
                events = node.poll_events
                self._poll.modify(node.fd, events)
            if self._closing and not self._by_id and not self._start_queue and node.drained:
                return

    # Messages from the node

    def _handle(self, message: "Any") -> None:
        kind = type(message)
        if kind is StartProcess:
            self._start_queue.append((message, self._node.received_fds.pop(0) if message.has_stdin else None))
        elif kind is StopProcess:
            self._stop(message)
        elif kind is TrustUntil:
            self._trusted_until = message.until
            self._trust_expired = False
        elif kind is Hello:
            self._base_env, self._token_prefix = message.base_env, message.token_prefix
            self._starter.user = self._files.user = message.user
            self._watch_node(message.node_pid)
        elif kind is LastWill:
            self._will = message.argv
        elif kind is CloseSpawner:
            self._closing = True
            self._stop_all("drain")

    def _watch_node(self, pid: int) -> None:
        """A process that the node forked can keep the node's end of the socket open; its pidfd ends with it."""
        pidfd = linux.watch_process(pid)
        if os.getppid() != pid:
            self._node.ended = True
        elif pidfd is not None:
            self._node_pidfd = pidfd
            self._poll.register(pidfd, select.POLLIN)

    # Starting

    def _start_queued(self) -> None:
        for _ in range(min(STARTS_PER_TURN, len(self._start_queue))):
            self._start(*self._start_queue.pop(0))

    def _start(self, start: StartProcess, stdin: int | None) -> None:
        now = linux.boottime()  # before the start: no process of the attempt can be older than this
        if self._closing or now >= self._trusted_until:
            self._drop_start(start, stdin, "drain" if self._closing else "lease")
            return
        id, argv, search_path, own_env, cwd, directory, stem, output_max, hidden, secret_forms, _ = start
        token = b"%s%d" % (self._token_prefix, id)
        files: tuple[OutputFile, ...] = ()
        fds: list[int] = []
        try:
            try:
                files = self._files.open(directory, stem, output_max)
                for file in files:
                    if secret_forms:
                        fds.append(self._pipes.open(file, secret_forms))
                        self._files.chown(fds[-1])
                    else:
                        fds.append(self._files.open_for_child(file))
            except OSError as error:
                raise cannot_create_output(error) from None
            env = {**self._base_env, **own_env, TOKEN: token}
            for name in hidden:
                if name not in own_env:
                    env.pop(name, None)
            pid = self._starter.start(argv, search_path, env, cwd, stdin, *fds)
        except CannotStart as refusal:
            for file in files:
                self._close(file)
            self._report_unstarted(id, refusal.error, exit_code=refusal.code, startable=refusal.startable)
            return
        finally:
            for fd in fds:
                os.close(fd)
            if stdin is not None:
                os.close(stdin)
        attempt = SpawnedAttempt(id, token, pid, now, *files)
        self._by_pid[pid] = self._by_id[id] = self._by_token[token] = attempt
        if self._next_sweep is None:
            self._next_sweep = now + SWEEP_S

    def _drop_start(self, start: StartProcess, stdin: int | None, reason: "StopReason") -> None:
        if stdin is not None:
            os.close(stdin)
        self._report_unstarted(start.id, "stopped before it started", stopped=reason)

    def _report_unstarted(
        self,
        id: int,
        error: str,
        *,
        stopped: "StopReason | None" = None,
        exit_code: int | None = None,
        startable: bool = True,
    ) -> None:
        self._node.send(
            ProcessEnded(
                id, None, None, linux.boottime(), stopped, 0, error, exit_code, startable, NOTHING_WRITTEN,
                NOTHING_WRITTEN,
            )
        )  # fmt: skip

    # Ending

    def _reap(self) -> None:
        """Reap every child that ended, then report the attempts that have no process left."""
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
            self._finish_ending(now)

    def _finish_ending(self, now: float) -> None:
        """Report ending attempts without orphans; kill the orphans of those that have no grace (left)."""
        by_attempt, unowned = self._orphans.find()
        self._kill_unowned(unowned)
        still_ending = []
        for attempt in self._ending:
            orphans = by_attempt.get(attempt)
            if not orphans:
                self._report(attempt)
                continue
            still_ending.append(attempt)
            if attempt.kill_at is None or attempt.kill_at <= now:
                attempt.killed.update(kill_tree(orphans))
        self._ending = still_ending
        self._orphans.unfreeze()

    def _kill_unowned(self, pids: list[int]) -> None:
        """Processes whose attempts are all reported. There should be none, so sweeps go on until there is none."""
        self._unowned_found = bool(pids)
        kill_tree(pids)

    def _report(self, attempt: SpawnedAttempt) -> None:
        attempt.reported = True
        if self._by_pid.get(attempt.pid) is attempt:
            del self._by_pid[attempt.pid]
        del self._by_id[attempt.id], self._by_token[attempt.token]
        self._stopping.pop(attempt.id, None)
        self._orphans.reported(attempt)
        written: list[Written] = []
        for file in (attempt.stdout, attempt.stderr):
            try:
                written.append(self._close(file))
            except CannotPunchHole:
                written.append((file.size, file.size, 0))
                attempt.error = _over_cap_error(file)
            except OSError as error:
                written.append(NOTHING_WRITTEN)
                attempt.error = _not_stored_error(error)
        self._node.send(
            ProcessEnded(
                attempt.id,
                attempt.status,
                attempt.started,
                attempt.ended,
                attempt.stop,
                len(attempt.killed),
                attempt.error,
                None,
                True,
                *written,
            )
        )

    def _close(self, file: OutputFile) -> Written:
        try:
            self._pipes.finish(file)
        except OSError:
            self._files.close(file)
            raise
        return self._files.close(file)

    # Stopping

    def _stop(self, stop: StopProcess) -> None:
        attempt = self._by_id.get(stop.id)
        if attempt is None:
            for queued in self._start_queue:
                if queued[0].id == stop.id:
                    self._start_queue.remove(queued)
                    self._drop_start(*queued, stop.reason)
                    return
            return
        if attempt.status is None:
            self._reap()  # an attempt that has ended by itself was not stopped
        if attempt.status is not None:
            return
        kill_at = linux.boottime() + stop.grace_s
        if attempt.stop is None:
            attempt.stop = stop.reason
            if stop.grace_s > 0:
                orphans = self._orphans.find(complete=False)[0].get(attempt, [])
                terminate_tree(attempt.pid, orphans)
        if attempt.kill_at is None or kill_at < attempt.kill_at:
            attempt.kill_at = kill_at
        self._stopping[stop.id] = attempt

    def _stop_all(self, reason: "StopReason") -> None:
        now = linux.boottime()
        self._reap()
        while self._start_queue:
            self._drop_start(*self._start_queue.pop(0), reason)
        for attempt in self._by_id.values():
            attempt.stop = attempt.stop or reason
            attempt.kill_at = now
            self._stopping[attempt.id] = attempt

    def _kill_due(self, now: float) -> None:
        stopping = self._stopping.values()
        due = [attempt for attempt in stopping if attempt.kill_at is not None and attempt.kill_at <= now]
        if not due:
            return
        by_attempt, _ = self._orphans.find()
        for attempt in due:
            roots = by_attempt.get(attempt, [])
            if attempt.status is None:
                roots = [attempt.pid, *roots]
            attempt.killed.update(kill_tree(roots))
            # Again unless it is reported by then: a fork may have been missed.
            attempt.kill_at = now + RECHECK_S
        self._orphans.unfreeze()

    # Timers

    def _poll_timeout_ms(self) -> float | None:
        if self._start_queue:
            return 0
        if self._next_sweep is None and (self._will is None or self._trust_expired):
            return None
        wake = float("inf") if self._next_sweep is None else self._next_sweep
        if not self._trust_expired:
            wake = min(wake, self._trusted_until)
        if self._ending:
            wake = min(wake, linux.boottime() + RECHECK_S)
        for attempt in self._stopping.values():
            if attempt.kill_at is not None and attempt.kill_at < wake:
                wake = attempt.kill_at
        return min(_POLL_MS_MAX, max(0.0, (wake - linux.boottime()) * 1000))

    def _run_timers(self) -> None:
        if self._next_sweep is None and self._will is None:
            return
        now = linux.boottime()
        expires = now >= self._trusted_until and not self._trust_expired
        if expires:
            self._trust_expired = True
            self._stop_all("lease")
        if self._stopping:
            self._kill_due(now)
        if self._ending:
            self._finish_ending(now)
        if expires and self._will is not None:
            carry_out(self._will, WILL_S)
        if self._next_sweep is None:
            return
        if now >= self._next_sweep:
            self._sweep(now)
        if not self._by_id and not self._unowned_found:
            self._next_sweep = None
            self._files.forget_directories()
            os.chdir("/")  # an idle spawner must not keep a filesystem from being unmounted

    def _sweep(self, now: float) -> None:
        """Check the output files, send new pids to the node, kill processes of no known attempt."""
        self._files.forget_directories()
        flood = False
        new_leaders: dict[int, int] = {}
        for attempt in self._by_id.values():
            if not attempt.pid_sent:
                attempt.pid_sent = True
                new_leaders[attempt.id] = attempt.pid
            for file in (attempt.stdout, attempt.stderr):
                try:
                    flood |= file.sweep()
                except CannotPunchHole:
                    self._fail(attempt, _over_cap_error(file))
                except OSError as error:
                    self._fail(attempt, _not_stored_error(error))
        self._kill_unowned(self._orphans.find(complete=False)[1])
        orphans = self._orphans.known()
        if new_leaders or orphans != self._orphans_sent:
            self._orphans_sent = orphans
            self._node.send(LivePids(new_leaders, orphans))
        self._next_sweep = now + (SWEEP_FLOOD_S if flood else SWEEP_S)

    def _fail(self, attempt: SpawnedAttempt, error: str) -> None:
        """Kill an attempt whose output cannot be kept."""
        if attempt.error is None:
            attempt.error = error
            attempt.kill_at = 0.0
            self._stopping[attempt.id] = attempt

    # Shutdown

    def carry_out_will(self) -> None:
        """Unless the node has closed this spawner: then it has seen to everything itself."""
        if self._will is not None and self._node.ended:
            carry_out(self._will, WILL_S_DEAD)

    def kill_everything(self) -> None:
        """Freeze, kill and reap all descendants until none is left. Output that has no name yet gets one."""
        pause_s = 0.001
        while self._orphans.children():
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
            for file in (attempt.stdout, attempt.stderr):
                try:
                    self._close(file)
                except (OSError, CannotPunchHole):
                    continue


def _over_cap_error(file: OutputFile) -> str:
    return f"output over {file.cap} bytes and this filesystem cannot drop the middle"


def _not_stored_error(error: OSError) -> str:
    return f"the output could not be stored: {error.strerror}"
