"""The editor of workflows in a real browser: completion, mistakes at their lines, dry run, apply, a run."""

import json
from typing import Any

from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY
from tests.ui.test_views import LOAD, ended

#: A text with the cursor at `|`, and where that is: kind, path, what is typed.
PLACES = [
    ("na|", "key", "", "na"),
    ("tasks:\n  a:\n    ti|", "key", "tasks.a", "ti"),
    ("tasks:\n  a:\n    run: x\n    |", "key", "tasks.a", ""),
    ("tasks:\n  a:\n    when: on|", "value", "tasks.a.when", "on"),
    ("tasks:\n  a: {needs: [b], wh|", "key", "tasks.a", "wh"),
    ("tasks:\n  a: {needs: [b, c|", "value", "tasks.a.needs.[]", "c"),
    ("tasks:\n  a: {retry: {max: 1, ba|", "key", "tasks.a.retry", "ba"),
    ("tasks:\n  a: {run: x, when: a|", "value", "tasks.a.when", "a"),
    ("tasks:\n  a:\n    needs:\n      - |", "key", "tasks.a.needs.[]", ""),
    ("triggers:\n- name: x\n  cr|", "key", "triggers.[]", "cr"),
    ("triggers:\n  - name: x\n    overlap: s|", "value", "triggers.[].overlap", "s"),
    ("tasks:\n  a:\n    run: |\n\n  b:\n    |", "key", "tasks.b", ""),
    ("defaults:\n  retry:\n    max: 1\n# note\n|", "key", "", ""),
]


def codes(page: Page, script: str, module: str) -> Any:
    """What a module of the page says, called as the page does."""
    return page.eval(
        f"import(new URL('editor/{module}.js', document.querySelector('weft-app').api.files)).then((m) => {script})"
    )


def cursor(page: Page, before: str, typed: str) -> None:
    """Types at the end of this line of the editor."""
    page.eval(
        "(() => { const a = document.querySelector('.code-area'); a.focus();"
        f" const at = a.value.indexOf({before!r}) + {len(before)}; a.setSelectionRange(at, at);"
        f" document.execCommand('insertText', false, {typed!r}); }})()"
    )


def press(page: Page, key: str) -> None:
    event = f"new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true, cancelable: true}})"
    page.eval(f"document.querySelector('.code-area').dispatchEvent({event}); 0")


def test_places_and_what_may_stand_there(page: Page) -> None:
    page.sign_in(place="#/new")
    page.until_text(".code-said", "valid")
    for text, kind, path, word in PLACES:
        before = text[: text.rindex("|")]
        lines = before.split("\n")
        found = codes(page, f"m.placeAt({json.dumps(lines)}, {len(lines) - 1}, {len(lines[-1])})", "yaml_place")
        assert (found["kind"], ".".join(found["path"]), found["word"]) == (kind, path, word), text
    script = (
        "['tasks.a', 'tasks.a.retry', 'triggers.[]', ''].map((p) => m.choicesAt("
        "document.querySelector('weft-code').schema, p.split('.').filter(Boolean), 'key', () => [])"
        ".map((c) => c.text))"
    )
    page.until("document.querySelector('weft-code').schema !== null")
    task, retry, trigger, top = codes(page, script, "completion")
    assert {"run", "needs", "timeout", "container"} <= set(task)
    assert "dependsOn" not in task  # the form of machines
    assert {"max", "backoff"} <= set(retry)
    assert {"cron", "overlap"} <= set(trigger)
    assert {"name", "tasks", "on_failure"} <= set(top)
    values = (
        "m.choicesAt(document.querySelector('weft-code').schema, ['tasks', 'b', 'needs', '[]'], 'value',"
        " () => ['a']).map((c) => c.text)"
    )
    assert codes(page, values, "completion") == ["a"]


def test_a_workflow_is_edited_applied_and_run(page: Page) -> None:
    page.server.call("PUT", "/v1/workflows/load", {"definition": {**LOAD, "description": NASTY}})
    page.sign_in(place="#/workflows/load")
    page.click("weft-workflow .tabs a", "Edit")
    page.until_text(".code-said", "valid", "3 tasks in 3 levels")
    cursor(page, 'run: "true"', "\n    ti")
    page.until_text(".code-choices", "timeout", "How long one attempt may take.")
    press(page, "Enter")
    cursor(page, "timeout: ", "5x")
    said = page.until_text(".code-mistakes", "line ")
    assert "timeout" in said or "5x" in said
    line = int(said.split("line ")[1].split()[0].rstrip("abcdefghijklmnopqrstuvwxyz"))
    assert page.eval(f"document.querySelector('.code-area').value.split('\\n')[{line - 1}]").strip() == "timeout: 5x"
    assert page.text(".code-numbers .wrong") == str(line)
    assert page.eval("[...document.querySelectorAll('.edit-tools button')].filter((b) => b.disabled).length") == 3
    cursor(page, "timeout: 5x", "")
    page.eval("document.execCommand('delete'); document.execCommand('insertText', false, 's'); 0")
    page.until_text(".code-said", "valid")

    page.eval(f"document.querySelector('weft-edit input').value = {NASTY!r}")
    page.click("weft-edit button", "Dry run")
    page.until_text(".plan", "Would start at once", "extract", "Level 2", "1 node alive")
    page.click("weft-edit button", "Apply…")
    page.until_text("weft-edit .diff", "+    timeout: 5s")
    before = page.server.get("/v1/applied").json["current"]["load"]
    page.click("weft-edit button", "Apply it")
    page.until("location.hash === '#/workflows/load/versions'")
    now = page.server.get("/v1/applied").json["current"]["load"]
    assert now != before
    page.until_text("weft-versions", "current", "+    timeout: 5s")

    page.click("weft-workflow .tabs a", "Edit")
    page.until_text(".code-said", "valid")
    assert "timeout: 5s" in page.eval("document.querySelector('.code-area').value")
    page.eval("document.querySelector('weft-edit input').value = 'd'")
    page.click("weft-edit button", "Start a run")
    page.until("document.querySelector('weft-run') !== null")
    run = ended(page, page.eval("location.hash.split('/')[2]"))
    assert (run.workflow, run.state) == (now, "succeeded")
    assert page.eval("document.title") != "broken"
    assert page.broken == []


def test_a_new_workflow_and_a_draft(page: Page) -> None:
    page.sign_in(place="#/workflows")
    page.click("weft-workflows a", "New workflow")
    page.until_text(".code-said", "valid")
    text = "- echo one\n- echo two\n"
    page.type(".code-area", text)
    page.until_text(".code-said", "2 tasks in 2 levels")
    page.go("#/runs")
    page.until("document.querySelector('weft-runs') !== null")
    page.go("#/new")
    page.until_text("weft-edit", "what you wrote before in this tab")
    assert page.eval("document.querySelector('.code-area').value") == text
    page.type(".code-area", f"tasks:\n  a: {{run: 'true', nonsense: 1}}\n# {NASTY}\n")
    page.until_text(".code-mistakes", "line 2", "nonsense")
    page.click("weft-edit button", "Begin again")
    page.until_text(".code-said", "2 tasks in 2 levels", "valid")
    assert page.eval("document.title") != "broken"
    assert page.broken == []


def test_of_a_long_definition_only_what_is_in_view_is_drawn(page: Page) -> None:
    page.sign_in(place="#/new")
    page.until_text(".code-said", "valid")
    took = page.eval(
        "(() => { const a = document.querySelector('.code-area');"
        " a.value = 'tasks:\\n' + Array.from({length: 5000}, (_, n) => `  t${n}: echo ${n}`).join('\\n');"
        " a.scrollTop;"  # the browser's own layout of the text
        " const t = performance.now(); a.dispatchEvent(new Event('input'));"
        " return performance.now() - t; })()"
    )
    assert took < 1000, took  # 30 ms on a quiet machine
    assert page.eval("document.querySelectorAll('.code-lines > div').length") < 100
    assert page.broken == []
