"""A node without a store: `weft worker --server`."""

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from weft.client.opening import STORE_DIRECTORY
from weft.config import BadSetting, Config
from weft.local_node.factory import assemble, node_options, settings_here
from weft.node.attempts.files import AttemptFiles
from weft.node.attempts.workspaces import Workspaces
from weft.node.node import Node
from weft.node.ports import LinkLost, NodeSettings
from weft.node.workers.messages import Rejected
from weft.node.workers.remote_link import RemoteLink
from weft.node.workers.server_files import FromThreads, ServerArtifacts, ServerFiles
from weft.store.protocol import StoreBusy

ARTIFACT_MAX: Final = 24 * 2**20  # a whole output is one message
RENEW: Final = 1 / 3  # of the lease: a server renews those of all its workers together
LOOK_FOR_ORPHANS_S: Final = 10.0  # on its engines: what lost nodes have left there
SERVER_SECRETS: Final = ("WEFT_TOKEN",)  # the worker's own way to its server


def worker_settings(config: Config, home: Path) -> NodeSettings:
    """It never leads; what it keeps is below `home`."""
    options = node_options(config) | {"role": "worker"}
    workspaces = options.pop("workspace_root") or str(home / "workspaces")
    options.update(workspace_root=workspaces, artifact_root=str(home / "artifacts"), files_in_store=True)
    options["artifact_max"] = min(config.artifact_max, ARTIFACT_MAX)
    options["expire_every_s"] = LOOK_FOR_ORPHANS_S
    if config.sources["renew_every"] == "default":
        options["renew_every_s"] = config.lease_ttl * RENEW
    return settings_here(home / "output", slots=config.slots, workdir=config.workdir, **options)


def make_http_worker(
    config: Config,
    urls: list[str],
    token: str,
    tls: ssl.SSLContext | None,
    directory: Path,
    log: Callable[[str, dict[str, Any]], None],
    log_line: Callable[[str, str, dict[str, Any]], None] | None = None,
) -> tuple[Node, NodeSettings, RemoteLink]:
    """On the event loop that it is to run on."""
    from weft.node.workers.http_transport import HttpTransport  # needs weft[http]

    home = directory / STORE_DIRECTORY
    settings = worker_settings(config, home)
    transport = HttpTransport(urls, token, log, tls)
    link = RemoteLink(transport, settings.lease_ttl_s, log)
    parts = assemble(link, home, settings, None, python_runners=config.python_runners, log=log, log_line=log_line)
    ports = parts.ports
    ports.secrets.learn(SERVER_SECRETS)
    ports.ship = link.ship
    ports.server = lambda: transport.server
    ask = FromThreads(link, asyncio.get_running_loop())
    ports.artifacts = ServerArtifacts(ask, settings.artifact_max)
    ports.files = AttemptFiles(ServerFiles(ask), settings.files_max, parts.user)
    assert settings.workspace_root is not None

    def states(ids: list[str]) -> dict[str, str]:
        try:
            found: dict[str, str] = ask.run(link.run_states(ids))
        except (LinkLost, Rejected) as error:
            raise StoreBusy(str(error)) from None
        return found

    ports.workspaces = Workspaces(Path(settings.workspace_root), states, parts.user)
    return Node(ports, parts.settings, parts.facts), settings, link


def read_token(path: str | None) -> str:
    """From the file, else from WEFT_TOKEN."""
    if path is None:
        token = os.environ.get("WEFT_TOKEN", "").strip()
        if not token:
            raise BadSetting("a worker of a server needs a token: --token-file FILE, or WEFT_TOKEN")
        return token
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"--token-file: {path} cannot be read: {error}") from None
    if not token.isprintable() or not token.isascii() or " " in token or not token:
        raise BadSetting(f"--token-file: {path} holds no token: create one with `weft token create --worker NAME`")
    return token


def tls_context(ca_file: str | None) -> ssl.SSLContext | None:
    """None: certificates are checked against those that the system trusts."""
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(f"--ca-file: {ca_file} holds no certificates: {error}") from None
