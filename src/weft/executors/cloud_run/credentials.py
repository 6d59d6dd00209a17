"""Access tokens for the Cloud Run API: from a file, or from google-auth, which is imported when it is first needed.

google-auth is synchronous, and may look for a metadata server for seconds: it runs in a thread, one call at a time,
and only to find credentials or to renew a token. A check never waits for it.
"""

import asyncio
import importlib.util
import os
import time
from typing import Any

MISSING = "google-auth is not installed: pip install 'weft[cloud_run]'"
LOOKED_FOR = "it has not been checked yet: credentials are looked for"
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_RENEW_BEFORE_S = 300.0
_AGAIN_S = 60.0  # after credentials were looked for in vain


class NoCredentials(Exception):
    """There is no token to send."""


class TokenFile:
    """Read again when it has changed."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def check(self) -> str | None:
        try:
            self._read()
        except NoCredentials as error:
            return str(error)
        return None

    async def token(self) -> str:
        return self._read()

    def refused(self) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""

    def _read(self) -> str:
        try:
            with open(self._path, encoding="ascii") as file:
                token = file.read(16384).strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not ASCII text"
            raise NoCredentials(f"cloud_run_token_file: {self._path} cannot be read: {why}") from None
        if not token or not token.isprintable() or " " in token:
            raise NoCredentials(f"cloud_run_token_file: {self._path} holds no token")
        return token


class GoogleCredentials:
    """What google-auth finds on this machine: the file of GOOGLE_APPLICATION_CREDENTIALS, those of gcloud, or the
    machine's own account."""

    def __init__(self) -> None:
        self._found: Any = None
        self._token: str | None = None
        self._until = 0.0  # by time.time()
        self._renewing: asyncio.Task[None] | None = None
        self._error: str | None = None
        self._error_at = float("-inf")

    async def check(self) -> str | None:
        if self._token is not None and time.time() < self._until:
            return None
        if not _is_installed():
            return MISSING
        if self._error is not None and time.monotonic() - self._error_at < _AGAIN_S:
            return self._error
        self._start()
        assert self._renewing is not None
        await asyncio.wait([self._renewing], timeout=0.2)
        if not self._renewing.done():
            return self._error or LOOKED_FOR
        return self._error

    async def token(self) -> str:
        if self._token is None or time.time() >= self._until - _RENEW_BEFORE_S:
            self._start()
        if self._token is None or time.time() >= self._until:
            assert self._renewing is not None
            await asyncio.shield(self._renewing)
        if self._token is None or time.time() >= self._until:
            raise NoCredentials(self._error or "the credentials give no token")
        return self._token

    def refused(self) -> None:
        """The API does not take it any more."""
        self._token = None

    async def close(self) -> None:
        if self._renewing is not None:
            await asyncio.wait([self._renewing], timeout=1.0)

    def _start(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        try:
            self._token, self._until = await asyncio.to_thread(self._ask)
            self._error = None
        except ImportError:
            self._failed(MISSING)
        except Exception as error:  # of google-auth and of the library that it sends requests with
            self._failed(f"no credentials: {' '.join(str(error).split())[:300] or type(error).__name__}")

    def _failed(self, why: str) -> None:
        self._error, self._error_at = why, time.monotonic()

    def _ask(self) -> tuple[str, float]:
        """In a thread."""
        import google.auth
        import google.auth.transport.requests

        if self._found is None:
            self._found, _ = google.auth.default(scopes=_SCOPES)
        self._found.refresh(google.auth.transport.requests.Request())
        expiry = self._found.expiry  # in UTC, without a zone
        until = time.time() + 3600.0 if expiry is None else _seconds(expiry)
        return str(self._found.token), until


def _seconds(expiry: Any) -> float:
    from datetime import UTC

    return float(expiry.replace(tzinfo=UTC).timestamp())


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("google.auth") is not None
    except (ImportError, ValueError):
        return False


Credentials = TokenFile | GoogleCredentials


def credentials_of(token_file: str | None) -> Credentials:
    return GoogleCredentials() if token_file is None else TokenFile(os.path.expanduser(token_file))
