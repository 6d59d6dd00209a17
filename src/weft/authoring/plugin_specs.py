"""Checks the `spec` of tasks of plugins' types against what the plugin declares, where it is installed."""

from typing import Any

from weft.core.definition.document import Document
from weft.core.definition.problems import ProblemCollector, ValueProblem
from weft.core.definition.source_paths import SourcePaths
from weft.plugins.registry import find_plugin


def check_specs(document: Document, value: Any) -> list[ValueProblem]:
    """`value`: the definition as its author wrote it."""
    collector, source = ProblemCollector(), SourcePaths(value)
    for name, task in document["tasks"].items():
        plugin = find_plugin(task["type"]) if "type" in task else None
        if plugin is None or plugin.schema is None:
            continue
        path, written = source.task(name)
        has_spec = isinstance(written, dict) and "spec" in written
        collector.path = [*path, "spec"] if has_spec else [*path]
        plugin.schema.read(collector, task.get("spec", {}))
    return collector.problems
