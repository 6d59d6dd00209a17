"""A real control plane on this machine: etcd, kube-apiserver, the controllers that Jobs need, and the scheduler, on
loopback, with everything that they keep in one directory. The kubelet is the tests' own."""

import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
ADMIN_TOKEN = "weft-test-admin"
CONTROLLERS = (
    "job-controller,namespace-controller,serviceaccount-controller,garbage-collector-controller,"
    "ttl-after-finished-controller,pod-garbage-collector-controller,node-lifecycle-controller"
)
_READY_S = 120.0


class CannotRun(Exception):
    """Something that a control plane needs is missing here."""


def program() -> Path:
    """The control plane's program; it is built if it is not there yet."""
    found = sorted(CACHE.glob("control-plane-*"))
    if found:
        return found[-1]
    if shutil.which("go") is None:
        raise CannotRun("there is no Go to build Kubernetes with")
    print("building Kubernetes' control plane, once: some minutes", flush=True)
    built = subprocess.run([HERE / "build.sh", str(CACHE)], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        raise CannotRun("Kubernetes' control plane could not be built; see above")
    return Path(built.stdout.strip().splitlines()[-1])


class ControlPlane:
    """`with ControlPlane(directory) as plane: …`"""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        #: The API server's process id: a test that kills it sees it started again.
        self.server_pid = directory / "apiserver.pid"
        self.admin = directory / "admin.kubeconfig"
        self._program = program()
        self._etcd = shutil.which("etcd")
        if self._etcd is None:
            raise CannotRun("there is no etcd (Debian: etcd-server)")
        if shutil.which("openssl") is None:
            raise CannotRun("there is no openssl")

    def __enter__(self) -> "ControlPlane":
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._keeper is not None:
            self._keeper.join()
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait()

    def _start(self) -> None:
        directory = self._directory
        directory.mkdir(parents=True, exist_ok=True)
        key, public = directory / "accounts.key", directory / "accounts.pub"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        (directory / "tokens.csv").write_text(f"{ADMIN_TOKEN},admin,1,system:masters\n")
        client, peer, self.port = free_port(), free_port(), free_port()
        self._run(
            "etcd", self._etcd or "", f"--data-dir={directory}/etcd", "--unsafe-no-fsync", "--log-level=error",
            *(f"--{kind}-client-urls=http://127.0.0.1:{client}" for kind in ("listen", "advertise")),
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )  # fmt: skip
        self._run(
            "apiserver", str(self._program), "apiserver", f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1", f"--secure-port={self.port}", f"--cert-dir={directory}/certificates",
            f"--token-auth-file={directory}/tokens.csv", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}", "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1", "--profiling=false",
            "--kubelet-preferred-address-types=InternalIP",
        )  # fmt: skip
        self._write_config(self.admin, ADMIN_TOKEN)
        self._until_ready()
        self._keeper = threading.Thread(target=self._keep_server)
        self._keeper.start()
        own = (f"--kubeconfig={self.admin}", "--leader-elect=false", "--bind-address=127.0.0.1")
        self._run(
            "controllers", str(self._program), "controllers", *own, f"--secure-port={free_port()}",
            f"--cert-dir={directory}/c", f"--service-account-private-key-file={key}", f"--controllers={CONTROLLERS}",
            "--kube-api-qps=200", "--kube-api-burst=200",
        )  # fmt: skip
        self._run(
            "scheduler", str(self._program), "scheduler", *own, f"--secure-port={free_port()}",
            f"--cert-dir={directory}/s", "--kube-api-qps=200", "--kube-api-burst=200",
        )  # fmt: skip

    def _keep_server(self) -> None:
        """Start the API server again whenever it ends, as a real cluster does."""
        at = 1
        while True:
            self.server_pid.write_text(str(self._processes[at].pid))
            while self._processes[at].poll() is None:
                if self._closing.wait(0.05):
                    return
            ended = self._processes[at]
            with open(self._directory / "apiserver.log", "ab") as log:
                self._processes[at] = subprocess.Popen(ended.args, stdout=log, stderr=log, cwd=self._directory)

    def _run(self, name: str, *command: str) -> None:
        with open(self._directory / f"{name}.log", "wb") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory))

    def _until_ready(self) -> None:
        end = time.monotonic() + _READY_S
        while True:
            try:
                if self.request("GET", "/readyz", raw=True) == b"ok":
                    return
            except OSError:
                pass
            dead = [process.args for process in self._processes if process.poll() is not None]
            if dead or time.monotonic() > end:
                raise CannotRun(f"the control plane does not start: see {self._directory}/*.log; ended: {dead}")
            time.sleep(0.1)

    # -- as an administrator -----------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Any = None, *, raw: bool = False, patch: bool = False) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {ADMIN_TOKEN}")
        request.add_header("Content-Type", "application/apply-patch+yaml" if patch else "application/json")
        with urllib.request.urlopen(request, context=_unverified(), timeout=30) as answer:
            content = answer.read()
        return content if raw else json.loads(content)

    def account_config(self, namespace: str, account: str, path: Path) -> Path:
        """A kubeconfig with a token of a service account."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        where = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return self._write_config(path, self.request("POST", where, body)["status"]["token"])

    def _write_config(self, path: Path, token: str) -> Path:
        """With the server's own certificate as its authority, so that it is verified as in a real cluster."""
        certificate = self._directory / "certificates" / "apiserver.crt"
        end = time.monotonic() + _READY_S
        while not certificate.exists() or b"END CERTIFICATE" not in certificate.read_bytes():
            if time.monotonic() > end or self._processes[-1].poll() is not None:
                raise CannotRun(f"the API server wrote no certificate: see {self._directory}/apiserver.log")
            time.sleep(0.05)
        authority = base64.b64encode(certificate.read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _unverified() -> ssl.SSLContext:
    """For the administrator's own requests, which begin before the server's certificate exists."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
