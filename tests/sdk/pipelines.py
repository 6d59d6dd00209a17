"""Flows for the tests. They are here because a task must be at the top level of a module."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from weft import flow, shell, task, wait


@task(retries=3, timeout="10m", backoff="2s")
def extract(day: str) -> list[str]:
    """Not part of the definition."""
    return [f"{day}-a", f"{day}-b"]


@task
def transform(path: str, suffix: str = "") -> str:
    return path + suffix


@task
def load(paths: list[str]) -> int:
    return len(paths)


@task
async def fetch(url: str) -> str:
    return f"got {url}"


@task(name="tidy-up", when="always", allow_failure=True)
def clean(*, deep: bool = False) -> None:
    return None


@task
def anything(**values: Any) -> dict[str, Any]:
    return values


@task
def positional(first: int, /, *rest: int) -> int:
    return first + sum(rest)


@task
def nothing() -> None:
    return None


@flow
def nightly(day: str) -> int:
    """Loads one day.

    The rest of this text is for readers of the code.
    """
    parts = transform.map(extract(day))
    return load(parts)


@flow
def fortnight(days: list[str], first: str = "monday") -> dict[str, Any]:
    """Flows within a flow."""
    begun = nightly(first)
    return {"first": begun, "all": nightly.options(needs=[begun], max_parallel=2).map(days)}


@flow
def month(name: str = "may") -> dict[str, Any]:
    return fortnight.options(name="half", retries=1, backoff=0)([name])


class Place(TypedDict):
    lat: float


@flow(name="many-inputs", on_failure="continue", max_parallel=4, timeout="1h", env={"A": "1"})
def many_inputs(  # type: ignore[no-untyped-def]  # its last input has no type on purpose
    text: str,
    count: int,
    share: float = 1,
    flag: bool = False,
    names: list[str] = ["a"],  # noqa: B006 - a default is data here
    more: Sequence[int] = (1, 2),
    table: dict[str, int] = {},  # noqa: B006
    place: Place = {"lat": 1.5},  # noqa: B006
    size: Literal["s", "m"] = "s",
    level: Literal[1, 2, 3] = 2,
    maybe: str | None = None,
    shown: Annotated[str, "what it is for"] = "x",
    untyped=7,
) -> None:
    nothing()


@flow
def repeated(days: list[str]) -> dict[str, Any]:
    made = []
    for number in range(3):
        made.append(extract.options(retries=number)(days[number]))
    named = extract.options(name="last")(days[3])
    again = extract("2026")
    return {"all": made, "first": made[0][0], "last": named, "again": again, "fixed": [1, None, "${{ text }}"]}


@flow
def options(day: str) -> None:
    first = extract(day)
    second = transform.options(needs=[first], if_="tasks.extract.output.length > 0", priority=7)("x")
    passed = second.ok  # type: ignore[attr-defined]  # of the task, not of the text that it returns
    transform.options(needs="extract", if_=passed, name="third", env={"DAY": day}, cwd="sub")("y")
    clean.options(needs=[first, second])(deep=True)
    shell("echo ${{ inputs.day }}", name="say", shell="bash", when="none_failed")
    shell(["./bin/convert.sh", day, "--all", first[0]], retries=1)


@flow
def members(name: str, index: int) -> dict[str, Any]:
    made = anything(a=1, **{"not a name": name})
    return {
        "deep": made.rows[0]["a-b"].c,  # type: ignore[attr-defined]
        "slice": made["rows"][1:3],
        "tail": made["rows"][-2:],
        "computed": made["rows"][index],
        "quote": made["it's"],
    }


@flow
def mapped(files: list[str]) -> list[str]:
    first = transform.options(max_parallel=2, tolerate="5%")
    once = first.map(files, suffix=".x")
    twice = transform.map([once[0], "b", "${{ c }}"], "!")
    return transform.map(twice)


@flow
def approved(day: str) -> str:
    answer = wait("approve", timeout="24h", default={"by": "nobody"})
    wait(for_="10m", name="pause", needs=[answer])
    wait(until=day, name="moment")
    by: str = answer.by
    return by


@flow
def shells(who: str = "world") -> dict[str, str]:
    """Needs nothing but a shell."""
    greeted = shell('printf "text=hello %s" "$WHO" > "$WEFT_OUTPUT"', env={"WHO": who}, name="greet")
    seen = shell('echo "who=${{ tasks.greet.output.text }}" > "$WEFT_OUTPUT"', name="look")
    return {"greeting": greeted.text, "seen": seen.who}


@flow
def failing() -> None:
    shell("echo about to fail >&2; exit 3", name="bad")
    shell("echo never", needs=["bad"], name="after")


@flow
def outer_failing() -> None:
    failing()


@flow
def labelled() -> None:
    shell("true", requires={"labels": ["gpu"]})


@flow
def mixed(day: str, urls: list[str]) -> dict[str, Any]:
    fetched = fetch(urls[0])
    total = load(transform.map(extract(day), suffix="!"))
    return {"fetched": fetched, "total": total}


@task
def explode(day: str) -> None:
    raise ValueError(f"no data for {day}")


@flow
def exploding(day: str) -> None:
    explode(day)


class Refused(Exception):
    """Of a service, which may take it the next time."""


@flow
def engines(day: str) -> None:
    image = {"image": "python:3.14", "env": {"DAY": day}}
    retry = {"max": 2, "on": [Refused, TimeoutError, 75, "lost"], "not_on": ValueError}
    transform.options(container=image, retry=retry)(day)
    shell("make all", container=None)
    shell(["train", day], name="train", kubernetes={"image": "trainer:2", "env": {"DAY": day}})


@flow
def interpreters() -> None:
    transform.options(venv="envs/other")("x")
    transform.options(interpreter="/usr/bin/python3", name="again")("y")


@flow
def command_with_venv() -> None:
    shell("make", venv="x")


@flow
def files() -> None:
    built = shell("make", artifacts=["dist"])
    transform.options(files=[built], artifacts="out.csv")("x")
