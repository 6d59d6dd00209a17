"""The attempts a node holds: claimed, running, ended and not yet reported.

It claims ahead of its free slots by what it ended in the last 100 ms, so that short tasks travel in large batches;
tasks that last leave nothing claimed ahead. What was claimed and could not start within a second goes back.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from weft.core.commands import Claim, Report
from weft.core.expressions import ExpressionError
from weft.core.liveness import attempt_limit_ms
from weft.core.rows import WHOLE, MemoRow
from weft.core.rules.attempts import OVERDUE
from weft.core.workflow import Workflow
from weft.executors.masking import Masker, secret_forms
from weft.executors.protocol import Ask, Launch, OnceAnswer, OnceQuestion, Outcome, RemoteExecutor, StopReason
from weft.node.attempts.artifacts import store_output
from weft.node.attempts.env_files import EnvFileError
from weft.node.attempts.file_transfers import fetch_files, keep_files
from weft.node.attempts.handles import HandleKeeper
from weft.node.attempts.held_attempt import EndsAtOnce, HeldAttempt, never_asked
from weft.node.attempts.launch import make_launch, make_report, mask_outcome, report_cached, take_context_update
from weft.node.attempts.output import OutputShipper
from weft.node.attempts.run_tokens import add_token
from weft.node.attempts.secrets import MissingSecret
from weft.node.attempts.usage import UsageKeeper
from weft.node.attempts.workspaces import WorkspaceError
from weft.node.meter import Meter
from weft.node.points import ARMED, reach
from weft.node.ports import NodeSettings, Ports, RunFacts

AHEAD_MAX = 1000
AHEAD_WINDOW_S = 0.1
LONG_TASK_S = 1.0
UNSTARTED_MAX_S = 1.0
FREE_KINDS = ("shell", "python", "inline")  # attempts of all other kinds may say what they spend
ANNOUNCE_S = 0.25  # an attempt that outlives this says when it started before it ends
FAILED_STARTS_MAX = 3
FAILED_STARTS_PAUSE_S = 5.0
REPORTS_MAX = 500
FOLLOWING_MAX = 1000  # beyond, they are loaded when they are asked for
REPORT_BYTES_MAX = 4 * 2**20
SLOTLESS_BATCH_MAX = 500  # attempts that take no slot, of one exchange


class Worker:
    def __init__(
        self,
        ports: Ports,
        settings: NodeSettings,
        trusted: Callable[[], bool],
        changed: Callable[[], None],
        ask: Ask | None = None,
        meter: Meter | None = None,
        handles: HandleKeeper | None = None,
        usage: UsageKeeper | None = None,
    ) -> None:
        self._ports = ports
        self._handles = handles
        self._usage = usage or UsageKeeper()
        self._costly = ports.remote | {kind for kind in ports.executors if kind not in FREE_KINDS}
        self._settings = settings
        self._trusted = trusted  # past the lease's trust nothing starts: the attempt may be somebody else's by now
        self._changed = changed  # an attempt ended: there is something to report
        self._meter = meter or Meter()
        self._ask = ask  # answers what functions ask while they run
        self.session = ""
        self.held: dict[tuple[int, int], HeldAttempt] = {}
        self.running = 0
        self._waiting: deque[tuple[int, int]] = deque()
        self._slotless_kinds = ports.slotless
        self.slotless = 0  # attempts among the held that take no slot
        self._waiting_slotless: deque[tuple[int, int]] = deque()
        self._unannounced: deque[tuple[float, tuple[int, int]]] = deque()  # started, oldest first
        self._reports: deque[Report] = deque()
        self._ends_noted = False  # the loop's next round sees to what follows from ends, once for all of them
        self._report_bytes = 0
        self._following: dict[tuple[int, int, int], None] = {}  # places of what needs the reported tasks
        self._ended: deque[EndsAtOnce] = deque()  # of the last 100 ms
        self._fresh_ends: list[float | None] = []  # not among them yet: how long each ran, if it started
        self._ended_at = 0.0  # the last of those
        self._mean_s = 0.0
        self.exchange_s = 0.0  # what one takes, lately
        self.accepting = True
        self.output: OutputShipper | None = None  # takes it to where others read it
        self.no_longer_busy = asyncio.Event()  # set only while
        self.watched = False  # an exchange waits for it
        self._tasks: set[asyncio.Task[None]] = set()  # held here, so that nobody collects them
        self._failed_starts = 0
        self._not_before = float("-inf")  # claims pause until then

    # -- room --------------------------------------------------------------------------------------------

    def want(self) -> int:
        """How many more attempts this node would like to hold."""
        if not self.accepting or self._ports.clock() < self._not_before:
            return 0
        if self._failed_starts >= FAILED_STARTS_MAX:
            return 1 if not self.held else 0  # one at a time until a start succeeds
        slots = self._settings.slots
        room = slots + self._ahead()
        want = max(0, room - len(self.held) + self.slotless)
        # Beside the store, one half is done while the other is exchanged: all at once would leave both idle in turns.
        return min(want, max(slots, room // 2)) if self._ports.link.off_loop else want

    def want_slotless(self) -> int:
        """How many more attempts that take no slot."""
        if not self.accepting or self._failed_starts >= FAILED_STARTS_MAX or self._ports.clock() < self._not_before:
            return 0
        return min(SLOTLESS_BATCH_MAX, max(0, self._settings.waiting_slots - self.slotless))

    def _ahead(self) -> int:
        lately = self._ended_lately()
        return 0 if self._mean_s > LONG_TASK_S else min(AHEAD_MAX, lately)

    def _ended_lately(self) -> int:
        if self._fresh_ends:
            self._count_ends()
        oldest = self._ports.clock() - AHEAD_WINDOW_S
        while self._ended and self._ended[0].at < oldest:
            self._ended.popleft()
        return sum([ends.count for ends in self._ended])

    @property
    def busy(self) -> bool:
        """There is claimed work for the slots that come free next, and room in the batch of reports. Where the store
        works beside us, there must be more: for as long as the next exchange will take."""
        waiting = len(self._waiting)
        if waiting * 4 < max(1, self._settings.slots) or len(self._reports) >= REPORTS_MAX:
            return False
        return not self._ports.link.off_loop or waiting > self._ended_lately() / AHEAD_WINDOW_S * self.exchange_s

    @property
    def followed(self) -> bool:
        """Other tasks need what has ended and is not reported yet."""
        return bool(self._following)

    @property
    def idle(self) -> bool:
        return not self.held and not self._reports

    # -- attempts ----------------------------------------------------------------------------------------

    def take(
        self,
        claim: Claim,
        facts: RunFacts,
        workflow: Workflow,
        names: dict[str, Any] | None = None,
        cache_key: str | None = None,
        now: float | None = None,
    ) -> None:
        key = (claim.task_id, claim.attempt)
        if key in self.held:
            return  # the reply came twice
        definition = workflow.tasks[claim.pos]
        now = self._ports.clock() if now is None else now
        self.held[key] = held = HeldAttempt(key, claim, definition, workflow, facts, now, names, cache_key=cache_key)
        if definition.kind in self._slotless_kinds:
            held.slotless = True
            self.slotless += 1
            self._waiting_slotless.append(key)
        else:
            self._waiting.append(key)

    def take_cached(self, claim: Claim, memo: MemoRow) -> None:
        """Nothing has to run: its result is known."""
        self._report(report_cached(claim, memo))

    def refuse(self, claim: Claim, error: str) -> None:
        """Its templates have no value, or a secret is missing. Trying again would not change that."""
        self._report(
            Report(
                claim.task_id, claim.pos, claim.idx, claim.attempt, "failed", error=error, retryable=False,
                unverified=claim.adopted,
            )
        )  # fmt: skip

    def start_waiting(self) -> None:
        """Fill the free slots with what was claimed."""
        waiting, slots = self._waiting, self._settings.slots
        if self._waiting_slotless and self._trusted():
            self._start_slotless()
        if not waiting or self.running >= slots or not self._trusted():
            return
        now = self._ports.clock()
        while waiting and self.running < slots:
            held = self.held.get(waiting.popleft())
            if held is not None and not held.started:
                self._start(held, now)

    def _start_slotless(self) -> None:
        now = self._ports.clock()
        while self._waiting_slotless:
            held = self.held.get(self._waiting_slotless.popleft())
            if held is not None and not held.started:
                self._start(held, now)

    def _start(self, held: HeldAttempt, now: float) -> None:
        claim, definition = held.claim, held.definition
        held.started = True
        if not held.slotless:
            self.running += 1
        self._unannounced.append((now, held.key))
        self._meter.started(claim.waited_ms, now - held.claimed)
        if self._settings.log_all:
            self._log(held, "debug", "attempt started")
        try:
            launch = make_launch(
                claim, held.facts, held.workflow, self._settings, held.names, self._ports.secrets, self._answer
            )
            if launch.workspace is not None and self._ports.workspaces is not None:
                self._ports.workspaces.make(launch.run_id)
        except ExpressionError as error:
            self._cannot_start(held, error.message + (f"; {error.fix}" if error.fix else ""))
            return
        except (MissingSecret, EnvFileError, WorkspaceError) as error:
            self._cannot_start(held, str(error))
            return
        if definition.timeout_ms is not None:
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(definition.timeout_ms / 1000, self._stop, held, "timeout")
        if self.output is not None:
            self.output.began(launch)
        if definition.plain:
            if ARMED:
                reach("attempt.before_start")
            self._ports.executors[definition.kind].start(launch, self._on_end)
            return
        if self._ports.token_key is not None:
            add_token(launch, definition, self._ports.token_key, self._ports.server())
        if launch.secrets or launch.credentials is not None:
            held.masker = Masker(secret_forms([*launch.secrets.values(), launch.credentials or ""]))
        if definition.artifacts or definition.files:
            held.launch = launch
        if definition.files:
            self._spawn(self._start_with_files(held, launch))
        else:
            self._hand_over(held, launch)

    def _hand_over(self, held: HeldAttempt, launch: Launch) -> None:
        reach("attempt.before_start")
        if launch.kind in self._costly:
            self._start_costly(held, launch)
        else:
            self._ports.executors[launch.kind].start(launch, self._on_end)

    async def _start_with_files(self, held: HeldAttempt, launch: Launch) -> None:
        """Once the files of other tasks are there."""
        error = await fetch_files(self._ports, held.claim.run_no, held.definition.files, held.workflow, launch)
        if self.held.get(held.key) is not held:
            return  # its session is over
        if not self._trusted():
            self._let_go(held)
        elif held.stopping is not None:
            self._on_end(never_asked(launch, held.stopping, self._ports.clock()))
        elif error is not None:
            self._on_end(Outcome(launch.task_id, launch.attempt, False, None, None, self._ports.clock(), error))
        else:
            self._hand_over(held, launch)

    def _start_costly(self, held: HeldAttempt, launch: Launch) -> None:
        """One that may spend, or that runs on an engine."""
        launch.allowance, launch.spent = held.claim.allowance, self._usage.note
        if launch.kind in self._ports.remote:
            launch.adoptable = held.definition.retry.on_lost == "adopt"
            self._spawn(self._start_remote(held, launch))
        else:
            self._ports.executors[launch.kind].start(launch, self._on_costly_end)

    def _on_costly_end(self, outcome: Outcome) -> None:
        if outcome.usage is not None:
            self._usage.note(outcome.task_id, outcome.attempt, outcome.usage)
        self._on_end(outcome)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_remote(self, held: HeldAttempt, launch: Launch) -> None:
        """Its handle first. What an earlier attempt has started must be watched, whatever is to become of it."""
        assert self._handles is not None
        executor = cast(RemoteExecutor, self._ports.executors[launch.kind])
        if executor.engine is None:
            self._on_end(never_asked(launch, "drain", self._ports.clock()))  # it has just stopped to answer
            return
        try:
            handle = executor.handle(launch)
        except Exception as error:  # a plugin's; nothing has been asked of its engine, so nothing is left there
            now, text = self._ports.clock(), f"{launch.kind}: it has no handle: {type(error).__name__}: {error}"
            self._on_end(Outcome(launch.task_id, launch.attempt, False, None, None, now, text))
            return
        opened = await self._handles.open(launch, handle)
        key = (launch.task_id, launch.attempt)
        if self.held.get(key) is not held:
            return  # its session is over
        if not opened or not self._trusted():
            self._let_go(held)
            return
        reach("handle.opened")
        if held.stopping is not None and not launch.adopted:
            self._on_end(never_asked(launch, held.stopping, self._ports.clock()))
            return
        executor.start(launch, self._on_costly_end)
        if held.stopping is not None:
            executor.stop(*key, held.stopping, held.definition.grace_ms / 1000)

    def _let_go(self, held: HeldAttempt) -> None:
        """It is not this session's any more, or will not be soon: nothing is reported of it."""
        self._free(held)
        if held.timer is not None:
            held.timer.cancel()
        self._after_ends()

    def _free(self, held: HeldAttempt) -> None:
        """It is held no more, and so is its slot."""
        del self.held[held.key]
        if held.slotless:
            self.slotless -= 1
        elif held.started:
            self.running -= 1

    async def _answer(self, task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
        held = self.held.get((task_id, attempt))
        if held is not None and held.masker is not None:
            for text in (question.key, question.value or ""):
                if held.masker.text(text) != text:
                    return OnceAnswer("stale", "a secret stands in it, and no memo may keep one: give another value")
        if self._ask is None:
            return OnceAnswer("stale", "this node cannot answer weft.once")
        return await self._ask(task_id, attempt, question)

    def _cannot_start(self, held: HeldAttempt, error: str) -> None:
        self._free(held)
        self.refuse(held.claim, error)

    def _on_end(self, outcome: Outcome) -> None:
        held = self.held.get((outcome.task_id, outcome.attempt))
        if held is None:
            return
        if held.timer is not None:
            held.timer.cancel()
        if not held.definition.plain:
            if held.launch is not None:
                launch, held.launch = held.launch, None
                self._spawn(self._after_files(held, launch, outcome))
                return
            if outcome.ok and (held.definition.long_form or held.definition.kind == "agent"):
                take_context_update(outcome)
            if held.masker is not None:
                mask_outcome(outcome, held.masker)
        report = make_report(held.claim, outcome, held.definition, files=held.files)
        if held.claim.adopted and outcome.started is None:
            report.unverified = True
        if held.cache_key is not None and held.definition.cache is not None and outcome.ok:
            report.keep = (held.cache_key, held.definition.cache.ttl_ms)
        if report.result is not None and outcome.ok and len(report.result) > self._settings.result_max:
            self._spawn(self._store_output(held, outcome))
        else:
            self._over(held, outcome, report)

    async def _after_files(self, held: HeldAttempt, launch: Launch, outcome: Outcome) -> None:
        """It keeps its slot until its files are stored."""
        if outcome.ok and launch.artifacts:
            held.files = await keep_files(self._ports, launch, self.session, outcome)
        if launch.files is not None:
            await asyncio.to_thread(shutil.rmtree, launch.files, ignore_errors=True)
        if self.held.get(held.key) is held:
            self._on_end(outcome)

    async def _store_output(self, held: HeldAttempt, outcome: Outcome) -> None:
        """It keeps its slot until what it left is stored. An artifact goes with its run, so no memo keeps it."""
        artifact = await store_output(self._ports.artifacts, held.facts.id, outcome, self._settings.result_max)
        if self.held.get(held.key) is held:  # its session may be over by now
            self._over(held, outcome, make_report(held.claim, outcome, held.definition, artifact, held.files))

    def _over(self, held: HeldAttempt, outcome: Outcome, report: Report) -> None:
        del self.held[held.key]
        if held.slotless:  # `_free` written out
            self.slotless -= 1
        else:
            self.running -= 1
        if self.output is not None:
            self.output.ended(outcome.task_id, outcome.attempt, outcome.result)
        if not held.definition.plain:
            if self._handles is not None and held.definition.kind in self._ports.remote:
                self._handles.ended(outcome.task_id, outcome.attempt)
            if outcome.usage is not None:
                self._meter.spent(outcome.usage.usd, outcome.usage.tokens)
        if ARMED:
            reach("attempt.ended")
        if not outcome.startable:
            self._count_failed_start()
        else:
            self._failed_starts = 0
        if not held.slotless:
            started, self._ended_at = outcome.started, outcome.ended
            self._fresh_ends.append(None if started is None else self._ended_at - started)
        if report.outcome == "failed" or self._settings.log_all:
            self._log_end(held, outcome, report)
        self._reports.append(report)
        if report.result is not None:
            self._report_bytes += len(report.result)
        if report.outcome == "succeeded" and (report.idx >= 0 or held.workflow.successors[report.pos]):
            self._follows(held)
        if not self._ends_noted:
            self._ends_noted = True
            asyncio.get_running_loop().call_soon(self._after_ends)

    def _after_ends(self) -> None:
        """Attempts have ended: their slots are free, and there is something to report."""
        self._ends_noted = False
        self.start_waiting()
        while self._unannounced and self._unannounced[0][1] not in self.held:
            self._unannounced.popleft()
        if self.watched and not self.busy:
            self.no_longer_busy.set()
        self._changed()

    def _log(self, held: HeldAttempt, level: str, message: str, **more: Any) -> None:
        if self._ports.log_line is not None:
            name = held.definition.called(held.claim.idx)
            named = {"run": held.facts.id, "task": name, "attempt": held.claim.attempt}
            self._ports.log_line(
                level, message, named | {key: value for key, value in more.items() if value is not None}
            )

    def _log_end(self, held: HeldAttempt, outcome: Outcome, report: Report) -> None:
        failed = report.outcome == "failed"
        seconds = None if outcome.started is None else round(outcome.ended - outcome.started, 3)
        self._log(
            held, "info" if failed else "debug", "attempt failed" if failed else "attempt ended",
            outcome=report.outcome, exit_code=report.exit_code, error=report.error, seconds=seconds,
        )  # fmt: skip

    def _follows(self, held: HeldAttempt) -> None:
        """What needs this task is loaded with its report: that spares a round trip to the store."""
        claim = held.claim
        for pos in (claim.pos,) if claim.idx >= 0 else held.workflow.successors[claim.pos]:
            self._following[(claim.run_no, pos, WHOLE)] = None

    def _count_failed_start(self) -> None:
        """A node that cannot start anything (no memory, no processes, disk full) leaves the work to others."""
        self._failed_starts += 1
        if self._failed_starts >= FAILED_STARTS_MAX:
            self._not_before = self._ports.clock() + FAILED_STARTS_PAUSE_S
            self._ports.log("starts keep failing, claims pause", {"seconds": FAILED_STARTS_PAUSE_S})

    def _count_ends(self) -> None:
        """Of one round of the loop, or few: they count as of the last one's time."""
        if self._ended and self._ended_at - self._ended[-1].at < 0.01:
            self._ended[-1].count += len(self._fresh_ends)
        else:
            self._ended.append(EndsAtOnce(self._ended_at, len(self._fresh_ends)))
        mean_s = self._mean_s
        for lasted_s in self._fresh_ends:
            if lasted_s is not None:
                mean_s += 0.2 * (lasted_s - mean_s)
        self._mean_s = mean_s
        self._fresh_ends.clear()

    def _report(self, report: Report) -> None:
        self._reports.append(report)
        self._report_bytes += len(report.result or "")
        self._changed()

    # -- stopping ----------------------------------------------------------------------------------------

    def stop(self, task_id: int, attempt: int, why: str) -> None:
        held = self.held.get((task_id, attempt))
        if held is not None:
            # Also when the run's time is over: `timeout` is the task's own, as is an attempt that takes too long.
            self._stop(held, "timeout" if why == OVERDUE else "cancel")

    def _stop(self, held: HeldAttempt, reason: StopReason, grace_s: float | None = None) -> None:
        if held.stopping is not None and grace_s is None and not (reason == "cancel" and held.stopping == "timeout"):
            return  # only a shorter grace, or a cancel after a timeout, changes a stop that is under way
        held.stopping = reason if reason == "cancel" else (held.stopping or reason)
        claim = held.claim
        if not held.started:
            self._drop(held, "cancelled" if reason == "cancel" else "returned")
            return
        grace = held.definition.grace_ms / 1000 if grace_s is None else grace_s
        self._ports.executors[held.definition.kind].stop(claim.task_id, claim.attempt, held.stopping, grace)

    def _drop(self, held: HeldAttempt, outcome: str) -> None:
        """It never started."""
        claim = held.claim
        self._free(held)
        error = "cancelled before it started" if outcome == "cancelled" else None
        self._report(
            Report(
                claim.task_id, claim.pos, claim.idx, claim.attempt, "cancelled" if error else "returned", error=error,
                unverified=claim.adopted,
            )
        )  # fmt: skip

    def give_back_unstarted(self, older_than_s: float = UNSTARTED_MAX_S) -> None:
        limit = self._ports.clock() - older_than_s
        for held in [h for h in self.held.values() if not h.started and h.claimed <= limit]:
            self._drop(held, "returned")

    def hand_back(self, grace_s: float) -> None:
        """Drain is over: what still runs is stopped and goes back to the queue, without cost."""
        self.give_back_unstarted(0)
        for held in list(self.held.values()):
            self._stop(held, "drain", grace_s)

    # -- reports -----------------------------------------------------------------------------------------

    def take_reports(self) -> list[Report]:
        """The next batch: at most 500 reports or 4 MiB, with what attempts have spent since they said so last."""
        batch = self._next_reports()
        if self._usage.known:
            for report in batch:
                self._usage.complete(report)
        return batch

    def _next_reports(self) -> list[Report]:
        if len(self._reports) <= REPORTS_MAX and self._report_bytes <= REPORT_BYTES_MAX:
            batch = list(self._reports)
            self._reports.clear()
            self._report_bytes = 0
            return batch
        batch = []
        size = 0
        while self._reports and len(batch) < REPORTS_MAX and (not batch or size < REPORT_BYTES_MAX):
            report = self._reports.popleft()
            size += len(report.result or "")
            batch.append(report)
        self._report_bytes -= size
        return batch

    def take_following(self) -> list[tuple[int, int, int]]:
        following, self._following = self._following, {}
        return list(following)[:FOLLOWING_MAX]

    @property
    def has_started(self) -> bool:
        """There are attempts that last, and that the store does not know to have started."""
        return bool(self._unannounced) and self._unannounced[0][0] < self._ports.clock() - ANNOUNCE_S

    def take_started(self) -> list[tuple[int, int, int, int | None]]:
        """(task, attempt, how long ago in ms, how long it may last) of attempts that last; they trigger no exchange
        of their own."""
        now = self._ports.clock()
        out = []
        while self._unannounced and self._unannounced[0][0] < now - ANNOUNCE_S:
            at, key = self._unannounced.popleft()
            held = self.held.get(key)
            if held is None:
                continue
            started = self._ports.executors[held.definition.kind].started(*key, at)
            if started is None:
                # Behind others for a runner: were its time counted from here, the store would take it away (timeout +
                # 30 s) before it has begun.
                self._unannounced.append((now, key))
                continue
            out.append((*key, int((now - started) * 1000), attempt_limit_ms(held.definition)))
        return out

    def attempts(self) -> list[tuple[int, int]]:
        """(task, attempt) of all that the store should still see running here: held, or ended and unreported."""
        return [*self.held, *((r.task_id, r.attempt) for r in self._reports)]

    def disown(self, task_id: int, attempt: int) -> None:
        """The store knows nothing of it: it is somebody else's, or over. Its end will be refused."""
        held = self.held.get((task_id, attempt))
        if held is None:
            return
        if held.started:
            self._ports.executors[held.definition.kind].stop(task_id, attempt, "lease", 0.0)
        else:
            self._free(held)

    @property
    def has_reports(self) -> bool:
        return bool(self._reports)

    def forget(self) -> None:
        """The session is over: nothing that is held here counts any more. The executors are killing it."""
        for held in self.held.values():
            if held.timer is not None:
                held.timer.cancel()
        self.held.clear()
        self._waiting.clear()
        self._unannounced.clear()
        self._reports.clear()
        self._report_bytes = 0
        self._following.clear()
        self._usage.forget()
        self.running = 0
