"""What this machine can run tasks with: every type, and whether what it needs answers."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from weft.executors.boot_clock import boottime
from weft.local_node.engines import engines, options_of
from weft.local_node.factory import KINDS
from weft.operations.replies import ExecutorInfo
from weft.plugins.isolated import isolated
from weft.plugins.registry import Plugin, find_plugin, installed_types

if TYPE_CHECKING:
    from weft.config import Config

CHECK_MAX_S = 3.0  # for all of them, which are asked at once


def executors_here(config: "Config") -> list[tuple[str, ExecutorInfo]]:
    """(type, what is known of it), Weft's own first. A type of which plugins claim Weft's own name comes twice."""
    return asyncio.run(_check_all(config))


async def _check_all(config: "Config") -> list[tuple[str, ExecutorInfo]]:
    made = engines(options_of(config))
    plugins = [plugin for plugin in map(find_plugin, installed_types()) if plugin is not None]
    types = [*KINDS, *(plugin.type for plugin in plugins)]

    async def engine(kind: str) -> ExecutorInfo:
        if kind == "agent":
            return ExecutorInfo(usable=True, error=_missing_program(config.agent_command[0]))
        if kind not in made:
            return ExecutorInfo(usable=True)
        error = await _within(made[kind].check, made[kind].close)
        return ExecutorInfo(
            usable=error is None, error=error, engine=getattr(made[kind], "engine", None) if error is None else None
        )

    found = await asyncio.gather(*map(engine, KINDS), *(_plugin(config, plugin) for plugin in plugins))
    return list(zip(types, found, strict=True))


def _missing_program(program: str) -> str | None:
    """Agents with `command` or `api` run without it."""
    if shutil.which(program) is not None:
        return None
    return f"there is no program {program} here: install it or set agent_command; `command` and `api` need none"


async def _plugin(config: "Config", plugin: Plugin) -> ExecutorInfo:
    executor = isolated(plugin, boottime, labels=config.labels, capabilities=config.capabilities)
    await executor.open()
    error = await executor.check(CHECK_MAX_S)
    engine = getattr(executor, "engine", None) if error is None else None
    await executor.close(within_s=1.0)
    return ExecutorInfo(
        usable=error is None, error=error, engine=engine, plugin=plugin.distribution, version=plugin.version
    )


async def _within(check: Callable[[], Awaitable[str | None]], close: Callable[[], Awaitable[None]]) -> str | None:
    try:
        async with asyncio.timeout(CHECK_MAX_S):
            return await check()
    except TimeoutError:
        return f"it has not answered within {CHECK_MAX_S:g} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await close()
