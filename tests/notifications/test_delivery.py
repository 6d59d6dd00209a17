"""Notifications reach real servers: `weft run` delivers what its run left, and nothing gets lost with a leader."""

import asyncio
import base64
import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Weft, weft
from tests.notifications.servers import smtp_server, webhook
from weft.core.commands import Lead, Register
from weft.executors.boot_clock import boottime
from weft.executors.shell.executor import ShellExecutor
from weft.local_node.factory import new_session_id
from weft.local_node.notifier import LocalNotifier
from weft.node.attempts.secrets import Secrets
from weft.node.chores.notify import Deliveries
from weft.node.local import LocalChores, LocalLink
from weft.node.ports import NodeSettings, Ports
from weft.store.sqlite.driver import SqliteStore

__all__ = ["weft"]
FAILING = "echo first; echo it broke >&2; exit 3"


def define(directory: Path, notify: Any, name: str = "w", task: Any = FAILING, **more: Any) -> str:
    (directory / f"{name}.yaml").write_text(
        yaml.safe_dump({"name": name, "notify": notify, "tasks": {"load": task}, **more})
    )
    return f"{name}.yaml"


def listed(weft: Weft, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = weft("notifications", *words, "--json").json["notifications"]
    return found


async def lead(directory: Path, env: dict[str, str], looks: int, timeout_s: float = 20.0) -> None:
    """A leader looks so many times, and waits for what it delivers."""
    store = SqliteStore(directory / ".weft" / "weft.db")
    link = LocalLink(store)
    shell = ShellExecutor(str(directory))
    await shell.open()
    settings = NodeSettings(
        "n", 1, str(directory), str(directory), http_allow=("127.0.0.1",), notify_timeout_s=timeout_s,
        notify_backoff_s=0.01,
    )  # fmt: skip
    ports = Ports(link, {}, boottime, random.Random(1), new_session_id, chores=LocalChores(link))
    session = new_session_id()
    ports.notifier = LocalNotifier(settings, Secrets(env), shell)
    try:
        await ports.chore_link.commit(Register(session, "n", 600_000, None, "{}"))
        term = (await ports.chore_link.commit(Lead(session, 600_000))).term
        for _ in range(looks):
            await Deliveries().notify_all(ports, settings, term)
            await asyncio.sleep(0.05)  # longer than the backoff
    finally:
        await link.leave(session)
        await shell.close()
        link.close()
        store.close()


def test_a_failure_and_the_recovery(weft: Weft, tmp_path: Path) -> None:
    with webhook() as hook:
        notify = {"on": ["failed", "recovered"], "webhook": f"{hook.url}/in", "headers": {"X-Team": "data"}}
        file = define(tmp_path, notify)
        assert weft("run", file, env={"WEFT_PUBLIC_URL": "https://weft.example"}).code == 1
        assert weft("run", define(tmp_path, notify, task="true")).code == 0
        assert weft("run", define(tmp_path, notify, task="true")).code == 0
    failed, recovered = hook.bodies
    found = listed(weft)
    assert [one["event"] for one in found] == ["recovered", "failed"]
    assert {one["state"] for one in found} == {"delivered"}
    assert (failed["event"], failed["run"], failed["failed"]) == ("failed", found[1]["run"], ["load"])
    assert failed["reason"] == "load: exit code 3"
    lines = failed["text"].splitlines()
    assert lines[0] == "w failed: load: exit code 3"
    assert "  it broke" in lines
    assert lines[-1] == f"https://weft.example/#/runs/{failed['run']}" == failed["link"]
    assert recovered["text"].splitlines()[0] == "w succeeded again"
    assert [headers["weft-notification-id"] for headers in hook.headers] == [found[1]["id"], found[0]["id"]]
    assert hook.headers[0]["x-team"] == "data"
    assert hook.paths[0] == "/in"
    assert found[0]["target"] == f"webhook {hook.url}/…"


def test_texts_of_the_definition_and_slack(weft: Weft, tmp_path: Path) -> None:
    with webhook() as hook:
        text = "${{ run.name }} ${{ run.state }}: ${{ run.failed }} ${{ notification.event }}"
        notify = {"on": "failed", "slack": "$HOOK", "secrets": ["HOOK"], "text": text}
        address = f"{hook.url}/T00/very-secret-part"
        assert weft("run", define(tmp_path, notify), env={"HOOK": address}).code == 1
    assert hook.bodies == [{"text": 'w failed: ["load"] failed'}]
    assert hook.paths == ["/T00/very-secret-part"]
    assert "very-secret-part" not in json.dumps(listed(weft))


def test_no_secret_is_in_an_error(weft: Weft, tmp_path: Path) -> None:
    with webhook(404) as hook:
        notify = {
            "on": "failed", "webhook": f"{hook.url}/$PART", "headers": {"Authorization": "Bearer ${KEY}"},
            "secrets": ["PART", "KEY"],
        }  # fmt: skip
        assert weft("run", define(tmp_path, notify), env={"PART": "hidden/part", "KEY": "hidden-key"}).code == 1
    assert hook.paths == ["/hidden%2Fpart"]
    assert hook.headers[0]["authorization"] == "Bearer hidden-key"
    (one,) = listed(weft)
    assert (one["state"], one.get("error")) == ("pending", f"{hook.url} answered 404")
    assert "hidden" not in json.dumps(one)


def test_an_email(weft: Weft, tmp_path: Path) -> None:
    with smtp_server() as box:
        notify = {"on": "failed", "email": {"to": ["a@example.com", "b@example.com"], "subject": "${{ run.name }}!"}}
        env = {
            "WEFT_SMTP_HOST": "127.0.0.1", "WEFT_SMTP_PORT": str(box.port), "WEFT_SMTP_FROM": "weft@example.com",
            "WEFT_SMTP_STARTTLS": "never", "WEFT_SMTP_USER": "me", "WEFT_SMTP_PASSWORD": "MAIL_KEY",
            "MAIL_KEY": "very-secret",
        }  # fmt: skip
        assert weft("run", define(tmp_path, notify), env=env).code == 1
    (one,) = listed(weft)
    (mail,) = box.mails
    assert (one["state"], one["target"]) == ("delivered", "email a@example.com, b@example.com")
    assert (mail["Subject"], mail["To"]) == ("w!", "a@example.com, b@example.com")
    assert (mail["Message-ID"], mail["Weft-Notification-Id"]) == (f"<{one['id']}@weft.invalid>", one["id"])
    assert "it broke" in str(mail.get_payload())
    assert len(box.recipients) == 2
    assert base64.b64decode(box.logins[0]) == b"\0me\0very-secret"


def test_an_email_that_is_refused_for_good(weft: Weft, tmp_path: Path) -> None:
    with smtp_server(b"550 5.1.1 nobody here") as box:
        env = {
            "WEFT_SMTP_HOST": "127.0.0.1", "WEFT_SMTP_PORT": str(box.port), "WEFT_SMTP_FROM": "weft@example.com",
            "WEFT_SMTP_STARTTLS": "never",
        }  # fmt: skip
        assert weft("run", define(tmp_path, {"on": "failed", "email": {"to": "a@example.com"}}), env=env).code == 1
        (one,) = listed(weft, "--state", "failed")
        assert (one["tries"], one.get("error")) == (1, "127.0.0.1 refused a@example.com")
        assert weft("notifications", "retry", one["id"]).out == "1 will be delivered again\n"
        assert weft("run", define(tmp_path, [], "other", "true"), env=env).code == 0
    assert [mail["Weft-Notification-Id"] for mail in box.mails] == [one["id"]]
    events = weft("events", "--kind", "notifications_retried", "--json").lines
    assert events[0]["data"]["notifications"] == [one["id"]]


def test_a_command(weft: Weft, tmp_path: Path) -> None:
    show = 'echo "$WEFT_NOTIFICATION_ID $WEFT_NOTIFICATION_EVENT $WEFT_RUN_ID" > told; test -n "$KEY"'
    notify = [{"on": "failed", "command": ["sh", "-c", show], "secrets": "KEY"}]
    assert weft("run", define(tmp_path, notify), env={"KEY": "a-secret"}).code == 1
    (one,) = listed(weft)
    assert (one["state"], one["target"]) == ("delivered", "command sh")
    assert (tmp_path / "told").read_text() == f"{one['id']} failed {one['run']}\n"


def test_a_program_that_is_not_there_is_tried_once(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    commands = [["no-such-program"], ["./text"], ["sh", "-c", "exit 3"]]
    weft("run", define(tmp_path, [{"on": "failed", "command": command} for command in commands]))
    found = {one["target"]: (one["state"], one["tries"]) for one in listed(weft)}
    assert found == {
        "command no-such-program": ("failed", 1), "command ./text": ("failed", 1), "command sh": ("pending", 1),
    }  # fmt: skip


def test_one_that_waits_for_its_next_try_is_sent_now(weft: Weft, tmp_path: Path) -> None:
    with webhook(500, 200) as hook:
        assert weft("run", define(tmp_path, {"on": "failed", "webhook": f"{hook.url}/secret/path"})).code == 1
        (one,) = listed(weft)
        assert (one["state"], one["target"]) == ("pending", f"webhook {hook.url}/…")
        assert weft("notifications", "retry", one["id"]).out == "1 will be delivered again\n"
        asyncio.run(lead(tmp_path, {}, 1))
    assert [one["state"] for one in listed(weft)] == ["delivered"]
    again = weft("notifications", "retry", one["id"])
    assert again.out == "1 will be delivered again\n"
    assert weft("notifications", "retry", one["id"]).out == "nothing to do: they are being delivered right now\n"


def test_a_command_that_takes_too_long_is_killed(weft: Weft, tmp_path: Path) -> None:
    notify = {"on": "waiting", "command": ["sh", "-c", "echo $$ > pid; sleep 600"]}
    assert weft("submit", define(tmp_path, notify, task={"wait": {"signal": "go"}})).code == 0
    asyncio.run(lead(tmp_path, {}, 1, timeout_s=2.0))
    (one,) = listed(weft)
    assert (one["state"], one.get("error")) == ("pending", "not delivered within 2 s")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_it_is_tried_again_until_it_gets_there(weft: Weft, tmp_path: Path) -> None:
    with webhook(500, 0, 200) as hook:
        file = define(tmp_path, {"on": "waiting", "webhook": hook.url}, task={"wait": {"signal": "go"}})
        assert weft("submit", file).code == 0
        asyncio.run(lead(tmp_path, {}, 10, timeout_s=4.0))  # one answers 500, one does not answer
    assert len({headers["weft-notification-id"] for headers in hook.headers}) == 1
    (one,) = listed(weft)
    assert (one["state"], one["tries"], one.get("error")) == ("delivered", 3, None)
    assert len(hook.bodies) == 3
    assert hook.bodies[0]["text"].startswith("w: load waits for the signal go (weft signal")


def test_a_leader_that_is_killed_before_it_can_say_so(weft: Weft, tmp_path: Path) -> None:
    with webhook() as hook:
        done = weft(
            "run", define(tmp_path, {"on": "failed", "webhook": hook.url}), env={"WEFT_CRASH_AT": "notify.sent"}
        )
        assert done.code == -signal.SIGKILL
        assert listed(weft)[0]["state"] == "pending"
        assert weft("run", define(tmp_path, [], "other", "true")).code == 0
    ids = [headers["weft-notification-id"] for headers in hook.headers]
    (one,) = listed(weft)
    assert ids == [one["id"]] * 2
    assert (one["state"], one["tries"]) == ("delivered", 2)


def test_targets_for_all_workflows(weft: Weft, tmp_path: Path) -> None:
    with webhook() as hook:
        (tmp_path / "targets.yaml").write_text(f"- {{on: [failed], webhook: '{hook.url}'}}\n")
        assert weft("notifications", "default", "--file", "targets.yaml").code == 0
        assert weft("notifications", "default", "--json").json["notify"][0]["webhook"] == hook.url
        assert weft("run", define(tmp_path, [])).code == 1
        assert weft("notifications", "default", "--none").out == "no targets for all workflows\n"
        assert weft("run", define(tmp_path, [])).code == 1
    assert [body["event"] for body in hook.bodies] == ["failed"]
    (tmp_path / "targets.yaml").write_text("- {on: [exploded], webhook: 'https://x'}\n")
    refused = weft("notifications", "default", "--file", "targets.yaml")
    assert refused.code == 2
    assert "exploded" in refused.err


def test_late_is_reported_once(weft: Weft, tmp_path: Path) -> None:
    with webhook() as hook:
        file = define(tmp_path, {"on": "late", "webhook": hook.url}, deadline={"start_by": "1ms"})
        assert weft("submit", file).code == 0
        asyncio.run(lead(tmp_path, {}, 3))
        run = weft("ls", "--late", "--json").json["runs"][0]
        assert run["late"]
        assert "late" in weft("ls").out
        assert "late" in weft("show", run["id"]).out
        assert "late: the run should have started by" in weft("why", run["id"]).out
        assert weft("submit", define(tmp_path, [], "other", "true")).code == 0
        assert len(weft("ls", "--late", "--json").json["runs"]) == 1
    assert len(weft("events", run["id"], "--kind", "late", "--json").lines) == 1
    (body,) = hook.bodies
    assert body["text"].startswith("w has not started by 20")
    assert (body["by"], body["run"]) == ("start_by", run["id"])


@pytest.mark.parametrize("words", [("retry",), ("retry", "--failed", "0" * 20), ("list", "--none"), ("default", "x")])
def test_what_makes_no_sense_is_refused(weft: Weft, words: tuple[str, ...]) -> None:
    assert weft("notifications", *words).code == 2
