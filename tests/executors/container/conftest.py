import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executors.container.containers import Containers
from tests.executors.container.podman import NoPodman, Podman, podman_session


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    try:
        with podman_session() as found:
            yield found
    except NoPodman as error:
        pytest.skip(f"no real container engine: {error}")


@pytest.fixture(autouse=True)
def private_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where attempts of this test have their private files: what is left of them can be seen, and goes with it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / f"weft-containers-{os.getuid()}"


@pytest.fixture
def containers(podman: Podman, tmp_path: Path) -> Containers:
    """Of this test: its runs have a name of their own."""
    return Containers(podman, tmp_path, f"r{secrets.token_hex(4)}")
