"""What templates see: the ends of earlier tasks, fetched once per run and generation, kept within bounds.

Ended tasks no longer change within a generation, so what was fetched stays true.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

from weft.core.commands import Claim
from weft.core.expressions.elements import array_of, with_item
from weft.core.expressions.run_names import Ended, names_for, tasks_view
from weft.core.rules.names import OUTCOME
from weft.core.workflow import TaskDef, Workflow
from weft.node.attempts.artifacts import load_output
from weft.node.ports import Link, RunFacts
from weft.store.artifact_files import ArtifactStorage

BYTES_MAX = 64 * 2**20
MAPS_MAX = 8  # mapped tasks whose names are kept: an array of 10,000 is not worked out anew for each element


class _Map(NamedTuple):
    """What is kept of a mapped task for its elements."""

    names: dict[str, Any]
    array: Any
    bytes: int  # of the results that both were made from


class Values:
    def __init__(self, link: Link, artifacts: ArtifactStorage | None = None) -> None:
        self._link = link
        self._artifacts = artifacts
        self._ends: OrderedDict[tuple[int, int, int], list[Ended]] = OrderedDict()  # run, generation, position
        self._bytes = 0
        self._unread: set[tuple[int, int, int]] = set()  # of those, with artifacts that could not be read
        self._maps: OrderedDict[tuple[int, int, int], _Map] = OrderedDict()

    async def names(self, claim: Claim, facts: RunFacts, workflow: Workflow) -> dict[str, Any]:
        """The names for one attempt's templates."""
        definition = workflow.tasks[claim.pos]
        if claim.idx < 0:
            names = await self._lasting(claim, facts, workflow, definition.template_reads)
        else:
            names = await self._of_element(claim, facts, workflow)
        if definition.reads_outcome:
            outcome = await self._link.array(claim.run_no, OUTCOME, claim.generation)
            names = {**names, "run": {**names["run"], **outcome}}
        if definition.reads_context:
            context = await self._link.context(claim.run_no)
            names = {**names, "context": context, "workflow": {"context": context}}
        return names

    async def _of_element(self, claim: Claim, facts: RunFacts, workflow: Workflow) -> dict[str, Any]:
        definition = workflow.tasks[claim.pos]
        place = (claim.run_no, claim.generation, claim.pos)
        known = self._maps.get(place)
        if known is None:
            reads = tuple(dict.fromkeys((*definition.template_reads, *definition.map_reads)))
            names = await self._lasting(claim, facts, workflow, reads)
            array = await self._array(claim, names, definition)
            size = sum(_size(self._ends[(claim.run_no, claim.generation, pos)]) for pos in reads)
            known = self._maps[place] = _Map(names, array, size)
            self._drop_maps()
        return with_item(known.names, definition, claim.idx, known.array)

    def _drop_maps(self) -> None:
        """The oldest go; the last one stays, however large it is: it is about to be used for each of its elements."""
        while len(self._maps) > 1 and (
            len(self._maps) > MAPS_MAX or sum(known.bytes for known in self._maps.values()) > BYTES_MAX
        ):
            self._maps.popitem(last=False)

    async def _array(self, claim: Claim, names: dict[str, Any], definition: TaskDef) -> Any:
        """What ended stays as it was, and so does what is worked out from it; the context goes on changing."""
        if definition.map_reads_context:
            return await self._link.array(claim.run_no, claim.pos, claim.generation)
        return array_of(names, definition)

    async def _lasting(
        self, claim: Claim, facts: RunFacts, workflow: Workflow, reads: tuple[int, ...]
    ) -> dict[str, Any]:
        """All names but the context, which alone may change while a run goes on."""
        missing = [p for p in reads if (claim.run_no, claim.generation, p) not in self._ends]
        if self._unread:
            missing = [p for p in reads if p in missing or (claim.run_no, claim.generation, p) in self._unread]
        if missing:
            await self._fetch(claim, facts, missing)
        ends: list[Ended] = []
        for pos in reads:
            ends += self._ends[(claim.run_no, claim.generation, pos)]
        return names_for(
            inputs=facts.inputs,
            tasks=tasks_view(ends, workflow, long_form=workflow.tasks[claim.pos].long_form),
            run={"id": facts.id, "name": facts.name, "generation": claim.generation},
            context={},
        )

    async def _fetch(self, claim: Claim, facts: RunFacts, positions: list[int]) -> None:
        found: dict[int, dict[int, Ended]] = {pos: {} for pos in positions}
        for ended in await self._link.ends(claim.run_no, positions):
            found[ended.pos][ended.idx] = ended  # rows come oldest generation first: the newest wins
        while self._ends and self._bytes > BYTES_MAX:
            place, dropped = self._ends.popitem(last=False)
            self._unread.discard(place)
            self._bytes -= _size(dropped)
        for pos, by_index in found.items():
            place = (claim.run_no, claim.generation, pos)
            ends = [by_index[idx] for idx in sorted(by_index)]
            readable = [await load_output(self._artifacts, facts.id, ended) for ended in ends]
            self._unread.discard(place)
            if not all(readable):
                self._unread.add(place)  # asked for again when it is next needed: its directory may be back by then
            self._bytes += _size(ends) - _size(self._ends.get(place, []))
            self._ends[place] = ends


def _size(ends: list[Ended]) -> int:
    return sum(len(ended.result or "") for ended in ends)
