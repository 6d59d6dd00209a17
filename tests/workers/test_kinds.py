"""What tasks of workers without a store reach: the server, by tokens of their own, and engines of containers."""

import sys

from tests.executors.container.conftest import podman as podman_fixture
from tests.executors.container.podman import Podman
from tests.workers.test_processes import Servers
from tests.workers.test_processes import on_file as on_file_fixture

podman = podman_fixture
on_file = on_file_fixture

ASKS = """\
import os, urllib.error, urllib.request
def ask(path, data=None):
    head = {"Authorization": "Bearer " + os.environ["WEFT_TOKEN"], "Content-Type": "application/json"}
    try:
        return urllib.request.urlopen(urllib.request.Request(os.environ["WEFT_SERVER"] + path, data, head)).status
    except urllib.error.HTTPError as refused:
        return refused.code
own = "/v1/runs/" + os.environ["WEFT_RUN_ID"]
print(ask(own), ask("/v1/runs/OTHER"), ask(own + "/cancel", b"{}"))
print(ask(own + "/signal", b'{"name": "go"}'))
print("token", os.environ["WEFT_TOKEN"])
"""


def test_a_task_with_allow_asks_the_workers_server(on_file: Servers) -> None:
    """It has a token of its own and the server's address, in a directory where there is no store."""
    cluster = on_file.cluster
    on_file.worker("one", on_file.start())
    other = cluster.submit("tasks: {a: 'true'}\n")
    (cluster.directory / "asks.py").write_text(ASKS.replace("OTHER", other))
    command = f"{sys.executable} {cluster.directory}/asks.py"
    tasks = f"tasks: {{look: {{allow: [signal], run: '{command}'}}, wait: {{wait: {{signal: go}}}}}}\n"
    run_id = cluster.submit(tasks)
    cluster.ended(run_id)
    assert cluster.connection.run(run_id).state == "succeeded", cluster.story()

    def shown() -> str:
        return cluster.connection.read_output(run_id, "look", 1, "stdout").data.decode()

    cluster.until(lambda: "token" in shown())
    assert shown() == "200 404 403\n200\ntoken ***\n"


AGENT = """\
import json, os, subprocess, sys
(server,) = json.load(open(sys.argv[1]))["mcpServers"].values()
command = [server["command"], *server["args"]]
tools = subprocess.Popen(
    command, env=os.environ | server["env"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
def say(method, **more):
    tools.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\\n")
    tools.stdin.flush()
def ask(id, method, **params):
    say(method, id=id, params=params)
    while (answer := json.loads(tools.stdout.readline())).get("id") != id:
        pass
    return answer
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "a", "version": "1"})
say("notifications/initialized")
told = ask(2, "tools/call", name="signal", arguments={"run": os.environ["WEFT_RUN_ID"], "name": "go"})
print(told["result"].get("isError"))
tools.stdin.close()
tools.wait(30)
"""


def test_an_agent_has_the_tools_of_weft(on_file: Servers) -> None:
    """Through the worker's server: there is no store on its machine that `weft mcp` could open."""
    cluster = on_file.cluster
    on_file.worker("one", on_file.start())
    (cluster.directory / "agent.py").write_text(AGENT)
    command = f"[{sys.executable}, {cluster.directory}/agent.py, '{{mcp_config}}']"
    agent = f"{{agent: {{prompt: go, command: {command}, tools: [weft]}}, allow: [signal]}}"
    run_id = cluster.submit(f"tasks: {{ask: {agent}, wait: {{wait: {{signal: go}}}}}}\n")
    cluster.ended(run_id)
    assert cluster.connection.run(run_id).state == "succeeded", cluster.story()
    (event,) = cluster.connection.events(run_id, kinds=["signalled"])
    assert event.data["actor"] == f"task {run_id}/ask"


BOXES = """\
tasks:
  box:
    container: {image: weft-test}
    run: 'echo in a box; echo "{\\"rows\\": 3}" > $WEFT_OUTPUT'
  long:
    needs: [box]
    grace: 1s
    container: {image: weft-test}
    run: 'echo ${{ tasks.box.output.rows }} rows; while true; do sleep 0.1; done'
"""


def test_containers_run_and_are_cancelled(on_file: Servers, podman: Podman) -> None:
    cluster = on_file.cluster
    on_file.worker("one", on_file.start(), WEFT_CONTAINER_SOCKET=podman.socket)
    run_id = cluster.submit(BOXES)
    output = cluster.connection.read_output
    cluster.until(lambda: cluster.connection.task(run_id, "long").attempt == 1)
    cluster.until(lambda: output(run_id, "long", 1, "stdout").data == b"3 rows\n")
    assert output(run_id, "box", 1, "stdout").data == b"in a box\n"
    cluster.call("cancel", run_id)
    cluster.ended(run_id)
    assert cluster.connection.run(run_id).state == "cancelled"
    assert [name for name in podman.containers() if run_id in name] == [], "a cancel ends when nothing is left"


def test_a_killed_workers_container_is_removed_by_the_next_one(on_file: Servers, podman: Podman) -> None:
    cluster = on_file.cluster
    port = on_file.start()
    first = on_file.worker("one", port, WEFT_CONTAINER_SOCKET=podman.socket)
    run_id = cluster.submit("""\
tasks:
  box:
    grace: 1s
    container: {image: weft-test}
    run: 'echo $WEFT_ATTEMPT; while test $WEFT_ATTEMPT = 1; do sleep 0.1; done'
""")
    cluster.until(lambda: cluster.connection.task(run_id, "box").attempt == 1)
    cluster.until(lambda: cluster.connection.read_output(run_id, "box", 1, "stdout").data == b"1\n")
    first.kill()
    on_file.worker("two", port, WEFT_CONTAINER_SOCKET=podman.socket)
    cluster.ended(run_id)
    assert cluster.outcomes() == {"lost": 1, "succeeded": 1}, cluster.story()
    cluster.until(lambda: not [name for name in podman.containers() if run_id in name])
