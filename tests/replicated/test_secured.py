"""etcd with TLS and passwords: members with certificates that are made here, a user, and nodes that show theirs."""

import contextlib
import http.client
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replicated.conftest import Nodes
from tests.replicated.etcd_cluster import MISSING, PROGRAM, EtcdCluster
from weft.store.etcd.gateway import PASSWORD, Gateway, peer_contexts
from weft.store.etcd.log import EtcdLog
from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import StoreUnusable
from weft.store.replicated.output.peers import PEERS, SNAPSHOT, shared_token

SECRET = "a password: with / and @"
BOTH = "extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1"


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


def certificate(directory: Path, name: str, usage: str = BOTH) -> None:
    key, request, extensions = (directory / f"{name}.{end}" for end in ("key", "csr", "ext"))
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/O={name}", "-keyout", key, "-out", request)
    extensions.write_text(usage)
    openssl("x509", "-req", "-in", request, "-CA", directory / "ca.pem", "-CAkey", directory / "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", directory / f"{name}.pem")  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority",
            "-keyout", directory / "ca.key", "-out", directory / "ca.pem")  # fmt: skip
    certificate(directory, "node")
    certificate(directory, "client", "extendedKeyUsage=clientAuth")
    return directory


class SecuredNodes(Nodes):
    """Nodes with certificates and a password."""

    query = ""

    def url(self, name: str) -> str:
        return super().url(name).replace("etcd://", "etcd://root@") + self.query


@pytest.fixture
def secured(tmp_path: Path, files: Path) -> Iterator[SecuredNodes]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    ca, cert, key = (str(files / name) for name in ("ca.pem", "node.pem", "node.key"))
    flags = ("--client-cert-auth", "--trusted-ca-file", ca, "--cert-file", cert, "--key-file", key)
    query = f"?tls=on&ca={ca}&cert={cert}&key={key}"
    cluster = EtcdCluster(settings=flags, query=query)
    found = SecuredNodes(tmp_path, cluster, "weft")
    found.query = query
    yield found
    found.close()
    cluster.close()


def set_password(cluster: EtcdCluster, query: str) -> None:
    gateway = Gateway(EtcdUrl(cluster.url("weft") + query))

    def ask(path: str, **body: Any) -> None:
        gateway.call(f"/v3/auth/{path}", body, 10)

    ask("user/add", name="root", password=SECRET)
    ask("role/add", name="root")
    ask("user/grant", user="root", role="root")
    ask("enable")
    gateway.close()


def test_nodes_on_an_etcd_with_tls_and_a_password(
    secured: SecuredNodes, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = secured
    set_password(nodes.etcd, nodes.query)
    assert "is missing. Put it into the variable WEFT_ETCD_PASSWORD" in nodes.call("n0", "worker", fails=True)
    monkeypatch.setattr(nodes, "env", lambda name, **more: {**Nodes.env(nodes, name, **more), PASSWORD: "wrong"})
    assert "Check the user in the address and its password" in nodes.call("n0", "worker", fails=True)
    file = nodes.directory / "password"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv(PASSWORD, SECRET)
    monkeypatch.setattr(nodes, "env", lambda name, **more: {**Nodes.env(nodes, name, **more), PASSWORD: SECRET})
    nodes.start("n0")
    nodes.start("n1", WEFT_STORE=f"{nodes.url('n1')}&password_file={file}")
    run = nodes.submit("n0", "tasks: {one: 'echo one; seq 20000; echo \"[$WEFT_ETCD_PASSWORD]\"'}")
    assert nodes.until_ended("n1", run) == "succeeded"
    connection = nodes.connection("n1")
    nodes.until(lambda: connection.read_output(run, "one", 1, "stdout").ended)
    assert connection.read_output(run, "one", 1, "stdout", offset=-3).data == b"[]\n"
    # All members forget their tokens: new ones are asked for.
    for index in range(3):
        nodes.etcd.kill(index, signal.SIGTERM)
        nodes.etcd.start(index)
    run = nodes.submit("n1", "tasks: {two: echo two}")
    assert nodes.until_ended("n1", run) == "succeeded"
    assert nodes.call("n0", "show", run, "--consistent")["run"]["state"] == "succeeded"
    refuse_strangers(nodes, files)
    # A new node fetches a snapshot over TLS.
    log = EtcdLog(EtcdUrl(nodes.url("n0")))
    log.put("compacted", str(log.head()).encode())
    log.compact(log.head())
    log.close()
    nodes.start("n2")
    assert nodes.said("n2", "continuing from a snapshot")
    assert nodes.call("n2", "verify", "--replicas")["equal"] is True


def refuse_strangers(nodes: SecuredNodes, files: Path) -> None:
    """A node's own server takes neither plain HTTP nor a client without a certificate, nor one without the token."""
    url = EtcdUrl(nodes.url("n0"))
    log = EtcdLog(url)
    address = next(iter(log.values(PEERS).values())).decode()
    token = {"Authorization": f"Bearer {shared_token(log)}"}
    log.close()
    contexts = peer_contexts(url)
    assert contexts is not None
    nobody = ssl.create_default_context(cafile=files / "ca.pem")
    for context in (None, nobody):
        with pytest.raises((OSError, http.client.HTTPException)):
            status_of(address, context, token)
    assert status_of(address, contexts[1], {"Authorization": "Bearer wrong"}) == 401


def status_of(address: str, context: ssl.SSLContext | None, headers: dict[str, str]) -> int:
    if context is None:
        connection = http.client.HTTPConnection(address, timeout=10)
    else:
        connection = http.client.HTTPSConnection(address, timeout=10, context=context)
    with contextlib.closing(connection):
        connection.request("GET", SNAPSHOT, headers=headers)
        response = connection.getresponse()
        response.read()
        return response.status


def test_a_certificate_that_is_only_for_clients_is_refused(files: Path) -> None:
    url = EtcdUrl(f"etcd://a/weft?tls=on&ca={files}/ca.pem&cert={files}/client.pem&key={files}/client.key")
    with pytest.raises(StoreUnusable, match="for servers and clients alike"):
        peer_contexts(url)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("etcd://me:secret@a/weft", "leave the password out of it"),
        ("etcd://a/weft?tls=on&ca=x", "cert, key is missing"),
        ("etcd://a/weft?ca=x", "which the address does not have"),
    ],
)
def test_addresses_that_are_wrong(address: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        EtcdUrl(address)


def test_what_is_printed_of_an_address_names_the_user() -> None:
    url = EtcdUrl("etcd://me%40home@a,b:1/weft?password_file=/etc/weft/password")
    assert (url.user, url.shown) == ("me@home", "etcd://me@home@a:2379,b:1/weft")
