"""The requests of an attempt: from its resolved spec to the bytes that are sent."""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from weft.core.definition.field_types.text_formats import parse_duration_ms, parse_size_bytes
from weft.executors.http_call.secret_references import holds_secret, revealed
from weft.executors.protocol import Launch

BYTES_MAX = 1 << 20
TIMEOUT_S = 30.0
#: Headers that describe the message itself: a definition cannot set them.
OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)
#: Headers that another server gets as well: any other one may hold credentials.
_FOR_OTHERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_OF_BODIES = frozenset({"content-type", "content-encoding", "idempotency-key"})
_PATH_SAFE = "%/:@!$&'()*+,;=~[]|"
_PORTS = {"http": 80, "https": 443}


class BadRequest(Exception):
    """What the definition says cannot be sent."""


class Url(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int
    target: str  # path and query

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def whole(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def shown(self) -> str:
        """For people: a query may hold credentials that nobody listed."""
        path, mark, _ = self.target.partition("?")
        return f"{self.scheme}://{self.authority}{path}{'?…' if mark else ''}"


def parse_url(text: str, base: Url | None = None) -> Url:
    """`base`: of an address that may be relative."""
    try:
        parts = urlsplit(text if base is None else urljoin(base.whole, text))
        port, host = parts.port, parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode()
    except ValueError as error:  # also what cannot be encoded
        raise BadRequest(f"{text[:200]!r} is no URL: {error}") from None
    if parts.scheme not in _PORTS or not host:
        raise BadRequest(f"{text[:200]!r} is no URL of http or https")
    if parts.username is not None or parts.password is not None:
        raise BadRequest(f"the URL of {host} has a user name: write a header Authorization instead")
    if any(character <= " " or character in "/\\#?@" for character in host):
        raise BadRequest(f"{host!r} is no host")
    target = quote(parts.path or "/", safe=_PATH_SAFE)
    if parts.query:
        target += "?" + quote(parts.query, safe=_PATH_SAFE + "?")
    return Url(parts.scheme, host, port or _PORTS[parts.scheme], target)


class HttpRequest(msgspec.Struct, frozen=True):
    method: str
    url: Url
    headers: dict[str, str]
    body: bytes | None = None
    secret_body: bool = False

    def encoded(self) -> bytes:
        own = {"Host": self.url.authority, "User-Agent": "weft", "Accept": "*/*", "Accept-Encoding": "identity"}
        lines = [f"{self.method} {self.url.target} HTTP/1.1"]
        set_here = {name.lower() for name in self.headers}
        lines += [f"{name}: {value}" for name, value in own.items() if name.lower() not in set_here]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body or b'')}")
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + (self.body or b"")

    def at(self, url: Url, method: str, with_body: bool = False) -> "HttpRequest":
        """The same to another address. Another server gets no credentials."""
        out = dict(self.headers)
        if not with_body:
            out = {name: value for name, value in out.items() if name.lower() not in _OF_BODIES}
        if url.origin != self.url.origin:
            out = {name: value for name, value in out.items() if name.lower() in _FOR_OTHERS}
        return HttpRequest(method, url, out, self.body if with_body else None, self.secret_body and with_body)


class Limits(msgspec.Struct, frozen=True):
    timeout_s: float
    bytes_max: int
    redirects: bool


def limits_of(spec: Mapping[str, Any]) -> Limits:
    timeout = spec.get("timeout")
    size = spec.get("max_bytes")
    return Limits(
        TIMEOUT_S if timeout is None else parse_duration_ms(timeout) / 1000,
        BYTES_MAX if size is None else parse_size_bytes(size),
        bool(spec.get("redirects")),
    )


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def first_request(launch: Launch) -> HttpRequest:
    """Raises BadRequest."""
    spec, secrets = launch.spec["http"], launch.secrets
    url = own_url(spec["url"], secrets)
    headers = _headers(spec.get("headers", {}), secrets)
    body, kind = _body(spec, secrets)
    names = {name.lower() for name in headers}
    if kind is not None and "content-type" not in names:
        headers["Content-Type"] = kind
    if "idempotency-key" not in names:
        headers["Idempotency-Key"] = launch.env.get("WEFT_IDEMPOTENCY_KEY", "")
    method = spec.get("method") or ("GET" if body is None else "POST")
    if body is not None and method in ("GET", "HEAD"):
        raise BadRequest(f"a {method} request sends no body")
    sent = spec.get("body") if "body" in spec else spec.get("json")
    return HttpRequest(method, url, headers, body, holds_secret(sent))


def own_url(written: Any, secrets: Mapping[str, str]) -> Url:
    """An address that stands in the definition, in which a secret may stand, too."""
    return parse_url(revealed(as_text(written), secrets, lambda value: quote(value, safe="")))


def _headers(written: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    for name, value in written.items():
        if name.lower() in OWN_HEADERS:
            raise BadRequest(f"the header {name} cannot be set: it follows from the request")
        text = revealed(as_text(value), secrets).strip()
        if not all(character == "\t" or character.isprintable() for character in text):
            raise BadRequest(f"the value of the header {name} has a line break or another control character")
        try:
            text.encode("latin-1")
        except UnicodeEncodeError:
            raise BadRequest(f"the value of the header {name} has characters that no header can have") from None
        headers[name] = text
    return headers


def _body(spec: Mapping[str, Any], secrets: Mapping[str, str]) -> tuple[bytes | None, str | None]:
    """(what is sent, its type)."""
    if "body" in spec:
        text = revealed(as_text(spec["body"]), secrets)
        return text.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
    if "json" in spec:
        return msgspec.json.encode(_revealed(spec["json"], secrets)), "application/json"
    return None, None


def _revealed(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return revealed(value, secrets)
    if isinstance(value, dict):
        return {key: _revealed(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_revealed(item, secrets) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRequest("JSON has no infinite numbers")
    return value
