"""Where tokens come from: a file, or google-auth, which is an extra."""

import asyncio
import sys
import threading
import time
import types
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from weft.authoring.load import load_text
from weft.config import load
from weft.executors.cloud_run import credentials as module
from weft.executors.cloud_run.credentials import LOOKED_FOR, MISSING, GoogleCredentials, NoCredentials, TokenFile
from weft.executors.cloud_run.executor import CloudRunExecutor
from weft.local_node.engines import engines_down


def test_a_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    file = TokenFile(str(path))
    assert "cannot be read: No such file" in (asyncio.run(file.check()) or "")
    path.write_text("\n")
    assert "holds no token" in (asyncio.run(file.check()) or "")
    path.write_text("one\n")
    assert (asyncio.run(file.check()), asyncio.run(file.token())) == (None, "one")
    path.write_text("two\n")
    assert asyncio.run(file.token()) == "two"


def test_without_google_auth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_installed", lambda: False)

    async def main() -> None:
        executor = CloudRunExecutor()
        await executor.open()
        assert await executor.check() == MISSING
        assert "pip install 'weft[cloud_run]'" in MISSING
        assert executor.engine is None
        await executor.close()

    asyncio.run(main())


class Found:
    """Credentials as google-auth has them."""

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self.count = 0
        self.token: str | None = None
        self.expiry: datetime | None = None
        self.threads: set[int] = set()

    def refresh(self, request: object) -> None:
        self.count += 1
        self.threads.add(threading.get_ident())
        self.token = f"t{self.count}"
        self.expiry = (datetime.now(UTC) + timedelta(seconds=self.lifetime_s)).replace(tzinfo=None)


def google(monkeypatch: pytest.MonkeyPatch, default: Any) -> None:
    """The modules of google-auth that are used."""
    auth = types.ModuleType("google.auth")
    requests = types.ModuleType("google.auth.transport.requests")
    transport = types.ModuleType("google.auth.transport")
    auth.default, requests.Request = default, object  # type: ignore[attr-defined]  # modules made here
    auth.transport, transport.requests = transport, requests  # type: ignore[attr-defined]
    package = types.ModuleType("google")
    package.auth = auth  # type: ignore[attr-defined]
    for name, one in {
        "google": package, "google.auth": auth, "google.auth.transport": transport,
        "google.auth.transport.requests": requests,
    }.items():  # fmt: skip
        monkeypatch.setitem(sys.modules, name, one)
    monkeypatch.setattr(module, "_is_installed", lambda: True)


def test_tokens_are_kept_and_renewed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found(3600.0)
    google(monkeypatch, lambda scopes: (found, "p"))

    async def main() -> None:
        credentials = GoogleCredentials()
        assert await asyncio.gather(*(credentials.token() for _ in range(50))) == ["t1"] * 50
        assert await credentials.check() is None
        credentials.refused()
        assert await credentials.token() == "t2"
        found.lifetime_s = 60.0  # is renewed before it has passed, while it is still used
        credentials.refused()
        assert await credentials.token() == "t3"
        assert await credentials.token() == "t3"
        await credentials.close()
        assert await credentials.token() == "t4"
        await credentials.close()

    asyncio.run(main())
    assert threading.get_ident() not in found.threads


def test_a_check_does_not_wait_for_a_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def default(scopes: object) -> tuple[Found, str]:
        release.wait(20)
        raise RuntimeError("Your default credentials were not found.")

    google(monkeypatch, default)

    async def main() -> None:
        credentials = GoogleCredentials()
        began = time.monotonic()
        assert await credentials.check() == LOOKED_FOR
        assert time.monotonic() - began < 5
        release.set()
        with pytest.raises(NoCredentials, match="default credentials were not found"):
            await credentials.token()
        assert await credentials.check() == "no credentials: Your default credentials were not found."

    asyncio.run(main())


def test_a_run_is_not_refused_while_credentials_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def default(scopes: object) -> tuple[Found, str]:
        time.sleep(1.0)
        return Found(3600.0), "p"

    google(monkeypatch, default)
    workflow = load_text("tasks: {a: {cloud_run: {project: p, region: r, job: j}}}", "w").workflow
    assert engines_down(load({}, tmp_path), [workflow]) == {}
    monkeypatch.setattr(module, "_is_installed", lambda: False)
    assert engines_down(load({}, tmp_path), [workflow]) == {"cloud_run": MISSING}
