"""All operations, in the order in which the documentation lists them."""

from typing import Any, Final

from weft.operations.declare import Operation, Resource
from weft.operations.resources import (
    backfills,
    bulk,
    definitions,
    events,
    graph,
    history,
    nodes,
    notifications,
    repair,
    run_changes,
    runs,
    server,
    store,
    streams,
    submissions,
    tasks,
    tokens,
    triggers,
    workflows,
)  # fmt: skip

RESOURCES: Final[tuple[Resource, ...]] = (
    submissions.resource, runs.resource, run_changes.resource, repair.resource, bulk.resource, tasks.resource,
    graph.resource, history.resource, workflows.resource, definitions.resource, events.resource, nodes.resource,
    store.resource,
    triggers.resource, backfills.resource, streams.resource, tokens.resource, notifications.resource, server.resource,
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = tuple(
    operation for resource in RESOURCES for operation in resource.operations
)
