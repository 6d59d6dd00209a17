"""Removing finished runs: their rows, then their files."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.core import commands as c

if TYPE_CHECKING:
    from weft.control.local import LocalControl

AT_ONCE = 100


def prune(
    control: "LocalControl", finished_before: int, states: list[str] | None, cache: bool
) -> Iterator[list[str]]:
    more = True
    while more:
        reply = control._commit(c.Prune(finished_before, AT_ONCE, states, cache))
        removed = [run_id for _, run_id in reply.data["runs"]]
        for run_id in removed:
            # Rows first, files after: files without rows are only waste, rows without files would lie.
            for root in (control.output_root, control.artifact_root):
                shutil.rmtree(root / run_id, ignore_errors=True)
        yield removed
        more = reply.more
