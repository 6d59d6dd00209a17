"""Output from any node: the worker and whoever asks share a PostgreSQL store and no directory."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import Cluster

CAP = 512 * 1024
MEMORY_MAX = 64 * 2**20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster("postgres", tmp_path)
    yield made
    made.close()


def wait_for(directory: Path, name: str) -> str:
    return f"while ! test -e {directory / name}; do sleep 0.05; done"


def logs(cluster: Cluster, *words: str) -> tuple[bytes, bytes]:
    """Asked from a machine that has nothing but the store's address."""
    process = subprocess.run(
        [sys.executable, "-m", "weft", "logs", *words, "--store", cluster.store], cwd=cluster.directory / "elsewhere",
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout, process.stderr


def stored(cluster: Cluster) -> int:
    return int(cluster.query("SELECT coalesce(sum(length(data)), 0) FROM output_chunks")[0][0])


@pytest.fixture(autouse=True)
def elsewhere(cluster: Cluster) -> None:
    (cluster.directory / "elsewhere" / ".weft").mkdir(parents=True)


def test_it_is_read_elsewhere_while_it_is_written_and_when_its_node_is_gone(cluster: Cluster) -> None:
    worker = cluster.worker("one", at="one")
    run_id = cluster.submit(
        "tasks:\n  talk:\n    run: |\n      echo early\n      " + wait_for(cluster.directory, "open")
        + "\n      yes 0123456789 | head -c 700000\n      printf '\\377\\000end'; echo oops >&2\n"
    )  # fmt: skip
    follow = cluster.weft("logs", run_id, "talk", "-f", "--stream", "stdout", "--json", at="elsewhere")
    assert follow.stdout is not None
    assert "early" in follow.stdout.readline(), "before the task has ended"
    assert cluster.connection.task(run_id, "talk").state == "running"
    (cluster.directory / "open").touch()
    follow.communicate(timeout=60)
    assert follow.returncode == 0
    cluster.ended(run_id)
    whole = b"early\n" + (b"0123456789\n" * 70_000)[:700_000] + b"\xff\0end"
    assert logs(cluster, run_id, "talk") == (whole, b"oops\n")
    worker.kill()
    worker.wait()
    shutil.rmtree(cluster.directory / "one")
    assert logs(cluster, run_id, "talk") == (whole, b"oops\n")
    piece = cluster.connection.open_output(run_id, "talk", 1, "stdout").read(6, 11)
    assert (piece.at, piece.data, piece.next, piece.then) == (6, b"0123456789\n", 17, "more")
    assert cluster.connection.open_output(run_id, "talk", 1, "stdout").read(len(whole)).then == "whole"
    part = cluster.connection.read_output(run_id, "talk", 1, "stdout", offset=-5)
    assert (part.data, part.next, part.size, part.ended) == (b"\xff\0end", len(whole), len(whole), True)


def test_what_a_killed_node_did_not_send_is_a_visible_gap(cluster: Cluster) -> None:
    cluster.worker("one", at="one")
    run_id = cluster.submit(
        "tasks:\n  talk:\n    run: |\n      yes $WEFT_ATTEMPT | head -c 100000\n      "
        + wait_for(cluster.directory, "open") + "\n      echo end\n"
    )  # fmt: skip
    cluster.until(lambda: stored(cluster) == 100_000)
    cluster.processes["one"].send_signal(signal.SIGKILL)
    cluster.until(lambda: cluster.connection.leader().session is None)
    cluster.worker("two", at="two")
    cluster.until(lambda: cluster.connection.task(run_id, "talk").attempt == 2)
    out, err = logs(cluster, run_id, "talk", "--attempt", "1")
    assert out == b"1\n" * 50_000
    assert err == b"\n[weft: if talk wrote more than this, it was lost with its node (one)]\n"
    (cluster.directory / "open").touch()
    cluster.ended(run_id)
    assert logs(cluster, run_id, "talk") == (b"2\n" * 50_000 + b"end\n", b"")
    assert cluster.connection.verify(run_id).ok


def test_over_the_cap_the_beginning_and_the_end_are_kept(cluster: Cluster) -> None:
    cluster.worker("one", at="one", WEFT_OUTPUT_MAX=str(CAP))
    run_id = cluster.submit(
        f"tasks:\n  talk:\n    run: |\n      seq 1 50000\n      {wait_for(cluster.directory, 'open')}\n"
        "      seq 50001 600000\n"
    )
    part = "".join(f"{n}\n" for n in range(1, 50_001)).encode()
    cluster.until(lambda: stored(cluster) == len(part))
    assert CAP // 2 < len(part) < CAP, "some of what is sent will be in the middle"
    (cluster.directory / "open").touch()
    cluster.until(lambda: cluster.query("SELECT 1 FROM output_ends") != [])  # before that the middle may be read, too
    out, err = logs(cluster, run_id, "talk")
    whole = "".join(f"{n}\n" for n in range(1, 600_001)).encode()
    head, tail = whole[: CAP // 2], whole[-(CAP - CAP // 2) :]
    assert out == head + tail
    assert err == f"\n[weft: {len(whole) - CAP:,} bytes of talk were not kept]\n".encode()
    assert stored(cluster) == CAP
    assert cluster.query("SELECT stream, size FROM output_ends") == [("stdout", len(whole))]


def test_what_a_report_carries_is_not_sent_twice(cluster: Cluster) -> None:
    cluster.worker("one", at="one")
    run_id = cluster.submit("tasks: {many: {replicas: 50, run: 'echo é $WEFT_INDEX; echo no >&2'}, none: 'true'}\n")
    cluster.ended(run_id)
    assert logs(cluster, run_id, "many.7") == ("é 7\n".encode(), b"no\n")
    assert logs(cluster, run_id, "none") == (b"", b"none printed nothing\n")
    cluster.processes["one"].terminate()
    assert cluster.processes["one"].wait(30) == 0
    assert (stored(cluster), cluster.query("SELECT count(*) FROM output_ends")) == (0, [(0,)])


def test_a_flood_costs_the_node_no_memory_and_the_store_no_more_than_the_cap(cluster: Cluster) -> None:
    """200 MB written as fast as it goes, sent at 64 KiB a second while it runs: the end does not wait for that."""
    worker = cluster.worker("one", at="one", WEFT_OUTPUT_MAX=str(CAP), WEFT_OUTPUT_RATE="64KiB")

    def memory() -> int:
        status = Path(f"/proc/{worker.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    warm = cluster.submit("tasks: {warm: 'echo hello'}\n")
    cluster.ended(warm)
    before = memory()
    run_id = cluster.submit("tasks: {flood: {run: 'head -c 200000000 /dev/zero | tr \"\\\\0\" x'}}\n")
    cluster.ended(run_id)
    worker.terminate()  # it sends what is left before it leaves, whatever the budget
    grown = 0
    while worker.poll() is None:
        try:
            grown = max(grown, memory() - before)
        except (OSError, IndexError):
            break
    assert worker.wait(30) == 0
    out, err = logs(cluster, run_id, "flood")
    assert len(out) == CAP == stored(cluster)
    assert b"bytes of flood were not kept" in err
    assert grown < MEMORY_MAX
    print(f"200 MB of output: the node grew by {grown / 2**20:.1f} MiB")


def test_pruned_with_its_run(cluster: Cluster) -> None:
    cluster.worker("one", at="one")
    run_id = cluster.submit("tasks: {talk: 'yes | head -c 200000'}\n")
    cluster.ended(run_id)
    cluster.until(lambda: stored(cluster) == 200_000)
    assert cluster.call("prune", "--older", "0s") != 2
    assert (stored(cluster), cluster.query("SELECT count(*) FROM output_ends")) == (0, [(0,)])


def test_a_node_that_was_stopped_past_its_lease_sends_nothing_more_of_what_it_lost(cluster: Cluster) -> None:
    one = cluster.worker("one", at="one")
    run_id = cluster.submit(
        "tasks:\n  talk:\n    run: |\n      echo $WEFT_ATTEMPT\n"
        f"      until test -e {cluster.directory / 'open'}; do echo tick; sleep 0.02; done\n"
    )

    def first() -> int:
        query = "SELECT coalesce(sum(length(data)), 0) FROM output_chunks WHERE attempt = 1"
        return int(cluster.query(query)[0][0])

    cluster.until(lambda: first() > 10)
    session = cluster.connection.node("one").session
    one.send_signal(signal.SIGSTOP)
    cluster.worker("two", at="two")
    cluster.until(lambda: cluster.connection.task(run_id, "talk").attempt == 2)
    before = first()
    one.send_signal(signal.SIGCONT)
    cluster.until(lambda: any(n.node == "one" and n.session != session for n in cluster.connection.nodes()))
    second = cluster.directory / "two" / ".weft" / "output" / run_id / "talk.2.out"
    cluster.until(lambda: second.exists() and b"tick" in second.read_bytes())
    (cluster.directory / "open").touch()
    cluster.ended(run_id)
    written = (cluster.directory / "one" / ".weft" / "output" / run_id / "talk.1.out").read_bytes()
    assert first() == before < len(written)
    out, err = logs(cluster, run_id, "talk", "--attempt", "1")
    assert out == written[:before]
    assert b"lost with its node (one)" in err
    assert logs(cluster, run_id, "talk")[0].startswith(b"2\ntick\n")
