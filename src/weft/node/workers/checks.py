"""What a server believes of what a worker says, and what not.

A worker is believed about its own machine and its own attempts. What it says may be wrong in every other respect: it
could be anybody's machine. So nothing here trusts that the other side is our own code.
"""

import hashlib
from typing import Any, Final

import msgspec

from weft.core.artifacts import FILES_KEY, KEY, kept_files, reference_of
from weft.core.commands import Exchange, Register, Report
from weft.core.placement.worker_binding import WorkerBinding
from weft.core.rows import ORDINAL_BITS
from weft.node.attempts.worker import REPORTS_MAX
from weft.node.workers.messages import Rejected, ShipCall
from weft.store.shipment import CHUNK_MAX, FILES

NAME_MAX: Final = 200
LISTED_MAX: Final = 1000  # labels, kinds, capabilities
TTL_MIN_MS, TTL_MAX_MS = 200, 600_000
CLAIMS_MAX: Final = 2000
NUMBER_MAX: Final = 1 << 53
AGE_MAX_MS: Final = 1 << 42
TEXT_MAX: Final = 64 * 1024  # characters of an error or a note
STREAMS: Final = ("stdout", "stderr", FILES)
REFUSED_KINDS: Final = ("inline",)  # functions of an application are in the application's own process


class WorkerToken(msgspec.Struct, frozen=True):
    """Who calls: the id of the token, its label, and what it is bound to."""

    id: str
    name: str
    binding: WorkerBinding = WorkerBinding()


class WorkerFacts(msgspec.Struct, omit_defaults=True):
    """What a worker may say of itself when it registers. What it says besides is left out."""

    host: str = ""
    pid: int = 0
    boot: str = ""
    slots: int = 0
    labels: dict[str, str] = {}
    kinds: list[str] = []
    slotless: list[str] = []
    capabilities: list[str] = []
    memory: int | None = None
    disk: int | None = None
    cpus: float | None = None
    gpus: int = 0
    gpu_memory: int | None = None
    functions: list[str] | None = None
    lease_ttl_ms: int = 30_000
    plugins: dict[str, dict[str, str]] = {}
    token_key: str | None = None  # with which tokens of its attempts are signed
    server: str = ""  # that it came through
    workflows: tuple[str, ...] = ()  # of its token's binding


def checked_registration(
    token: WorkerToken, command: Register, server: str, refused_kinds: tuple[str, ...] = REFUSED_KINDS
) -> Register:
    """With the role, the name and the labels that the token gives, whatever it asked for."""
    if not command.session.isalnum() and not command.session.replace("-", "").isalnum():
        raise Rejected("the session's id may have letters, digits and - only")
    check_ttl(command.ttl_ms)
    try:
        facts = msgspec.json.decode(command.body, type=WorkerFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Rejected(f"what the node says of itself cannot be read: {error}") from None
    sizes = (facts.labels, facts.kinds, facts.capabilities, facts.plugins, facts.slotless)
    if any(len(listed) > LISTED_MAX for listed in sizes) or len(command.session) > NAME_MAX:
        raise Rejected(f"the node says more of itself than {LISTED_MAX:,} labels, kinds or capabilities")
    bound = token.binding.labels
    if bound is not None:
        more = sorted(name for name, value in facts.labels.items() if bound.get(name) != value)
        if more:
            raise Rejected(
                f"the token {token.name} does not allow the label{'s' if len(more) > 1 else ''} {', '.join(more)}:"
                " leave them out, or create a token with them (weft token create --worker NAME --label …)"
            )
        facts.labels = dict(bound)
    facts.kinds = [kind for kind in facts.kinds if kind not in refused_kinds]
    facts.server, facts.workflows = server, token.binding.workflows
    return Register(
        command.session, node_name(token, command.node), command.ttl_ms, None, msgspec.json.encode(facts).decode(),
        "worker", command.gave_up, token.id,
    )  # fmt: skip


def node_name(token: WorkerToken, asked: str) -> str:
    """Tasks may be bound to a node by its name, so a worker cannot choose any: it begins with the token's."""
    name = asked[:NAME_MAX]
    return name if name == token.name or name.startswith(f"{token.name}-") else f"{token.name}-{name}"


def check_ttl(ttl_ms: int) -> None:
    if not TTL_MIN_MS <= ttl_ms <= TTL_MAX_MS:
        raise Rejected(f"a worker's lease lasts {TTL_MIN_MS / 1000:g} s to {TTL_MAX_MS / 1000:g} s (lease_ttl)")


def check_exchange(command: Exchange, run_ids: dict[int, str], result_max: int) -> None:
    """Its numbers are in their ranges, its results are what they say, and speak of nothing but their own attempts."""
    if len(command.reports) > REPORTS_MAX:
        raise Rejected(f"an exchange may have {REPORTS_MAX} reports")
    plain = [command.number, command.want, command.want_slotless, command.known_demands]
    spent = [number for one in command.spent for number in one]
    named = [number for one in (*command.started, *command.adopt) for number in one if number is not None]
    if not all(0 <= number < NUMBER_MAX for number in (*plain, *spent, *named)):
        raise Rejected("a number of the exchange is out of its range")
    if any(len(text) > TEXT_MAX for _, _, text in command.notes):
        raise Rejected("a note is too long")
    for report in command.reports:
        _check_report(report, run_ids.get(report.task_id >> ORDINAL_BITS), result_max)


def _check_report(report: Report, run_id: str | None, result_max: int) -> None:
    numbers = [report.task_id, report.attempt, report.ended_ago_ms, report.started_ago_ms, report.retry_after_ms]
    numbers += report.usage or ()
    if any(number is not None and not 0 <= number < NUMBER_MAX for number in numbers):
        raise Rejected("a number of the report is out of its range")
    report.ended_ago_ms = min(report.ended_ago_ms, AGE_MAX_MS)
    if report.started_ago_ms is not None:
        report.started_ago_ms = min(report.started_ago_ms, AGE_MAX_MS)
    for text in (report.error, report.error_type, report.stopped):
        if text is not None and len(text) > TEXT_MAX:
            raise Rejected("the error is too long")
    if report.context is not None and len(msgspec.json.encode(report.context)) > result_max:
        raise Rejected(f"the context is over result_max ({result_max:,} bytes)")
    if report.result is not None:
        _check_result(report, report.result, run_id, result_max)


def _check_result(report: Report, text: str, run_id: str | None, result_max: int) -> None:
    if len(text) > 2 * result_max + 4 * TEXT_MAX:  # with the ends of what it printed
        raise Rejected(f"the result has {len(text):,} characters: result_max is {result_max:,} bytes")
    try:
        result: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(f"the result is not JSON: {error}") from None
    if not isinstance(result, dict):
        raise Rejected("the result is no JSON object")
    if report.result_hash != hashlib.sha256(text.encode()).hexdigest()[:32]:
        raise Rejected("the result has another hash than the report says")
    if KEY in result and "output" not in result:
        reference = reference_of(text)
        if reference is None or reference.run is not None:
            raise Rejected("the result refers to an artifact that is not its own")
    if FILES_KEY in result:
        kept = kept_files(text)
        own = (run_id, report.task_id, report.attempt, "store")
        if kept is None or (kept.run, kept.task, kept.attempt, kept.place) != own:
            raise Rejected("the result refers to files that are not its own")


def check_shipment(ship: ShipCall, files_max: int) -> None:
    for chunk in ship.chunks:
        sizes = (chunk.task_id, chunk.attempt, chunk.at, *(chunk.drop or ()), chunk.size or 0)
        if chunk.stream not in STREAMS or len(chunk.data) > CHUNK_MAX:
            raise Rejected("output comes in chunks of stdout, stderr and files")
        if not all(0 <= number < 1 << 63 for number in sizes):
            raise Rejected("a number of the chunk is out of its range")
        if chunk.stream == FILES and chunk.at + len(chunk.data) > files_max:
            raise Rejected(f"the files of an attempt may have files_max ({files_max:,} bytes) on the server")
