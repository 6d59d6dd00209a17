"""Where the API server is and how a node proves who it is: a kubeconfig, or the service account of its container.

$KUBECONFIG is asked first, then the service account, then ~/.kube/config; $WEFT_KUBERNETES_NAMESPACE stands above the
namespace that these name. Tokens in files and tokens of credential
programs change: they are read again when they are a minute old, and when the server refuses them.
"""

import asyncio
import base64
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_AGE_MAX_S = 60.0
_PROGRAM_TIMEOUT_S = 30.0


class BadClusterConfig(Exception):
    """There is no usable configuration of a cluster."""


class Credentials:
    """The Authorization header of each request. A client certificate is part of the TLS context instead."""

    def __init__(
        self,
        token: str | None = None,
        token_file: Path | None = None,
        program: dict[str, Any] | None = None,
        basic: str | None = None,
    ) -> None:
        self._fixed = f"Bearer {token}" if token else basic
        self._file = token_file
        self._program = program
        self._value: str | None = None
        self._until = 0.0

    async def header(self) -> str | None:
        """Raises BadClusterConfig if a token cannot be had."""
        if self._fixed is not None or (self._file is None and self._program is None):
            return self._fixed
        now = time.monotonic()
        if self._value is None or now >= self._until:
            self._until = now + _TOKEN_AGE_MAX_S
            if self._file is not None:
                self._value = f"Bearer {_read(self._file).strip()}"
            else:
                token, until_s = await _ask_program(self._program or {})
                self._value = f"Bearer {token}"
                self._until = now + until_s
        return self._value

    def refused(self) -> None:
        """The server did not accept the header: ask for another one."""
        self._until = 0.0


class ClusterConfig(msgspec.Struct):
    host: str
    port: int
    tls: ssl.SSLContext | None  # None: plain HTTP
    server_name: str | None
    credentials: Credentials
    namespace: str  # of tasks that name none
    prefix: str = ""  # of every path, where the API server is behind a proxy


def load_config(
    environment: Mapping[str, str], home: Path | None = None, account: Path = SERVICE_ACCOUNT
) -> ClusterConfig:
    """Raises BadClusterConfig."""
    config = _find_config(environment, home, account)
    config.namespace = environment.get("WEFT_KUBERNETES_NAMESPACE") or config.namespace
    return config


def _find_config(environment: Mapping[str, str], home: Path | None, account: Path) -> ClusterConfig:
    named = environment.get("KUBECONFIG")
    if named:
        return _from_kubeconfig([Path(part) for part in named.split(":") if part])
    if environment.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return _from_service_account(environment, account)
    default = (Path.home() if home is None else home) / ".kube" / "config"
    if not default.exists():
        raise BadClusterConfig(
            f"no cluster is configured: $KUBECONFIG is not set, there is no service account, and no {default}"
        )
    return _from_kubeconfig([default])


def _from_service_account(environment: Mapping[str, str], account: Path) -> ClusterConfig:
    namespace = account / "namespace"
    return ClusterConfig(
        environment["KUBERNETES_SERVICE_HOST"],
        int(environment.get("KUBERNETES_SERVICE_PORT") or 443),
        _tls(ca=_read(account / "ca.crt")),
        None,
        Credentials(token_file=account / "token"),
        _read(namespace).strip() if namespace.exists() else "default",
    )


def _from_kubeconfig(paths: list[Path]) -> ClusterConfig:
    """Of several files the first that names a thing wins."""
    named: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
    current = None
    for path in paths:
        content = _parse(path)
        current = current or content.get("current-context")
        for group, found in named.items():
            for entry in content.get(group) or ():
                found.setdefault(entry["name"], _with_base(entry.get(group[:-1]) or {}, path.parent))
    if not current or current not in named["contexts"]:
        raise BadClusterConfig(f"{paths[0]}: current-context names no context")
    context = named["contexts"][current]
    try:
        cluster, user = named["clusters"][context["cluster"]], named["users"].get(context.get("user"), {})
        url = urlsplit(cluster["server"])
    except KeyError as error:
        raise BadClusterConfig(f"{paths[0]}: context {current} lacks {error}") from None
    if cluster.get("proxy-url"):
        raise BadClusterConfig(f"{paths[0]}: proxy-url is not supported")
    tls = None
    if url.scheme == "https":
        ca = _data(cluster, "certificate-authority")
        pair = (_data(user, "client-certificate"), _data(user, "client-key"))
        tls = _tls(ca, bool(cluster.get("insecure-skip-tls-verify")), *pair)
    port = url.port or (443 if tls else 80)
    return ClusterConfig(
        url.hostname or "", port, tls, cluster.get("tls-server-name"), _credentials(user),
        context.get("namespace") or "default", url.path.rstrip("/"),
    )  # fmt: skip


def _credentials(user: dict[str, Any]) -> Credentials:
    basic = None
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        basic = "Basic " + base64.b64encode(pair.encode()).decode()
    file = user.get("tokenFile")
    return Credentials(user.get("token"), Path(file) if file else None, user.get("exec"), basic)


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        raise BadClusterConfig(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise BadClusterConfig(f"{path} is not a kubeconfig")
    return content


def _with_base(entry: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Paths in a kubeconfig are relative to the file they stand in."""
    for name in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
        if entry.get(name):
            entry[name] = str(directory / entry[name])
    return entry


def _data(entry: dict[str, Any], name: str) -> str | None:
    """Given as base64, or as the path of a file."""
    inline = entry.get(f"{name}-data")
    if inline:
        return base64.b64decode(inline).decode()
    return _read(Path(entry[name])) if entry.get(name) else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise BadClusterConfig(f"{path} cannot be read: {error.strerror}") from None


def _tls(
    ca: str | None, insecure: bool = False, certificate: str | None = None, key: str | None = None
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca)
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate and key:
            with tempfile.NamedTemporaryFile("w") as file:  # ssl reads a certificate from a path only; mode 0600
                file.write(f"{certificate}\n{key}")
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        raise BadClusterConfig(f"the cluster's certificates cannot be used: {error}") from None
    return context


async def _ask_program(spec: dict[str, Any]) -> tuple[str, float]:
    """A token of a credential program (`exec` in a kubeconfig), and for how many seconds it may be used."""
    version = spec.get("apiVersion") or "client.authentication.k8s.io/v1"
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = dict(os.environ) | {item["name"]: item["value"] for item in spec.get("env") or ()}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(info)
    command = [spec.get("command") or "", *(spec.get("args") or ())]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise BadClusterConfig(f"the credential program {command[0]} cannot be started: {error.strerror}") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), _PROGRAM_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise BadClusterConfig(f"the credential program {command[0]} did not answer") from None
    try:
        status = json.loads(out)["status"]
        token = status["token"]
    except (ValueError, KeyError):
        said = err.decode("utf-8", "replace").strip().splitlines()
        raise BadClusterConfig(f"the credential program {command[0]} gave no token: {said[-1:] or ''}") from None
    expires = status.get("expirationTimestamp")
    until_s = _TOKEN_AGE_MAX_S
    if expires:
        until_s = max(1.0, datetime.fromisoformat(expires.replace("Z", "+00:00")).timestamp() - time.time() - 30)
    return token, until_s
