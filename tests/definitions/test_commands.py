"""`weft validate` and `weft graph` as functions: output, errors, exit codes."""

import io
import json
from pathlib import Path

import pytest

from weft.authoring.load import load_file, load_text
from weft.cli.definition_views import GraphFormat, dot, graph, mermaid, validate
from weft.cli.terminal.graph_text import draw

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").iterdir())
CI = """
tasks:
  lint: x
  test: x
  build: {run: x, needs: [lint, test]}
  deploy: {run: x, needs: [build], replicas: 3}
  undo: {run: x, needs: [deploy], when: on_failure}
  clean: {run: x, when: always}
"""


def drawn(text: str, width: int = 80, unicode: bool = True) -> str:
    return "\n".join(draw(load_text(text).workflow, width, unicode))


def test_the_examples_are_valid() -> None:
    out, err = io.StringIO(), io.StringIO()
    assert validate([path for path in EXAMPLES if path.suffix in (".yaml", ".json")], False, out, err) == 0
    assert err.getvalue() == ""
    assert f"{ROOT}/examples/build.yaml: ok, 5 tasks in 4 levels" in out.getvalue().splitlines()


def test_validate_goes_on_after_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("tasks: {a: x}")
    (tmp_path / "bad.yaml").write_text("tasks: {a: {rum: x}}")
    paths = [tmp_path / "bad.yaml", tmp_path / "good.yaml", tmp_path / "none.yaml"]
    out, err = io.StringIO(), io.StringIO()
    assert validate(paths, False, out, err) == 2
    assert out.getvalue() == f"{tmp_path}/good.yaml: ok, 1 task in 1 level\n"
    assert "did you mean 'run'?" in err.getvalue()
    assert err.getvalue().endswith("2 of 3 files have errors\n")
    out, err = io.StringIO(), io.StringIO()
    assert validate(paths, True, out, err) == 2
    assert err.getvalue() == ""
    report = json.loads(out.getvalue())
    assert report["valid"] is False
    assert [f["valid"] for f in report["files"]] == [False, True, False]
    assert report["files"][0]["errors"][0]["line"] == 1
    assert report["files"][1]["hash"] == load_file(tmp_path / "good.yaml").workflow.hash


def test_a_graph_is_drawn_level_by_level() -> None:
    assert drawn(CI) == (
        "1  ●   lint\n"
        "   │ ● test\n"
        "   ├─┘\n"
        "2  ●   build\n"
        "3  ●   deploy ×3\n"
        "4  ●   undo  (on_failure)\n"
        "5    ● clean  (always, after all others)"
    )


def test_lines_that_cross_and_lanes_that_end() -> None:
    text = "tasks: {a: x, b: x, c: {run: x, needs: [a, b]}, d: {run: x, needs: [a, b]}, e: {run: x, needs: [b, d]}}"
    assert drawn(text) == ("1  ●     a\n   │ ●   b\n   ├─┼─┐\n2  │ │ ● c\n   ├─┤\n   ● │   d\n   ├─┘\n3  ●     e")


def test_ascii_where_the_terminal_knows_no_more() -> None:
    assert drawn(CI, unicode=False).isascii()
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    assert graph(ROOT / "examples" / "sweep.yaml", "text", False, out, io.StringIO(), 80) == 0
    out.flush()
    assert raw.getvalue().decode() == "sweep: 2 tasks in 2 levels\n\n1  * simulate x20\n2  * choose\n"


def test_errors_reach_a_terminal_without_unicode(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: {run: é, rum: 日本}}", encoding="utf-8")
    raw = io.BytesIO()
    err = io.TextIOWrapper(raw, encoding="ascii")
    assert validate([tmp_path / "w.yaml"], False, io.StringIO(), err) == 2
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert validate([tmp_path / "w.yaml"], True, out, io.StringIO()) == 2
    out.seek(0)
    assert "日本" in json.load(out)["files"][0]["errors"][0]["source"]


def test_a_wide_level_is_drawn_short() -> None:
    wide = "tasks:\n  a: x\n" + "".join(f"  t{i}: {{run: x, needs: a}}\n" for i in range(10_000))
    lines = drawn(wide + "  z: {run: x, needs: [" + ", ".join(f"t{i}" for i in range(10_000)) + "]}\n").splitlines()
    assert len(lines) < 25
    assert any(line.endswith("… 9,993 more") for line in lines)
    assert lines[-1].endswith(" z")


def test_a_long_graph_is_drawn_short() -> None:
    lines = drawn(json.dumps(["x"] * 5000)).splitlines()
    assert len(lines) == 31
    assert lines[20] == "21…   ◌ … 4,970 more levels with 4,970 tasks"
    assert lines[-1] == "5000  ● t5000"


@pytest.mark.parametrize("width", [20, 30, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = "tasks:\n" + "".join(
        f"  {'long-name-' * 4}{i}: {{run: x, needs: [{', '.join('long-name-' * 4 + str(n) for n in range(i))}]}}\n"
        for i in range(9)
    )
    assert all(len(line) <= width for line in drawn(text, width).splitlines())


def test_mermaid_and_dot() -> None:
    workflow = load_text(
        '{name: "a \\"b\\" \\\\ c", '
        "tasks: {end: x, b: {run: x, needs: [end], replicas: 2}, c: {run: x, when: always}}}"
    ).workflow
    assert mermaid(workflow) == (
        'graph TD\n    n0["end"]\n    n1["b ×2"]\n    n2["c"]\n    n0 --> n1\n'
        "    classDef final stroke-dasharray: 5 5\n    class n2 final"
    )
    assert dot(workflow) == (
        'digraph "a \\"b\\" \\\\ c" {\n    node [shape=box];\n    "end" [label="end"];\n    "b" [label="b ×2"];\n'
        '    "c" [label="c", style=dashed];\n    "end" -> "b";\n}'
    )


def test_graph_formats_and_errors(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(CI)
    starts: list[tuple[GraphFormat, str]] = [
        ("mermaid", "graph TD"),
        ("dot", "digraph"),
        ("text", "w: 6 tasks in 5 levels"),
    ]
    for format, start in starts:
        out = io.StringIO()
        assert graph(path, format, False, out, io.StringIO(), 80) == 0
        assert out.getvalue().startswith(start)
    out = io.StringIO()
    assert graph(path, "text", True, out, io.StringIO()) == 0
    nodes = {node["name"]: node for node in json.loads(out.getvalue())["graph"]}
    assert nodes["build"]["needs"] == ["lint", "test"]
    assert nodes["clean"]["final"] is True
    path.write_text("tasks: {a: {run: x, needs: [a]}}")
    err = io.StringIO()
    assert graph(path, "text", False, io.StringIO(), err) == 2
    assert "needs itself" in err.getvalue()
    out = io.StringIO()
    assert graph(path, "text", True, out, io.StringIO()) == 2
    assert json.loads(out.getvalue())["valid"] is False
