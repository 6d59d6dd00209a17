"""The page for people: what it shows, that nothing in it is anything but text, and what may be loaded by it."""

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser

from tests.api.conftest import CHAIN, Running, until
from weft.api.access.auth import OneToken

NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;"
TOKEN = "a-token-of-some-length"


class Seen(HTMLParser):
    """Every element, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_shows_runs_and_nodes(server: Running) -> None:
    run = server.submit(CHAIN)
    server.ended(run)
    until(lambda: server.connection.leader().session)
    answer = server.get("/plain")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    seen = Seen(answer.body.decode())
    assert run in seen.text
    assert "2/2" in seen.text
    assert "led by here" in seen.text
    links = [attributes["href"] for tag, attributes in seen.elements if tag == "a"]
    assert links == [f"plain?run={run}"]
    tasks = Seen(server.get(f"/{links[0]}").body.decode()).text
    assert "shell" in tasks
    assert server.get("/plain?run=none").code == "not_found"


def test_everything_is_text(quiet: Running) -> None:
    run = quiet.submit(CHAIN)
    quiet.connection.cancel(run, None, NASTY)
    body = quiet.get("/plain").body.decode()
    seen = Seen(body)
    assert NASTY in seen.text
    assert {tag for tag, _ in seen.elements} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "div", "table", "thead", "tbody", "tr", "th",
        "td", "a", "span", "p", "form", "button",
    }  # fmt: skip
    assert not any(name.startswith("on") for _, attributes in seen.elements for name in attributes)


def test_only_its_own_style_may_be_used(quiet: Running) -> None:
    answer = quiet.get("/plain")
    policy = answer.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", answer.body.decode(), re.DOTALL)
    hash = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{hash}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "script" not in answer.body.decode()
    assert " style=" not in answer.body.decode()


def test_older_runs_are_on_the_next_page(quiet: Running) -> None:
    runs = [quiet.submit(CHAIN) for _ in range(3)]
    first = Seen(quiet.get("/plain?limit=2").body.decode())
    older = [attributes["href"] for tag, attributes in first.elements if tag == "a"][-1]
    assert runs[0] not in first.text
    assert runs[0] in Seen(quiet.get(f"/plain{older}").body.decode()).text
    assert quiet.get("/plain?limit=0").code == "parameters"
    assert quiet.get("/plain?state=succeeded").body.decode().count("<tr>") == 0


def test_a_server_with_a_token_shows_it_to_nobody_else(serving: Callable[..., Running]) -> None:
    server = serving(node=False, gate=OneToken(TOKEN))
    assert server.get("/plain").code == "unauthorized"
    assert server.client(TOKEN).get("/plain").status == 200
