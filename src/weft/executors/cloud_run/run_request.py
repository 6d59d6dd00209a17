"""The body of a request that runs a job, and where the job is."""

import re
from typing import Any
from urllib.parse import quote

import msgspec

from weft.core.definition.field_types.text_formats import parse_duration_ms
from weft.executors.protocol import Handle, Launch

#: The variable by which an execution is found again: its value is the handle's name.
MARKER = "WEFT_ATTEMPT_ID"
_NAMES = {
    "project": re.compile(r"([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]*"),
    "region": re.compile("[a-z0-9][a-z0-9-]*"),
    "job": re.compile("[a-z0-9][a-z0-9-]*"),
}


class BadCloudRunTask(Exception):
    """What the definition says, with its values, cannot be run."""


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def place_of(spec: dict[str, Any]) -> str:
    """Where the API has its job. Encoded, so that a strange value names nothing else."""
    project, region, job = (quote(as_text(spec[key]), safe="") for key in ("project", "region", "job"))
    return f"projects/{project}/locations/{region}/jobs/{job}"


def run_request(launch: Launch, handle: Handle) -> dict[str, Any]:
    """Raises BadCloudRunTask."""
    spec = launch.spec["cloud_run"]
    for key, pattern in _NAMES.items():
        if pattern.fullmatch(as_text(spec[key])) is None:
            raise BadCloudRunTask(f"{as_text(spec[key])[:100]!r} is no {key} of Cloud Run")
    given = spec.get("overrides", {})
    own = {name: value for name, value in launch.env.items() if name.startswith("WEFT_")}
    variables = {**given.get("env", {}), **own, MARKER: handle.name}
    container: dict[str, Any] = {
        "env": [{"name": name, "value": as_text(value)} for name, value in variables.items()]
    }
    if "container" in given:
        container["name"] = given["container"]
    if given.get("args"):
        container["args"] = [as_text(argument) for argument in given["args"]]
    elif "args" in given:
        container["clearArgs"] = True
    overrides: dict[str, Any] = {"containerOverrides": [container]}
    if "tasks" in given:
        overrides["taskCount"] = given["tasks"]
    if "timeout" in given:
        overrides["timeout"] = f"{parse_duration_ms(given['timeout']) / 1000:g}s"
    return {"overrides": overrides}
