"""The live view, as a person sees it: on a pty, at several widths."""

import re
from pathlib import Path

import pyte
import pytest

from .screens import Screen

# `gate` ends when the test says so: what is seen while it runs does not depend on how fast this machine is.
LIVE = """\
name: live
on_failure: continue
tasks:
  quick: "true"
  gate: {run: "while ! test -e open; do sleep 0.02; done"}
  a_name_that_is_much_longer_than_a_narrow_window_has_room_for: {run: "while ! test -e open; do sleep 0.02; done"}
  bad: {run: "echo the reason for it, which is a rather long line that says much; exit 3"}
  after: {needs: [gate], run: "true"}
  dropped: {needs: [bad], run: "true"}
"""
BAR = re.compile(r"^[━─]+ +(\d+)/6 ")


def bars(screen: Screen) -> list[str]:
    return [line for line in screen.lines if BAR.match(line)]


@pytest.mark.parametrize("columns", [100, 40, 30])
def test_the_live_view(tmp_path: Path, columns: int) -> None:
    (tmp_path / "w.yaml").write_text(LIVE)
    screen = Screen(["run", "w.yaml"], tmp_path, columns)
    screen.until(lambda s: bool(bars(s)) and " 3/6 " in bars(s)[0] and "▸ gate" in s.text and "quick" in s.text)
    assert screen.seen.cursor.hidden
    assert len(bars(screen)) == 1
    assert sum(line.startswith("▸ gate") for line in screen.lines) == 1
    assert re.search(r"▸ gate +[\d.]+ m?s", screen.text)
    assert len([line for line in screen.lines if line.startswith("▸ a_name")]) == 1
    at = next(n for n, line in enumerate(screen.lines) if line.startswith("✗ bad"))
    assert screen.lines[at + 1].startswith("  │ the reason")
    assert re.search(r"1 failed" if columns >= 60 else r"1✗", bars(screen)[0])
    if columns == 100:
        assert "2 running" in bars(screen)[0]
    (tmp_path / "open").touch()
    assert screen.to_the_end() == 1
    assert not screen.seen.cursor.hidden
    assert bars(screen) == []  # the live area is gone, and nothing of it was left behind
    assert not any(line.startswith(("▸ gate", "▸ a_name")) for line in screen.lines)
    assert "✗ live failed in" in screen.text
    assert "\x1b[3" in screen.raw.decode()


def test_no_task_is_seen_both_ended_and_running(tmp_path: Path) -> None:
    """In no picture, however short: each begins by going up to the first line of the last one."""
    steps = "".join(f"  step{n}: {{needs: [{f'step{n - 1}' if n else ''}], run: sleep 0.15}}\n" for n in range(6))
    (tmp_path / "w.yaml").write_text("tasks:\n" + steps + "  beside: sleep 0.9\n")
    screen = Screen(["run", "w.yaml"], tmp_path, 80)
    assert screen.to_the_end() == 0
    pictures = re.split(rb"(?=\x1b\[\d+A\r\x1b\[J)", screen.raw)
    replayed = pyte.Screen(80, 24)
    stream = pyte.ByteStream(replayed)
    seen_running: set[str] = set()
    for picture in pictures:
        stream.feed(picture)
        running = {line.split()[1] for line in replayed.display if re.match(r"▸ (step|beside)", line)}
        ended = {line.split()[1] for line in replayed.display if line.startswith("✓ ")}
        assert not running & ended, "\n".join(replayed.display)
        seen_running |= running
    assert len(seen_running) > 3, screen.raw


def test_a_window_that_becomes_narrow(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(LIVE)
    screen = Screen(["run", "w.yaml"], tmp_path, 100)
    screen.until(lambda s: "▸ gate" in s.text and bool(bars(s)))
    screen.resize(40)
    screen.until(lambda s: any(len(bar) <= 40 and "1✗" in bar for bar in bars(s)))
    (tmp_path / "open").touch()
    assert screen.to_the_end() == 1
    assert "✗ live failed in" in screen.text


def test_no_color_and_dumb_terminals(tmp_path: Path) -> None:
    (tmp_path / "open").touch()
    (tmp_path / "w.yaml").write_text(LIVE)
    plain = Screen(["run", "w.yaml"], tmp_path, 80, NO_COLOR="1")
    assert plain.to_the_end() == 1
    assert not re.search(rb"\x1b\[\d*m", plain.raw)
    dumb = Screen(["run", "w.yaml"], tmp_path, 80, TERM="dumb")
    assert dumb.to_the_end() == 1
    assert b"\x1b" not in dumb.raw
    assert re.search(r"\d\d:\d\d:\d\d  quick  ", dumb.text)


def test_a_chain_streams_above_the_live_area(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "- echo one; while ! test -e open; do sleep 0.02; done; printf 'no newline'\n- echo 日本\n"
    )
    screen = Screen(["run", "w.yaml"], tmp_path, 60)
    screen.until(lambda s: "one" in s.lines and "▸ t1" in s.text)
    (tmp_path / "open").touch()
    assert screen.to_the_end() == 0
    shown = screen.lines
    assert "no newline" in shown
    assert any(line.replace(" ", "") == "日本" for line in shown)
    assert not any("━" in line for line in shown)


def test_tables_fit_the_window(history: Path) -> None:
    screen = Screen(["tasks", "last"], history, 40)
    assert screen.to_the_end() == 0
    assert len([line for line in screen.lines if line]) == 10  # a head and nine tasks: no line was wrapped


def test_more_than_fits_the_window(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {m: {replicas: 30, run: 'while ! test -e open; do sleep 0.05; done'}}")
    screen = Screen(["run", "w.yaml", "--slots", "30"], tmp_path, 60, lines=10)
    screen.until(lambda s: "30 running" in s.text and "more running" in s.text)
    assert sum(line.startswith("▸ m.") for line in screen.seen.display) <= 7
    (tmp_path / "open").touch()
    assert screen.to_the_end() == 0
