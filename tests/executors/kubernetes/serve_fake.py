"""The fake API server with its kubelet, in a process of its own: `python -m tests.executors.kubernetes.serve_fake
DIRECTORY`. Prints the path of a kubeconfig, and ends with its standard input. The schemas are not checked here."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.executors.kubernetes import fake_api
from tests.executors.kubernetes.clusters import kubeconfig
from tests.kubernetes_cluster.kubelet import TestKubelet
from weft.executors.kubernetes.api import Api
from weft.executors.kubernetes.cluster_config import load_config


def _unchecked(document: dict[str, Any], name: str | None = None) -> list[str]:
    return []


async def main(directory: Path) -> None:
    fake = fake_api.FakeApi(problems=_unchecked)  # thousands of the same objects
    await fake.open()
    config = kubeconfig(directory / "kubeconfig", fake.port)
    fake.kubelet = TestKubelet(Api(load_config({"KUBECONFIG": str(config)})))
    await fake.kubelet.open()
    print(config, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await fake.kubelet.close()
    await fake.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
