"""The manifests of deploy/kubernetes, as the tests read and apply them."""

import copy
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import yaml

from tests.kubernetes_cluster.control_plane import ControlPlane

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
DOCUMENT_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Service": "/api/v1/namespaces/{}/services",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}


def documents() -> list[tuple[str, dict[str, Any]]]:
    """(file and kind, document) of all of them."""
    out = []
    for path in sorted(DEPLOY.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document is not None:
                out.append((f"{path.name} {document['kind']} {document['metadata']['name']}", document))
    return out


def apply(plane: ControlPlane, document: dict[str, Any]) -> Any:
    """Server-side apply, strict about unknown fields: the API server itself validates it."""
    namespace = document["metadata"].get("namespace", "")
    path = DOCUMENT_PATHS[document["kind"]].format(namespace) + "/" + document["metadata"]["name"]
    path += "?fieldManager=weft-test&fieldValidation=Strict&force=true"
    return plane.request("PATCH", path, document, patch=True)


def create_account(plane: ControlPlane) -> None:
    """The service account of deploy/kubernetes, with its rights in the namespaces of the tests."""
    for _, document in documents():
        if document["kind"] in ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
            for namespace in ("weft", "default", "other"):
                one = copy.deepcopy(document)
                if document["kind"] in ("Role", "RoleBinding"):
                    one["metadata"]["namespace"] = namespace
                apply(plane, one)
    for namespace in ("weft", "default", "other"):
        _until_account(plane, namespace)


def _until_account(plane: ControlPlane, namespace: str) -> None:
    """Pods need the account `default`, which a controller makes."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            plane.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
            return
        except HTTPError:
            time.sleep(0.1)
    raise AssertionError(f"no account in {namespace}")
