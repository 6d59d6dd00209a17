"""The page on a server that asks for a token: by the protocol, and in a real browser where there is one."""

import base64
import hashlib
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
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", body, re.DOTALL)
        assert f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    for rule in ("form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'", "connect-src 'self'"):
        assert rule in policy
    assert not re.search(r"\s(on[a-z]+|style|src)=", body)


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
    browser.until("document.getElementById('ask') && !document.getElementById('ask').hidden")
    browser.eval(f"document.getElementById('token').value = {token!r}; document.querySelector('#ask button').click()")


def test_in_a_browser(locked: Running, browser: Browser) -> None:
    client = locked.client(TOKEN)
    runs = [client.post("/v1/runs", {"definition": CHAIN}).json["run"] for _ in range(2)]
    locked.connection.cancel(runs[1], None, NASTY)
    url = f"http://127.0.0.1:{locked.port}/plain?limit=1"
    browser.open(url)
    give(browser, "wrong")
    browser.until("document.getElementById('said').textContent == 'this token is not known here'")
    give(browser, "no token: ä")
    browser.until("document.getElementById('said').textContent == 'this is not a token'")
    give(browser, TOKEN)
    shown = "document.getElementById('shown').textContent"
    browser.until(f"{shown}.includes({runs[1]!r})")
    assert runs[0] not in browser.eval(shown)
    assert "onerror" in browser.eval(shown)
    assert browser.eval("document.querySelectorAll('#shown img, #shown script').length") == 0
    assert browser.eval("getComputedStyle(document.querySelector('#shown table')).borderCollapse") == "collapse"

    browser.eval("document.querySelector('#shown p a').click()")  # older runs: the token is still known
    browser.until(f"{shown} && {shown}.includes({runs[0]!r}) && location.search.includes('before=')")
    browser.eval("document.querySelector('#shown td a').click()")  # a run, as a record
    browser.until(f"document.querySelector('#shown pre') && {shown}.includes('\"workflow\"')")
    browser.eval("history.back()")
    browser.until("!!document.querySelector('#shown table')")
    browser.eval("window.before = true; location.reload()")
    browser.until("!window.before && !!document.querySelector('#shown table')")

    browser.eval("document.getElementById('forget').click()")
    browser.until(f"!document.getElementById('ask').hidden && {shown} == ''")
    assert browser.eval("sessionStorage.length + localStorage.length") == 0
    assert browser.eval("document.cookie") == ""
    assert browser.eval("document.title") == "Weft"
    sent = [request for request in browser.requested if request["url"].startswith("http")]
    assert any(request["headers"].get("Authorization") == f"Bearer {TOKEN}" for request in sent)
    assert not any(TOKEN in request["url"] or request.get("hasPostData") for request in sent)
    assert not [text for text in browser.logged if "Content Security Policy" in text]
