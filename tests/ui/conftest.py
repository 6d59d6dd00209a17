"""A server and a browser that is signed in to it. One browser for all tests of a process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import Running
from tests.ui.browser import CHROMIUM, Browser
from weft.api.access.auth import Gate, OneToken

TOKEN = "a-token-of-some-length"


class View:
    """The page of the server at a port, in the browser's tab."""

    def __init__(self, browser: Browser, port: int) -> None:
        self.browser = browser
        self.url = f"http://127.0.0.1:{port}/"
        self.eval, self.until = browser.eval, browser.until

    def sign_in(self, token: str = TOKEN, place: str = "") -> None:
        self.browser.open("about:blank")
        self.browser.events.clear()
        self.browser.open(self.url + place)
        self.until("document.querySelector('#token, .heard') !== null")
        if self.eval("document.querySelector('#token') === null"):  # an earlier server of this tab had the same port
            self.eval("sessionStorage.clear()")
            self.browser.open("about:blank")
            self.browser.open(self.url + place)
            self.until("document.querySelector('#token') !== null")
        self.eval(
            f"document.querySelector('#token').value = {token!r}; document.querySelector('form button').click()"
        )
        self.until("document.querySelector('.heard') !== null")

    def go(self, place: str) -> None:
        self.eval(f"location.hash = {place!r}; 0")

    def text(self, of: str) -> str:
        return str(self.eval(f"[...document.querySelectorAll({of!r})].map((one) => one.textContent).join('\\n')"))

    def until_text(self, of: str, *words: str) -> str:
        wanted = " && ".join(f"t.includes({word!r})" for word in words)
        script = f"[...document.querySelectorAll({of!r})].map((one) => one.textContent).join('\\n')"
        return str(self.until(f"(() => {{ const t = {script}; return {wanted} ? t : '' }})()"))

    def click(self, selector: str, label: str) -> None:
        """A button or link with this text, once it is there."""
        script = f"[...document.querySelectorAll({selector!r})].find((one) => one.textContent.trim() === {label!r})"
        self.until(f"{script} !== undefined")
        self.eval(f"{script}.click()")

    def type(self, selector: str, text: str) -> None:
        script = (
            f"const i = document.querySelector({selector!r}); i.value = {text!r}; i.dispatchEvent(new Event('input'))"
        )
        self.eval(f"(() => {{ {script} }})()")

    def press(self, key: str, **more: bool) -> None:
        flags = "".join(f", {name}: {str(value).lower()}" for name, value in more.items())
        event = f"new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true, cancelable: true{flags}}})"
        self.eval(f"(document.querySelector('dialog[open]') ?? document.body).dispatchEvent({event})")

    @property
    def broken(self) -> list[str]:
        """Exceptions in the page, and what its policy refused."""
        thrown = [str(e["params"]) for e in self.browser.events if e["method"] == "Runtime.exceptionThrown"]
        return thrown + [text for text in self.browser.logged if "Security Policy" in text or "TrustedScript" in text]


class Page(View):
    """With a server in the test's process."""

    def __init__(self, browser: Browser, server: Running, stop_server: Callable[[], None]) -> None:
        super().__init__(browser, server.port)
        self.stop_server = stop_server
        self.server = server


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: the page is not tested in a browser")
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture
def page_of(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    servers: list[Running] = []

    def make(*, gate: Gate | None = None, node: bool = True, port: int = 0) -> Page:
        directory = tmp_path / "server"
        server = Running(directory, node=node, gate=gate or OneToken(TOKEN), token=TOKEN, port=port)
        servers.append(server)

        def stop() -> None:
            servers.remove(server)
            server.close()

        return Page(browser, server, stop)

    yield make
    browser.open("about:blank")
    for server in servers:
        server.close()


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Running]:
    """Without a browser, a node and a gate."""
    made = Running(tmp_path, node=False)
    yield made
    made.close()


@pytest.fixture
def page(page_of: Callable[..., Page]) -> Page:
    """With a node that works."""
    return page_of()
