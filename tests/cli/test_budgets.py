"""Budgets as people see them: what was spent is shown, more is allowed, and `why` says what a task waits for."""

from pathlib import Path

from weft.core import commands as c
from weft.node.committer import Committer
from weft.store.sqlite.driver import SqliteStore

from .conftest import Weft

AGENTS = """\
name: agents
budget: {usd: 2}
on_failure: continue
tasks:
  a: {agent: {prompt: a, budget: {usd: 1.5}}, pools: llm}
  b: {agent: {prompt: b, budget: {usd: 1}}, pools: llm}
  c: {agent: {prompt: c, budget: {usd: 1}}, pools: llm}
"""


def test_budgets_are_shown_and_changed(tmp_path: Path, look: Weft) -> None:
    (tmp_path / "agents.yaml").write_text(AGENTS)
    assert look("pools", "set", "llm", "5", "--usd", "50", "--tokens", "9").code == 0
    refused = look("submit", "agents.yaml")
    assert refused.code != 0
    assert "the pool 'llm' has a budget, so the task needs one of its own; add budget: {tokens: …}" in refused.err
    assert look("pools", "set", "money", "5", "--usd", "50").code == 0
    (tmp_path / "agents.yaml").write_text(AGENTS.replace("llm", "money"))
    run = look("submit", "agents.yaml").out.strip()
    store = SqliteStore(tmp_path / ".weft" / "weft.db")
    try:
        _spend(Committer(store), look, run)
    finally:
        store.close()


def _spend(committer: Committer, look: Weft, run: str) -> None:
    demands = ["agent@$1500000,money", "agent@$1000000,money"]
    committer.commit(c.Register("s", "n", 600_000, None, '{"kinds":["agent"]}'))
    reply = committer.commit(c.Exchange("s", 1, [], 9, demands, 100, spends=True))
    (first,) = reply.claims  # $2 is enough for a, or for b and c
    assert first.allowance is not None
    why = look("why", run).out
    assert "are reserved for running tasks, and this task may spend $1" in why
    spent = [(first.task_id, first.attempt, 250_000, 1200)]
    committer.commit(c.Exchange("s", 2, [], 0, demands, 100, spends=True, spent=spent))
    shown = look("budget", run)
    assert shown.out.splitlines()[0] == "$0.25 of $2, 1,200 tokens; $1.25 reserved"
    assert "$0.25 of $2, 1,200 tokens; $1.25 reserved (a $0.25, 1,200 tokens)" in look("show", run).out
    assert "$0.25 of $50" in look("pools").out
    more = look("budget", run, "--usd", "10", "--json").json
    assert more["budget"] == {
        "usd": 10.0, "tokens": None, "usd_spent": 0.25, "tokens_spent": 1200, "usd_reserved": 1.25,
        "tokens_reserved": 0,
    }  # fmt: skip
    assert more["tasks"] == [{"task": "a", "generation": 1, "usd": 0.25, "tokens": 1200}]
    reply = committer.commit(c.Exchange("s", 3, [], 9, demands, 100, spends=True))
    assert len(reply.claims) == 2
    assert look("verify", run).code == 0
    event = look("events", run, "--kind", "budget", "--json").out
    assert '"usd":10.0' in event.replace(" ", "")


def test_amounts_are_checked(look: Weft) -> None:
    for words in (("--usd", "much"), ("--usd", "-1"), ("--usd", "nan"), ("--tokens", "1.5")):
        result = look("pools", "set", "llm", "5", *words)
        assert result.code == 2, result
        assert "expected" in result.err


def test_a_run_without_agents_has_no_budget(tmp_path: Path, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text("name: w\ntasks: {a: echo}\n")
    run = look("submit", "w.yaml").out.strip()
    assert "can spend anything" in look("budget", run).err
    assert look("budget", run, "--usd", "5").code != 0
