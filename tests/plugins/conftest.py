"""Plugins that are installed for one test."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.distributions import write_distribution
from weft.plugins.registry import forget_plugins

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Writes a distribution into a directory of this process's path: (name, entries, source)."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    names: list[str] = []

    def write(name: str, *values: Any, **more: Any) -> None:
        write_distribution(site, name, *values, **more)
        names.append(name.replace("-", "_"))
        forget_plugins()

    yield write
    for name in names:
        sys.modules.pop(name, None)
    forget_plugins()
