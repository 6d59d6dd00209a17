"""Definitions: reading, checking and compiling them.

`read` turns a value (from YAML, JSON or Python) into the canonical document, or into all of its problems; `compile`
turns a canonical document into the workflow that runs. `fields` is the table of all keys; what a key may hold is a
type of `scalar_types` or `container_types`.
"""
