"""The page on a server that asks for a token: by the protocol, and in a real browser where there is one."""

import base64
import hashlib
import http.client
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import CHAIN, Running
from tests.ui.browser import CHROMIUM, Browser
from weft.api.access.auth import OneToken

TOKEN = "a-token-of-some-length"
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
NASTY = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


@pytest.fixture
def locked(serving: Callable[..., Running]) -> Running:
    return serving(node=False, gate=OneToken(TOKEN))


def test_a_browser_is_asked_for_a_token(locked: Running) -> None:
    answer = locked.get("/plain", Accept=HTML)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert locked.get("/plain?limit=0", Accept=HTML).status == 401
    body = answer.body.decode()
    policy = answer.headers["content-security-policy"]
    (text,) = re.findall(r"<style>(.*?)</style>", body, re.DOTALL)
    assert f"style-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    for rule in ("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"):
        assert rule in policy
    assert not re.search(r"<script|\s(on[a-z]+|style|src)=", body)


def sent(server: Running, path: str, body: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
    """What a form sends: urlencoded, with the origin of its page."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    given = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{server.port}"}
    connection.request("POST", path, body, {**given, **headers})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    connection.close()
    return found


def test_a_cookie_opens_the_plain_page_and_nothing_else(locked: Running) -> None:
    status, headers, _ = sent(locked, "/plain/token", f"token={TOKEN}")
    assert (status, headers["location"]) == (303, "/plain")
    cookie, *flags = headers["set-cookie"].split("; ")
    assert (sorted(flags), TOKEN in cookie) == (["HttpOnly", "SameSite=Strict"], False)
    call = locked.client()
    assert call.get("/plain", Cookie=cookie).status == 200
    for path in ("/v1/runs", "/metrics", "/v1/caller"):
        assert call.get(path, Cookie=cookie).code == "unauthorized", path
    assert call.post("/v1/runs", {"definition": CHAIN}, Cookie=cookie).code == "unauthorized"
    assert call.get("/plain", Cookie="weft-plain=wrong").code == "unauthorized"
    assert call.get("/plain", Cookie=cookie, Authorization="Bearer wrong").code == "unauthorized"
    assert sent(locked, "/plain/forget", Cookie=cookie)[:1] == (303,)
    assert call.get("/plain", Cookie=cookie).code == "unauthorized"


def test_a_form_of_another_page_sets_no_cookie(locked: Running) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        status, answered, _ = sent(locked, "/plain/token", f"token={TOKEN}", **headers)
        assert (status, "set-cookie" in answered) == (403, False), headers
    assert locked.client()("POST", "/plain/token", f"token={TOKEN}".encode()).code == "origin"  # it says no origin
    for body, said in ((f"token={TOKEN}x", "not known here"), ("token=%C3%A4", "not a token"), ("", "not a token")):
        status, answered, text = sent(locked, "/plain/token", body)
        assert (status, "set-cookie" in answered) == (401, False)
        assert said in text
    assert sent(locked, "/plain/token", "token=" + "x" * 5000)[0] == 413


def test_programs_are_told_as_ever(locked: Running) -> None:
    assert locked.get("/plain").code == "unauthorized"
    assert locked.get("/plain", Accept="*/*").code == "unauthorized"
    assert locked.get("/v1/runs", Accept=HTML).code == "unauthorized"
    assert locked.get("/plain", Accept=HTML, Authorization="Bearer wrong").status == 401
    shown = locked.client(TOKEN).get("/plain", Accept=HTML)
    assert shown.status == 200
    assert "<script" not in shown.body.decode()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    made = Browser(tmp_path / "browser")
    yield made
    made.close()


def give(browser: Browser, token: str) -> None:
    browser.until("document.querySelector('form input') !== null")
    browser.eval(f"document.querySelector('form input').value = {token!r}; document.querySelector('button').click()")


def test_in_a_browser_without_scripts(locked: Running, browser: Browser) -> None:
    """Its policy allows none: what the test evaluates comes from outside of it."""
    client = locked.client(TOKEN)
    runs = [client.post("/v1/runs", {"definition": CHAIN}).json["run"] for _ in range(2)]
    locked.connection.cancel(runs[1], None, NASTY)
    shown = "document.body.textContent"
    browser.open(f"http://127.0.0.1:{locked.port}/plain")
    give(browser, "wrong")
    browser.until(f"{shown}.includes('this token is not known here')")
    give(browser, TOKEN)
    browser.until(f"{shown}.includes({runs[1]!r}) && {shown}.includes({runs[0]!r})")
    assert "onerror" in browser.eval(shown)
    assert browser.eval("document.querySelectorAll('img, script').length") == 0
    assert browser.eval("getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"
    browser.eval("document.querySelector('td a').click()")  # the newest run, with its tasks
    browser.until(f"location.search === '?run={runs[1]}' && {shown}.includes('shell')")
    assert browser.eval("document.cookie") == ""
    browser.eval("document.querySelector('form button').click()")
    browser.until("document.querySelector('form input') !== null")
    browser.open(f"http://127.0.0.1:{locked.port}/plain")
    browser.until("document.querySelector('form input') !== null")
    assert browser.eval("document.title") == "Weft"
    sent_on = [request for request in browser.requested if request["url"].startswith("http")]
    assert not any(TOKEN in request["url"] for request in sent_on)
    assert not [text for text in browser.logged if "Content Security Policy" in text]
