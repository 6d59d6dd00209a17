"""Tests of clusters again, on a log with real etcd members; each worker has a replica of its own.

With every change: nodes killed under load are reclaimed in time and nothing is lost; the leader is killed; a node
that stood still past its lease reports nothing that counts; five race for one task. They are about leases, terms and
claims, which are the log's own here. With WEFT_SOAK (`make soak`) also: drains, a rolling restart under load,
placement and triggers, with leaders that die around fires. Not here: connections to PostgreSQL, engines, and wrong
wall clocks (test_log_rules.py: one node alone is the majority of wall clocks).
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import Cluster
from tests.cluster.test_kills import (  # noqa: F401
    test_a_node_that_stands_still_past_its_lease_reports_nothing_that_counts,
    test_workers_that_are_killed_under_load_lose_nothing,
)
from tests.cluster.test_leader import test_a_leader_that_is_killed_is_followed_by_a_new_term  # noqa: F401
from tests.cluster.test_sharing import test_five_workers_race_for_one_task  # noqa: F401
from tests.replicated.etcd_cluster import MISSING, PROGRAM, EtcdCluster
from weft import config
from weft.client.opening import open_connection

if os.environ.get("WEFT_SOAK"):
    from tests.cluster.test_drain import (  # noqa: F401
        test_a_drained_node_finishes_and_leaves,
        test_a_rolling_restart_under_load_loses_nothing,
        test_what_still_runs_at_the_deadline_goes_back,
    )
    from tests.cluster.test_leader import (  # noqa: F401
        test_a_leader_that_is_stopped_hands_over_at_once,
        test_a_leader_that_stands_still_loses_its_term_and_its_attempts,
        test_who_insists_gets_it_from_one_who_does_not,
    )
    from tests.cluster.test_sharing import (  # noqa: F401
        test_a_leader_and_two_workers_share_a_graph,
        test_each_task_runs_where_it_may,
    )
    from tests.cluster.test_triggers import (  # noqa: F401
        test_a_fire_comes_at_its_moment,
        test_leaders_die_around_fires_and_each_time_has_one_run,
    )

PREFIXES = itertools.count(1)


@pytest.fixture(scope="module")
def members() -> Iterator[EtcdCluster]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    found = EtcdCluster()
    yield found
    found.close()


@pytest.fixture
def cluster(tmp_path: Path, members: EtcdCluster) -> Iterator[Cluster]:
    """This process has a replica too, through which short commands go. At the end all are compared."""
    url = members.url(f"weft{next(PREFIXES)}")
    settings = config.load({"WEFT_STORE": url}, tmp_path, {})
    made = Cluster("replicated", tmp_path, url, lambda: open_connection(settings, tmp_path))
    yield made
    try:
        made.until(lambda: _live(made) is not None)  # a killed one answers no comparison
        if _live(made):
            compared = made.connection.store.compare_replicas()  # type: ignore[attr-defined]
            assert compared.equal, (compared, made.story())
    finally:
        made.close()
        members.forget()


def _live(cluster: Cluster) -> set[int] | None:
    """Processes of live nodes; None: the store has not ended the session of one that is gone."""
    live = {node.pid for node in cluster.connection.nodes() if node.pid is not None}
    running = {process.pid for process in cluster.processes.values() if process.poll() is None}
    return live if live <= running else None


@pytest.fixture
def postgres_cluster(cluster: Cluster) -> Cluster:
    """What those tests say of PostgreSQL holds of a log as well."""
    return cluster
