"""An engine in a process of its own whose containers never end: to measure what a waiting attempt costs the node.

python -m tests.executors.container.waiting_engine SOCKET
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.executors.container.fake_engine import DOCKER, Answer, fake_engine, said


def answers(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
    if path == "/version":
        return said(DOCKER)
    if path == "/info":
        return said({"ID": "waiting"})
    if path.startswith("/containers/json"):
        return said([])
    if "/attach" in path or path.startswith("/events"):
        return 200, [(3600.0, b"")]
    return said({"State": {"Status": "running"}, "Config": {"Labels": {}}})


async def main(path: str) -> None:
    async with fake_engine(Path(path), answers):
        print("ready", flush=True)
        await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
