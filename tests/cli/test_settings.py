"""Where settings come from, and what happens to wrong ones."""

import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from weft.config import BadSetting, Config, load
from weft.core.commands import Refused, Register
from weft.node.committer import Committer
from weft.store.sqlite.driver import SqliteStore

from .conftest import Weft


def test_flag_before_variable_before_file_before_default(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text('slots = 3\npoll = "2s"\noutput_max = "1MiB"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    config = load({"WEFT_POLL": "3s", "WEFT_OUTPUT_MAX": "2MiB"}, below, {"output_max": "4MiB", "slots": None})
    assert (config.slots, config.poll, config.output_max, config.drain) == (3, 3.0, 4 << 20, 10.0)
    assert config.sources["slots"] == str(tmp_path / "weft.toml")
    assert [config.sources[n] for n in ("poll", "output_max", "drain")] == ["variable", "flag", "default"]


def test_defaults(tmp_path: Path) -> None:
    config = load({}, tmp_path)
    assert config.slots == 4 * (os.cpu_count() or 1)
    assert (config.store, config.lease_ttl, config.renew_every, config.color) == (None, 30.0, 5.0, "auto")


def test_a_store_as_a_url_of_sqlite(tmp_path: Path) -> None:
    """As SQLAlchemy reads them: three slashes before a relative path, four before an absolute one."""
    assert load({"WEFT_STORE": "sqlite:///db/x.db"}, tmp_path).store == tmp_path / "db" / "x.db"
    assert load({"WEFT_STORE": f"sqlite:///{tmp_path}/x.db"}, tmp_path / "sub").store == tmp_path / "x.db"
    with pytest.raises(BadSetting, match=r"sqlite:///path"):
        load({"WEFT_STORE": "mysql://x/y"}, tmp_path)


def test_a_path_of_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text('store = "db/x.db"\n')
    (tmp_path / "sub").mkdir()
    assert load({}, tmp_path / "sub").store == tmp_path / "db" / "x.db"
    assert load({"WEFT_STORE": "y.db"}, tmp_path / "sub").store == tmp_path / "sub" / "y.db"


def test_cpus_may_be_a_fraction(tmp_path: Path) -> None:
    assert load({}, tmp_path, {"cpus": "1.5"}).resources()["cpus"] == 1.5
    assert load({"WEFT_CPUS": "4"}, tmp_path).cpus == 4
    assert load({}, tmp_path).cpus is None


@pytest.mark.parametrize(
    ("given", "labels"),
    [("gpu,zone=eu", {"gpu": "", "zone": "eu"}), (["gpu", "zone=eu"], {"gpu": "", "zone": "eu"}), ("", {})],
)
def test_labels(tmp_path: Path, given: Any, labels: dict[str, str]) -> None:
    assert load({}, tmp_path, {"labels": given}).labels == labels
    (tmp_path / "weft.toml").write_text('[labels]\nzone = "eu"\n')
    assert load({}, tmp_path).labels == {"zone": "eu"}


def test_the_program_of_agents(tmp_path: Path) -> None:
    assert load({}, tmp_path).agent_command == ("claude",)
    assert load({"WEFT_AGENT_COMMAND": "claude --model 'a b'"}, tmp_path).agent_command == (
        "claude",
        "--model",
        "a b",
    )
    (tmp_path / "weft.toml").write_text('agent_command = ["codex", "x y"]\n')
    assert load({}, tmp_path).agent_command == ("codex", "x y")
    for given in ("'", [], ["a", 5], 5):
        with pytest.raises(BadSetting, match="expected a command such as"):
            load({}, tmp_path, {"agent_command": given})


@pytest.mark.parametrize(
    "given",
    [{"labels": "gpu,\udcff"}, {"labels": {"zone": "\udcfe"}}, {"labels": ["a\nb"]}, {"capabilities": "\udcff"}],
)
def test_a_label_that_is_not_utf_8_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(BadSetting, match=r"expected (labels|capabilities) of printable characters in UTF-8"):
        load({}, tmp_path, given)


def test_a_worker_with_a_label_that_is_not_utf_8_breaks_no_reader(weft: Weft, tmp_path: Path) -> None:
    refused = weft("worker", "--label", os.fsdecode(b"zone=\xff\xfe"))
    assert refused.code == 2
    assert "not UTF-8" in refused.err
    store = SqliteStore(tmp_path / ".weft" / "weft.db")
    body = '{"labels": {"zone": "\\udcff"}, "kinds": ["shell"], "slots": 1}'
    with pytest.raises(Refused, match="not UTF-8 text"):
        Committer(store).commit(Register("one", "one", 600_000, None, body))
    Committer(store).commit(Register("one", "one", 600_000, None, "{}"))
    store.close()
    with apsw.Connection(str(tmp_path / ".weft" / "weft.db")) as connection:
        connection.execute("UPDATE sessions SET body = ?", (body,))
    (shown,) = weft("nodes", "--json").json["nodes"]
    assert shown["labels"] == {"zone": "?"}
    (tmp_path / "w.yaml").write_text("- true\n")
    assert weft("run", "w.yaml").code == 0
    assert weft("submit", "w.yaml").code == 0
    for words in (["nodes"], ["nodes", "show", "one"], ["ls"], ["why", "last"], ["show", "last"]):
        assert weft(*words).code == 0, words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slotz = 3", "did you mean 'slots'?"), ("nonsense = 1", "known settings"),
        ("slots = 0", "only lead or look on"), ("leader_renew = '11s'", "third of leader_ttl"),
        ("role = 'boss'", "auto, leader, worker, observer"), ("slots = true", "0 to 100000"),
        ("slots = 1.5", "0 to 100000"), ("poll = '5 minutes'", "write 5m"),
        ("poll = 0", "above zero"), ("output_max = '1k'", "write 1KiB"), ("output_max = 5", "4KiB"),
        ("color = 'pink'", "auto, always, never"), ("renew_every = '20s'", "third of lease_ttl"),
        ("store = 5", "a path"), ("labels = 'a,=b'", "needs a name"), ("slots = ", "not TOML"),
        ("cpus = 0", "0.001 to 4096"), ("cpus = 'two'", "0.001 to 4096"), ("cpus = true", "0.001 to 4096"),
        ("name = 3", "a text"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named_with_a_fix(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "weft.toml").write_text(text)
    with pytest.raises(BadSetting, match=r".*") as error:
        load({}, tmp_path)
    assert said in str(error.value)


def test_every_setting_is_a_field() -> None:
    from weft.config import SETTINGS

    assert [*(s.name for s in SETTINGS), "sources"] == list(Config._fields)


def test_a_bad_variable_is_exit_2(weft: Weft) -> None:
    done = weft("ls", env={"WEFT_SLOTS": "lots"})
    assert (done.code, done.out) == (2, "")
    assert "WEFT_SLOTS" in done.err


def test_an_observer_has_no_slots(tmp_path: Path) -> None:
    assert load({"WEFT_ROLE": "observer", "WEFT_SLOTS": "8"}, tmp_path).slots == 0


def test_effective_settings_are_logged_on_request(weft: Weft) -> None:
    done = weft("run", "--", "true", env={"WEFT_LOG": "info", "WEFT_SLOTS": "3"})
    assert "settings" in done.err
    assert "slots=3" in done.err
    assert "settings" not in weft("run", "--", "true").err
