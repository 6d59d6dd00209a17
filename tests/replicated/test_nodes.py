"""Three nodes on one log: what one of them submits runs, and every one of them knows all of it."""

import signal
import subprocess
import sys

from tests import forked
from tests.replicated.conftest import Nodes

FAN = """
name: fan
tasks:
  list: 'echo "[1,2,3,4,5,6,7,8]" > $WEFT_OUTPUT'
  each: {map: '${{ tasks.list.output }}', run: 'echo got ${{ item }} $WEFT_NODE; sleep 0.05'}
  end: {needs: [each], run: echo end}
"""


def forked_text(nodes: Nodes, name: str, *words: str) -> str:
    return forked.run([*words], nodes.home(name), nodes.env(name), timeout=60).stdout.decode()


def test_a_run_that_one_node_submits_is_known_to_all(nodes: Nodes) -> None:
    nodes.start("n0", "n1", "n2")
    run = nodes.submit("n0", FAN)
    assert nodes.until_ended("n1", run) == "succeeded"
    for name in ("n0", "n1", "n2"):
        assert nodes.call(name, "show", run, "--consistent")["run"]["state"] == "succeeded"
        found = nodes.call(name, "nodes")["nodes"]
        assert [node["behind"] is not None for node in found] == [True] * 3
    assert "got 3" in forked_text(nodes, "n2", "logs", run, "each.2")
    compared = nodes.call("n2", "verify", "--replicas")
    assert compared["equal"] is True
    assert len(compared["replicas"]) == 3


def test_a_killed_node_loses_nothing(nodes: Nodes) -> None:
    nodes.start("n0", "n1", "n2", slots=3)  # two of them have no room for all
    run = nodes.submit("n0", FAN.replace("sleep 0.05", "sleep 2"))
    connection = nodes.connection("n1")
    nodes.until(lambda: any(node.running for node in connection.nodes() if node.node == "n0"))
    nodes.kill("n0", signal.SIGKILL)
    assert nodes.until_ended("n1", run) == "succeeded"
    nodes.start("n0")  # the replica continues where it was
    assert nodes.until_ended("n0", run) == "succeeded"
    assert nodes.call("n0", "verify", "--replicas")["equal"] is True
    assert nodes.call("n2", "verify", run) is not None


def test_a_replica_that_differs_stops(nodes: Nodes) -> None:
    nodes.start("n0", "n1", "n2")
    run = nodes.submit("n0", "tasks: {one: echo one}")
    assert nodes.until_ended("n1", run) == "succeeded"
    connection = nodes.connection("n1")
    path = connection.store.path
    tamper = f"import apsw; apsw.Connection({str(path)!r}).execute(\"UPDATE runs SET name = 'changed'\")"
    subprocess.run([sys.executable, "-c", tamper], check=True, timeout=60)
    nodes.call("n0", "verify", "--replicas", fails=True)
    process = nodes.processes.pop("n1")
    assert process.wait(60) != 0
    assert "the tables of this replica are not those of the others" in nodes.home("n1").joinpath("log").read_text()
    assert nodes.said("n0", "ready")
    nodes.submit("n0", "tasks: {two: echo two}")


def test_a_map_over_an_artifact_is_decided_alike_everywhere(nodes: Nodes) -> None:
    """No rule reads a file: the entry is refused by all replicas, and comes again with what it asks for."""
    nodes.start("n0", WEFT_RESULT_MAX="100B")
    nodes.start("n1", slots=0, WEFT_ROLE="leader")
    items = "[" + ",".join(f'\\"item number {number}\\"' for number in range(20)) + "]"
    text = f"""tasks:
  list: 'echo "{items}" > $WEFT_OUTPUT'
  each: {{map: '${{{{ tasks.list.output }}}}', run: 'echo ${{{{ item }}}}'}}
"""
    run = nodes.submit("n0", text)
    assert nodes.until_ended("n0", run) == "succeeded", nodes.call("n0", "show", run)
    assert forked_text(nodes, "n1", "logs", run, "each.19") == "item number 19\n"
    assert nodes.call("n1", "verify", "--replicas")["equal"] is True


def test_short_commands_need_a_node_on_their_machine(nodes: Nodes) -> None:
    assert "Start one here with `weft worker`" in nodes.call("n0", "ls", fails=True)
