"""What tasks leave, in a real browser: values, files that are text, JSON and images, and none that would run."""

import json

from tests.api.conftest import Running
from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY
from tests.ui.test_views import ended

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAEElEQVR4nGP8z4AATAzEcQAz0wEHT0MtYQAAAABJRU5ErkJggg=="
MAKES = (
    f"echo {PNG} | base64 -d > dot.png; echo '{{\"a\": [1, 2]}}' > data.json; printf 'caf\\303\\251' > text.txt;"
    ' printf \'<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"/>\' > bad.svg;'
    " printf '\\000\\001\\377' > raw.bin; echo '{\"rows\": 42}' > $WEFT_OUTPUT"
)


def made(server: Running) -> str:
    files = ["dot.png", "data.json", "text.txt", "bad.svg", "raw.bin"]
    return server.submit({"name": "makes", "workspace": "run", "tasks": {"m": {"run": MAKES, "artifacts": files}}})


def view(page: Page, path: str) -> str:
    page.eval(f"document.querySelector('[aria-label=\"View {path}\"]').click()")
    page.until("document.querySelector('dialog.file') !== null")
    return page.text("dialog.file .file-body")


def close(page: Page) -> None:
    page.click("dialog.file button", "Close")
    page.until("document.querySelector('dialog.file') === null")


def test_files_are_viewed_and_never_run(page: Page) -> None:
    run = made(page.server)
    assert ended(page, run).state == "succeeded"
    page.sign_in(place=f"#/runs/{run}/table?task=m")
    page.until_text("weft-files", "dot.png", "bad.svg", '"rows": 42')
    assert json.loads(view(page, "data.json")) == {"a": [1, 2]}
    assert "\n" in page.text("dialog.file pre")  # laid out
    close(page)
    assert view(page, "text.txt") == "café"
    close(page)
    assert "onload" in view(page, "bad.svg")  # as text
    assert page.eval("document.querySelector('dialog.file svg, dialog.file img')") is None
    close(page)
    assert "no text" in view(page, "raw.bin")
    close(page)
    view(page, "dot.png")
    assert page.until("document.querySelector('dialog.file img').naturalWidth") == 4
    assert page.eval("document.querySelector('dialog.file img').src").startswith("blob:")
    assert page.eval("document.title") != "1"
    assert page.broken == []
    assert NASTY not in page.eval("document.title")


def test_a_file_is_read_by_parts(page: Page) -> None:
    server = page.server
    run = made(server)
    server.ended(run)
    path = f"/v1/runs/{run}/tasks/m/file/part?path="
    assert server.get(f"{path}text.txt&limit=4").json == {
        "path": "text.txt", "bytes": 5, "offset": 0, "next": 3, "text": "caf", "base64": None,
    }  # fmt: skip
    rest = server.get(f"{path}text.txt&offset=3").json
    assert (rest["text"], rest["next"]) == ("é", None)
    assert server.get(f"{path}raw.bin").json["base64"] == "AAH/"
    assert server.get(f"{path}text.txt&offset=99").json["text"] == ""
    assert server.get(f"{path}none").code == "not_found"
