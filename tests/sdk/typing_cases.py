"""What a type checker makes of tasks and flows. Each `# E:` is an error that must be reported on its line, and
nothing else may be; `reveal_type` must say what stands in its comment. Checked by test_types.py, never run."""

from typing import reveal_type

from weft import Task, current, fake_attempt, flow, once, open, shell, task, wait


@task
def extract(day: str) -> list[str]:
    return [day]


@task(retries=3, timeout="10m")
def transform(path: str, suffix: str = "") -> str:
    return path + suffix


@task
def load(paths: list[str]) -> int:
    return len(paths)


@task
async def fetch(url: str) -> bytes:
    return url.encode()


@task(retries="3")  # E: [call-overload]
def bad_option() -> None: ...


@task(retrise=3)  # E: [call-overload]
def no_such_option() -> None: ...


@flow
def nightly(day: str, limit: int = 3) -> int:
    files = extract(day)
    reveal_type(files)  # R: list[str]
    parts = transform.map(files, suffix=".x")
    reveal_type(parts)  # R: list[str]
    reveal_type(transform.options(retries=2)(files[0]))  # R: str
    extract(3)  # E: [arg-type]
    extract(dya=day)  # E: [call-arg]
    extract()  # E: [call-arg]
    load(day)  # E: [arg-type]
    transform.map(3)  # E: [arg-type]
    transform.map(files, suffix=3)  # E: [arg-type]
    transform.map(files, sufix=".x")  # E: [call-arg]
    transform.options(timout="1m")  # E: [call-arg]
    reveal_type(fetch("u"))  # R: Any
    fetch(3)  # E: [arg-type]
    shell("make", needs=[files], retries=1)
    wait("approve", timeout="24h")
    return load(parts)


@flow(max_parallel=4)
def configured(day: str) -> str:
    return transform(day)


@flow(max_paralel=4)  # E: [call-overload]
def misspelt() -> None: ...


reveal_type(extract)  # R: Task[[day: str], list[str]]
reveal_type(nightly("d"))  # R: int
reveal_type(nightly.run(day="d", limit=1))  # R: int
reveal_type(nightly.submit("d"))  # R: str
reveal_type(configured.run("d"))  # R: str
nightly.run(3)  # E: [arg-type]
nightly.run()  # E: [call-arg]
nightly.submit(dya="d")  # E: [call-arg]
with open() as w:
    reveal_type(w.run(nightly, "d"))  # R: int
    reveal_type(w.submit(nightly, day="d"))  # R: str
    w.run(nightly, 3)  # E: [arg-type]
    reveal_type(w.finish("id", nightly))  # R: int
    reveal_type(w.output("id"))  # R: Any
plain: Task[[str], list[str]] = extract


def charge() -> dict[str, int]:
    return {}


async def send() -> str:
    return ""


async def effects() -> None:
    reveal_type(once("charge", charge))  # R: dict[str, int]
    reveal_type(await once("send", send, unknown="raise"))  # R: str
    once("charge", charge, unknown="maybe")  # E: [call-overload]
    once(3, charge)  # E: [call-overload]
    once("charge", charge())  # E: [call-overload]
    reveal_type(current().idempotency_key)  # R: str
    reveal_type(current().index)  # R: int | None
    with fake_attempt("charge", index=1) as attempt:
        reveal_type(attempt.context)  # R: dict[str, Any]


@task(cache={"key": "k", "ttl": "1d"})
def kept() -> int:
    return 1


@task(cache="1d")  # E: [call-overload]
def wrongly_kept() -> int:
    return 1
