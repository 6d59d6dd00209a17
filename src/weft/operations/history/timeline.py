"""The spans of a run as a page draws them, and what made the run as long as it is."""

from typing import TYPE_CHECKING, Final

import msgspec

from weft.core.graph import critical_path
from weft.core.rows import WHOLE
from weft.core.workflow import Workflow
from weft.operations.graph.reading import LETTERS
from weft.operations.history.run_replay import HistoryEvent, RunReplay
from weft.operations.history.spans import Spans
from weft.operations.reading.runs import find_run, run_row

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

SPANS_MAX: Final = 50_000
NUMBERS_MAX: Final = 20_000


class Generation(msgspec.Struct, kw_only=True):
    generation: int
    event: int  # with which it began
    at: int


class Timeline(msgspec.Struct, kw_only=True):
    """Lists are by span, in the order in which they began: a span is an attempt of a task or of an element, or a
    mapped task from its opening to its end. Times are ms since `created_at`."""

    run: str
    workflow: str
    created_at: int
    now: int
    last_event: int
    generations: list[Generation]
    nodes: list[str]  # those that ran something
    pos: list[int]
    idx: list[int]  # -1: not an element
    attempt: list[int]
    generation: list[int]
    node: list[int]  # places in `nodes`; -1: none
    ready: list[int]
    began: list[int]
    ended: list[int]  # -1: not yet
    began_event: list[int]
    ended_event: list[int]  # 0: not yet
    states: str  # a letter for each, as `get_states` has them
    left_out: int  # spans before these
    path: list[int]  # positions: the critical path of the newest generation
    slack: list[int]  # by position, in ms; -1: it has not run


class RunHistoryInfo(msgspec.Struct, kw_only=True):
    """The numbers of a run's events, as a scrubber needs them."""

    run: str
    total: int
    every: int  # `events` has each event if this is 1, each second if it is 2 …
    events: list[int]
    generations: list[Generation]
    notable: list[HistoryEvent]  # failures, resumes and the like; the first 500


def timeline_of(access: "StoreAccess", ref: str) -> Timeline:
    no, run_id = find_run(access, ref)
    run = run_row(access, no)
    history = access.replays.of(access, run)
    workflow = access.workflow(run.workflow)
    with history.lock:
        history.advance(access)
        now = access.now()
        spans, origin = history.spans, run.created_at
        first = max(0, len(spans) - SPANS_MAX)
        nodes = list(dict.fromkeys(one for one in spans.node[first:] if one is not None))
        place: dict[str | None, int] = {name: at for at, name in enumerate(nodes)}
        path, slack = _path(workflow, history, now)
        return Timeline(
            run=run_id, workflow=run.workflow, created_at=origin, now=now,
            last_event=history.seqs[-1] if history.seqs else 0, generations=_generations(history), nodes=nodes,
            pos=spans.pos[first:].tolist(), idx=spans.idx[first:].tolist(), attempt=spans.attempt[first:].tolist(),
            generation=spans.generation[first:].tolist(), node=[place.get(one, -1) for one in spans.node[first:]],
            ready=[at - origin for at in spans.ready[first:]], began=[at - origin for at in spans.began[first:]],
            ended=[at - origin if at else -1 for at in spans.ended[first:]],
            began_event=spans.began_seq[first:].tolist(), ended_event=spans.ended_seq[first:].tolist(),
            states="".join(LETTERS[one] for one in spans.state[first:]),  # type: ignore[index]
            left_out=first, path=path, slack=slack,
        )  # fmt: skip


def _path(workflow: Workflow, history: RunReplay, now: int) -> tuple[list[int], list[int]]:
    durations, ran = _durations(history.spans, len(workflow.tasks), now)
    found = critical_path(workflow, durations)
    if found.length == 0:
        return [], []
    path = [pos for pos in found.path if ran[pos]]
    return path, [slack if ran[pos] else -1 for pos, slack in enumerate(found.slack)]


def _durations(spans: Spans, many: int, now: int) -> tuple[list[int], list[bool]]:
    """Of each task, from its first attempt's start to its last one's end in the newest generation that ran it."""
    durations, ran = [0] * many, [False] * many
    first: dict[int, tuple[int, int]] = {}  # by position: a generation, and when its first attempt began
    columns = (spans.pos, spans.idx, spans.generation, spans.began, spans.ended)
    for pos, idx, generation, began, ended in zip(*columns, strict=True):
        if idx == WHOLE and pos < many:
            if first.get(pos, (0, 0))[0] != generation:
                first[pos] = (generation, began)
            durations[pos], ran[pos] = max(0, (ended or now) - first[pos][1]), True
    return durations, ran


def _generations(history: RunReplay) -> list[Generation]:
    return [Generation(generation=one, event=seq, at=at) for one, seq, at in history.generations]


def history_of(access: "StoreAccess", ref: str) -> RunHistoryInfo:
    no, run_id = find_run(access, ref)
    history = access.replays.of(access, run_row(access, no))
    with history.lock:
        history.advance(access)
        total = len(history.seqs)
        every = max(1, -(-total // NUMBERS_MAX))
        return RunHistoryInfo(
            run=run_id, total=total, every=every, events=history.seqs[::every].tolist(),
            generations=_generations(history), notable=history.notable,
        )  # fmt: skip
