"""`weft top` on a real terminal: on a store, over a server that goes away and comes back, and where there is none."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running, until
from tests.cli.conftest import Weft, weft  # noqa: F401 - a fixture
from tests.cli.screens import Screen
from tests.client.conftest import Place
from tests.tui.conftest import store  # noqa: F401 - a fixture
from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

CHAIN: dict[str, Any] = {
    "name": "chain",
    "tasks": {"first": "echo hello", "second": {"needs": ["first"], "run": "true"}},
}


def shows(*words: str) -> Any:
    return lambda screen: all(word in "\n".join(screen.seen.display) for word in words)


def test_on_a_store_at_sixty_columns(store: Place) -> None:  # noqa: F811
    store.work()
    run = store.submit(CHAIN)
    store.ended(run)
    screen = Screen(["top"], store.directory, 60)
    screen.until(shows("chain", run, "✓ succeeded", "q quit"))
    screen.process.send("\r")
    screen.until(shows("first", "second", "here"))
    screen.process.send("\r")
    screen.until(shows("hello", "stdout 6 B"))
    screen.resize(100)
    screen.until(shows("hello", "outcome"))
    screen.process.send("q")
    assert screen.to_the_end() == 0
    assert b"\x1b[?1049l" in screen.raw, "the screen that was there before is back"


def test_a_run_goes_on_with_what_was_edited(store: Place, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The first text has a mistake: it is shown, and edited again."""
    store.work()
    run = store.submit({"name": "wrong", "tasks": {"first": "true", "second": {"needs": ["first"], "run": "exit 3"}}})
    store.ended(run)
    editor = store.directory / "edit"
    mistake, remedy = "sed -i 's/run: exit 3/nonsense: true/' $1", "sed -i 's/nonsense: true/run: echo so/' $1"
    editor.write_text(f"#!/bin/sh\nif grep -q nonsense $1; then {remedy}; else {mistake}; fi\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    screen = Screen(["top", run], store.directory, 100)
    screen.until(shows("✗ failed", "E correct run"))
    screen.process.send("E")
    screen.until(shows("nonsense", "Edit it again?"))
    screen.process.send("y")
    screen.until(shows("1 task would run again (second), 1 keep"))
    screen.process.send("y")
    until(lambda: store.connection.run(run).state == "succeeded")
    screen.until(shows("second", "✓ succeeded"))
    assert store.connection.task(run, "first").attempt == 1
    screen.process.send("q")
    assert screen.to_the_end() == 0


def serving(directory: Path, port: int = 0) -> Running:
    connection = StoreConnection(StoreAccess(SqliteStore(directory / ".weft" / "weft.db")))
    return Running(directory, node=False, connection=connection, port=port)


def test_it_survives_the_restart_of_the_server(tmp_path: Path) -> None:
    server = serving(tmp_path)
    port = server.port
    run = server.submit(CHAIN)
    screen = Screen(["top", run, "--server", f"http://127.0.0.1:{port}"], tmp_path, 100)
    screen.until(shows("first", "· queued", f"127.0.0.1:{port}", "C cancel run"))
    server.close()
    screen.until(shows("no answer since", "· queued"))
    away = StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))
    away.skip(run, ["first"])  # while nobody could tell
    away.close()
    server = serving(tmp_path, port)
    try:
        screen.until(lambda screen: not shows("no answer since")(screen) and shows("○ skipped")(screen))
        screen.process.send("N")
        screen.until(shows("Start a new run like it"))
        screen.process.send("\r")
        until(lambda: len(server.connection.runs()) == 2)
        screen.process.send("q")
        assert screen.to_the_end() == 0
    finally:
        server.close()


def test_without_a_terminal_it_says_so(weft: Weft, tmp_path: Path) -> None:  # noqa: F811
    done = weft("top")
    assert (done.code, done.out) == (2, "")
    assert "needs a terminal" in done.err


def test_without_textual_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from argparse import Namespace

    from weft.cli.commands.top import top
    from weft.cli.exit_codes import GiveUp
    from weft.cli.session import CommandSession

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "textual", None)
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        args = Namespace(command="top", run=None, json=False)
        with pytest.raises(GiveUp, match=r"weft\[tui\]"):
            top(args, CommandSession(args))
    os.close(ours)
