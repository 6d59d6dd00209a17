"""Merges a task's `pod` patch into a pod's template the way a strategic merge patch does: mappings are merged, lists
of named things by their name, other lists are replaced, and null removes. `$patch: delete` removes an item of such a
list, `$patch: replace` replaces a mapping."""

from typing import Any

#: Lists whose items have a key, within a pod's template.
_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "volumes": "name", "env": "name",
    "imagePullSecrets": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "ports": "containerPort",
    "hostAliases": "ip", "topologySpreadConstraints": "topologyKey",
}  # fmt: skip


def merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A new mapping; neither of the two is changed."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    out = dict(target)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            found = out.get(key)
            out[key] = merge_patch(found if isinstance(found, dict) else {}, value)
        elif isinstance(value, list) and key in _KEYS:
            out[key] = _merge_items(out.get(key) or [], value, _KEYS[key])
        else:
            out[key] = value
    return out


def _merge_items(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    out = {item.get(key): item for item in target}
    for item in patch:
        name = item.get(key)
        if item.get("$patch") == "delete":
            out.pop(name, None)
        else:
            out[name] = merge_patch(out.get(name) or {}, item)
    return list(out.values())
