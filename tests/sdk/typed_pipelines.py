"""Flows and tasks whose parameters are more than JSON: for the tests of what travels by its annotation."""

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, NewType, TypedDict

import attrs
import msgspec
import pydantic

import weft
from weft import flow, task

DAY = dt.date(2026, 1, 31)
Name = NewType("Name", str)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1


@dataclass
class Config:
    day: dt.date
    where: Path = Path("out")
    tags: set[str] = field(default_factory=set)
    below: "Config | None" = None


class Point(msgspec.Struct, rename="camel"):
    at_time: dt.datetime
    file: Path = Path("p")


class Model(pydantic.BaseModel):
    when: dt.datetime
    count: int = pydantic.Field(1, alias="howMany")


@attrs.define
class Attrs:
    length: dt.timedelta
    number: int = 1


class Row(TypedDict):
    day: dt.date


class Pair(NamedTuple):
    day: dt.date
    number: int


class Everything(msgspec.Struct):
    """All arguments of `takes`."""

    day: dt.date
    moment: dt.datetime
    clock: dt.time
    length: dt.timedelta
    color: Color
    size: Size
    config: Config
    point: Point
    model: Model
    attrs: Attrs
    row: Row
    pair: Pair
    key: uuid.UUID
    price: Decimal
    path: Path
    names: frozenset[str]
    days: list[dt.date]
    both: tuple[int, str]
    data: bytes
    by_day: dict[dt.date, float]
    maybe: dt.date | None
    either: str | Path
    named: Name
    level: Literal[1, "high"]


EVERYTHING = Everything(
    day=DAY,
    moment=dt.datetime(2026, 1, 31, 2, 30, tzinfo=dt.UTC),
    clock=dt.time(2, 30),
    length=dt.timedelta(days=1, microseconds=5),
    color=Color.BLUE,
    size=Size.SMALL,
    config=Config(DAY, tags={"b", "a"}, below=Config(DAY)),
    point=Point(dt.datetime(2026, 1, 31)),
    model=Model(when=dt.datetime(2026, 1, 31), howMany=3),
    attrs=Attrs(dt.timedelta(minutes=-5)),
    row={"day": DAY},
    pair=Pair(DAY, 2),
    key=uuid.UUID(int=7),
    price=Decimal("1.10"),
    path=Path("a/b"),
    names=frozenset({"x", "y"}),
    days=[DAY, DAY],
    both=(1, "a"),
    data=b"\x00\xff",
    by_day={DAY: 1.5},
    maybe=None,
    either="text",
    named=Name("n"),
    level="high",
)


def given() -> dict[str, Any]:
    return {name: getattr(EVERYTHING, name) for name in EVERYTHING.__struct_fields__}


def check(**values: Any) -> None:
    for name, value in given().items():
        assert values[name] == value, name
        assert type(values[name]) is type(value), name


@task
def make(day: dt.date) -> dict[str, Any]:
    assert type(day) is dt.date
    return given()


@task
def takes(
    day: dt.date,
    moment: dt.datetime,
    clock: dt.time,
    length: dt.timedelta,
    color: Color,
    size: Size,
    config: Config,
    point: Point,
    model: Model,
    attrs: Attrs,
    row: Row,
    pair: Pair,
    key: uuid.UUID,
    price: Decimal,
    path: Path,
    names: frozenset[str],
    days: list[dt.date],
    both: tuple[int, str],
    data: bytes,
    by_day: dict[dt.date, float],
    maybe: dt.date | None,
    either: str | Path,
    named: Name,
    level: Literal[1, "high"],
) -> Config:
    check(**locals())
    return config


@task(inline=True)
async def takes_inline(day: dt.date, config: Config, days: list[dt.date]) -> Config:
    assert days == [day]
    return config


@flow
def round_trip(day: dt.date = DAY, color: Color = Color.BLUE) -> Config:
    """Constants and results, of a runner and inline."""
    made: Any = make(day)
    first = takes(**given())
    second = takes(**{name: made[name] for name in given()})
    takes.options(name="mixed")(**{**given(), "day": day, "color": color, "config": second})
    taken: Config = takes_inline(day, first, [day])
    return taken


@task
def keep(day: dt.date) -> dt.date:
    assert type(day) is dt.date
    return day


@flow
def typed_inputs(
    day: dt.date,
    moment: dt.datetime = dt.datetime(2026, 1, 31),
    length: dt.timedelta = dt.timedelta(hours=1),
    color: Color = Color.RED,
    size: Size = Size.SMALL,
    config: Config = Config(DAY),  # noqa: B008 - a default is data here
    point: Point | None = None,
    model: Model | None = None,
    key: uuid.UUID | None = None,
    price: Decimal = Decimal("1.5"),
    path: str | Path = Path("x"),
    names: frozenset[str] = frozenset(),
    number: int | float = 1,
) -> dict[str, Any]:
    return {"day": keep(day), "config": config}


@task
def identify(suffix: str = "") -> dict[str, Any]:
    now = weft.current()
    weft.context_update(last=DAY)
    return {
        "run": now.run_id, "task": now.task, "attempt": now.attempt, "index": now.index, "key": now.idempotency_key,
        "paid": weft.once("pay", lambda: "paid" + suffix),
    }  # fmt: skip


@task
async def identify_async() -> str:
    return weft.current().task


@task
def wants_number(number: int) -> int:
    return number


@task
def wants_text(text: str) -> str:
    return text


@flow
def mismatched(number: int) -> str:
    return wants_text(wants_number(number))  # type: ignore[arg-type]


@flow
def identified() -> list[Any]:
    return [identify(), identify.map(["a", "b"]), identify_async()]


@flow
def lying() -> int:
    return wants_text("x")  # type: ignore[return-value]


def plain_helper(day: str) -> str:
    return f"{day}.csv"


async def plain_async(day: str) -> str:
    return day


@flow
def calls_plain(day: str) -> str:
    return wants_text(plain_helper(day))


@flow
def calls_plain_async(day: str) -> str:
    return wants_text(plain_async(day))  # type: ignore[arg-type]


@flow
def passes_plain(day: str) -> str:
    return wants_text(plain_helper)  # type: ignore[arg-type]


@flow
def maps_plain(days: list[str]) -> Any:
    return days.map(plain_helper)  # type: ignore[attr-defined]


@flow
def calls_library(day: str) -> str:
    return wants_text(dt.date.fromisoformat(day).isoformat())


@flow
def branches(number: int) -> int:
    if number > 3:
        return wants_number(number)
    return 0
