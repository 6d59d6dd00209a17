"""An auditor that knows nothing of the engine's rules: it reads the event log and the processes, and objects.

It checks what a user would be hurt by: an attempt applied twice, a result from a session that did not hold the
attempt, a start after an end, two processes of one task at the same time, more on a node than it has, an effect of
`once` that is granted again, a cached result of an attempt that ran after all, a dead letter that outages made.
"""

from collections.abc import Callable
from typing import Any

from tests.simulation.violations import Violation

_NOBODY = "nobody"  # holds a task that runs another workflow; whoever finds the end of that run tells it
LOST_MAX = 5
END_STATES = {"succeeded", "failed", "cancelled", "skipped", "dead_letter"}


class Auditor:
    def __init__(
        self, overlap_allowed: bool, when_of: Callable[[int, int], str], has: dict[str, int] | None = None
    ) -> None:
        """`when_of`: the `when` of a task, by run and position. `has`: what each node has; of anything else there is
        room for one."""
        self._when_of = when_of
        self._overlap_allowed = overlap_allowed
        self.holder: dict[tuple[int, int, int], tuple[int, str] | None] = {}
        self.attempts: dict[tuple[int, int, int], int] = {}
        self.ended: dict[tuple[int, int, int], str] = {}
        self.alive: dict[tuple[int, int, int], list[tuple[int, str]]] = {}
        self._items: dict[tuple[int, int, str], str] = {}
        self.said: dict[tuple[int, int, int, int], str] = {}  # how an attempt's process ended
        self.takes: dict[tuple[str, tuple[int, int, int], int], dict[str, int]] = {}  # by node, task, attempt
        self.has = has or {}
        self.objections: list[Violation] = []
        self.stopped_runs: dict[int, tuple[str, ...]] = {}  # the `when` of those that may still start
        self.handled = 0  # handlers that started in a run that was stopped
        self.began: set[tuple[int, int, int, int]] = set()  # attempts that had a process
        self.done: dict[tuple[tuple[int, int, int], str], str] = {}  # effects that are completed, with their value
        self.effects = 0
        self.cached = 0
        self.owners: dict[int, str] = {}
        self.draining: set[str] = set()
        self.given_up: set[str] = set()  # sessions of processes that went on, and blame the store
        self.lost: dict[tuple[int, int, int], list[str]] = {}  # sessions that a task was lost with
        self.remote: dict[tuple[int, int, int], list[str]] = {}  # what runs on engines, by name
        self.unverified = self.adopted = self.taken_over = 0
        self.released: set[tuple[int, int, int]] = set()  # people took the risk

    # -- the log -----------------------------------------------------------------------------------------

    def event(self, run_no: int, pos: int | None, idx: int | None, kind: str, session: str | None, data: Any) -> None:
        if kind == "drain_started":
            assert session is not None
            self.draining.add(session)
        if kind == "node_joined" and "gave_up" in data:
            self.given_up.add(data["gave_up"])
        if kind == "stopped":
            handlers = {"cancel": ("always",), "timeout": ("always", "on_failure")}[data["why"]]
            self.stopped_runs[run_no] = handlers if "handlers_until" in data else ()
        if kind == "resumed":
            self.stopped_runs.pop(run_no, None)
            for place in [p for p in self.ended if p[0] == run_no and p[1] in data["tasks"]]:
                del self.ended[place]
                self.lost.pop(place, None)
        if kind == "cancelled":
            for p, i in data["tasks"]:
                self._end((run_no, p, i), "cancelled")
        if kind == "voided":
            for p, i in [*data["tasks"], *data["failed"]]:
                self._end((run_no, p, i), "voided")
        if kind == "owned":
            if self.owners.get(run_no) is not None:
                text = f"run {run_no} was given to {data['session']}, {self.owners[run_no]} owns it"
                self.objections.append(Violation("owner", text))
            self.owners[run_no] = data["session"]
        if kind in ("disowned", "run_finished"):
            self.owners.pop(run_no, None)
        if pos is None or idx is None:
            return
        place = (run_no, pos, idx)
        if kind == "assigned":
            self._assigned(place, data["attempt"], session)
        elif kind == "begun":
            self._assigned(place, data["attempt"], _NOBODY)
        elif kind in ("finished", "lost", "returned"):
            self._over(place, kind, data, session)
        elif kind == "unverified":
            self.unverified += 1
        elif kind == "adopted":
            self.adopted += 1
        elif kind == "released":
            self.released.add(place)
        elif kind == "decided":  # by hand: it counts as an attempt
            self.attempts[place] = data["attempt"]
        elif kind == "skipped":
            self._end(place, "skipped")
        elif kind == "taken_over":
            self.taken_over += 1
            ends = [(idx, [data["state"], data["attempt"]]), *enumerate(data.get("elements", []))]
            for at, (state, attempt, *_) in ends:
                self.attempts[(run_no, pos, at)] = attempt
                self._end((run_no, pos, at), state)
        elif kind == "merged" and data["state"] == "succeeded":
            self._end(place, "succeeded")

    def _assigned(self, place: tuple[int, int, int], attempt: int, session: str | None) -> None:
        if session != _NOBODY and self.owners.get(place[0], session) != session:
            self._object(
                place, "owner", f"attempt {attempt} was given to {session}, {self.owners[place[0]]} owns the run"
            )
        if session in self.draining:
            self._object(place, "drained", f"attempt {attempt} was assigned to {session} after its drain")
        if place[0] in self.stopped_runs:
            self.handled += 1
            if self._when_of(place[0], place[1]) not in self.stopped_runs[place[0]]:
                self._object(place, "stopped", f"attempt {attempt} was assigned after the run was stopped")
        if place in self.ended:
            self._object(place, "ended", f"attempt {attempt} was assigned after its end ({self.ended[place]})")
        if self.holder.get(place) is not None:
            self._object(place, "holder", f"attempt {attempt} was assigned while {self.holder[place]} had not ended")
        if attempt != self.attempts.get(place, 0) + 1:
            self._object(place, "numbering", f"attempt {attempt} follows {self.attempts.get(place, 0)}")
        self.attempts[place] = attempt
        assert session is not None
        self.holder[place] = (attempt, session)

    def _over(self, place: tuple[int, int, int], kind: str, data: Any, session: str | None) -> None:
        held = self.holder.get(place)
        if held is None or held[0] != data["attempt"]:
            self._object(place, "reporter", f"{kind} of attempt {data['attempt']}, but {held} is held")
            return
        if held[1] not in (session, _NOBODY):
            self._object(
                place, "reporter", f"{kind} of attempt {held[0]} came from {session}, it was held by {held[1]}"
            )
        if kind == "finished" and "cached" in data:
            self.cached += 1
            came = data.get("end", data["state"])
            if came not in ("succeeded", "cancelled") or (*place, held[0]) in self.began:
                self._object(place, "cached", f"attempt {held[0]} ran, and is called cached: {data}")
        if kind == "finished":
            shown = self.said.get((*place, held[0]))
            accepted = "ok" if data.get("end", data["state"]) == "succeeded" else "not ok"
            too_late = data["state"] == "cancelled"  # a success in a level that had failed already
            if shown is not None and shown != accepted and not too_late:
                self._object(place, "report", f"attempt {held[0]} ended {shown}, the store says {data['state']}")
        if kind == "lost":
            self._lost(place, held[1], data)
        self.holder[place] = None
        if data["state"] in END_STATES:
            self._end(place, data["state"])

    def _lost(self, place: tuple[int, int, int], session: str, data: Any) -> None:
        lost = self.lost.setdefault(place, [])
        lost.append(session)
        counted = sum(one not in self.given_up for one in lost)
        if "dead_letter" in (data["state"], data.get("end")) and counted <= LOST_MAX:
            self._object(
                place, "dead letter", f"a dead letter after {counted} losses that were not the store's: {lost}"
            )

    def _end(self, place: tuple[int, int, int], state: str) -> None:
        if self.remote.get(place) and place not in self.released and not self._overlap_allowed:
            self._object(place, "left running", f"ended {state}, and an engine still runs {self.remote[place]}")
        if place in self.ended:
            self._object(place, "one end", f"ended {state} after {self.ended[place]}")
        self.ended[place] = state

    # -- the processes -----------------------------------------------------------------------------------

    def process_started(
        self, place: tuple[int, int, int], attempt: int, node: str, takes: dict[str, int] | None = None
    ) -> None:
        self._take(place, attempt, node, takes or {})
        others = self.alive.setdefault(place, [])
        if others and not self._overlap_allowed:
            self._object(place, "overlap", f"attempt {attempt} on {node} started beside {others}")
        others.append((attempt, node))
        self.began.add((*place, attempt))

    def _take(self, place: tuple[int, int, int], attempt: int, node: str, takes: dict[str, int]) -> None:
        self.takes[(node, place, attempt)] = takes
        for name in takes:
            used = sum(held.get(name, 0) for (holder, _, _), held in self.takes.items() if holder == node)
            if used > self.has.get(name, 1):
                self._object(
                    place, "capacity", f"attempt {attempt} takes {name} on {node} beyond what it has: {used}"
                )

    def item_seen(self, place: tuple[int, int, int], generation: str, item: str) -> None:
        """All elements of a map see the same array, whatever becomes of the context meanwhile (the simulation's
        arrays hold one value, many times)."""
        before = self._items.setdefault((place[0], place[1], generation), item)
        if before != item:
            self._object(place, "array", f"sees {item} in generation {generation}, another element saw {before}")

    def process_ended(self, place: tuple[int, int, int], attempt: int, node: str, ok: bool) -> None:
        self.said[(*place, attempt)] = "ok" if ok else "not ok"
        self.takes.pop((node, place, attempt))
        self.alive[place].remove((attempt, node))

    def remote_started(self, place: tuple[int, int, int], name: str) -> None:
        others = self.remote.setdefault(place, [])
        if others and place not in self.released and not self._overlap_allowed:
            self._object(place, "remote overlap", f"{name} started beside {others}")
        others.append(name)

    def remote_ended(self, place: tuple[int, int, int], name: str) -> None:
        self.remote[place].remove(name)

    # -- effects -----------------------------------------------------------------------------------------

    def once(self, place: tuple[int, int, int], command: Any, reply: Any) -> None:
        """A question about an effect and its answer, right after COMMIT."""
        if reply.status == "stale":
            return
        if self.holder.get(place) != (command.attempt, command.session):
            self._object(
                place, "effect holder", f"{command} was answered {reply}, but {self.holder.get(place)} holds it"
            )
        known = self.done.get((place, command.key))
        if command.ending == "completed":
            if known is not None and known != command.value:
                self._object(
                    place, "effect twice", f"effect {command.key} was completed twice: {known}, {command.value}"
                )
            self.done[place, command.key] = command.value
        elif command.ending is None and reply.status == "completed" and reply.value != known:
            self._object(place, "effect value", f"effect {command.key} gave {known}, the store says {reply.value}")
        elif command.ending is None and reply.status != "completed" and known is not None:
            self._object(place, "effect granted", f"effect {command.key} was granted after it was completed")

    def effect(self, place: tuple[int, int, int], key: str, attempt: int) -> None:
        self.effects += 1
        if (place, key) in self.done and not self._overlap_allowed:
            self._object(place, "effect again", f"effect {key} happened in attempt {attempt} after it was completed")

    def _object(self, place: tuple[int, int, int], rule: str, text: str) -> None:
        self.objections.append(Violation(rule, f"task {place}: {text}"))
