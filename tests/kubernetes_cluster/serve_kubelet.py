"""The test kubelet in a process of its own, on a real control plane; it ends with its standard input."""

import asyncio
import os
import sys

from tests.kubernetes_cluster.kubelet import TestKubelet
from weft.executors.kubernetes.api import Api
from weft.executors.kubernetes.cluster_config import load_config


async def main() -> None:
    kubelet = TestKubelet(Api(load_config({"KUBECONFIG": os.environ["WEFT_TEST_ADMIN_KUBECONFIG"]})))
    await kubelet.open(serve=True)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await kubelet.close()


if __name__ == "__main__":
    asyncio.run(main())
