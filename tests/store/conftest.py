"""The store under test: every test that asks for `backend` runs on each of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.conformance import BACKENDS, Backend


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    found = BACKENDS[request.param](tmp_path)
    yield found
    found.finish()


@pytest.fixture
def make_store(backend: Backend) -> Iterator[Any]:
    """Opens stores on the same data; they are closed at the test's end."""
    opened: list[Any] = []

    def make() -> Any:
        store = backend.open()
        if store not in opened:
            opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(make_store: Any) -> Any:
    return make_store()
