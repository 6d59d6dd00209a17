"""Which demands this node satisfies. Each distinct demand is judged once, when the node first hears of it."""

import msgspec

from weft.core.placement import NodeFacts, eligible


class Eligibility:
    def __init__(
        self, kinds: frozenset[str], labels: dict[str, str], functions: tuple[str, ...] | None = None
    ) -> None:
        self._facts = NodeFacts(kinds=tuple(sorted(kinds)), labels=labels, functions=functions)
        self.known = 0
        self.demands: list[str] = []

    def learn(self, demands: list[tuple[int, str, str]]) -> bool:
        """True if one of them can be claimed from now on."""
        found = False
        for number, demand, body in demands:
            self.known = max(self.known, number)
            if demand not in self.demands and not eligible(msgspec.json.decode(body), self._facts):
                self.demands.append(demand)
                found = True
        return found
