"""`make test-kubernetes`: starts a real control plane, and runs the executor's tests and those of deploy/kubernetes
on it. Where Go (to build Kubernetes, once) or etcd are missing it says so and ends well."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.kubernetes_cluster.control_plane import CannotRun, ControlPlane
from tests.kubernetes_cluster.manifests import apply, create_account

TESTS = ["tests/executors/kubernetes/test_attempts.py", "tests/executors/kubernetes/test_stops.py"]
TESTS += ["tests/kubernetes_cluster", "-k", "real"]


def main(arguments: list[str]) -> int:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weft-control-plane-") as name:
        directory = Path(name)
        try:
            with ControlPlane(directory) as plane:
                print(f"the control plane is ready after {time.monotonic() - begun:.1f} s", flush=True)
                for namespace in ("other", "weft", "weft-tasks"):
                    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                    apply(plane, body)
                create_account(plane)
                environment = {
                    **os.environ,
                    "WEFT_TEST_ADMIN_KUBECONFIG": str(plane.admin),
                    "WEFT_TEST_APISERVER_PID": str(plane.server_pid),
                    "WEFT_TEST_KUBECONFIG": str(plane.account_config("weft", "weft", directory / "weft.kubeconfig")),
                }
                command = [sys.executable, "-m", "pytest", "--durations=5", *(arguments or TESTS)]
                return subprocess.run(command, env=environment, check=False).returncode
        except CannotRun as reason:
            print(f"SKIPPED: the tests on a real Kubernetes control plane: {reason}")
            return 0


sys.exit(main(sys.argv[1:]))
