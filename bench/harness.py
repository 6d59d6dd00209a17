"""What all measurements share: a store in a temporary directory, a node on this loop, a run from submit to end."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from weft.client.local import StoreConnection
from weft.core.commands import Submit
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read
from weft.core.workflow import Workflow
from weft.local_node.factory import make_node, node_settings
from weft.node.node import Node
from weft.operations.access import StoreAccess
from weft.operations.ids import new_id
from weft.store.protocol import Store
from weft.store.sqlite.driver import SqliteStore


class Result:
    """One figure, what it should be, and what else was measured in the same run."""

    def __init__(
        self, name: str, value: float, unit: str, goal: float | None, *, lower: bool, note: str = ""
    ) -> None:
        self.name, self.value, self.unit, self.goal, self.lower, self.note = name, value, unit, goal, lower, note

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.lower else self.value >= self.goal

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "met": self.met}


@contextlib.contextmanager
def directory() -> Any:
    """On a real disk, not in memory: fsync must cost what it costs."""
    path = Path(tempfile.mkdtemp(prefix="weft-bench-", dir=os.environ.get("WEFT_BENCH_DIR")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Bench:
    def __init__(self, connection: StoreConnection, node: Node | None) -> None:
        self.connection = connection
        self.node = node
        self._reader = connection.store.reader()

    def compile(self, tasks: dict[str, Any], **more: Any) -> tuple[Workflow, bytes]:
        reading = read({"name": "bench", "tasks": tasks, **more})
        assert not reading.problems, reading.problems[:3]
        assert reading.document is not None
        hash = document_hash(reading.document)
        return compile_workflow(reading.document, hash), encode_document(reading.document)

    def submit(self, workflow: Workflow, document: bytes) -> int:
        command = Submit(new_id(), workflow.hash, workflow.name, document, "{}")
        reply = self.connection.submit(command, workflow)
        assert reply.run_no is not None
        return reply.run_no

    async def run(self, workflow: Workflow, document: bytes, every_s: float | None = None) -> float:
        """Seconds from submit to the end of the run, both in the store."""
        started = time.perf_counter()
        run_no = self.submit(workflow, document)
        await self.finished(run_no, every_s)
        return time.perf_counter() - started

    async def finished(self, run_no: int, every_s: float | None = None) -> None:
        """`every_s`: between two looks. Each costs about 60 µs, and one over the network costs both sides more."""
        if every_s is None:
            every_s = 0.002 if self.connection.store.on_loop else 0.01
        while True:
            await asyncio.sleep(every_s)
            ((state,),) = self._reader.read("run_state", run_no)
            if state not in ("pending", "running"):
                assert state == "succeeded", state
                return


@contextlib.asynccontextmanager
async def node_on(
    path: Path, slots: int, inline: dict[str, Callable[..., Any]] | None = None, store: Store | None = None
) -> AsyncIterator[Bench]:
    connection = StoreConnection(StoreAccess(store or SqliteStore(path / "weft.db"), root=path))
    node = make_node(connection, node_settings(connection, slots=slots, workdir=path), inline=inline)
    task = asyncio.create_task(node.run())
    await node.ready()
    try:
        yield Bench(connection, node)
    finally:
        node.stop()
        node.stop()
        await task
        connection.close()


def best(values: list[float]) -> float:
    return min(values)
