"""One seeded story: runs, nodes, faults; then everything heals and must finish. The seed decides all of it."""

import asyncio
import contextlib
import logging
import random
import warnings
from typing import Any, Literal

from tests.simulation.backfills import Backfilled
from tests.simulation.engines import KIND
from tests.simulation.loop import SimulatedLoop
from tests.simulation.notices import add_deadlines, check_notices, is_quiet
from tests.simulation.oracle import expected_states
from tests.simulation.triggers import Triggered
from tests.simulation.violations import Violated, Violation, require
from tests.simulation.world import EXPIRE_S, LEADER_RENEW_S, LEADER_TTL_S, ON_LOG, TTL_S, Faults, World
from weft.authoring.children import family_of, workflows_of
from weft.authoring.load import Loaded
from weft.core import commands as c
from weft.core.definition.child_workflows import references_of
from weft.core.definition.document import encode_document
from weft.core.definition.read import read
from weft.core.rows import Pin
from weft.core.workflow import MICROS

NEVER = 99
POOLS = {"license": 1, "render": 2, "shared": 3}
ROLES: tuple[c.Role, ...] = ("auto", "auto", "auto", "leader", "worker")


def make_children(rng: random.Random, number: int) -> dict[str, dict[str, Any]]:
    """What a graph's tasks may run: by the name of the file. The first runs the second."""
    out = {}
    for depth in (1, 2):
        document = make_document(rng, number, f"d{depth}", [] if depth == 2 else ["./c2.yaml"], 5)
        document["inputs"] = {"n": {"type": "integer", "default": 1}}
        document["output"] = "${{ inputs.n }}"
        if rng.random() < 0.1:
            document["timeout"] = "1s"
        out[f"./c{depth}.yaml"] = document
    return out


def make_document(
    rng: random.Random, number: int, prefix: str = "t", children: list[str] | None = None, most: int = 14
) -> dict[str, Any]:
    """A random graph with handlers, retries, mapped tasks, limits, and tasks that run one of `children`."""
    tasks: dict[str, Any] = {}
    count = rng.randint(3, most)
    for i in range(count):
        task: dict[str, Any] = {"inline": "work"}
        earlier = list(tasks)
        if earlier and rng.random() < 0.8:
            task["needs"] = rng.sample(earlier, min(len(earlier), rng.randint(1, 3)))
        if rng.random() < 0.3:
            task["retry"] = {"max": rng.randint(1, 3), "backoff": "200ms", "multiplier": 2}
        if rng.random() < 0.3 and task.get("needs"):
            task["when"] = rng.choice(["none_failed", "any_success", "on_failure", "always"])
        elif rng.random() < 0.05 and not task.get("needs"):
            task["when"] = rng.choice(["on_failure", "always"])
        if rng.random() < 0.1:
            task["allow_failure"] = True
        if children and rng.random() < 0.15:
            task["workflow"] = rng.choice(children)
            del task["inline"]
        elif rng.random() < 0.06:
            asked = {"signal": f"{prefix}{i}", "timeout": "1s", "default": {"n": i}}
            waiting = {
                "wait": rng.choice([{"for": "200ms"}, asked]),
                **{k: v for k, v in task.items() if k in ("needs", "when")},
            }
            tasks[f"{prefix}{i}"] = waiting
            continue
        if rng.random() < 0.06:
            task["map"] = list(range(rng.randint(0, 5)))
            task["tolerate"] = rng.choice([0, 1, "50%"])
            if rng.random() < 0.5:
                task["map"] = "${{ context.list }}"
                if "workflow" in task:
                    task["with"] = {"n": "${{ item }}"}
                else:
                    task["env"] = {"ITEM": "${{ item }}", "GENERATION": "${{ run.generation }}"}
        elif rng.random() < 0.1:
            task["replicas"] = rng.randint(1, 6)
            if rng.random() < 0.5:
                task["max_parallel"] = rng.randint(1, 3)
        if rng.random() < 0.1:
            task["timeout"] = "400ms"
            if "inline" in task:
                task["grace"] = "200ms"
        if rng.random() < 0.2:
            task["priority"] = rng.randint(0, 10)
        if "inline" in task and rng.random() < 0.3:
            mapped = "map" in task or "replicas" in task
            task["cache"] = {"key": "${{ index % 2 }}" if mapped else "k"}
            if rng.random() < 0.5:
                task["cache"]["ttl"] = rng.choice(["1s", "10s"])
        if "inline" in task:
            _limit(rng, task)
        tasks[f"{prefix}{i}"] = task
    document: dict[str, Any] = {"name": f"w{number}", "tasks": tasks}
    if any(task.get("map") == "${{ context.list }}" for task in tasks.values()):
        document["context"] = {"list": [0] * rng.randint(0, 4)}
        for task in tasks.values():
            if "inline" in task and rng.random() < 0.5:
                task.setdefault("env", {})["WRITES"] = "list"
    if rng.random() < 0.1:
        document["timeout"] = rng.choice(["1s", "3s"])
    if rng.random() < 0.3:
        document["handlers_timeout"] = rng.choice(["300ms", "2s"])
    document["on_failure"] = rng.choice(["halt", "halt_now", "continue", "continue"])
    if rng.random() < 0.3:
        document["max_parallel"] = rng.randint(1, 4)
    own = random.Random(rng.random())
    if own.random() < 0.3 and not any("workflow" in task for task in tasks.values()):
        document["mode"] = "levels"
        document["on_failure"] = own.choice(["halt", "halt_now"])
        if own.random() < 0.1:
            document["max_parallel"] = 0
    elif own.random() < 0.15:
        document["ownership"] = "run"
    if "mode" in document or "ownership" in document:
        for task in tasks.values():  # its owner counts nothing task by task
            task.pop("pools", None)
            task.pop("requires", None)
    elif rng.random() < 0.2:
        document["concurrency"] = rng.randint(1, 4)
    elif rng.random() < 0.2:
        document["placement"] = "scored"
    return document


def move_to_engines(rng: random.Random, document: dict[str, Any], kind: str) -> None:
    """About half of its tasks run on engines, some of them may be adopted."""
    owned = "mode" in document or "ownership" in document
    for task in document["tasks"].values():
        if "inline" not in task or rng.random() < 0.5:
            continue
        del task["inline"]
        task.pop("cache", None)
        task |= {"container": {"image": "image"}} if kind == KIND else {"type": kind}
        if rng.random() < 0.5 and not owned:
            task["retry"] = {**task.get("retry", {}), "on_lost": "adopt"}


def move_to_agents(rng: random.Random, document: dict[str, Any]) -> None:
    """About half of its tasks spend, each within a budget of its own and of the run."""
    if any(key in document for key in ("mode", "ownership", "placement")):
        return
    most = 0.0
    for task in document["tasks"].values():
        if "inline" not in task or rng.random() < 0.4:
            continue
        del task["inline"]
        budget = rng.choice([0.5, 1, 2])
        most = max(most, budget)
        task["agent"] = {"prompt": "work", "budget": {"usd": budget}}
    if most and rng.random() < 0.8:
        document["budget"] = {"usd": most * rng.choice([1, 1.5, 3, 10])}


def _limit(rng: random.Random, task: dict[str, Any]) -> None:
    """Every node has enough for each single task, so that everything can finish."""
    if rng.random() < 0.25:
        task["pools"] = rng.sample(sorted(POOLS), rng.randint(1, 2))
    requires: dict[str, Any] = {}
    if rng.random() < 0.25:
        requires["memory"] = rng.choice([1, 2, 3]) * 2**30
    if rng.random() < 0.1:
        requires["gpu"] = 1
    if rng.random() < 0.1:
        requires["max_per_node"] = 1
    if requires:
        task["requires"] = requires


def _loaded(document: dict[str, Any]) -> Loaded:
    reading = read(document)
    assert reading.document is not None, reading.problems
    return Loaded.of(reading.document, reading.encoded, reading.references)


class Scenario:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"scenario-{seed}")
        self.loop = SimulatedLoop(seed)
        chance = self.rng.choice([0.0, 0.02, 0.1])
        faults = Faults(
            lose_request=chance, lose_reply=self.rng.choice([0.0, 0.05, 0.15]),
            delay_max=self.rng.choice([0.002, 0.05]),
            long_delay=self.rng.choice([0.0, 0.01, 0.03]), drop_wakeups=self.rng.choice([0.0, 0.5, 1.0]),
            old_reads=0.2,
        )  # fmt: skip
        self.world = World(seed, self.loop, faults, slow_clocks=seed % 4 == 3 and seed < ON_LOG)
        self.loaded: list[Loaded] = []
        self.triggered: Triggered | None = None  # in every third story
        self.backfilled: Backfilled | None = None  # in every eighth
        self.runs: list[tuple[str, str, bool]] = []  # id, workflow, undisturbed: nobody cancelled it
        #: In every fifth story tasks run on engines. It has its own randomness: the other stories stay as they were.
        self.remote = random.Random(f"remote-{seed}") if seed % 5 == 2 else None
        self.people = random.Random(f"people-{seed}") if seed % 4 == 3 else None

        self.reruns = random.Random(f"rerun-{seed}") if seed % 6 == 5 else None  # runs that take over results

        #: In every seventh story tasks spend money, with randomness of their own.
        self.spending = random.Random(f"spending-{seed}") if seed % 7 == 4 else None

    def play(self) -> World:
        """Run the story; raises AssertionError with the seed when anything is wrong."""
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # crashed nodes leave pending tasks behind
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.loop.run_until_complete(self._story())
            finally:
                self._abandon()
        return self.world

    def _abandon(self) -> None:
        self.world.nodes.clear()
        self.world.listeners.clear()
        self.loop.abandon()
        if self.world.log is not None:
            self.world.log.close()

    async def _story(self) -> None:
        world, rng = self.world, self.rng
        for name, size in POOLS.items():
            world.commit(c.SetPool(name, size))
        if self.spending is not None:
            world.commit(c.SetPool("shared", POOLS["shared"], usd=3 * MICROS))
        for number in range(rng.randint(1, 3)):
            self._submit(number)
        if self.seed % 3 == 1:
            self.triggered = Triggered(world, self.seed)
        if self.seed % 8 == 6:
            self.backfilled = Backfilled(world, self.seed)
        for k in range(3):
            world.start_node(f"n{k}", rng.randint(1, 4), rng.choice(ROLES))
        for _ in range(rng.randint(2, 12)):
            await asyncio.sleep(rng.uniform(0.05, 1.5))
            self._disturb()
            self._disturb_engines()
            self._decide()
            self._disturb_budgets()
            self._rerun()
            if self.triggered is not None:
                self.triggered.disturb()
            if self.backfilled is not None:
                self.backfilled.disturb()
        self._heal()
        await self._reclaimed()
        if self.triggered is not None:
            self.triggered.stop()
        await self._finish()
        if world.log is not None:
            world.log.check_equal()
        world.check()
        world.check_spending()
        check_notices(world)
        self._check_outcome()
        if self.triggered is not None:
            self.triggered.check()
        if self.backfilled is not None:
            self.backfilled.check()

    def _make(self, number: int) -> Loaded:
        """A definition, in every third seed with others that its tasks run."""
        files = {}
        if self.seed % 3 == 1:
            files = {name: _loaded(document) for name, document in make_children(self.rng, number).items()}
            for file in files.values():
                file.children.update({name: files[name] for name in references_of(file.workflow)})
        document = make_document(self.rng, number, children=list(files))
        add_deadlines(document, self.seed, number)
        if self.remote is not None:
            move_to_engines(self.remote, document, self.world.remote_kind)
        if self.spending is not None:
            move_to_agents(self.spending, document)
        loaded = _loaded(document)
        loaded.children.update({name: files[name] for name in references_of(loaded.workflow)})
        return loaded

    def _submit(self, number: int) -> None:
        again = number > 0 and self.rng.random() < 0.5  # the same workflow: its results may be there already
        loaded = self.loaded[-1] if again else self._make(number)
        self.loaded.append(loaded)
        for workflow in workflows_of(loaded):
            self.world.committer.know(workflow)
            for task in workflow.tasks:
                roll = self.rng.random()
                if task.name not in self.world.script:
                    self.world.script[task.name] = 0 if roll < 0.75 else self.rng.choice([1, 2, NEVER])
                    self.world.durations[task.name] = self.rng.choice([0.01, 0.1, 0.5, 1.0, 2.0])
                    if self.rng.random() < 0.2:
                        self.world.effects[task.name] = self.rng.random() < 0.3
        run_id = f"run-{self.seed}-{number}"
        document, hash = loaded.document, loaded.workflow.hash
        children, pins = family_of(loaded, "/")
        command = c.Submit(
            run_id, hash, document["name"], encode_document(document), "{}", key=f"key-{number}", source="/",
            children=children, pins=pins, fresh=self.rng.random() < 0.1,
        )  # fmt: skip
        self.world.commit(command, f"submit-{number}")
        assert self.world.commit(command, f"submit-{number}").run_id == run_id  # said again: the same reply
        self.runs.append((run_id, hash, True))

    def _disturb(self) -> None:
        world, rng = self.world, self.rng
        owners = sorted(world.nodes)
        roll = 0.3 if world.slow_clocks and rng.random() < 0.6 else rng.random()
        if roll < 0.2 and owners:
            world.crash(rng.choice(owners))
            if rng.random() < 0.7:
                world.start_node(f"n{rng.randint(0, 9)}", rng.randint(1, 4), rng.choice(ROLES))
        elif roll < 0.55 and owners:
            leading = [owner for owner in owners if world.leads(owner)]
            who = rng.choice(leading) if leading and rng.random() < 0.5 else rng.choice(owners)
            world.pause(who, rng.choice([rng.uniform(0.5, 12.0), rng.uniform(3.0, 5.0)]))
        elif roll < 0.60 and owners:
            node, _, _ = world.nodes[rng.choice(owners)]
            world.tell("a node is stopped")
            node.stop()
        elif roll < 0.68 and owners:
            node, _, _ = world.nodes[rng.choice(owners)]
            with contextlib.suppress(c.Refused):  # it has no session just now
                world.commit(c.Drain(node.session, rng.choice([0, 500, 3000])))
                world.tell(f"{node.session} is drained")
        elif roll < 0.75:
            which = rng.randrange(len(self.runs))
            run_id, hash, _ = self.runs[which]
            now = rng.random() < 0.3
            world.tell(f"{run_id} is cancelled{' now' if now else ''}")
            world.commit(c.CancelRun(run_id, now=now))
            self.runs[which] = (run_id, hash, False)
        elif roll < 0.85:
            which = rng.randrange(len(self.runs))
            run_id, hash, _ = self.runs[which]
            world.tell(f"{run_id} is resumed")
            world.commit(c.Resume(run_id))
            self.runs[which] = (run_id, hash, False)
        elif roll < 0.89:
            self._move_on()
        elif roll < 0.95:
            name = rng.choice(sorted(POOLS))
            size = rng.choice([0, 1, POOLS[name] + 2])
            world.tell(f"the pool {name} has {size} places now")
            world.commit(c.SetPool(name, size))
        else:
            rng.choice([world.away, world.full])(rng.uniform(0.5, 3 * TTL_S))

    def _disturb_engines(self) -> None:
        world, rng = self.world, self.remote
        if rng is None or rng.random() < 0.5:
            return
        engine = rng.choice(world.engines)
        roll = rng.random()
        if roll < 0.6:
            seconds = rng.uniform(0.5, 3 * TTL_S)
            world.tell(f"{engine.name} is away for {seconds:.1f} s")
            engine.away_until = self.loop.time() + seconds
        elif roll < 0.75:
            world.tell(f"{engine.name} forgets everything")
            engine.forget()
        else:
            self._release()

    def _decide(self) -> None:
        """A person pauses a run, lets it go on, or decides about a task."""
        world, rng = self.world, self.people
        if rng is None or rng.random() < 0.5:
            return
        which = rng.randrange(len(self.runs))
        run_id, hash, _ = self.runs[which]
        self.runs[which] = (run_id, hash, False)
        roll = rng.random()
        with contextlib.suppress(c.Refused):  # it has ended, or the task runs
            if roll < 0.7:
                world.tell(f"{run_id} is {'paused' if roll < 0.4 else 'unpaused'}")
                world.commit(c.PauseRun(run_id, roll < 0.4))
            else:
                task = rng.choice(world.committer.workflows[hash].tasks).name
                state: Literal["succeeded", "skipped"] = "skipped" if rng.random() < 0.5 else "succeeded"
                world.tell(f"{task} of {run_id} is {state} by hand")
                world.commit(c.DecideTasks(run_id, [task], state, "1" if state == "succeeded" else None))

    def _unpause_all(self) -> None:
        rows: list[Any] = self.world.store.reader().execute("SELECT id FROM runs WHERE paused ORDER BY no").fetchall()
        for (run_id,) in rows:
            self.world.commit(c.PauseRun(run_id, False))

    def _rerun(self) -> None:
        """A person runs a run again from a task on, whatever it is at."""
        world, rng = self.world, self.reruns
        if rng is None or rng.random() < 0.3:
            return
        source, hash, _ = rng.choice(self.runs)
        tasks = world.committer.workflows[hash].tasks
        chosen = [task.name for task in tasks if rng.random() < 0.4] or [tasks[-1].name]
        root = world.store.reader().execute("SELECT root FROM runs WHERE id = ?", (source,)).get
        pins = [Pin(*row) for row in world.store.reader().read("pins_of_root", root)]
        run_id = f"again-{self.seed}-{len(self.runs)}"
        command = c.Submit(
            run_id, hash, "again", b"", "{}", source="/", pins=pins, taken_from=source, from_tasks=chosen
        )
        with contextlib.suppress(c.Refused):  # something before those has not succeeded
            world.commit(command, f"submit-{run_id}")
            world.tell(f"{run_id} takes over from {source}, but for {', '.join(chosen)}")
            self.runs.append((run_id, hash, False))

    def _disturb_budgets(self) -> None:
        """A person changes what a run or a pool may spend."""
        rng = self.spending
        if rng is None or rng.random() < 0.6:
            return
        usd = round(rng.choice([0.2, 1, 4, 20]) * MICROS)
        if rng.random() < 0.5:
            self.world.tell(f"the pool shared may spend {usd}")
            self.world.commit(c.SetPool("shared", POOLS["shared"], usd=usd, renew=rng.random() < 0.5))
            return
        run_id, _, _ = rng.choice(self.runs)
        with contextlib.suppress(c.Refused):  # none of its tasks spends
            self.world.commit(c.SetBudget(run_id, usd))
            self.world.tell(f"{run_id} may spend {usd}")

    def _release(self) -> None:
        """A person takes the risk for an orphan."""
        orphan: list[Any] = self.world.store.reader().execute(
            "SELECT r.id, r.workflow, t.pos, t.idx FROM handles h JOIN tasks t ON t.id = h.task_id"
            " JOIN runs r ON r.no = t.run_no WHERE h.state = 'orphaned' ORDER BY t.id LIMIT 1"
        ).fetchall()  # fmt: skip
        for run_id, hash, pos, idx in orphan:
            name = self.world.committer.workflows[hash].tasks[pos].called(idx)
            self.world.tell(f"{name} of {run_id} is released")
            self.world.commit(c.ReleaseTask(run_id, name))

    def _move_on(self) -> None:
        """Somebody answers a wait, or retries a dead letter."""
        world, rng, which = self.world, self.rng, self.rng.randrange(len(self.runs))
        run_id, hash, _ = self.runs[which]
        self.runs[which] = (run_id, hash, False)
        tasks = world.committer.workflows[hash].tasks
        signals = [task.spec["signal"] for task in tasks if "signal" in task.spec]
        dead: list[Any] = world.store.reader().execute(
            "SELECT t.pos, t.idx FROM tasks t JOIN runs r ON r.no = t.run_no"
            " WHERE r.id = ? AND r.finished_at IS NOT NULL AND t.state = 'dead_letter' ORDER BY t.id", (run_id,),
        ).fetchall()  # fmt: skip
        with contextlib.suppress(c.Refused):  # it has come already, or an older generation's was chosen
            if dead:
                pos, idx = rng.choice(dead)
                world.tell(f"{tasks[pos].called(idx)} of {run_id} is retried")
                world.commit(c.Resume(run_id, [tasks[pos].called(idx)], only_dead=True))
            elif signals:
                name, rejected = rng.choice(signals), rng.choice([None, "no"])
                world.tell(f"{run_id} is signalled {name}" + (", rejected" if rejected else ""))
                world.commit(c.Signal(run_id, name, None if rejected else '{"n":1}', rejected))

    def _heal(self) -> None:
        self.world.tell("everything heals")
        self._unpause_all()
        self.world.faults = Faults(delay_max=0.002)
        self.world.away_until = self.world.full_until = float("-inf")
        for engine in self.world.engines:
            engine.away_until = float("-inf")
        self.loop.paused.clear()
        for name, size in POOLS.items():
            self.world.commit(c.SetPool(name, size))
        if self.spending is not None:
            self.world.commit(c.SetPool("shared", POOLS["shared"], usd=10**6 * MICROS, renew=True))
        self.world.start_node("fresh", 4)
        if self.remote is not None:
            self.world.start_node("fresh-too", 4)  # the one reaches the first engine, the other the second

    async def _reclaimed(self) -> None:
        """Nothing faulty any more: what a dead node held leaves it within its lease and two rounds of the leader, who
        must first be there, and may still wait for a call that was lost before."""
        dead = {self.world.sessions[owner] for owner in self.loop.dead if owner in self.world.sessions}
        await asyncio.sleep(2 * LEADER_TTL_S + LEADER_RENEW_S + TTL_S + 2 * 1.2 * EXPIRE_S + 0.1)
        for (session,) in self.world.store.reader().execute(
            "SELECT DISTINCT t.session FROM tasks t WHERE NOT EXISTS (SELECT 1 FROM handles h WHERE h.task_id = t.id"
            " AND h.state = 'orphaned' AND h.adoptable)"  # those wait for a node with room
        ):
            require(session not in dead, "reclaim", f"{session} is dead and still holds attempts")

    async def _finish(self) -> None:
        """Everything must end in bounded virtual time."""
        for _ in range(400):
            await asyncio.sleep(0.5)
            self._no_node_failed()
            open_runs = self.world.store.reader().execute(
                "SELECT count(*) FROM runs WHERE state IN ('pending', 'running')"
            ).get  # fmt: skip
            quiet = [one.quiet for one in (self.triggered, self.backfilled) if one is not None]
            if not open_runs and all(quiet) and is_quiet(self.world):
                return
        raise Violated([Violation("liveness", "runs did not finish after healing")])

    def _no_node_failed(self) -> None:
        for _, task, _ in self.world.nodes.values():
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise Violated([Violation("node failed", repr(task.exception()))]) from task.exception()

    def _check_outcome(self) -> None:
        """Undisturbed `continue` runs have exactly one possible outcome, whatever the faults were."""
        connection = self.world.store.reader()
        roots = [run_id for run_id, _, undisturbed in self.runs if undisturbed]
        found = connection.execute(
            "SELECT r.id, r.workflow, r.stop IS NULL, f.id FROM runs r JOIN runs f ON f.no = r.root ORDER BY r.no"
        )
        for run_id, hash, undisturbed, root in list(found):  # what tasks started is held to the same
            undisturbed = undisturbed and root in roots
            workflow = self.world.committer.workflows[hash]
            plain = all(not t.mapped and t.timeout_ms is None and not t.spends for t in workflow.tasks)
            lost = connection.execute(
                "SELECT count(*) FROM tasks t JOIN runs r ON r.no = t.run_no WHERE r.id = ? AND (t.lost > 5)",
                (run_id,),
            ).get
            if not undisturbed or workflow.on_failure != "continue" or not plain or lost:
                continue
            want = expected_states(workflow, self._failures(run_id, workflow))
            rows = connection.execute(
                "SELECT t.pos, t.state FROM tasks t JOIN runs r ON r.no = t.run_no WHERE r.id = ?", (run_id,)
            )
            have = {workflow.tasks[pos].name: state for pos, state in rows}
            require(have == want, "outcome", f"{run_id}: {have} instead of {want}")

    def _failures(self, run_id: str, workflow: Any) -> dict[str, int]:
        """How many scripted failures a task really met: lost and returned attempts use up attempt numbers too."""
        out = {}
        for task in workflow.tasks:
            failed = self.world.store.reader().execute(
                "SELECT count(*) FROM all_attempts a JOIN tasks t ON t.id = a.task_id JOIN runs r ON r.no = t.run_no"
                " WHERE r.id = ? AND t.pos = ? AND a.outcome = 'failed'", (run_id, workflow.position[task.name]),
            ).get  # fmt: skip
            out[task.name] = failed
        return out


def play(seed: int) -> World:
    scenario = Scenario(seed)
    try:
        return scenario.play()
    except Exception as error:
        story = "\n".join(scenario.world.story[-60:])
        first = scenario.world.violations or (error.violations if isinstance(error, Violated) else ())
        raise Violated(first, f"seed {seed} failed: {error}\n\nthe story:\n{story}") from error
