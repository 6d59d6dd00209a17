"""The page's files: what may be loaded, how much it is, and that they say the same as the code."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.api.conftest import Running
from tests.architecture.source import SRC
from weft.api.pages.browser_files import POLICY, BrowserFiles
from weft.core.states import RUN_STATES, TASK_STATES
from weft.operations.graph.reading import LETTERS
from weft.operations.table import OPERATIONS

UI = SRC / "ui"
FIRST_PAINT_MAX = 150 * 1024  # bytes, gzipped: everything that the shell names
FILES = BrowserFiles(OPERATIONS)
TOKENS = (UI / "css" / "1-tokens.css").read_text()


def test_the_shell_names_files_that_never_change(quiet: Running) -> None:
    shell = quiet.get("/")
    assert (shell.status, shell.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert shell.headers["content-security-policy"] == POLICY
    assert shell.headers["cache-control"] == "no-store"
    text = shell.body.decode()
    named = re.findall(r'(?:href|src)="(ui/[^"]+)"', text)
    assert len(named) > 20
    for name in named:
        answer = quiet.get(f"/{name}")
        assert answer.status == 200, name
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-security-policy"] == POLICY  # of the worker, too
    assert quiet.get(f"/ui/{'0' * 16}/shell/main.js").code == "no_route"
    assert quiet.get(f"/ui/{FILES.version}/../../secret").code == "no_route"


def test_nothing_is_inline() -> None:
    text = FILES.shell.data.decode()
    assert "default-src 'self'" in POLICY
    assert "unsafe" not in POLICY
    assert not re.search(r"<style|<script(?! type=\"module\" src=)|\son[a-z]+=|\sstyle=", text)
    parsing = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    assert [path.name for path in UI.rglob("*.js") if parsing.search(path.read_text())] == []


def test_it_is_small_before_the_first_paint() -> None:
    named = set(re.findall(rf'(?:href|src)="ui/{FILES.version}/([^"]+)"', FILES.shell.data.decode())) | {"verbs.json"}
    sizes = {name: len(FILES.files[name].packed) for name in named}
    assert sum(sizes.values()) + len(FILES.shell.packed) <= FIRST_PAINT_MAX, sizes
    assert {name for name in FILES.files if name not in named} == {name for name in FILES.files if "editor/" in name}


def test_modules_import_only_what_is_there() -> None:
    for path in UI.rglob("*.js"):
        for name in re.findall(r'^(?:import|export) .*?from "([^"]+)"', path.read_text(), re.MULTILINE):
            assert name.startswith("."), f"{path} imports {name}"
            assert (path.parent / name).resolve().is_file(), f"{path} imports {name}"


def test_what_is_sent_packed_is_the_same(quiet: Running) -> None:
    import gzip

    packed = quiet.get("/", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == quiet.get("/").body


def test_the_table_of_verbs_is_that_of_the_operations() -> None:
    verbs = json.loads(FILES.files["verbs.json"].data)
    assert [verb["name"] for verb in verbs] == [operation.name for operation in OPERATIONS]
    cancel = next(verb for verb in verbs if verb["name"] == "cancel_run")
    assert (cancel["method"], cancel["path"], cancel["role"]) == ("POST", "/v1/runs/{run}/cancel", "operator")
    assert {field["name"]: (field["in"], field["kind"]) for field in cancel["fields"]} == {
        "run": ("path", "string"), "reason": ("body", "string"), "now": ("body", "boolean"),
    }  # fmt: skip


def test_every_operation_that_the_page_calls_is_one() -> None:
    known = {operation.name for operation in OPERATIONS}
    called = set()
    for path in UI.rglob("*.js"):
        called |= set(
            re.findall(r'(?:api\.(?:call|ask|may)|carryOut|askVerb)\((?:this\.app, |app, )?"(\w+)"', path.read_text())
        )
        called |= set(re.findall(r'action\(app, "[^"]+", "(\w+)"', path.read_text()))
    assert len(called) > 15
    assert called <= known, called - known


def test_states_have_a_letter_a_shape_and_a_colour() -> None:
    script = (UI / "parts" / "states.js").read_text()
    (listed,) = re.findall(r"STATES = [^(]*\(\[(.*?)\]\)", script, re.DOTALL)
    assert sorted(re.findall(r'"(\w+)"', listed)) == sorted(TASK_STATES) == sorted(LETTERS)
    assert len(set(LETTERS.values())) == len(LETTERS)
    assert re.findall(r"RUN_STATES = \[(.*?)\]", script) == [", ".join(f'"{state}"' for state in RUN_STATES)]
    shapes = dict(re.findall(r'^  (\w+): "(M[^"]+)"', script, re.MULTILINE))
    assert set(TASK_STATES) <= set(shapes)
    assert len({shapes[state] for state in TASK_STATES}) == len(TASK_STATES)
    for state in TASK_STATES:
        assert TOKENS.count(f"--{state.replace('_', '-')}:") == 3, "light, dark, and dark by choice"


def themes() -> list[dict[str, str]]:
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in re.findall(r"\{([^{}]*)\}", TOKENS)]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(theme: int) -> None:
    colours = themes()[theme]
    assert themes()[1] == themes()[2], "dark, and dark by choice"
    for name in ("text", "soft", "accent", *(state.replace("_", "-") for state in TASK_STATES)):
        for ground in ("surface", "raised", "sunken", "accent-soft"):
            low, high = sorted((luminance(colours[name]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ground)


def test_a_wheel_has_all_of_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=SRC.parents[1],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No module named hatchling" in done.stderr:
        pytest.skip("hatchling is not installed here")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {name.removeprefix("weft/ui/") for name in zipfile.ZipFile(wheel).namelist() if "/ui/" in name}
    assert shipped == {str(path.relative_to(UI)) for path in UI.rglob("*") if path.is_file()}
