"""Variables from files: which one wins, what a line may be, and what is said about those that cannot be used."""

import os
from pathlib import Path

import pytest

from weft.node.attempts.env_files import FILE_BYTES_MAX, EnvFileError, parse_env_file, read_env_files

from .conftest import Weft

LINES = """
# a comment
PLAIN = a b  # comment
HASH=a#b
EMPTY=
export EXPORTED=1
SINGLE='$HOME `id` "x" \\n'  # comment
DOUBLE="a\\tb \\"c\\" \\\\ $HOME # no comment"
AGAIN=1
AGAIN=2
"""


def test_lines() -> None:
    assert parse_env_file(LINES.replace("\n", "\r\n"), "f") == {
        "PLAIN": "a b", "HASH": "a#b", "EMPTY": "", "EXPORTED": "1", "SINGLE": '$HOME `id` "x" \\n',
        "DOUBLE": 'a\tb "c" \\ $HOME # no comment', "AGAIN": "2",
    }  # fmt: skip


@pytest.mark.parametrize(("line", "why"), [
    ("A", "expected NAME=VALUE"),
    ("1A=b", "expected NAME=VALUE"),
    ("A-B=c", "expected NAME=VALUE"),
    ("A='s3cret", "the quotes around the value of A are not closed"),
    ('A="s3cret" more', "the quotes around the value of A are not closed, or something follows them"),
    ("WEFT_TASK=s3cret", "WEFT_TASK is set by Weft itself"),
    ("WEFT_V1=s3cret", "WEFT_V1 is set by Weft itself"),
    ("A=\0", "the value of A holds a NUL"),
    ("A=" + "s3cret" * 20_000, "more than 98,304 bytes"),
])  # fmt: skip
def test_lines_that_cannot_be_used(line: str, why: str) -> None:
    with pytest.raises(EnvFileError, match="env_file f, line 2: ") as caught:
        parse_env_file(f"OK=1\n{line}\n", "f")
    assert why in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    (tmp_path / "latin").write_bytes(b"A=\xe9")
    (tmp_path / "secret").write_bytes(b"A=1")
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("gone", "No such file"), (".", "Is a directory"), ("pipe", "is no file"), ("large", "more than"),
        ("latin", "not UTF-8"), ("secret", "which is a secret of this task"),
    ):  # fmt: skip
        with pytest.raises(EnvFileError, match=why):
            read_env_files([name], str(tmp_path), ("A",))


def test_env_wins_over_the_files_and_later_files_over_earlier_ones(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "all.env").write_text("A=all\nB=all\nC=all\nD=all\nE='${{ x }}'\n")
    (tmp_path / "d" / "defaults.env").write_text("B=defaults\nC=defaults\nD=defaults\n")
    (tmp_path / "d" / "w.env").write_text("C=task\nD=task\n")
    (tmp_path / "d" / "w.yaml").write_text("""
env_file: all.env
env: {D: env}
defaults: {env_file: [defaults.env]}
output: ${{ tasks.t.output }}
tasks:
  t:
    env_file: ${{ run.name }}.env
    run: printf '"%s"' "$A $B $C $D $E" > "$WEFT_OUTPUT"
""")
    assert weft("run", "--json", "d/w.yaml").lines[-1]["output"] == "all defaults task env ${{ x }}"


def test_a_missing_file_fails_without_a_retry(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {t: {run: 'true', env_file: gone.env, retry: 3}}\n")
    done = weft("run", "w.yaml")
    assert done.code == 1
    assert f"env_file {tmp_path}/gone.env cannot be read: No such file or directory" in done.err
    assert done.err.count("cannot be read") <= 2


def test_a_changed_file_is_another_result_for_the_cache(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("""
output: ${{ tasks.t.output }}
tasks: {t: {run: 'printf "\\"$A\\"" > "$WEFT_OUTPUT"', env_file: a.env, cache: true}}
""")
    for value, cached in (("1", False), ("1", True), ("2", False)):
        (tmp_path / "a.env").write_text(f"A={value}\n")
        done = weft("run", "--json", "w.yaml")
        assert done.lines[-1]["output"] == value
        assert any("cached" in line.get("data", {}) for line in done.lines) is cached
