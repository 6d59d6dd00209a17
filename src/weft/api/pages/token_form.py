"""Signing in to the plain page, without scripts: a form, and a cookie for that page alone.

A browser that asks for the page without a token gets the form with the 401. The form sends the token once; the cookie
that comes back holds a code, which stands for the token in this process. It is read for `GET /plain` only, no script
sees it, and nothing that another site starts takes it along. It has no `Path`: a browser then takes the directory of
the address that set it, which is right below any prefix of a proxy.
"""

import re
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from weft.api.pages.plain_page import HEADERS, STYLE
from weft.operations.errors import ApiError

if TYPE_CHECKING:
    from weft.api.app_state import AppState

PAGE_PATH: Final = "/plain"
TOKEN_PATH: Final = "/plain/token"
FORGET_PATH: Final = "/plain/forget"
COOKIE: Final = "weft-plain"
BODY_MAX: Final = 4096
_TOKEN = re.compile(r"[\x21-\x7e]+")


def form(action: str, said: str = "") -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Weft</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}</style></head><body>
<h1>Weft</h1>
<form method="post" action="{action}">
<label>Token <input name="token" type="password" autocomplete="off" required></label>
<button>show</button>
<span class="soft">one of <code>weft token create</code>; forgotten when the browser closes, or after 12 hours</span>
</form>
<p class="failed" role="alert">{escape(said)}</p>
</body></html>
"""


def sign_in(request: Request, error: ApiError) -> Response | None:
    """For a person with a browser who wants to see the page and has sent no token that we know."""
    wants = "text/html" in request.headers.get("accept", "")
    if error.problem.status != 401 or request.scope["path"] != PAGE_PATH or request.method != "GET" or not wants:
        return None
    return _page(form("plain/token"), error)


def _page(text: str, error: ApiError) -> Response:
    return Response(text, error.problem.status, media_type="text/html", headers={**error.headers, **HEADERS})


async def use_form(request: Request, state: "AppState") -> Response | None:
    """What the two forms send; None: it is neither."""
    path: str = request.scope["path"]
    if request.method != "POST" or path not in (TOKEN_PATH, FORGET_PATH):
        return None
    if request.headers.get("origin") is None:  # whose page sent it must be known; the guard has compared it
        raise ApiError("origin", "this form must be sent by a browser from the page itself")
    if path == FORGET_PATH:
        state.cookies.forget(_cookie(request))
        return _back("", "; Max-Age=0", request)
    body = await request.body()
    if len(body) > BODY_MAX:
        raise ApiError("too_large", f"a token's form may have {BODY_MAX:,} bytes")
    token = parse_qs(body.decode("latin-1")).get("token", [""])[0].strip()
    if not _TOKEN.fullmatch(token):
        return _page(form("token", "this is not a token"), _unknown())
    try:
        known = await state.gate.caller(token, request)
    except ApiError as error:  # too many that were wrong
        return _page(form("token", error.problem.detail), error)
    if known is None:
        return _page(form("token", "this token is not known here"), _unknown())
    return _back(state.cookies.create(token), "", request)


def _unknown() -> ApiError:
    return ApiError("unauthorized", "a token is needed", headers={"WWW-Authenticate": "Bearer"})


def _back(value: str, more: str, request: Request) -> Response:
    secure = "; Secure" if request.url.scheme == "https" else ""
    cookie = f"{COOKIE}={value}; HttpOnly; SameSite=Strict{secure}{more}"
    return Response(status_code=303, headers={"Location": PAGE_PATH, "Set-Cookie": cookie, **HEADERS})


def token_of_cookie(request: Request, state: "AppState") -> str | None:
    """Of a browser that asks for the plain page; a cookie says nothing anywhere else."""
    if request.scope["path"] != PAGE_PATH or request.method != "GET":
        return None
    return state.cookies.token(_cookie(request))


def _cookie(request: Request) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
