"""The executors of plugins that a node in this process has. Without a task of a plugin's type, a node for one run
looks at no installed distribution."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from weft.core.workflow import BUILT_IN_KINDS, Workflow

if TYPE_CHECKING:
    from weft.config import Config
    from weft.node.ports import NodeSettings
    from weft.plugins.isolated import IsolatedExecutor

CHECK_WAIT_S = 3.0  # before a run is refused; the node itself asks again every few seconds


def plugin_kinds(workflows: Iterable[Workflow]) -> list[str]:
    """Types of tasks in these that no executor of Weft's own runs."""
    return sorted({task.kind for workflow in workflows for task in workflow.tasks} - BUILT_IN_KINDS)


def plugin_executors(
    kinds: Collection[str] | None,
    settings: "NodeSettings",
    log: Callable[[str, dict[str, Any]], None] = lambda message, fields: None,
) -> "dict[str, IsolatedExecutor]":
    """By type, of those that are installed; None: of all of them. One that cannot be used is there, too: its check
    says why."""
    if kinds is not None and not kinds:
        return {}
    from weft.core.definition.fields import OWN_TYPES
    from weft.executors.boot_clock import boottime
    from weft.plugins.isolated import isolated
    from weft.plugins.registry import find_plugin, installed_types

    made = {}
    for type_ in installed_types() if kinds is None else kinds:
        plugin = find_plugin(type_)
        if plugin is None:
            continue
        if plugin.error is not None:
            fields = {"type": type_, "distribution": plugin.distribution, "error": plugin.error}
            log("a plugin cannot be used", fields)
        if type_ not in OWN_TYPES:
            made[type_] = isolated(plugin, boottime, log, settings.labels, settings.capabilities)
    return made


def described(executors: "dict[str, IsolatedExecutor]") -> dict[str, dict[str, str]]:
    """What a node says of its plugins when it registers."""
    return {
        type_: {"distribution": executor.plugin.distribution, "version": executor.plugin.version}
        for type_, executor in executors.items()
    }


def plugins_here(config: "Config", kinds: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """(of these types, those that are installed; of them, why they cannot be used now)."""
    if not kinds:
        return [], {}
    from weft.node.ports import NodeSettings

    settings = NodeSettings("", 0, "", "", labels=config.labels, capabilities=config.capabilities)
    made = plugin_executors(kinds, settings)
    return sorted(made), asyncio.run(_down(made))


async def _down(executors: "dict[str, IsolatedExecutor]") -> dict[str, str]:
    async def check(executor: "IsolatedExecutor") -> str | None:
        await executor.open()
        why = await executor.check(CHECK_WAIT_S)
        await executor.close()
        return why

    found = await asyncio.gather(*(check(executor) for executor in executors.values()))
    return {type_: why for type_, why in zip(executors, found, strict=True) if why is not None}
