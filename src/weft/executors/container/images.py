"""Gets the image of an attempt: `pull` says when, and the engine's progress becomes a line of text now and then."""

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from weft.executors.container.client import EngineClient, EngineRefused, EngineUnreachable

PROGRESS_S = 2.0  # at most one line in this time
_LINE_BYTES_MAX = 1 << 20
_LAYERS_MAX = 1000  # of an image whose sizes are added up
_SILENCE_S = 120.0  # an engine that says nothing of a pull for so long does not answer


class ImageError(Exception):
    """The image cannot be had; the message says why."""


class PullProgress:
    """Adds up what the engine says about the layers of an image."""

    def __init__(self, image: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._image = image
        self._say = say
        self._clock = clock
        self._said_at = clock()
        self._layers: dict[str, tuple[int, int]] = {}
        say(f"pulling {image}")

    def take(self, message: Mapping[str, Any]) -> None:
        detail = message.get("progressDetail") or {}
        total = detail.get("total")
        if isinstance(total, int) and total > 0 and len(self._layers) < _LAYERS_MAX:
            self._layers[f"{message.get('id')} {message.get('status')}"] = (int(detail.get("current") or 0), total)
        now = self._clock()
        if now - self._said_at < PROGRESS_S:
            return
        self._said_at = now
        status = " ".join(str(message.get("status") or "").split())[:60].lower()
        self._say(f"pulling {self._image}: {status}{self._percent()}")

    def _percent(self) -> str:
        total = sum(size for _, size in self._layers.values())
        return f", {100 * sum(done for done, _ in self._layers.values()) // total} %" if total else ""


async def ensure_image(
    client: EngineClient, container: Mapping[str, Any], credentials: str | None, say: Callable[[str], None]
) -> None:
    """Raises ImageError, or EngineUnreachable."""
    image, policy = container["image"], container.get("pull") or "missing"
    if policy != "always":
        try:
            await client.ask("GET", f"/images/{quote(image, safe='/')}/json")
            return
        except EngineRefused as error:
            if error.status != 404:
                raise ImageError(f"image {image}: {error.message}") from None
        if policy == "never":
            raise ImageError(f"image {image} is not on this engine, and pull is never")
    await _pull(client, image, credentials, say)


async def _pull(client: EngineClient, image: str, credentials: str | None, say: Callable[[str], None]) -> None:
    import asyncio

    progress = PullProgress(image, say)
    headers = {} if credentials is None else {"X-Registry-Auth": registry_auth(credentials)}
    name, tag = split_tag(image)
    path = f"/images/create?fromImage={quote(name, safe='')}" + (f"&tag={quote(tag, safe='')}" if tag else "")
    try:
        async with asyncio.timeout(_SILENCE_S):
            stream = await client.stream("POST", path, headers=headers)
        try:
            pending = b""
            while True:
                async with asyncio.timeout(_SILENCE_S):
                    data = await stream.read()
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                if len(pending) > _LINE_BYTES_MAX:
                    pending = b""
                for line in lines:
                    _take(image, line, progress)
            _take(image, pending, progress)
        finally:
            stream.close()
    except TimeoutError:
        raise EngineUnreachable("no progress of a pull for two minutes") from None
    except EngineRefused as error:
        raise ImageError(f"image {image} cannot be pulled: {error.message}") from None


def _take(image: str, line: bytes, progress: PullProgress) -> None:
    if not line.strip():
        return
    try:
        message = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return
    if not isinstance(message, dict):
        return
    if message.get("error"):
        raise ImageError(f"image {image} cannot be pulled: {' '.join(str(message['error']).split())[:1000]}")
    progress.take(message)


def split_tag(image: str) -> tuple[str, str]:
    """Without a tag and a digest it is `latest`: Docker would pull every tag."""
    if "@" in image:
        return image, ""
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def registry_auth(credentials: str) -> str:
    """The header for the registry from a secret: `user:password`, or JSON with the fields of Docker's AuthConfig."""
    try:
        auth = msgspec.json.decode(credentials.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        auth = None
    if not isinstance(auth, dict):
        user, colon, password = credentials.strip().partition(":")
        if not colon:
            raise ImageError("credentials must be USER:PASSWORD, or JSON with username and password")
        auth = {"username": user, "password": password}
    return base64.urlsafe_b64encode(msgspec.json.encode(auth)).decode()
