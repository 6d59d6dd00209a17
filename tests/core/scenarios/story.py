"""Plays a story: a definition, then commands in plain words, each followed by what the engine made of it.

A story file has a comment that says what it shows, a definition between two lines of `---`, and then commands. Below
each command stand, indented, the events that it left and the reply it got. `play` does it all again and gives the
whole text anew: a test compares it with the file, WEFT_REWRITE=1 writes it, and a reviewer reads the difference.

    submit [key K] [body B] [max_parallel N] [priority N]      advance 10s
    node a [ttl 3s]                                            renew a | expire a | gone a | leave a
    exchange a [want N] [number N]                             cancel run [now] | cancel task x
    finish a x y … [want N]                                    resume | dead retry [x …]
    fail a x "exit 1" [want N]                                 tidy | why x | attempts x
    fail a x "text" code 75 | cause oom | type ValueError | stopped timeout        how it failed, for `retry.on`
    report a x=ok y=failed z=returned v=cancelled [want N]     states | counts
    rerun from x y              a new run that takes over all but those and what follows them
    repeat a                    the last exchange again, as after a lost reply
    started a x 300ms           an attempt that lasts says when it began
    of CHILD cancel run …       the command for the run that a task started, last by this path: `of sub`, `of sub.3`
    signal NAME JSON            or: signal NAME reject REASON
    context a x key=value       it succeeds and sets keys of the run's context
    keep a x KEY [ttl 1h]       it succeeds, and its result is kept for `cache`
    cached a x KEY              if a result is kept under that key, it succeeds with it
    once a x KEY [raise]        an effect begins, or has ended: once a x KEY done JSON | failed REASON
    records                     all there are
    node a memory 8GiB disk 1GiB cpus 2 gpus 1 label gaming slots 4 kinds shell,container       a node that has that
    pools set NAME SIZE | pools                                     place: the leader picks nodes
    pools set NAME SIZE usd 5 tokens 1000 renew yes                 what its tasks may spend
    spend a x 1.25 [TOKENS]     an attempt says what it has spent since it said so last
    finish a x spent 1.25       its report says it; also: fail a x "text" spent 1.25
    budget [usd 5] [tokens N]   the run may spend so much from now on; without, what is spent and reserved
    submit step yes             a run that rests after each level; `step` and `step task` move it on
    canonical                   the level records as they stand
    node b gave_up a            the process of a again: it gave that session up because the store did not answer
    node a [role leader]        lead a [ttl 30s] | resign a TERM | drain a 60s
    started a x 300ms limit 5s  it has a timeout: past the limit it is overdue
    overdue [term N]            the leader looks after attempts that take too long
    reconcile a x y …           the node says that it holds these, and no others
    expire a term N             by a leader of this term (otherwise: of the current one)
    apply [without NAME]        the definition's triggers are active, but for that one
    fire NAME 1s 2s [term N]    the leader fires a trigger for these moments of the story, oldest first
    open a x [adoptable]        its handle is stored: from here on its engine may run it (engine `podman`)
    note a x TEXT               what it waits for on its engine
    removed x                   the engine says that nothing is left of what a lost node had there
    adopt a x                   a node goes on watching it | release x [REASON]: a person takes the risk
    backfill b NAME 1s 2s [parallel N] [reverse] [again]            runs for these moments | backfill b cancel
    fill b [term N]             the leader's look at a backfill, until nothing moves | backfills
    late                        the leader judges deadlines that have passed
    starts NAME 1s 2s           the leader looks whether these times of a trigger have runs
    default EVENT …             all workflows notify https://all.example of these; without events, nothing
    notifications [full]        the outbox | deliver [fail TEXT | lose] the leader tries what is due | retry
    hand NAME CAUSE             somebody fires it now | pause NAME | unpause NAME | fires
"""

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tests.core.driver import CHIEF, Engine
from tests.core.history import Event, events
from tests.core.scenarios.situation import situation
from weft.authoring.children import family_of
from weft.authoring.load import Loaded, load_text, load_value
from weft.core import commands as c
from weft.core.decision.needs import Backfill, PinsOfFamily, Trigger
from weft.core.definition.child_workflows import references_of
from weft.core.definition.field_types.text_formats import format_size, parse_duration_ms, parse_size_bytes
from weft.core.explain import explain
from weft.core.history.kinds import canonical_lines
from weft.core.placement.budgets import in_words, limits_in_words
from weft.core.rows import TriggerRow
from weft.core.rules.backfill import backfill_cause
from weft.core.workflow import MICROS, NotifyTarget, Usage
from weft.node.attempts.launch import report_cached
from weft.store.protocol import StoreError

OUTCOMES = {"ok": "succeeded", "failed": "failed", "returned": "returned", "cancelled": "cancelled"}
NAMES_MAX = 6  # of tasks in one line; more are counted
EVENTS_MAX = 30  # of one command; more are counted


class Story:
    def __init__(
        self,
        definition: dict[str, Any],
        others: dict[str, dict[str, Any]] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.engine = engine or Engine()
        self.definition = definition
        self.others = others or {}  # by the name of their file
        self.run_ids: list[str] = []
        self.claims: dict[tuple[str, str], c.Claim] = {}  # every claim ever handed out, the newest per task
        self.last: dict[str, c.Exchange] = {}
        self.seen = 0  # events told so far
        self.started_at = self.engine.time_ms
        self.led = False  # the story says who leads
        self.times: dict[str, list[int]] = {}  # of backfills, in the order in which they run
        self.applied: Loaded

    # -- one command ---------------------------------------------------------------------------------------

    def play(self, line: str) -> list[str]:
        words = shlex.split(line)
        work: Callable[[list[str]], list[str]] = getattr(self, f"_do_{words[0]}")
        try:
            said = work(words[1:])
        except c.Refused as refused:
            said = [f"refused ({refused.code}): {refused.message}"]
        except StoreError as error:
            said = [f"{type(error).__name__}: {error}"]
        out = [*self._new_events(), *said]
        for run_id in self.run_ids:
            self.engine.check(run_id)
        return out

    # -- people --------------------------------------------------------------------------------------------

    def _do_submit(self, words: list[str]) -> list[str]:
        given = dict(zip(words[::2], words[1::2], strict=True))
        more: dict[str, Any] = {name: int(given[name]) for name in ("max_parallel", "priority") if name in given}
        more |= {"key": given.get("key"), "body_hash": given.get("body", ""), "manual_advance": "step" in given}
        run_id = f"run-{len(self.run_ids) + 1}"
        loaded = load_value(self.definition, "story")
        files = {name: load_value(document, name) for name, document in self.others.items()}
        for file in files.values():
            file.children.update({name: files[name] for name in references_of(file.workflow) if name in files})
        named = {name: files[name] for name in references_of(loaded.workflow) if name in files}
        more["children"], more["pins"] = family_of(msgspec.structs.replace(loaded, children=named), "/")
        command = c.Submit(
            run_id, loaded.workflow.hash, loaded.workflow.name, msgspec.json.encode(loaded.document), "{}",
            source="/", **more,
        )  # fmt: skip
        reply = self.engine.commit(command)
        self.engine.workflows[run_id] = loaded.workflow
        if not reply.existing:
            self.run_ids.append(run_id)
        return [f"{reply.run_id} {'exists, ' if reply.existing else ''}{reply.state}"]

    def _do_rerun(self, words: list[str]) -> list[str]:
        """`rerun from x y`: a new run, which takes over everything but those and what follows them."""
        source = self.engine.run(self.run_id)
        workflow = self.engine.committer.workflows[source.workflow]
        with self.engine.store.transaction() as tx:
            pins = tx.load([PinsOfFamily(source.root)])[0]
        run_id = f"run-{len(self.run_ids) + 1}"
        reply = self.engine.commit(
            c.Submit(
                run_id, source.workflow, workflow.name, b"", "{}", source="/", pins=pins, taken_from=source.id,
                from_tasks=words[1:],
            )
        )  # fmt: skip
        self.engine.workflows[run_id] = workflow
        self.run_ids.append(run_id)
        return [f"{reply.run_id} {reply.state}"]

    def _do_cancel(self, words: list[str]) -> list[str]:
        if words[0] == "run":
            return _said(self.engine.commit(c.CancelRun(self.run_id, now=words[1:] == ["now"])))
        return _said(self.engine.commit(c.CancelTask(self.run_id, words[1])))

    def _do_by(self, words: list[str]) -> list[str]:
        """A command that somebody asked for whom the server knows: `by ann cancel run`."""
        self.engine.actor = words[0]
        try:
            work: Callable[[list[str]], list[str]] = getattr(self, f"_do_{words[1]}")
            return work(words[2:])
        finally:
            self.engine.actor = None

    def _do_token(self, words: list[str]) -> list[str]:
        """`token create ID LABEL ROLE [DURATION]`, `token revoke ID`."""
        if words[0] == "revoke":
            return _said(self.engine.commit(c.RevokeToken(words[1])))
        expires_ms = parse_duration_ms(words[4]) if words[4:] else None
        command = c.CreateToken(words[1], "hash", words[2], words[3], expires_ms)  # type: ignore[arg-type]
        return _said(self.engine.commit(command))

    def _do_of(self, words: list[str]) -> list[str]:
        """A command for the run that a task started: `of sub cancel run`."""
        child = self.engine.task(self.run_id, words[0]).child
        self.run_ids.append(self.engine.store.reader().execute("SELECT id FROM runs WHERE no = ?", (child,)).get)
        try:
            work: Callable[[list[str]], list[str]] = getattr(self, f"_do_{words[1]}")
            return work(words[2:])
        finally:
            self.run_ids.pop()

    def _do_resume(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Resume(self.run_id)))

    def _do_dead(self, words: list[str]) -> list[str]:
        assert words[0] == "retry"
        return _said(self.engine.commit(c.Resume(self.run_id, words[1:] or None, only_dead=True)))

    def _do_signal(self, words: list[str]) -> list[str]:
        """`signal NAME JSON`, or `signal NAME reject REASON`."""
        data, rejected = (
            (None, " ".join(words[2:])) if words[1:2] == ["reject"] else (" ".join(words[1:]) or None, None)
        )
        return _said(self.engine.commit(c.Signal(self.run_id, words[0], data, rejected)))

    def _do_context(self, words: list[str]) -> list[str]:
        """`context SESSION TASK key=value`: it succeeds and sets a key of the run's context."""
        report = self._report(words[0], words[1], "ok")
        pairs = [word.split("=", 1) for word in words[2:]]
        report.context = {key: msgspec.json.decode(value) if value[:1] in "[{" else value for key, value in pairs}
        report.result = msgspec.json.encode({"context": report.context}).decode()
        report.result_hash = hashlib.sha256(report.result.encode()).hexdigest()[:32]
        out = self._exchange(words[0], [report], 100)
        values = self.engine.store.context_of(self.engine.run_no(self.run_id))
        return [*out, f"context: {values}"]

    def _do_keep(self, words: list[str]) -> list[str]:
        report = self._report(words[0], words[1], "ok")
        report.result, report.result_hash = f'{{"output":"of {words[1]}"}}', f"hash of {words[1]}"
        report.keep = (words[2], parse_duration_ms(words[4]) if words[3:4] == ["ttl"] else None)
        return self._exchange(words[0], [report], 100)

    def _do_cached(self, words: list[str]) -> list[str]:
        found = self.engine.store.cached([words[2]])
        if not found:
            return ["nothing is kept"]
        return self._exchange(words[0], [report_cached(self.claims[(words[0], words[1])], found[0])], 100)

    def _do_once(self, words: list[str]) -> list[str]:
        claim = self.claims[(words[0], words[1])]
        command = c.Once(words[0], claim.task_id, claim.attempt, words[2], take_over=words[3:4] != ["raise"])
        if words[3:4] == ["done"]:
            command.ending, command.value, command.hash = "completed", words[4], f"hash of {words[4]}"
        elif words[3:4] == ["failed"]:
            command.ending, command.value = "failed", msgspec.json.encode(words[4]).decode()
        reply = self.engine.commit(command)
        return [reply.status + (f": {reply.value}" if reply.value is not None else "")]

    def _do_records(self, words: list[str]) -> list[str]:
        rows = self.engine.store.reader().execute(
            "SELECT key, kind, status, value, run, task, attempt, expires_at FROM memos ORDER BY key"
        )
        return [
            f"{kind} {key} {status} by {run} {task}#{attempt}: {value}"
            + ("" if expires_at is None else f", until +{expires_at - self.engine.time_ms} ms")
            for key, kind, status, value, run, task, attempt, expires_at in rows
        ]

    def _do_step(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Advance(self.run_id, by_task=words == ["task"])))

    def _do_canonical(self, words: list[str]) -> list[str]:
        return canonical_lines(self.engine.history(self.run_id))

    def _do_tidy(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Tidy()))

    def _do_prune(self, words: list[str]) -> list[str]:
        reply = self.engine.commit(c.Prune(self.engine.time_ms + 1, cache=words == ["cache"]))
        gone = [run_id for _, run_id in reply.data["runs"]]
        self.run_ids = [run_id for run_id in self.run_ids if run_id not in gone]
        kept = [f"kept: {run_id}, for {by}" for run_id, by in reply.data["kept"]]
        return [f"gone: {', '.join(gone) or 'nothing'}" + (", more to do" if reply.more else ""), *kept]

    # -- nodes ---------------------------------------------------------------------------------------------

    def _do_node(self, words: list[str]) -> list[str]:
        given = dict(zip(words[1::2], words[2::2], strict=True))
        facts: dict[str, Any] = {name: parse_size_bytes(given[name]) for name in ("memory", "disk") if name in given}
        facts |= {name: int(given[name]) for name in ("gpus", "slots") if name in given}
        facts |= {"cpus": float(given["cpus"])} if "cpus" in given else {}
        facts |= {"kinds": given["kinds"].split(",")} if "kinds" in given else {}
        facts["labels"] = dict.fromkeys(given["label"].split(","), "") if "label" in given else {}
        facts["role"] = given.get("role", "auto")
        ttl_ms = parse_duration_ms(given.get("ttl", "30s"))
        self.engine.node(words[0], ttl_ms, gave_up=given.get("gave_up"), **facts)
        return []

    def _do_pools(self, words: list[str]) -> list[str]:
        if words:
            given = dict(zip(words[3::2], words[4::2], strict=True))
            usd, tokens = _micros(given.get("usd")), int(given["tokens"]) if "tokens" in given else None
            self.engine.commit(c.SetPool(words[1], int(words[2]), usd, tokens, "renew" in given))
        return [f"{pool.name}: {pool.used} of {pool.size}" for pool in self.engine.pools()]

    def _do_budget(self, words: list[str]) -> list[str]:
        given = dict(zip(words[::2], words[1::2], strict=True))
        if given:
            tokens = int(given["tokens"]) if "tokens" in given else None
            return _said(self.engine.commit(c.SetBudget(self.run_id, _micros(given.get("usd")), tokens)))
        out = []
        for row in self.engine.budgets():
            limit = limits_in_words(Usage(row.usd, row.tokens))
            spent = [in_words("usd", row.usd_spent), in_words("tokens", row.tokens_spent)]
            held = [in_words("usd", row.usd_reserved), in_words("tokens", row.tokens_reserved)]
            out.append(f"{row.scope}: {', '.join(spent)} of {limit or 'no limit'}; reserved {', '.join(held)}")
        return out

    def _do_spend(self, words: list[str]) -> list[str]:
        claim = self.claims[(words[0], words[1])]
        spent = (claim.task_id, claim.attempt, _micros(words[2]) or 0, int(words[3]) if words[3:] else 0)
        return self._exchange(words[0], [], 0, spent=[spent])

    def _do_place(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Place()))

    def _do_lead(self, words: list[str]) -> list[str]:
        ttl_ms = parse_duration_ms(words[2]) if words[1:2] == ["ttl"] else 30_000
        reply = self.engine.commit(c.Lead(words[0], ttl_ms))
        if reply.term is not None:
            self.led = True
            return [f"{words[0]} leads, term {reply.term}"]
        return [f"{words[0]} does not lead; {reply.leader or 'nobody'} does"]

    def _do_resign(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Resign(words[0], int(words[1]))))

    def _do_drain(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Drain(words[0], parse_duration_ms(words[1]))))

    def _do_overdue(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Overdue(_after(words, "term", 0) or self._term())))

    def _do_reconcile(self, words: list[str]) -> list[str]:
        claims = [self.claims[(words[0], name)] for name in words[1:]]
        held = [(claim.task_id, claim.attempt) for claim in claims]
        reply = self.engine.commit(c.Reconcile(words[0], self.engine.numbers[words[0]], held))
        unknown = [f"{self._named(id)}#{attempt}" for id, attempt in reply.data.get("unknown", [])]
        return [*_said(reply), *(f"not its own: {name}" for name in unknown)]

    def _term(self) -> int:
        """The current one, where the story has a leader; else that of one who does nothing but lead."""
        if self.led:
            return int(self.engine.store.reader().query("SELECT term FROM leadership")[0][0])
        return self.engine.term()

    def _do_apply(self, words: list[str]) -> list[str]:
        gone = words[1] if words else None
        kept = [one for one in self.definition.get("triggers", []) if one["name"] != gone]
        self.applied = load_value({**self.definition, "triggers": kept}, "story")
        workflow = self.applied.workflow
        document = msgspec.json.encode(self.applied.document)
        reply = self.engine.commit(c.Apply(workflow.hash, workflow.name, document, None, workflow.triggers))
        shown = [f"{how}: {_few(reply.data[how])}" for how in ("added", "changed", "removed") if reply.data[how]]
        return shown or ["nothing changed"]

    def _do_fire(self, words: list[str]) -> list[str]:
        """Until nothing is left to do, as the chore does it: one run in each transaction."""
        term = _after(words, "term", 0) or self._term()
        moments = words[1 : words.index("term")] if "term" in words else words[1:]
        times = [self.started_at + parse_duration_ms(moment) for moment in moments]
        out = []
        while True:
            row = self._trigger(words[0])
            left = [at for at in times if at > row.since_ms]
            firings = [c.Firing(str(at), f"{words[0]}-{at - self.started_at}", {"time": f"+{at}"}, at) for at in left]
            until = left[-1] if left else row.since_ms
            spare = f"queued-{len(self.run_ids) + 1}"
            reply = self._fired(c.Fire(row.id, firings, term, row.since_ms, row.cursor, until, until + 1, spare))
            out += self._said_fire(reply)
            if not reply.more:
                return out

    def _do_backfill(self, words: list[str]) -> list[str]:
        """`backfill b1 NAME 1s 2s … [parallel N] [reverse] [again]`, or `backfill b1 cancel`."""
        if words[1] == "cancel":
            said = _said(self.engine.commit(c.CancelBackfill(words[0])))
            rows = self.engine.store.reader().execute(
                "SELECT id FROM runs WHERE backfill = ? AND finished_at IS NULL ORDER BY no", (words[0],)
            )
            for (run_id,) in list(rows):
                said += _said(self.engine.commit(c.CancelRun(run_id)))
            return said
        times = sorted(
            self.started_at + parse_duration_ms(word) for word in words[2:] if word[0].isdigit() and word[-1] == "s"
        )
        self.times[words[0]] = times[::-1] if "reverse" in words else times
        return _said(
            self.engine.commit(
                c.StartBackfill(
                    words[0], self._trigger(words[1]).id, times[0], times[-1], len(times),
                    _after(words, "parallel", 1), "reverse" in words, "again" in words,
                )
            )
        )  # fmt: skip

    def _do_fill(self, words: list[str]) -> list[str]:
        """The leader's look at a backfill: `fill b1 [term N]`."""
        term = _after(words, "term", 0) or self._term()
        out: list[str] = []
        while True:
            with self.engine.store.transaction() as tx:
                row = tx.load([Backfill(words[0])])[0][0]
            left = self.times[words[0]]
            if row.cursor is not None:
                left = [at for at in left if (at < row.cursor if row.reverse else at > row.cursor)]
            firings = [
                c.Firing(backfill_cause(row.id, at, row.again), f"{row.id}-{at - self.started_at}", {"time": "+"}, at)
                for at in left
            ]
            reply = self.engine.commit(c.StepBackfill(row.id, term, row.cursor, firings, True))
            started = self.engine.store.reader().execute(
                "SELECT id FROM runs WHERE backfill = ? ORDER BY no", (row.id,)
            )
            for (run_id,) in list(started):
                if run_id not in self.engine.workflows:
                    self.engine.workflows[run_id] = self.applied.workflow
                    self.run_ids.append(run_id)
            if not reply.changed:
                return [*out, "nothing to do"]
            out.append(f"it is {reply.state}")

    def _do_backfills(self, words: list[str]) -> list[str]:
        rows = self.engine.store.reader().execute(
            "SELECT id, state, total, started, existing, failed, reason FROM backfills ORDER BY id"
        )
        return [
            f"{id} is {state}{f' because {reason}' if reason else ''}: {started} of {total} started,"
            f" {existing} had a run, {failed} could not be started"
            for id, state, total, started, existing, failed, reason in rows
        ]

    def _do_hand(self, words: list[str]) -> list[str]:
        firing = c.Firing(words[1], f"by-hand-{len(self.run_ids) + 1}", {"time": "now"})
        return self._said_fire(self._fired(c.Fire(self._trigger(words[0]).id, [firing])))

    def _fired(self, command: c.Fire) -> c.Reply:
        reply: c.Reply = self.engine.commit(command)
        if reply.run_id is not None and not reply.existing:
            self.engine.workflows[reply.run_id] = self.applied.workflow
            self.run_ids.append(reply.run_id)
        return reply

    def _said_fire(self, reply: c.Reply) -> list[str]:
        if not reply.data:
            return ["somebody has fired it already" if reply.existing else "nothing to do"]
        again = " (already)" if reply.existing else ""
        why = f": {reply.data['reason']}" if reply.data["reason"] else ""
        return [f"{reply.data['outcome']} {reply.run_id or ''}".rstrip() + again + why]

    def _trigger(self, name: str) -> TriggerRow:
        with self.engine.store.transaction() as tx:
            found: TriggerRow = tx.load([Trigger(f"{self.applied.workflow.name}/{name}")])[0][0]
            return found

    def _do_pause(self, words: list[str], paused: bool = True) -> list[str]:
        """A trigger, or without a name the run."""
        if words:
            return _said(self.engine.commit(c.PauseTrigger(self._trigger(words[0]).id, paused)))
        return _said(self.engine.commit(c.PauseRun(self.run_id, paused)))

    def _do_unpause(self, words: list[str]) -> list[str]:
        return self._do_pause(words, False)

    def _do_skip(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.DecideTasks(self.run_id, words, "skipped")))

    def _do_mark(self, words: list[str]) -> list[str]:
        """`mark load output {"rows":3}`"""
        output = words[-1] if words[-2:-1] == ["output"] else None
        tasks = words if output is None else words[:-2]
        return _said(self.engine.commit(c.DecideTasks(self.run_id, tasks, "succeeded", output)))

    def _do_late(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.ReportLate(self._term())))

    def _do_starts(self, words: list[str]) -> list[str]:
        row = self._trigger(words[0])
        times = [self.started_at + parse_duration_ms(moment) for moment in words[1:]]
        command = c.CheckStarts(self._term(), row.id, row.checked_ms, times, max(times), max(times) + 1)
        return _said(self.engine.commit(command))

    def _do_default(self, words: list[str]) -> list[str]:
        targets = [NotifyTarget(tuple(words), webhook="https://all.example")] if words else []
        return _said(self.engine.commit(c.SetNotifyDefault(targets)))

    def _do_notifications(self, words: list[str]) -> list[str]:
        out = []
        for run, event, target, facts, state, tries, next_at, error in self.engine.store.reader().execute(
            "SELECT run, event, target, facts, state, tries, next_at, error FROM notifications"
            " ORDER BY created_at, id"
        ):
            where = msgspec.json.decode(target, type=NotifyTarget)
            left = "" if next_at is None else f", next +{next_at - self.engine.time_ms} ms"
            line = f"{event} of {run or 'a trigger'} to {where.kind}: {state}, {tries} tries{left} {error or ''}"
            out.append(line.rstrip())
            if words:
                out.append(f"  {_moments(facts, self.started_at)}")
        return out

    def _do_deliver(self, words: list[str]) -> list[str]:
        """A leader takes what is due; it gets there, fails, or the leader is gone before it can say so (`lose`)."""
        term = self._term()
        found = self.engine.store.reader().execute("SELECT id FROM notifications ORDER BY created_at, id")
        ids = [id for (id,) in found]
        reply = self.engine.commit(c.BeginDelivery(term, ids, 60_000))
        out = [f"{len(reply.data['begun'])} begun"]
        for id, tries in reply.data["begun"]:
            if words != ["lose"]:
                error = words[1] if words else None
                out += _said(self.engine.commit(c.EndDelivery(id, tries, error)))
        return out

    def _do_retry(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.RetryNotifications()))

    def _do_fires(self, words: list[str]) -> list[str]:
        rows = self.engine.store.reader().execute(
            'SELECT "trigger", due_at, cause, outcome, run FROM fires ORDER BY "trigger", coalesce(due_at, 0), cause'
        )
        return [
            f"{trigger} {f'+{due_at - self.started_at} ms' if due_at else cause}: {outcome} {run or ''}".rstrip()
            for trigger, due_at, cause, outcome, run in rows
        ]

    def _do_advance(self, words: list[str]) -> list[str]:
        self.engine.time_ms += parse_duration_ms(words[0])
        return []

    def _do_renew(self, words: list[str]) -> list[str]:
        return ["renewed" if self.engine.store.renew(words[0], 30_000) else "the session is dead"]

    def _do_expire(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Expire(words[0], "lease")))

    def _do_gone(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Expire(words[0], "process")))

    def _do_leave(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.Expire(words[0], "left")))

    def _do_exchange(self, words: list[str]) -> list[str]:
        return self._exchange(words[0], [], _after(words, "want", 100))

    def _do_finish(self, words: list[str]) -> list[str]:
        want = _after(words, "want", 100)
        spent = _micros(words[words.index("spent") + 1]) if "spent" in words else None
        end = min([words.index(word) for word in ("want", "spent") if word in words], default=len(words))
        reports = [self._report(words[0], name, "ok") for name in words[1:end]]
        for report in reports:
            report.usage = None if spent is None else (spent, 0)
        return self._exchange(words[0], reports, want)

    def _do_fail(self, words: list[str]) -> list[str]:
        error = words[2] if len(words) > 2 and words[2] != "want" else "exit code 1"
        report = self._report(words[0], words[1], "failed", error)
        how = dict(zip(words[3::2], words[4::2], strict=True)) if words[2:3] != ["want"] else {}
        report.exit_code = int(how.get("code", 1))
        report.cause, report.error_type = how.get("cause"), how.get("type")
        report.stopped = how.get("stopped")
        report.retry_after_ms = int(how["after"]) if "after" in how else None
        report.usage = (_micros(how["spent"]) or 0, 0) if "spent" in how else None
        return self._exchange(words[0], [report], _after(words, "want", 100))

    def _do_report(self, words: list[str]) -> list[str]:
        pairs = [word.rpartition("=") for word in words[1:] if "=" in word]
        reports = [self._report(words[0], name, outcome) for name, _, outcome in pairs]
        return self._exchange(words[0], reports, _after(words, "want", 100))

    def _do_started(self, words: list[str]) -> list[str]:
        """Says when an attempt that lasts began: `started a x 300ms`."""
        claim = self.claims[(words[0], words[1])]
        limit = parse_duration_ms(words[4]) if words[3:4] == ["limit"] else None
        started = [(claim.task_id, claim.attempt, parse_duration_ms(words[2]), limit)]
        return self._exchange(words[0], [], 0, started)

    def _do_open(self, words: list[str]) -> list[str]:
        claim = self.claims[(words[0], words[1])]
        name = f"weft-{self.run_id}-{words[1]}-{claim.attempt}"
        command = c.OpenHandle(
            words[0], claim.task_id, claim.attempt, "container", "podman", name, adoptable=words[2:] == ["adoptable"]
        )
        reply = self.engine.commit(command)
        before = "".join(f", attempt {attempt} had it" for attempt, *_ in reply.earlier)
        return [f"{reply.status} {reply.name}".rstrip() + before]

    def _do_note(self, words: list[str]) -> list[str]:
        claim = self.claims[(words[0], words[1])]
        return self._exchange(words[0], [], 0, notes=[(claim.task_id, claim.attempt, words[2])])

    def _do_adopt(self, words: list[str]) -> list[str]:
        return self._exchange(words[0], [], 1, adopt=[self._handle(words[1])])

    def _do_removed(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.CloseHandles([self._handle(words[0])])))

    def _do_release(self, words: list[str]) -> list[str]:
        return _said(self.engine.commit(c.ReleaseTask(self.run_id, words[0], *words[1:])))

    def _handle(self, task: str) -> tuple[int, int]:
        row = self.engine.task(self.run_id, task)
        return row.id, row.attempt

    def _do_repeat(self, words: list[str]) -> list[str]:
        return self._reply(words[0], self.engine.commit(self.last[words[0]]))

    def _report(self, session: str, name: str, outcome: str, error: str | None = None) -> c.Report:
        claim = self.claims[(session, name)]
        failed = (error or "exit code 1") if outcome == "failed" else None
        return c.Report(
            claim.task_id, claim.pos, claim.idx, claim.attempt, OUTCOMES[outcome],  # type: ignore[arg-type]
            exit_code={"ok": 0, "failed": 1}.get(outcome), error=failed,
            started_ago_ms=None if outcome == "returned" else 1,
        )  # fmt: skip

    def _exchange(
        self, session: str, reports: list[c.Report], want: int, started: list[Any] | None = None, **more: Any
    ) -> list[str]:
        command = self.engine.next_exchange(
            session, reports, want, self._held(session), started=started or [],
            remote=[report.task_id for report in reports], **more,
        )  # fmt: skip
        self.last[session] = command
        return self._reply(session, self.engine.commit(command))

    def _held(self, session: str) -> list[c.Claim]:
        running = self.engine.store.reader().execute("SELECT id, attempt FROM tasks WHERE session = ?", (session,))
        current = {tuple(row) for row in running}
        return [claim for claim in self.claims.values() if (claim.task_id, claim.attempt) in current]

    def _claimed(self, claim: c.Claim) -> str:
        raised = "" if claim.memory is None else f" with {format_size(claim.memory)}"
        allowed = "" if claim.allowance is None else f" for {limits_in_words(claim.allowance)}"
        return f"{self.engine.name(claim)}#{claim.attempt}{raised}{allowed}"

    def _reply(self, session: str, reply: c.ExchangeReply) -> list[str]:
        for claim in reply.claims:
            self.claims[(session, self.engine.name(claim))] = claim
        out = []
        if reply.claims:
            out.append("claims: " + _few([self._claimed(claim) for claim in reply.claims]))
        if reply.stops:
            out.append("stops: " + _few([f"{self._named(id)}#{attempt} ({why})" for id, attempt, why in reply.stops]))
        if reply.stale:
            out.append("stale: " + ", ".join(f"{self._named(id)}#{attempt}" for id, attempt in reply.stale))
        if reply.wake_in_ms is not None:
            out.append(f"wake in {reply.wake_in_ms} ms")
        if reply.more:
            out.append("more to do")
        if reply.dead:
            out.append("the session is dead")
        if reply.draining:
            out.append(f"draining: {reply.drain_in_ms} ms left")
        return out

    # -- looking -------------------------------------------------------------------------------------------

    def _do_states(self, words: list[str]) -> list[str]:
        out = self._do_counts(words)
        for name, state in self.engine.states(self.run_id).items():
            task = self.engine.task(self.run_id, name)
            tries = f"attempt {task.attempt}" if task.attempt else ""
            state = f"held, {task.held}" if task.held else state
            out.append(f"{name:<12} {state:<11} {tries:<9} {task.reason or ''}".rstrip())
        return out

    def _do_counts(self, words: list[str]) -> list[str]:
        run = self.engine.run(self.run_id)
        states = ("succeeded", "failed", "dead_letter", "cancelled", "skipped")
        counts = ", ".join(f"{getattr(run, s)} {s}" for s in states if getattr(run, s))
        reason = f" because {run.reason}" if run.reason else ""
        return [f"{run.id} is {run.state}{reason}: {counts or 'nothing ended'}; {run.open} open"]

    def _do_attempts(self, words: list[str]) -> list[str]:
        workflow = self.engine.workflows[self.run_id]
        stem, _, index = words[0].partition(".")
        return [
            f"{words[0]}#{attempt} generation {generation} by {session}: {outcome}"
            for attempt, generation, session, outcome in self.engine.store.reader().execute(
                "SELECT a.attempt, a.generation, a.session, a.outcome FROM all_attempts a"
                " JOIN tasks t ON t.id = a.task_id WHERE t.run_no = ? AND t.pos = ? AND t.idx = ? ORDER BY a.attempt",
                (self.engine.run_no(self.run_id), workflow.position[stem], int(index) if index else -1),
            )
        ]

    def _do_why(self, words: list[str]) -> list[str]:
        answer, evidence = explain(situation(self.engine, self.run_id, words[0]))
        return [answer, *(f"- {line}" for line in evidence)]

    @property
    def run_id(self) -> str:
        return self.run_ids[-1]

    def _named(self, task_id: int) -> str:
        run_id, pos, idx = self.engine.store.reader().execute(
            "SELECT r.id, t.pos, t.idx FROM tasks t JOIN runs r ON r.no = t.run_no WHERE t.id = ?", (task_id,)
        ).get  # fmt: skip
        return self._place(run_id, pos, -1 if idx is None else idx)

    def _place(self, run_id: str, pos: int, idx: int) -> str:
        if run_id not in self.engine.workflows:
            self.engine.children(self.run_id)
        name = self.engine.workflows[run_id].tasks[pos].name
        return name if idx < 0 else f"{name}.{idx}"

    def _new_events(self) -> list[str]:
        reader = self.engine.store.reader()
        where = (
            "e.seq > ? AND (e.run_no > 0 OR e.kind IN ('leader_elected', 'leader_resigned', 'drain_started',"
            " 'workflow_applied', 'trigger_paused', 'trigger_resumed', 'fire_missed', 'fire_failed', 'token_created',"
            " 'token_revoked', 'asked', 'backfill_started', 'backfill_ended', 'trigger_late', 'notification_failed',"
            " 'notifications_retried', 'notify_default_set')) AND e.session IS DISTINCT FROM ?"
        )
        found = list(events(reader, where, (self.seen, CHIEF)))
        self.seen = found[-1].seq if found else self.seen
        if len(found) > EVENTS_MAX:
            counts = Counter(event.kind for event in found)
            return [f"{count} × {kind}" for kind, count in counts.items()]
        ids: dict[int, str] = dict(reader.execute("SELECT no, id FROM runs"))
        return [self._whose(ids.get(e.run_no)) + self._event(ids.get(e.run_no), e) for e in found]

    def _whose(self, run_id: str | None) -> str:
        return "" if run_id is None or run_id in self.run_ids else "  "  # of a run that a task started

    def _event(self, run_id: str | None, event: Event) -> str:
        _, _, pos, idx, kind, session, facts = event
        if run_id is None:
            hidden = ("hash", "cause", "notification", "notifications")
            facts = {key: value for key, value in facts.items() if key not in hidden and value}
            facts |= {key: f"+{facts[key] - self.started_at} ms" for key in ("first", "last") if key in facts}
            shown = ", ".join(f"{key}: {value}" for key, value in facts.items())
            return f"{kind:<15} {session or '-'}  {shown}"
        task = "" if pos is None else self._place(run_id, pos, -1 if idx is None else idx)
        parts = []
        for key, value in facts.items():
            if key in ("started_at", "workflow", "cause") or value is None:
                continue
            if key == "at":
                value = f"+{value - self.started_at} ms"
            if key in ("wake_at", "handlers_until"):
                key, value = {"wake_at": "wakes"}.get(key, key), f"+{value - self.engine.time_ms} ms"
            if key in ("tasks", "later", "failed") and isinstance(value, list) and event.kind != "concluded":
                names = [
                    self._place(run_id, *at) if isinstance(at, list) else self._place(run_id, at, -1) for at in value
                ]
                value = _few(names)
            parts.append(f"{key}={value}" if isinstance(value, int) else f"{key}: {value}")
        return f"{kind:<12} {task:<11} {', '.join(parts)}".rstrip()


def _said(reply: c.Reply) -> list[str]:
    words = [f"{reply.changed} changed"]
    if reply.state:
        words.append(f"it is {reply.state}")
    if reply.existing:
        words.append("nothing to do")
    if reply.more:
        words.append("more to do")
    return [", ".join(words)]


def _moments(facts: str, began: int) -> str:
    shown = {key: value for key, value in msgspec.json.decode(facts).items() if value not in (None, [])}
    shown |= {key: f"+{shown[key] - began} ms" for key in ("at", "first", "last") if key in shown}
    return ", ".join(f"{key}: {value}" for key, value in shown.items())


def _micros(usd: str | None) -> int | None:
    return None if usd is None else round(float(usd) * MICROS)


def _after(words: list[str], word: str, otherwise: int) -> int:
    return int(words[words.index(word) + 1]) if word in words else otherwise


def _few(names: list[str]) -> str:
    if len(names) <= NAMES_MAX:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} … {names[-1]} ({len(names)})"


def read_definition(text: str) -> dict[str, Any]:
    """YAML, or `chain of 3000`, `fan of 2500`, `gate of 2500`, which nobody wants to read."""
    words = text.split()
    if words[1:2] == ["of"]:
        extra = dict(pair.split("=") for pair in words[3:])
        tasks = _large(words[0], int(words[2]))
        if "handler" in extra:
            tasks["handler"] = {"run": "true", "when": extra.pop("handler")}
        return {"name": "large", "tasks": tasks, **extra}
    document: dict[str, Any] = load_text(text, "story").document
    return document


def read_files(text: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The definition, and the files that its tasks run: each begins with a line `file ./name.yaml`."""
    first, *others = re.split(r"^file (\S+)\n", text, flags=re.MULTILINE)
    files = zip(others[::2], others[1::2], strict=True)
    return read_definition(first), {name: load_text(body, Path(name).stem).document for name, body in files}


def _large(shape: str, count: int) -> dict[str, Any]:
    tasks: dict[str, Any] = {f"t{at}": {"run": "true"} for at in range(count)}
    for at in range(1, count):
        if shape == "chain":
            tasks[f"t{at}"]["needs"] = [f"t{at - 1}"]
        elif shape == "gate":
            tasks[f"t{at}"]["needs"] = ["t0"]
    if shape == "gate":  # and one that goes its own way
        tasks["own"] = {"run": "true", "retry": {"max": 1, "backoff": "1s", "jitter": 0}}
    return tasks


def play(text: str, engine: Engine | None = None) -> str:
    """The whole story again, with what happens now."""
    head, definition, body = text.split("---\n", 2)
    story = Story(*read_files(definition), engine)
    out = [f"{head}---\n{definition}---"]
    for line in body.splitlines():
        if not line or line.startswith(" "):
            continue
        out.append(line)
        if line.startswith("#"):
            continue
        try:
            out += [f"  {text}" for text in story.play(line)]
        except Exception as error:
            shown = "\n".join(out)
            raise AssertionError(f"{shown}\n\nat `{line}`: {error!r}") from error
    return "\n".join(out) + "\n"
