"""A real Podman for one pytest session: its own storage and socket in a temporary directory, an image without a
registry, and everything gone afterwards. Where root and Debian allow, Podman itself is installed first."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

IMAGE = "weft-test"
_PACKAGES = ("podman", "runc", "busybox-static")
_INSTALL_S = 240
_CONF = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "none"
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
"""


class NoPodman(Exception):
    """Why the tests of containers cannot run here."""


def install() -> None:
    """Once for all pytest processes of this machine. Raises NoPodman."""
    if _installed():
        return
    if os.geteuid() != 0:
        raise NoPodman("podman, runc and busybox-static are not installed, and only root can install them")
    if shutil.which("apt-get") is None:
        raise NoPodman("podman, runc and busybox-static are not installed, and this is not Debian")
    with open(f"{tempfile.gettempdir()}/weft-test-podman.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _installed():
            return
        command = ["apt-get", "install", "-y", "--no-install-recommends", *_PACKAGES]
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (command, ["apt-get", "update"], command):
            try:
                done = subprocess.run(step, env=env, capture_output=True, timeout=_INSTALL_S, check=False)
            except subprocess.TimeoutExpired:
                raise NoPodman(f"apt-get took longer than {_INSTALL_S} s") from None
            if _installed():
                return
        raise NoPodman("apt-get could not install podman: " + done.stderr.decode(errors="replace")[-300:])


def _installed() -> bool:
    return all(shutil.which(program) for program in ("podman", "runc", "busybox"))


class Podman:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = str(directory / "p.sock")
        (directory / "containers.conf").write_text(_CONF)
        self._env = {**os.environ, "CONTAINERS_CONF": str(directory / "containers.conf")}
        self._service: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        places = {"--root": "root", "--runroot": "run", "--tmpdir": "tmp"}
        return ["podman", *(word for option, name in places.items() for word in (option, str(self.directory / name)))]

    @property
    def environment(self) -> dict[str, str]:
        return self._env

    def run(self, *words: str, timeout: float = 60) -> str:
        done = subprocess.run(
            [*self.command, *words], cwd=self.directory, env=self._env, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NoPodman(f"podman {words[0]}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def import_image(self, root: Path, name: str = IMAGE, *changes: str) -> None:
        archive = self.directory / f"{name}.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, ".")
        options = [word for change in ("ENV PATH=/bin:/usr/local/bin:/usr/bin", *changes) for word in ("-c", change)]
        self.run("import", *options, str(archive), name)
        archive.unlink()

    def serve(self) -> None:
        """In a directory of its own: conmon leaves a file `oom` where its engine was started."""
        self._service = subprocess.Popen(
            [*self.command, "system", "service", "--time", "0", f"unix://{self.socket}"],
            cwd=self.directory, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        end = time.monotonic() + 30
        while not self.answers():
            if time.monotonic() > end or self._service.poll() is not None:
                raise NoPodman("podman system service does not answer")
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(5)
                connection.connect(self.socket)
                connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: d\r\n\r\n")
                return b"200" in connection.recv(100)
        except OSError:
            return False

    def kill_service(self) -> None:
        """The process that serves the API; containers go on."""
        assert self._service is not None
        self._service.send_signal(signal.SIGKILL)
        self._service.wait()
        Path(self.socket).unlink(missing_ok=True)

    def pause_service(self, paused: bool) -> None:
        assert self._service is not None
        self._service.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def ask(self, method: str, path: str) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(self.socket)
            connection.sendall(f"{method} /v1.41{path} HTTP/1.0\r\nHost: d\r\n\r\n".encode())
            data = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = data.partition(b"\r\n\r\n")
        assert int(head.split(b" ", 2)[1]) < 400, data[:500]
        return json.loads(body) if body.strip() else None

    def containers(self) -> dict[str, dict[str, Any]]:
        """By name, those that have ended, too."""
        return {found["Names"][0].lstrip("/"): found for found in self.ask("GET", "/containers/json?all=1")}

    def inspect(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/containers/{name}/json")
        return found

    def close(self) -> None:
        try:
            if self._service is not None:
                self._service.kill()
                self._service.wait()
            self.run("rm", "-f", "-a", "-t", "0")
        finally:
            self._end_processes()
            for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
                place = line.split()[1]
                if place.startswith(f"{self.directory}/"):
                    subprocess.run(["umount", "-l", place], check=False, capture_output=True)
            shutil.rmtree(self.directory, ignore_errors=True)

    def _end_processes(self) -> None:
        """When a container ends conmon starts a cleanup process, which would mount things again. The last will of a
        node asks for an engine that is gone: it is not waited for."""
        end = time.monotonic() + 10
        while found := self._processes():
            for pid, command in found.items():
                if b"remove_all.py" in command or time.monotonic() > end:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _processes(self) -> dict[int, bytes]:
        """Those with this directory in their command, which is shown, too."""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                with suppress(OSError):  # it has ended
                    command = Path(f"/proc/{entry}/cmdline").read_bytes()
                    if os.fsencode(self.directory) in command:
                        found[int(entry)] = command
        return found


@contextmanager
def podman_session() -> Iterator[Podman]:
    """Raises NoPodman."""
    install()
    podman = Podman(Path(tempfile.mkdtemp(prefix="weft-podman-")))
    try:
        podman.import_image(busybox_root(podman.directory / "fs"))
        podman.serve()
        yield podman
    finally:
        podman.close()


def busybox_root(root: Path) -> Path:
    busybox = shutil.which("busybox")
    assert busybox is not None
    for name in ("bin", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy2(busybox, root / "bin/busybox")
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    return root
