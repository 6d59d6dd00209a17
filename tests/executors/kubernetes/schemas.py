"""The published schemas of Kubernetes' objects (package kubernetes-validate), in their strict form: what they do not
name is an error."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs

VERSION = "v1.36.0-local-strict"


def file_of(document: dict[str, Any]) -> str:
    """job-batch-v1.json for a Job of batch/v1."""
    group, _, version = document["apiVersion"].rpartition("/")
    parts = [document["kind"].lower(), *([group.split(".")[0]] if group else []), version]
    return "-".join(parts) + ".json"


@cache
def _definitions() -> dict[str, Any]:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / VERSION
    loaded: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())
    return loaded


@cache
def _validator(name: str) -> Any:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / VERSION
    schema = json.loads((folder / name).read_text().replace("/api/_definitions.json#", "#"))
    del schema["$id"]  # references shall be looked for in the document itself
    return jsonschema_rs.validator_for({**schema, "$defs": _definitions()["$defs"]})


def problems(document: dict[str, Any], name: str | None = None) -> list[str]:
    """What is wrong with an object; `name` is the schema's file, if the object does not say its own kind."""
    validator = _validator(name or ("status-meta-v1.json" if document.get("kind") == "Status" else file_of(document)))
    return [
        f"/{'/'.join(map(str, error.instance_path))}: {error.message}" for error in validator.iter_errors(document)
    ]
