"""Which runs a list shows: the filters of `weft ls`, of the API and of the MCP tool."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

CLOCK_SLACK_MS: Final = 60_000  # runs are numbered as they come; their times may be out of order by no more than this
_FOLD: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class RunFilter(msgspec.Struct, kw_only=True):
    """`labels` and `inputs` are texts `k=v`, all of which a run must have; `text` is looked for in what names it."""

    states: list[Any] | None = None
    name: str | None = None
    labels: list[str] | None = None
    inputs: list[str] | None = None
    trigger: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    late: bool = False
    children: bool = False
    backfill: str | None = None

    @property
    def given(self) -> bool:
        """It leaves runs out."""
        others = [name for name in self.__struct_fields__ if name not in ("late", "children")]
        return self.late or any(getattr(self, name) is not None for name in others)


def page_of_runs(access: "StoreAccess", wanted: RunFilter, before: int, limit: int) -> list[Any]:
    """Rows of `run_view`, newest first, of runs whose number is below `before`."""
    states = None if wanted.states is None else msgspec.json.encode(wanted.states).decode()
    shared = (states, wanted.name, limit, wanted.children)
    others = (wanted.labels, wanted.inputs, wanted.trigger, wanted.since, wanted.until, wanted.text, wanted.backfill)
    if not wanted.late and all(other is None for other in others):
        return access.read("runs_page", before, *shared)
    first = 0 if wanted.since is None else _first_after(access, wanted.since - CLOCK_SLACK_MS)
    if wanted.until is not None:
        before = min(before, _first_after(access, wanted.until + CLOCK_SLACK_MS))
    text = None if wanted.text is None else wanted.text.translate(_FOLD)
    return access.read(
        "runs_found", before, *shared, first, wanted.since, wanted.until, wanted.trigger, _pairs(wanted.labels),
        _pairs(wanted.inputs), text, wanted.backfill, wanted.late,
    )  # fmt: skip


def counts_of_runs(
    access: "StoreAccess", since: int, until: int, bucket: int, name: str | None, trigger: str | None, children: bool
) -> list[tuple[int, str, int]]:
    """(beginning of a bucket, state, how many runs were submitted in it), where there are some."""
    first = _first_after(access, since - CLOCK_SLACK_MS)
    rows = access.read("runs_counted", first, since, until, bucket, name, trigger, children)
    return [(int(nth) * bucket, str(state), int(many)) for nth, state, many in rows]


def _pairs(given: list[str] | None) -> str | None:
    if not given:
        return None
    return msgspec.json.encode({name: value for name, _, value in (word.partition("=") for word in given)}).decode()


def _first_after(access: "StoreAccess", moment: int) -> int:
    """The number of the first run that was submitted at or after this moment, found by halving: an index by time
    would cost every submission, and this costs a look for each doubling of the runs."""
    newest = access.read("run_newest")
    low, high = 0, int(newest[0][0]) + 1 if newest else 0
    while low < high:
        middle = (low + high) // 2
        no, created_at = access.read("run_from", middle)[0]
        if created_at >= moment:
            high = middle
        else:
            low = int(no) + 1
    return low
