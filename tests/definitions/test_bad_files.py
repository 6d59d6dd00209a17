"""Every file under bad/ is wrong in some way; beside it stands what is said about it, word for word.

After a change of messages run with WEFT_REWRITE=1 and read the difference.
"""

import io
import os
from pathlib import Path

import pytest

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_file
from weft.cli.definition_views import validate

BAD = Path(__file__).parent / "bad"
FILES = sorted(path for path in BAD.iterdir() if path.suffix in (".yaml", ".json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_says_what_is_wrong(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(DefinitionErrors) as caught:
        load_file(path.name)
    expected = path.with_name(path.name + ".expected")
    if os.environ.get("WEFT_REWRITE"):
        expected.write_text(f"{caught.value}\n", encoding="utf-8")
    assert f"{caught.value}\n" == expected.read_text(encoding="utf-8")


def test_no_expectation_without_its_file() -> None:
    names = {path.name for path in FILES}
    assert [p.name for p in BAD.glob("*.expected") if p.name.removesuffix(".expected") not in names] == []


def test_all_at_once_exits_with_2_and_prints_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    out, err = io.StringIO(), io.StringIO()
    assert validate([path.name for path in FILES], False, out, err) == 2
    assert out.getvalue() == ""
    for path in FILES:
        assert path.name in err.getvalue()
    assert "Traceback" not in err.getvalue()
