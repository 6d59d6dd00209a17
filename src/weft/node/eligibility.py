"""Which demands this node satisfies, and what it has left for them.

Each distinct demand is judged once, when the node first hears of it. What a task takes while it runs is subtracted
from the node's own totals here, task by task, so that a claim never takes more than there is. Its session's private
demand is always among them: what carries it was given to this session by name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from weft.core.commands import Claim
from weft.core.placement.demands import PLACE, SPENDS, private_demand
from weft.core.placement.eligibility import NOT_CHECKED, NodeFacts, costs, eligible, free
from weft.core.workflow import TaskDef


def requirements(definition: TaskDef, claim: Claim) -> Mapping[str, Any]:
    """What an attempt takes: what its task requires, with the memory that earlier attempts ran out of."""
    requires = definition.requires
    return requires if claim.memory is None else {**requires, "memory": claim.memory}


class Eligibility:
    def __init__(
        self, facts: NodeFacts, checked: frozenset[str] = frozenset(), slotless: frozenset[str] = frozenset()
    ) -> None:
        """`checked` are the kinds of tasks that need more than this node itself: an engine that answers, say;
        `slotless` those that take no slot."""
        not_checked = {kind: NOT_CHECKED for kind in facts.kinds if kind in checked}
        self._facts = msgspec.structs.replace(facts, down=not_checked)
        self.known = 0
        self.scored = False  # there are workflows whose tasks have to be placed
        self.demands: list[str] = [private_demand(facts.session)]
        self.slotless: list[str] = []  # those whose tasks take no slot
        self._slotless_kinds = slotless
        self.costs: dict[str, dict[str, int]] = {}  # by demand, of those that take something
        self._counted: dict[str, Mapping[str, Any]] = {}  # the `requires` of those
        self.spends = False  # some demand is of tasks that spend
        self._may_be_down = checked
        self._judged_again: list[tuple[int, str, str]] = []  # when an engine comes or goes

    def learn(self, demands: list[tuple[int, str, str]]) -> bool:
        """True if one of them can be claimed from now on."""
        found = False
        for number, demand, body in demands:
            self.known = max(self.known, number)
            if demand.startswith(PLACE):
                self.scored = True  # nobody claims what has not been placed yet
                continue
            if demand in self.demands or demand in self.slotless:
                continue
            self.spends = self.spends or SPENDS in demand
            decoded = msgspec.json.decode(body)
            if any(one["kind"] in self._may_be_down for one in decoded.get("all", (decoded,))):
                self._judged_again.append((number, demand, body))
            if eligible(decoded, self._facts):
                continue
            (self.slotless if decoded.get("kind") in self._slotless_kinds else self.demands).append(demand)
            cost = costs(decoded.get("requires", {}))
            if cost:
                self.costs[demand] = cost
                self._counted[demand] = decoded["requires"]
            found = True
        return found

    def knows(self, kind: str) -> bool:
        """There are, or were, tasks of this kind, which may be down."""
        return any(f'"kind":"{kind}"' in body for _, _, body in self._judged_again)

    def set_down(self, down: dict[str, str]) -> None:
        """By kind: why its engine cannot be used now."""
        self._facts = msgspec.structs.replace(self._facts, down=down)
        judged, self._judged_again = self._judged_again, []
        again = frozenset(demand for _, demand, _ in judged)
        self.demands = [demand for demand in self.demands if demand not in again]
        self.slotless = [demand for demand in self.slotless if demand not in again]
        for demand in again:
            self.costs.pop(demand, None)
            self._counted.pop(demand, None)
        self.learn(judged)

    def free(self, held: Iterable[Mapping[str, Any]]) -> dict[str, int]:
        """What is left beside tasks with these `requires`; nothing is counted where nobody asks for it."""
        return free(self._facts, self._counted.values(), held) if self.costs else {}
