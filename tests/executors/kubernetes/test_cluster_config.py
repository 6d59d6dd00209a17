"""Where the API server is and how a node proves who it is."""

import asyncio
import base64
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from weft.executors.kubernetes.cluster_config import BadClusterConfig, ClusterConfig, load_config


def write(path: Path, user: dict[str, Any], cluster: dict[str, Any], **context: Any) -> Path:
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def header(config: ClusterConfig) -> str | None:
    return asyncio.run(config.credentials.header())


def certificate(directory: Path) -> tuple[Path, Path]:
    key, crt = directory / "key.pem", directory / "crt.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    subprocess.run([*command, "-keyout", key, "-out", crt], check=True, capture_output=True)
    return key, crt


def test_a_kubeconfig(tmp_path: Path) -> None:
    path = write(tmp_path / "k", {"token": "t"}, {"server": "http://h:81/prefix/"}, namespace="n")
    config = load_config({"KUBECONFIG": str(path)})
    assert (config.host, config.port, config.tls, config.prefix, config.namespace) == ("h", 81, None, "/prefix", "n")
    assert header(config) == "Bearer t"
    config = load_config({"KUBECONFIG": str(path), "WEFT_KUBERNETES_NAMESPACE": "other"})
    assert config.namespace == "other"


def test_several_files_and_the_default_one(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"token": "first"}, {"server": "https://a"})
    second = write(tmp_path / "b", {"token": "second"}, {"server": "https://b"})
    config = load_config({"KUBECONFIG": f"{first}:{second}"})
    assert (config.host, config.port, header(config)) == ("a", 443, "Bearer first")
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", {"username": "me", "password": "p"}, {"server": "https://h"})
    config = load_config({}, home=tmp_path)
    assert header(config) == "Basic " + base64.b64encode(b"me:p").decode()


def test_certificates_are_verified_unless_told_otherwise(tmp_path: Path) -> None:
    key, crt = certificate(tmp_path)
    data = {
        f"client-{name}-data": base64.b64encode(p.read_bytes()).decode()
        for name, p in (("key", key), ("certificate", crt))
    }
    config = load_config(
        {"KUBECONFIG": str(write(tmp_path / "k", data, {"server": "https://h", "certificate-authority": "crt.pem"}))}
    )
    assert config.tls is not None
    assert (config.tls.verify_mode, config.tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(config.tls.get_ca_certs()) == 1
    path = write(
        tmp_path / "k",
        {"client-key": "key.pem", "client-certificate": "crt.pem"},
        {"server": "https://h", "insecure-skip-tls-verify": True},
    )
    config = load_config({"KUBECONFIG": str(path)})
    assert config.tls is not None
    assert config.tls.verify_mode == ssl.CERT_NONE


def test_a_service_account(tmp_path: Path) -> None:
    _, crt = certificate(tmp_path)
    (tmp_path / "ca.crt").write_bytes(crt.read_bytes())
    (tmp_path / "token").write_text("t\n")
    (tmp_path / "namespace").write_text("tasks")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    config = load_config(environment, account=tmp_path)
    assert (config.host, config.port, config.namespace, header(config)) == ("10.0.0.1", 6443, "tasks", "Bearer t")
    (tmp_path / "token").write_text("another")
    assert header(config) == "Bearer t"
    config.credentials.refused()
    assert header(config) == "Bearer another"


def test_a_credential_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert info['spec']['interactive'] is False\n"
        "status = {'token': os.environ['SAY'], 'expirationTimestamp': '2099-01-01T00:00:00Z'}\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': status}))\n"
    )
    given = {"command": sys.executable, "args": [str(program)], "env": [{"name": "SAY", "value": "said"}]}
    config = load_config({"KUBECONFIG": str(write(tmp_path / "k", {"exec": given}, {"server": "https://h"}))})
    assert header(config) == "Bearer said"
    for wrong in ({"command": "/no/such"}, {**given, "env": []}, {"command": "false"}):
        config = load_config({"KUBECONFIG": str(write(tmp_path / "k", {"exec": wrong}, {"server": "https://h"}))})
        with pytest.raises(BadClusterConfig, match="the credential program"):
            header(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not YAML"),
        ("a", "is not a kubeconfig"),
        ("{}", "current-context names no context"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "lacks 'c'"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(BadClusterConfig, match=message):
        load_config({"KUBECONFIG": str(path)})


def test_nothing_is_configured(tmp_path: Path) -> None:
    with pytest.raises(BadClusterConfig, match="no cluster is configured"):
        load_config({}, home=tmp_path)
    path = write(tmp_path / "k", {}, {"server": "https://h", "proxy-url": "http://p"})
    with pytest.raises(BadClusterConfig, match="proxy-url is not supported"):
        load_config({"KUBECONFIG": str(path)})
