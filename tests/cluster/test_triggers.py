"""One run for each time of a trigger, whatever becomes of those who fire it: leaders die before the COMMIT of a
fire, after it, and at any moment; there are moments without any leader."""

import time

from tests.cluster.conftest import STARTUP_MAX_S, Cluster
from tests.conftest import Figure

FIRES = 32
CLOCK = """\
name: clock
inputs: {at: string}
triggers:
  - {name: tick, every: 1s, catch_up: all, overlap: allow, inputs: {at: "${{ trigger.time }}"}}
tasks: {a: "true"}
"""


def fired(cluster: Cluster) -> int:
    return int(cluster.query("SELECT count(*) FROM fires WHERE outcome = 'started'")[0][0])


def test_leaders_die_around_fires_and_each_time_has_one_run(cluster: Cluster, figure: Figure) -> None:
    (cluster.directory / "clock.yaml").write_text(CLOCK)
    assert cluster.call("apply", "clock.yaml")["applied"][0]["added"] == ["tick"]
    began = cluster.query("SELECT since_ms FROM triggers")[0][0]
    crashes = ["fire.before_commit:3", "fire.committed:3", "fire.before_commit:1", "fire.committed:1", ""]
    for number, crash in enumerate(crashes):
        more = {"WEFT_CRASH_AT": crash} if crash else {}
        worker = cluster.worker(f"n{number}", "--slots", "2", **more)
        if crash:
            cluster.until(lambda worker=worker: worker.poll() is not None)  # type: ignore[misc]
            assert worker.returncode == -9, cluster.story()
    before = fired(cluster)
    cluster.worker("standby", "--slots", "2")
    cluster.until(lambda: fired(cluster) > before + 2)
    cluster.processes[str(cluster.leader())].kill()  # at any moment
    cluster.until(lambda: fired(cluster) >= FIRES, STARTUP_MAX_S + 2 * FIRES)
    cluster.call("triggers", "pause", "clock/tick")
    (since,) = cluster.query("SELECT since_ms FROM triggers")[0]
    want = list(range((began // 1000 + 1) * 1000, since + 1, 1000))
    have = [at for (at,) in cluster.query("SELECT due_at FROM fires WHERE outcome = 'started' ORDER BY due_at")]
    assert have == want, cluster.story()
    runs = cluster.connection.runs(name="clock", limit=1000)
    times = sorted(run.inputs["at"] for run in runs)
    assert times == [time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at // 1000)) for at in want]
    for run in runs:
        cluster.ended(run.id)
    assert all(cluster.connection.verify(run.id).ok for run in runs[:5])
    assert cluster.connection.leader().term >= len(crashes)
    figure(
        f"leaders die around fires ({cluster.kind})",
        f"{len(want)} times, {len(runs)} runs, term {cluster.connection.leader().term}",
    )


def test_a_fire_comes_at_its_moment(cluster: Cluster, figure: Figure) -> None:
    (cluster.directory / "clock.yaml").write_text(CLOCK)
    cluster.worker("one", "--slots", "2")
    cluster.call("apply", "clock.yaml")
    cluster.until(lambda: fired(cluster) >= 4)
    late = [at - due for at, due in cluster.query("SELECT at, due_at FROM fires ORDER BY due_at")]
    assert sorted(late)[len(late) // 2] < 1000, late
    figure(
        f"a trigger's times ({cluster.kind})", f"fired {sorted(late)[len(late) // 2]} ms after their moment (median)"
    )
