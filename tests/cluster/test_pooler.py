"""A transaction pooler between the nodes and the server: no two transactions need see the same server connection."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.cluster.conftest import Cluster
from tests.conftest import Figure

PGBOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
NOBODY = 65534


@pytest.fixture
def pooled(postgres_cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """The store's URL through a pooler that has fewer server connections than there are nodes."""
    if PGBOUNCER is None:
        pytest.skip("pgbouncer is not installed")
    url = urlsplit(postgres_cluster.store)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    home = tmp_path / "pgbouncer"
    home.mkdir()
    (home / "users").write_text('"weft" ""\n')
    (home / "ini").write_text(
        f"[databases]\n* = host={url.hostname} port={url.port} user={url.username}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\nauth_file = users\npool_mode = transaction\ndefault_pool_size = 3\n"
        "logfile = log\nmax_client_conn = 200\n"
    )
    own: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses root
        for place in (home, *home.iterdir()):
            os.chown(place, NOBODY, NOBODY)
        own = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        for place in list(home.parents)[:3]:
            place.chmod(place.stat().st_mode | 0o011)
    process = subprocess.Popen([PGBOUNCER, "-q", "ini"], cwd=home, stderr=subprocess.DEVNULL, **own)
    through = f"postgresql://weft@127.0.0.1:{port}{url.path}"
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None, (home / "log").read_text()
        assert time.monotonic() < deadline, (home / "log").read_text()
        try:
            psycopg.connect(through, connect_timeout=2).close()
            break
        except psycopg.OperationalError:
            time.sleep(0.02)
    yield lambda query: through + query
    process.terminate()
    process.wait(30)


@pytest.mark.parametrize("query", ["", "?prepare=off"], ids=["prepared", "unprepared"])
def test_a_cluster_works_through_a_transaction_pooler(
    postgres_cluster: Cluster, pooled: Callable[[str], str], query: str, figure: Figure
) -> None:
    cluster = postgres_cluster
    url = pooled(query)
    cluster.workers("one two three", "--slots", "3", store=url)
    began = time.monotonic()
    (cluster.directory / "w.yaml").write_text(
        "tasks:\n"
        "  many: {replicas: 100, run: 'echo $WEFT_INDEX $WEFT_ATTEMPT >> journal'}\n"
        "  after: {needs: [many], run: 'echo after >> journal'}\n"
    )
    submitted = cluster.weft("submit", "w.yaml", store=url)
    out, _ = submitted.communicate(timeout=60)
    assert submitted.returncode == 0, cluster.story()
    run_id = out.strip()
    cluster.ended(run_id)
    took = time.monotonic() - began
    cluster.sound(run_id, 101)
    assert cluster.outcomes() == {"succeeded": 101}, cluster.story()
    for words in (("ls",), ("show", run_id), ("events", run_id), ("nodes",), ("verify", run_id)):
        looking = cluster.weft(*words, store=url)
        out, _ = looking.communicate(timeout=60)
        assert looking.returncode == 0, (words, cluster.story())
        assert out
    for process in cluster.processes.values():
        process.terminate()
    assert [process.wait(30) for process in cluster.processes.values()] == [0, 0, 0]
    deaf = (cluster.directory / "log").read_text().count("polling instead")
    assert deaf == 3, "each says so, once"
    figure(
        f"a transaction pooler between ({'prepared' if not query else 'prepare=off'})",
        f"101 tasks in {took:.1f} s over 3 server connections, 0 lost, all 3 workers say that they poll",
    )
