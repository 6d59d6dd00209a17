"""What templates see: the ends of earlier tasks, fetched once per run and generation, kept within bounds.

Ended tasks no longer change within a generation, so what was fetched stays true.
"""

from collections import OrderedDict
from typing import Any

from weft.core.commands import Claim
from weft.core.names import Ended, names_for, tasks_view, with_item
from weft.core.workflow import Workflow
from weft.node.ports import Link, RunFacts

BYTES_MAX = 64 * 2**20


class Values:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._ends: OrderedDict[tuple[int, int, int], list[Ended]] = OrderedDict()  # run, generation, position
        self._bytes = 0

    async def names(self, claim: Claim, facts: RunFacts, workflow: Workflow) -> dict[str, Any]:
        """The names for one attempt's templates."""
        definition = workflow.tasks[claim.pos]
        element = claim.idx >= 0
        reads = definition.template_reads
        if element and definition.map_reads:
            reads = tuple(dict.fromkeys((*reads, *definition.map_reads)))
        missing = [p for p in reads if (claim.run_no, claim.generation, p) not in self._ends]
        if missing:
            await self._fetch(claim, missing)
        ends: list[Ended] = []
        for pos in reads:
            ends += self._ends[(claim.run_no, claim.generation, pos)]
        names = names_for(
            inputs=facts.inputs,
            tasks=tasks_view(ends, workflow, long_form=definition.long_form),
            run={"id": facts.id, "name": facts.name, "generation": claim.generation},
            context=await self._link.context(claim.run_no) if definition.reads_context else {},
        )
        return with_item(names, definition, claim.idx) if element else names

    async def _fetch(self, claim: Claim, positions: list[int]) -> None:
        found: dict[int, dict[int, Ended]] = {pos: {} for pos in positions}
        for ended in await self._link.ends(claim.run_no, positions):
            found[ended.pos][ended.idx] = ended  # rows come oldest generation first: the newest wins
        while self._ends and self._bytes > BYTES_MAX:
            _, dropped = self._ends.popitem(last=False)
            self._bytes -= sum(len(e.result or "") for e in dropped)
        for pos, by_index in found.items():
            ends = [by_index[idx] for idx in sorted(by_index)]
            self._ends[(claim.run_no, claim.generation, pos)] = ends
            self._bytes += sum(len(e.result or "") for e in ends)
