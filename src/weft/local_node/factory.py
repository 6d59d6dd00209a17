"""A node inside this process: what `weft run`, `weft worker` and embedding applications start."""

import os
import random
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from weft.client.local import StoreConnection
from weft.client.opening import make_home
from weft.config import Config
from weft.core.commands import Refused
from weft.core.placement.eligibility import NodeFacts
from weft.executors.boot_clock import boot_id, boottime
from weft.executors.inline import InlineExecutor, InlineFunction
from weft.executors.protocol import Executor
from weft.executors.python.executor import PythonExecutor
from weft.executors.run_as import BadUser, User, find_user
from weft.executors.shell.executor import ShellExecutor
from weft.local_node.engines import ENGINE_KINDS, StartedOnDemand, engines, options_of
from weft.local_node.machine_resources import cpu_count, disk_bytes, gpu_count, memory_bytes
from weft.local_node.notifier import LocalNotifier
from weft.local_node.plugin_executors import described, plugin_executors
from weft.node.attempts.files import AttemptFiles
from weft.node.attempts.run_tokens import KEY_FACT
from weft.node.attempts.secrets import Secrets
from weft.node.attempts.workspaces import Workspaces
from weft.node.chores.resources import Machine
from weft.node.local import LocalChores
from weft.node.node import Node
from weft.node.ports import Link, NodeSettings, Ports, SmtpSettings
from weft.store.artifact_files import ArtifactFiles
from weft.store.kept_files import DirectoryFiles, FileStorage, StoreFiles
from weft.store.private_files import make_private_directory

#: A node's way to its store: tasks that need one of them list it as their secret.
STORE_SECRETS = ("PGPASSWORD", "WEFT_ETCD_PASSWORD")
KINDS = ("shell", "python", "agent", *ENGINE_KINDS)  # of tasks that every node has executors for


def node_settings(
    connection: StoreConnection, *, slots: int, workdir: Path | None = None, **more: Any
) -> NodeSettings:
    """Settings of a node on this store; `more` are fields of NodeSettings."""
    more["workspace_root"] = str(connection.access.workspaces(more.get("workspace_root")))
    more["files_in_store"] = connection.store.takes_output and more.get("artifact_root") is None
    more["artifact_root"] = str(artifact_root(connection, more.get("artifact_root")))
    return settings_here(connection.access.output_root, slots=slots, workdir=workdir, **more)


def settings_here(output_root: Path, *, slots: int, workdir: Path | None = None, **more: Any) -> NodeSettings:
    """Settings of a node on this machine, with what is found out about it."""
    more.setdefault("name", socket.gethostname().split(".")[0] or "node")
    found: dict[str, Callable[[], float | None]] = {
        "memory": memory_bytes, "disk": lambda: disk_bytes(workdir or Path.cwd()), "cpus": cpu_count,
        "gpus": gpu_count,
    }  # fmt: skip
    for name, sample in found.items():
        if more.get(name) is None:
            more[name] = sample()
    return NodeSettings(slots=slots, output_root=str(output_root), workdir=str(workdir or Path.cwd()), **more)


def own_facts(
    connection: StoreConnection,
    config: Config,
    functions: tuple[str, ...] = (),
    down: dict[str, str] | None = None,
    plugins: Collection[str] = (),
) -> NodeFacts:
    """The node that this process would start, as placement sees it; `functions` are its inline ones, `plugins` the
    types of tasks that plugins add, `down` the kinds of tasks that cannot be used."""
    more: dict[str, Any] = {"labels": config.labels, "functions": functions, **config.resources()}
    if config.name is not None:
        more["name"] = config.name
    facts = node_settings(connection, slots=config.slots, workdir=config.workdir, **more).facts(
        (*KINDS, *plugins, *(("inline",) if functions else ()))
    )
    return msgspec.structs.replace(facts, down=down or {})


def artifact_root(connection: StoreConnection, chosen: str | Path | None) -> Path:
    """Where the settings say, else beside the output."""
    return connection.access.artifact_root if chosen is None else Path(chosen)


def file_options(config: Config) -> dict[str, Any]:
    """What the settings say about files beside the store, as fields of NodeSettings."""
    return {
        "result_max": config.result_max, "artifact_max": config.artifact_max,
        "files_max": config.files_max,
        "artifact_root": None if config.artifacts is None else str(config.artifacts),
        "secrets_dir": None if config.secrets_dir is None else str(config.secrets_dir),
        "workspace_root": None if config.workspaces is None else str(config.workspaces),
    }  # fmt: skip


def service_options(config: Config) -> dict[str, Any]:
    """What the settings say about services that tasks use, as fields of NodeSettings."""
    token_file = config.cloud_run_token_file
    return {
        "smtp": SmtpSettings(
            config.smtp_host, config.smtp_port, config.smtp_user, config.smtp_password, config.smtp_from,
            config.smtp_starttls == "always",
        ),
        "public_url": config.public_url,
        "http_allow": config.http_allow, "cloud_run_endpoint": config.cloud_run_endpoint,
        "cloud_run_token_file": None if token_file is None else str(token_file),
    }  # fmt: skip


def node_options(config: Config) -> dict[str, Any]:
    """Fields of NodeSettings that are settings of the command line."""
    options: dict[str, Any] = {
        "waiting_slots": config.waiting_slots,
        "lease_ttl_s": config.lease_ttl, "renew_every_s": config.renew_every, "poll_s": config.poll,
        "drain_s": config.drain, "output_max": config.output_max, "output_rate": config.output_rate,
        "labels": config.labels, "role": config.role,
        "leader_ttl_s": config.leader_ttl, "leader_renew_s": config.leader_renew, "keep_s": config.keep,
        "log_all": config.log == "debug", "run_as": config.run_as, "container_socket": config.container_socket,
        "agent_command": config.agent_command,
        **file_options(config), **service_options(config),
    }  # fmt: skip
    if config.name is not None:
        options["name"] = config.name
    return options | config.resources()


def make_node(
    connection: StoreConnection,
    settings: NodeSettings,
    *,
    inline: Mapping[str, InlineFunction] | None = None,
    plugins: Collection[str] | None = None,
    python_runners: int | None = None,
    log: Callable[[str, dict[str, Any]], None] = lambda message, fields: None,
    url: str | None = None,
    log_line: Callable[[str, str, dict[str, Any]], None] | None = None,
) -> Node:
    """A node ready to `run()` on the current event loop; `url` is that of the server beside it; `log_line` logs
    single attempts. `plugins`: the types of plugins that it shall have; None: all of them, or none if it works for
    one run only."""
    store = connection.store
    store.patience_ms = min(store.patience_ms, settings.patience_ms)
    parts = assemble(
        connection.link, connection.access.home, settings, store.path, inline=inline, plugins=plugins,
        python_runners=python_runners, log=log, log_line=log_line,
    )  # fmt: skip
    ports, settings = parts.ports, parts.settings
    ports.chores, ports.contended = LocalChores(connection.link), connection.link.contended
    if store.takes_output:
        ports.secrets.learn(STORE_SECRETS)
    ports.notifier = LocalNotifier(settings, ports.secrets, parts.shell)
    if store.takes_output:
        ports.ship = connection.link.ship
    _keep_files_in(ports, connection, settings, parts.user)
    return Node(ports, settings, parts.facts if url is None else {**parts.facts, "url": url})


class Assembled(NamedTuple):
    """A node's parts, but for those that differ with its way to the store."""

    ports: Ports
    settings: NodeSettings
    facts: dict[str, object]
    shell: ShellExecutor
    user: User | None


def assemble(
    link: Link,
    home: Path,
    settings: NodeSettings,
    store_path: Path | None,
    *,
    inline: Mapping[str, InlineFunction] | None = None,
    plugins: Collection[str] | None = None,
    python_runners: int | None = None,
    log: Callable[[str, dict[str, Any]], None] = lambda message, fields: None,
    log_line: Callable[[str, str, dict[str, Any]], None] | None = None,
) -> Assembled:
    make_home(home)
    with suppress(OSError):  # an executor that cannot write there says so
        make_private_directory(Path(settings.output_root))
    user = _user(settings)
    shell = ShellExecutor(answer_max=settings.artifact_max, user=user)
    python = PythonExecutor(python_runners, shell=shell, workdir=settings.workdir, value_max=settings.artifact_max)
    # The shell executor is closed last: runners are its own to end, and containers if the node is killed.
    remote = engines(options_of(settings), shell)
    if plugins is None and settings.scope is not None:
        plugins = ()
    added = plugin_executors(plugins, settings, log)

    def agent() -> Executor:
        from weft.executors.agent.executor import AgentExecutor

        store = None if store_path is None else str(store_path)
        return AgentExecutor(shell, settings.agent_command, store=store, answer_max=settings.artifact_max)

    agents = StartedOnDemand("agent", agent, takes_slot=True)
    executors: list[Executor] = [*added.values(), *remote.values(), agents, python, shell]
    if inline:
        executors.append(InlineExecutor(inline, boottime))
        settings = msgspec.structs.replace(settings, functions=tuple(sorted(inline)))
    by_kind = {kind: executor for executor in executors for kind in executor.kinds}
    machine = Machine(settings.workdir, boottime)
    ports = Ports(link, by_kind, boottime, random.Random(secrets.randbits(64)), new_session_id, log, machine)
    ports.log_line = log_line
    ports.secrets = Secrets(os.environ, settings.secrets_dir, log)
    facts: dict[str, object] = {"host": socket.gethostname(), "pid": os.getpid(), "boot": boot_id()}
    if added:
        facts["plugins"] = described(added)
    facts[KEY_FACT] = ports.token_key = secrets.token_hex(32)
    return Assembled(ports, settings, facts, shell, user)


def _keep_files_in(ports: Ports, connection: StoreConnection, settings: NodeSettings, user: User | None) -> None:
    """Where workspaces are, large outputs, and the files that tasks keep."""
    assert settings.artifact_root is not None
    assert settings.workspace_root is not None
    ports.artifacts = ArtifactFiles(settings.artifact_root, settings.name, settings.artifact_max)
    connection.link.read_artifacts_in(settings.artifact_root, settings.name)
    storage: FileStorage = DirectoryFiles(settings.artifact_root, settings.name)
    if settings.files_in_store:
        storage = StoreFiles(connection.store.keep_output, connection.access.reader)
    ports.files = AttemptFiles(storage, settings.files_max, user)
    ports.workspaces = Workspaces(Path(settings.workspace_root), connection.access.run_states, user)


def _user(settings: NodeSettings) -> User | None:
    try:
        return None if settings.run_as is None else find_user(settings.run_as)
    except BadUser as error:
        raise Refused("invalid", str(error)) from None


def new_session_id() -> str:
    return secrets.token_hex(8)
