"""Every view, light and dark: axe finds nothing, the keyboard reaches everything and shows where it is, nothing is
wider than a phone. A picture of each view stays in the directory of the test."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running
from tests.ui.browser import Browser
from tests.ui.conftest import TOKEN, Page
from tests.ui.tools.npm import CannotRun, modules
from tests.ui.tour import Tour
from weft.api.access.auth import OneToken

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Runs outside of the page's policy: the debugging protocol evaluates it, the page loads nothing.
AXE = """axe.run(document, {runOnly: %s, resultTypes: ["violations"]}).then((found) => found.violations.map(
  (one) => `${one.id}: ${one.help}: ` + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")))"""
#: Of what can be focused: words that stay the same when a live view draws it anew.
NAME = """((one) => [one.tagName, one.getAttribute("href"), one.ariaLabel?.split(/[.:]/)[0],
  one.role === "log" || one.textContent].join(" ").replace(/[\\d.]+ (ms|s|min)\\b/g, "t"))"""
SEEN = "!one.disabled && one.checkVisibility({visibilityProperty: true}) && one.getBoundingClientRect().width > 0"
REACHABLE = f"""[...%s.querySelectorAll("a[href], button, input, select, textarea, [tabindex='0']")]
  .filter((one) => {SEEN}).map({NAME})"""
FOCUSED = f"""(() => {{ const one = document.activeElement, {{outlineStyle, outlineWidth}} = getComputedStyle(one);
  return [{NAME}(one), one === document.body || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1)]; }})()"""
#: What opens each kind of dialog.
DIALOGS = {
    "dialog-palette": "document.querySelector('.bar button').click()",
    "dialog-keys": "document.querySelector('.bar [aria-label=Keys]').click()",
    "dialog-verb": "document.querySelector('.actions button').click()",
}


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Tour]]:
    """The page at home, and a tour of everything that there is to see."""
    server = Running(tmp_path_factory.mktemp("tour") / "server", gate=OneToken(TOKEN), token=TOKEN)
    page, tour = Page(browser, server, server.close), Tour(server)
    page.sign_in(place="#/home")
    yield page, tour
    browser.open("about:blank")
    tour.end()
    server.close()


def show(page: Page, place: str) -> None:
    page.go(place)
    page.browser.until_idle()


def pictures(tmp_path: Path) -> Path:
    """`WEFT_SCREENSHOTS` names another directory."""
    chosen = Path(os.environ.get("WEFT_SCREENSHOTS") or tmp_path)
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def test_axe_finds_nothing_and_nothing_is_wider_than_a_phone(shown: tuple[Page, Tour], tmp_path: Path) -> None:
    try:
        axe = (modules() / "axe-core" / "axe.min.js").read_text()
    except CannotRun as reason:
        pytest.skip(f"axe was not run on the page: {reason}")
    page, tour = shown
    assert tour.addresses_missed() == set()
    page.browser.eval(axe + ";0")
    found: dict[str, list[Any]] = {}
    for name, place in tour.places().items():
        show(page, place)
        look(page, name, pictures(tmp_path), found)
        page.browser.screenshot(pictures(tmp_path) / f"{name}-phone.png", 390, 844)
        if page.eval("document.documentElement.scrollWidth > innerWidth"):
            found.setdefault(name, []).append("wider than a phone")
    show(page, f"#/runs/{tour.run}/graph")
    for name, opened in DIALOGS.items():
        page.eval(opened)
        page.until("document.querySelector('dialog[open]')?.textContent.length > 20")
        look(page, name, pictures(tmp_path), found)
        page.eval("document.querySelector('dialog').close()")
    assert not found, json.dumps(found, indent=1)
    assert page.broken == []


def look(page: Page, name: str, pictures: Path, found: dict[str, list[Any]]) -> None:
    """All rules in light colours; in dark ones only what depends on colours."""
    for theme, rules in (("light", RULES), ("dark", ["color-contrast"])):
        page.eval(f"document.documentElement.dataset.theme = {theme!r}; dispatchEvent(new Event('theme'))")
        page.browser.screenshot(pictures / f"{name}-{theme}.png")
        if problems := page.eval(AXE % rules):
            found.setdefault(name, []).extend(f"{theme}: {one}" for one in problems)


def test_the_keyboard_reaches_everything(shown: tuple[Page, Tour]) -> None:
    page, tour = shown
    unreached = {}
    for name, place in tour.places().items():
        show(page, place)
        within = "document"
        if name != "home":  # the bar is the same everywhere
            within = "document.querySelector('main')"
            page.eval(f"{within}.focus()")
        reachable = page.eval(REACHABLE % within)
        missing = set(reachable)
        for _ in range(2 * len(reachable) + 20):  # from where the focus was, round, and back to there
            page.browser.press_tab()
            reached, seen = page.eval(FOCUSED)
            assert seen, f"{name}: the focus is not seen on {reached}"
            missing.discard(reached)
            if not missing:
                break
        if missing:
            unreached[name] = sorted(missing)
    assert not unreached, json.dumps(unreached, indent=1)
