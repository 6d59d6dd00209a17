"""Real etcd members on loopback, started here in a temporary directory. They die with this process."""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.postgres_server import _die_with_us, _free_port
from weft.store.etcd.log import EtcdLog, LogSilent
from weft.store.etcd.url import EtcdUrl

PROGRAM = shutil.which("etcd")
MISSING = "etcd is not installed: apt-get install etcd-server"


class EtcdCluster:
    """`settings` are more flags of each member, `query` what its clients' addresses end with. `hosts` are where
    members listen, if not on loopback, and `within` the words that start a member elsewhere, by its number."""

    def __init__(
        self,
        members: int = 3,
        settings: tuple[str, ...] = (),
        query: str = "",
        hosts: tuple[str, ...] = (),
        within: dict[int, list[str]] | None = None,
    ) -> None:
        assert PROGRAM is not None, MISSING
        self.directory = Path(tempfile.mkdtemp(prefix="weft-etcd-"))
        self._settings = settings
        self._query = query
        self._hosts = hosts or ("127.0.0.1",) * members
        self._within = within or {}
        self.ports = [_free_port() for _ in range(members)]
        self.peers = [_free_port() for _ in range(members)]
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * members
        for index in range(members):
            self.start(index)
        self.wait()

    def start(self, index: int) -> None:
        scheme = "https" if self._query else "http"
        host = self._hosts[index]
        client, peer = f"{scheme}://{host}:{self.ports[index]}", f"http://{host}:{self.peers[index]}"
        everyone = ",".join(f"m{at}=http://{self._hosts[at]}:{port}" for at, port in enumerate(self.peers))
        words = [
            *self._within.get(index, ()), str(PROGRAM),
            "--name", f"m{index}", "--data-dir", str(self.directory / str(index)),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", everyone, "--initial-cluster-state", "new",
            "--logger", "zap", "--log-level", "error",
            *self._settings,
        ]  # fmt: skip
        with (self.directory / f"{index}.log").open("ab") as log:
            self.processes[index] = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=_die_with_us)

    def wait(self, timeout_s: float = 30.0, member: int | None = None) -> None:
        """Until a majority takes entries, and this member is part of it."""
        url = self.url("probe")
        if member is not None:
            url = f"etcd://{self._hosts[member]}:{self.ports[member]}/probe"
        log = EtcdLog(EtcdUrl(url + self._query))
        deadline = time.monotonic() + timeout_s
        while not _answers(log):
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        log.close()

    def kill(self, index: int, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes[index]
        assert process is not None
        process.send_signal(how)
        if how in (signal.SIGKILL, signal.SIGTERM):
            process.wait(10)

    def forget(self) -> None:
        """All keys, so that a log under another prefix is alone here."""
        log = EtcdLog(EtcdUrl(self.url("all")))
        log._call("/v3/kv/deleterange", {"key": b"\0", "range_end": b"\0"}, 10.0)
        log.close()

    def url(self, prefix: str, first: int = 0) -> str:
        members = list(zip(self._hosts, self.ports, strict=True))
        return f"etcd://{','.join(f'{host}:{port}' for host, port in members[first:] + members[:first])}/{prefix}"

    def log(self) -> str:
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in sorted(self.directory.glob("*.log")))

    def close(self) -> None:
        for process in self.processes:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(10)
        shutil.rmtree(self.directory, ignore_errors=True)


def _answers(log: EtcdLog) -> bool:
    try:
        log.head()
    except LogSilent:
        return False
    return True
