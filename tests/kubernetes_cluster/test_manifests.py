"""deploy/kubernetes: valid by the published schemas, and, in `make test-kubernetes`, by the real API server."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executors.kubernetes.schemas import problems
from tests.kubernetes_cluster.manifests import DOCUMENT_PATHS, documents
from weft.executors.kubernetes.api import Api
from weft.executors.kubernetes.cluster_config import load_config

ADMIN = os.environ.get("WEFT_TEST_ADMIN_KUBECONFIG")
DOCUMENTS = documents()


@pytest.mark.parametrize("document", [one for _, one in DOCUMENTS], ids=[name for name, _ in DOCUMENTS])
def test_by_the_published_schemas(document: dict[str, Any]) -> None:
    assert problems(document) == []


def test_the_schemas_find_what_is_wrong() -> None:
    (name, right) = next((name, one) for name, one in DOCUMENTS if one["kind"] == "Deployment")
    wrong = msgspec.json.decode(msgspec.json.encode(right))
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "x"
    wrong["spec"]["replicas"] = "two"
    assert len(problems(wrong)) == 2, name


def test_all_that_is_needed_is_there() -> None:
    kinds = [document["kind"] for _, document in DOCUMENTS]
    assert {"Deployment", "Service", "Role", "RoleBinding", "ClusterRole", "ServiceAccount"} <= set(kinds)
    secrets = msgspec.json.encode([document for _, document in DOCUMENTS])
    assert secrets.count(b"secretKeyRef") == 3  # the database of both, the token of the server
    assert "Secret" not in kinds


@pytest.mark.skipif(ADMIN is None, reason="only in `make test-kubernetes`, on a real control plane")
@pytest.mark.parametrize("document", [one for _, one in DOCUMENTS], ids=[name for name, _ in DOCUMENTS])
def test_by_the_real_api_server(document: dict[str, Any], tmp_path: Path) -> None:
    import asyncio

    async def apply() -> dict[str, Any]:
        assert ADMIN is not None
        api = Api(load_config({"KUBECONFIG": ADMIN}))
        meta = document["metadata"]
        path = DOCUMENT_PATHS[document["kind"]].format(meta.get("namespace", "")) + "/" + meta["name"]
        query = {"fieldManager": "weft-test", "fieldValidation": "Strict", "force": "true", "dryRun": "All"}
        try:
            answer = await api.request("PATCH", path, query, document, "application/apply-patch+yaml")
        finally:
            api.close()
        decoded: dict[str, Any] = msgspec.json.decode(answer)
        return decoded

    applied = asyncio.run(apply())
    assert (applied["kind"], applied["metadata"]["name"]) == (document["kind"], document["metadata"]["name"])
    assert applied["metadata"].get("uid")
