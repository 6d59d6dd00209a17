"""Output in a real browser: the tail, what comes as a stream, ranges, and what is found on the server."""

from pathlib import Path

from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY
from tests.ui.test_views import ended
from weft.executors.output import output_path

HEAP_MORE_MAX = 10 * 1024 * 1024


def find(page: Page, text: str) -> None:
    page.eval(f"document.querySelector('.output-search input').value = {text!r}; 0")
    key(page, ".output-search input", "Enter")


def key(page: Page, selector: str, name: str) -> None:
    event = f"new KeyboardEvent('keydown', {{key: {name!r}, bubbles: true, cancelable: true}})"
    page.eval(f"document.querySelector({selector!r}).dispatchEvent({event}); 0")


def marked(page: Page) -> str:
    """The match that the page shows."""
    return str(page.eval("[...(CSS.highlights.get('found-now') ?? [])].map((one) => one.toString()).join()"))


def heap(page: Page) -> int:
    page.browser._say("HeapProfiler.collectGarbage")
    return int(page.browser._say("Runtime.getHeapUsage")["usedSize"])


def test_what_is_printed_comes_by_itself(page: Page, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        f"echo first; until test -e {go}; do sleep 0.05; done; printf '\\033[31mred\\033[0m \\303'; sleep 0.3;"
        " printf '\\251 end\\n'"
    )
    run = page.server.submit({"name": "prints", "tasks": {"p": script}})
    page.sign_in(place=f"#/runs/{run}/table?task=p")
    page.until_text(".output-text", "first")
    page.until_text(".output-tools", "live")
    page.browser.events.clear()
    go.touch()
    page.until_text(".output-text", "red é end")
    assert page.text(".output-text .a-1") == "red"
    page.until_text(".output-tools", "Times")
    page.click(".output-tools button", "Times")
    assert page.eval("document.querySelectorAll('.output-text [data-at]').length") > 0
    ended(page, run)
    page.until("!document.querySelector('.output-tools').textContent.includes('live')")
    asked = [one["url"] for one in page.browser.requested if "/output/stdout?" in one["url"]]
    assert asked == []  # nothing is looked at again and again
    assert page.broken == []


def test_a_large_output_is_searched_and_costs_the_page_little(page: Page, tmp_path: Path) -> None:
    run = page.server.submit({"name": "large", "tasks": {"p": "echo small; echo oops >&2"}})
    ended(page, run)
    root = page.server.connection.access.output_root
    path = Path(output_path(str(root / run), "p", 1, "stdout"))
    with path.open("wb") as file:
        for part in range(40):  # 40 MB
            lines = b"".join(b"part %d line %d with some more words\n" % (part, n) for n in range(27_000))
            file.write(lines + b"needle of part %d %s\n" % (part, NASTY.encode()))
    page.sign_in(place=f"#/runs/{run}/table")
    page.until("document.querySelector('weft-task-table, table') !== null")
    before = heap(page)
    page.go(f"#/runs/{run}/table?task=p")
    page.until_text(".output-text", "needle of part 39")
    find(page, "NEEDLE of part")
    page.until_text(".output-search", "1 of 40 · line 27,001")
    page.until_text(".output-text", "needle of part 0")
    page.until("[...(CSS.highlights.get('found-now') ?? [])].length === 1")
    assert marked(page) == "needle of part"
    key(page, ".output-text", "n")
    page.until_text(".output-search", "2 of 40")
    page.until_text(".output-text", "needle of part 1 ")
    key(page, ".output-text", "N")
    key(page, ".output-text", "N")
    page.until_text(".output-search", "40 of 40")
    for _ in range(12):
        page.eval("window.before = document.querySelector('.output-text').firstChild; 0")
        page.click(".output-tools button", "Earlier")
        page.until("document.querySelector('.output-text').firstChild !== window.before")
    assert heap(page) - before < HEAP_MORE_MAX
    assert page.eval("document.querySelector('.output-text').textContent.length") <= 600 * 1024
    find(page, "not there at all")
    page.until_text(".output-search", "not found")
    key(page, ".output-search input", "Escape")
    page.until_text(".output-text", "needle of part 39")
    page.click(".output-tools button", "stderr")
    page.until_text(".output-text", "oops")
    assert page.eval("document.title") != "broken"
    assert page.broken == []
