"""Real workers without a store behind real servers: killed, cut off, restarted."""

import re
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.cluster.conftest import LEASE_S, Cluster
from tests.cluster.test_kills import BUSY, alive, attempts_below, since
from tests.conftest import Figure
from tests.executors.remote.test_http_connection import certificate
from tests.postgres.proxy import Proxy
from tests.workers.http_proxy import HttpProxy

CHAIN = """\
tasks:
  many: {replicas: %d, run: 'echo $WEFT_INDEX; echo $WEFT_INDEX $WEFT_ATTEMPT >> %s/journal; sleep %s'}
"""


class Servers:
    """Servers of a cluster's store, and workers that know nothing but their addresses."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.token = cluster.directory / "worker-token"
        made = cluster.connection.create_token("edge", "worker")
        self.token.write_text(made.token + "\n")
        self.scheme = "http"
        self.processes: dict[int, forked.Process] = {}

    def start(self, *words: str, port: int | None = None, **env: str) -> int:
        """Its port, when it answers."""
        port = port or free_port()
        process = self.cluster.weft("serve", "--slots", "0", "--port", str(port), *words, **env)
        self.processes[port] = process
        self.cluster.until(lambda: process.poll() is not None or listens(port))
        assert process.poll() is None, self.cluster.story()
        return port

    def worker(
        self, name: str, *ports: int, slots: int = 2, words: tuple[str, ...] = (), **env: str
    ) -> forked.Process:
        urls = ",".join(f"{self.scheme}://127.0.0.1:{port}" for port in ports)
        known = ("--server", urls, "--token-file", str(self.token), "--name", name, "--slots", str(slots))
        process = self.cluster.weft("worker", *known, *words, at=name, **env)
        nodes = self.cluster.connection.nodes
        self.cluster.until(lambda: any(node.pid == process.pid for node in nodes()) or process.poll() is not None)
        assert process.poll() is None, self.cluster.story()
        return process

    def many(self, tasks: int, seconds: float) -> str:
        return self.cluster.submit(CHAIN % (tasks, self.cluster.directory, seconds))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def servers(postgres_cluster: Cluster) -> Servers:
    return Servers(postgres_cluster)


@pytest.fixture
def on_file(tmp_path: Path) -> Iterator[Servers]:
    cluster = Cluster("sqlite", tmp_path)
    yield Servers(cluster)
    cluster.close()


FILES = """\
tasks:
  make:

    run: |
      echo made it
      printf 'x%.0s' $(seq 1 5000) > out.txt
      echo '{"big": "'$(printf 'y%.0s' $(seq 1 3000))'", "rows": 7}' > $WEFT_OUTPUT
    artifacts: [out.txt]
  use:
    needs: [make]
    files: [make]
    secrets: [KEY]
    run: |
      wc -c < $WEFT_FILES/make/out.txt
      echo rows ${{ tasks.make.output.rows }} $KEY
      echo "secret is $(test -n "$KEY" && echo there)"
"""


def test_output_files_secrets_and_large_results_go_through_the_server(on_file: Servers) -> None:
    """On a store that is a file of the server's: the worker has its own directory, and nothing else in common."""
    cluster = on_file.cluster
    port = on_file.start()
    on_file.worker("one", port, KEY="hush-hush", WEFT_RESULT_MAX="1kB")
    run_id = cluster.submit(FILES)
    cluster.ended(run_id)
    run = cluster.connection.run(run_id)
    assert run.state == "succeeded", cluster.story()
    shown = cluster.connection.read_output(run_id, "use", 1, "stdout").data.decode()
    assert re.sub(r"\s+", " ", shown) == "5000 rows 7 *** secret is there "
    assert cluster.connection.read_output(run_id, "make", 1, "stdout").data == b"made it\n"
    _, opened = cluster.connection.open_file(run_id, "make", "out.txt")
    with opened:
        assert opened.read() == b"x" * 5000
    _, artifact = cluster.connection.open_artifact(run_id, "make")
    with artifact:
        assert b"yyy" in artifact.read()
    (node,) = [one for one in cluster.connection.nodes() if one.role == "worker"]
    assert (node.node, node.server) == ("edge-one", f"http://127.0.0.1:{port}")


def test_output_can_be_followed_while_it_runs_and_a_cancel_arrives(on_file: Servers) -> None:
    cluster = on_file.cluster
    port = on_file.start()
    worker = on_file.worker("one", port)
    run_id = cluster.submit("tasks: {a: 'echo first; while true; do sleep 0.1; done'}\n")
    cluster.until(lambda: cluster.connection.task(run_id, "a").attempt == 1)
    cluster.until(lambda: cluster.connection.read_output(run_id, "a", 1, "stdout").data == b"first\n")
    cluster.call("cancel", run_id)
    cluster.ended(run_id)
    assert cluster.connection.run(run_id).state == "cancelled"
    cluster.until(lambda: not attempts_below(worker.pid, "echo first"))
    assert isinstance(cluster.call("drain", "edge-one"), dict)
    cluster.until(lambda: worker.poll() is not None)
    assert worker.returncode == 0, cluster.story()


def test_over_tls(on_file: Servers) -> None:
    """A certificate that no system knows: with --ca-file, and refused without."""
    cluster = on_file.cluster
    certificate(cluster.directory)
    files = {name: str(cluster.directory / f"{name}.pem") for name in ("crt", "key")}
    port = on_file.start("--tls-cert", files["crt"], "--tls-key", files["key"])
    on_file.scheme = "https"
    on_file.worker("one", port, words=("--ca-file", files["crt"]))
    run_id = cluster.submit("tasks: {a: 'true'}\n")
    cluster.ended(run_id)
    (node,) = [one for one in cluster.connection.nodes() if one.role == "worker"]
    assert (cluster.connection.run(run_id).state, node.server) == ("succeeded", f"https://127.0.0.1:{port}")
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(("127.0.0.1", port)) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_killed_workers_tasks_run_elsewhere(servers: Servers, figure: Figure) -> None:
    cluster = servers.cluster
    port = servers.start()
    first = servers.worker("one", port)
    run_id = servers.many(12, 0.5)
    cluster.until(lambda: len(cluster.journal()) >= 2)
    servers.worker("two", port)
    running = attempts_below(first.pid, "WEFT_INDEX")
    first.send_signal(signal.SIGKILL)
    at = time.monotonic()
    cluster.until(lambda: not alive(running))
    gone = since(at)
    cluster.ended(run_id)
    cluster.sound(run_id, 12)
    assert gone <= 2.0 * BUSY
    figure("a worker over HTTP killed", f"its processes gone after {gone:.1f} s, 0 lost, 0 doubled")


CUT_OFF = """\
tasks:
  quick: |
    echo quick $WEFT_ATTEMPT >> %(at)s/journal
    test $WEFT_ATTEMPT != 1 || while ! test -e %(at)s/open; do sleep 0.05; done
  long: |
    echo long $WEFT_ATTEMPT >> %(at)s/journal
    test $WEFT_ATTEMPT != 1 || while true; do sleep 0.05; done
"""


def test_a_worker_that_is_cut_off_stops_itself(servers: Servers, figure: Figure) -> None:
    """Nothing arrives, and no connection ends. One attempt has ended, and its report is under way."""
    cluster = servers.cluster
    port = servers.start()
    proxy = Proxy("127.0.0.1", port)
    cut_off = servers.worker("one", proxy.port)
    run_id = cluster.submit(CUT_OFF % {"at": cluster.directory})
    cluster.until(lambda: cluster.journal() == {"long 1": 1, "quick 1": 1})
    cluster.until(lambda: len(cluster.connection.events(run_id, kinds=["started"])) == 2)
    session = cluster.connection.node("edge-one").session
    servers.worker("two", port)
    (long,) = attempts_below(cut_off.pid, "echo long")
    proxy.hold()
    (cluster.directory / "open").touch()
    at = time.monotonic()
    moments: dict[str, Callable[[], bool]] = {
        "killed": lambda: not alive([long]), "reclaimed": lambda: cluster.over(session),
    }  # fmt: skip
    times: dict[str, float] = {}
    while len(times) < len(moments):
        times |= {name: since(at) for name, reached in moments.items() if name not in times and reached()}
        assert since(at) < 60, cluster.story()
        time.sleep(0.02)
    cluster.ended(run_id)
    proxy.release()
    cluster.until(lambda: any(n.node == "edge-one" and n.session != session for n in cluster.connection.nodes()))
    cluster.sound(run_id, 2)
    outcomes = cluster.outcomes()
    outcomes.pop("returned", None)  # on a slow machine a claim may come too late to be trusted, and is given back
    assert outcomes == {"lost": 2, "succeeded": 2}, cluster.story()
    assert times["killed"] <= times["reclaimed"], "nobody else may have begun it while it still ran"
    assert times["killed"] < LEASE_S * BUSY
    proxy.close()
    figure(
        "a worker over HTTP cut off",
        f"its process killed after {times['killed']:.1f} s, reclaimed after {times['reclaimed']:.1f} s",
    )


def test_connections_that_are_cut_and_replies_that_are_lost(servers: Servers, figure: Figure) -> None:
    cluster = servers.cluster
    proxy = Proxy("127.0.0.1", servers.start())
    servers.worker("one", proxy.port, slots=4)
    run_id = servers.many(80, 0.05)
    lost = cut = 0
    for count in (5, 20, 35, 50, 65):
        cluster.until(lambda count=count: cluster.connection.run(run_id).succeeded >= count)  # type: ignore[misc]
        proxy.lose_reply = True
        cluster.until(lambda: not proxy.lose_reply)
        proxy.cut()
        lost, cut = lost + 1, cut + 1
    cluster.ended(run_id)
    cluster.sound(run_id, 80)
    assert cluster.outcomes() == {"succeeded": 80}, cluster.story()
    proxy.close()
    figure("workers over HTTP: lost replies", f"{lost} replies lost, {cut} times cut: 80 tasks, 80 attempts")


def test_requests_that_are_late_and_arrive_twice(servers: Servers, figure: Figure) -> None:
    """A third of all requests: exchanges, renewals, output, some of them long after they were answered."""
    cluster = servers.cluster
    proxy = HttpProxy(servers.start())
    servers.worker("one", proxy.port, slots=4, WEFT_LEASE_TTL="15s")
    run_id = servers.many(40, 0.05)
    cluster.ended(run_id)
    cluster.sound(run_id, 40)
    outcomes = cluster.outcomes()
    assert outcomes.pop("returned", 0) < 10, "claimed and not started within a second, on a busy machine"
    assert outcomes == {"succeeded": 40}, cluster.story()
    assert cluster.connection.read_output(run_id, "many.7", 1, "stdout").data == b"7\n"
    assert proxy.doubled > 5
    assert proxy.delayed > 5
    proxy.close()
    note = f"{proxy.delayed} messages late, {proxy.doubled} requests twice: 40 tasks, 40 attempts"
    figure("workers over HTTP: late and doubled messages", note)


def test_a_server_that_dies_after_commit(servers: Servers) -> None:
    """The worker asks another one for the reply: what was claimed is claimed once."""
    cluster = servers.cluster
    second = servers.start()
    first = servers.start(WEFT_CRASH_AT="exchange.committed:6")
    servers.worker("one", first, second, slots=3)
    run_id = servers.many(30, 0.05)
    cluster.ended(run_id)
    assert servers.processes[first].wait(60) == -signal.SIGKILL
    cluster.sound(run_id, 30)
    assert cluster.outcomes() == {"succeeded": 30}, cluster.story()


# The last ones go on until the servers are back, however long that takes.
UNTIL_OPEN = """\
tasks:
  many:
    replicas: 60
    run: |
      echo $WEFT_INDEX $WEFT_ATTEMPT >> %(at)s/journal
      sleep 0.2
      while test $WEFT_INDEX -ge 30 && ! test -e %(at)s/open; do sleep 0.05; done
"""


def test_servers_are_restarted_one_after_the_other(servers: Servers, figure: Figure) -> None:
    """Under load, one of them with SIGKILL: nothing is lost, and no attempt either."""
    cluster = servers.cluster
    ports = [servers.start(), servers.start()]
    for name in ("one", "two"):
        servers.worker(name, *ports, slots=3)
    run_id = cluster.submit(UNTIL_OPEN % {"at": cluster.directory})
    cluster.until(lambda: cluster.connection.run(run_id).succeeded >= 10)
    for how, port in ((signal.SIGTERM, ports[0]), (signal.SIGKILL, ports[1])):
        servers.processes[port].send_signal(how)
        servers.processes[port].wait(60)
        servers.start(port=port)
    assert not cluster.connection.run(run_id).finished
    (cluster.directory / "open").touch()
    cluster.ended(run_id)
    cluster.sound(run_id, 60)
    outcomes = cluster.outcomes()
    assert outcomes.pop("returned", 0) < 10, "claimed and not started within a second, on a busy machine"
    assert outcomes == {"succeeded": 60}, cluster.story()
    figure("servers restarted one after the other", "60 tasks on two workers over HTTP, 60 attempts")
