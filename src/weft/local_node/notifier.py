"""Delivers notifications: webhooks with the client of `http` tasks, e-mail with smtplib in a thread, commands as
processes of the shell executor. Whatever it imports, it imports when it is first needed.

No message of an error holds a secret, nor the path of an address, which often is one.
"""

import asyncio
import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from weft.core.rows import NotificationRow
from weft.core.workflow import NotifyTarget
from weft.executors.masking import Masker, secret_forms
from weft.executors.protocol import Executor, Launch, Outcome
from weft.local_node.notification_text import Message, message_of
from weft.node.attempts.secrets import MissingSecret, Secrets
from weft.node.ports import Delivery, NodeSettings, SmtpSettings

if TYPE_CHECKING:
    from weft.executors.http_call.client import HttpClient

ID_HEADER: Final = "Weft-Notification-Id"
_ANSWER_MAX: Final = 64 * 1024
_OUTPUT_MAX: Final = 64 * 1024
_REFERENCE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_GRACE_S: Final = 2.0
_NOT_RUN: Final = (126, 127)  # there is no such program, or it cannot be run: later tries would end in the same way


class LocalNotifier:
    def __init__(self, settings: NodeSettings, secrets: Secrets, shell: Executor) -> None:
        self._settings = settings
        self._secrets = secrets
        self._shell = shell
        self._client: HttpClient | None = None
        self._numbers = itertools.count(1)

    async def send(self, row: NotificationRow, result: str | None) -> Delivery:
        target = msgspec.json.decode(row.target, type=NotifyTarget)
        message = message_of(row, target, result, self._settings.public_url)
        try:
            self._secrets.learn(target.secrets)
            values = self._secrets.values(target.secrets)
        except MissingSecret as error:
            return Delivery(str(error))
        if target.command is not None:
            delivery = await self._run(row, target.command, message, values)
        elif target.email is not None:
            delivery = await self._mail(row, target.email["to"], message)
        else:
            delivery = await self._post(row, target, message, values)
        if delivery.error is None or not values:
            return delivery
        masked = Masker(secret_forms(values.values())).text(delivery.error)
        return msgspec.structs.replace(delivery, error=masked)

    # -- webhooks ----------------------------------------------------------------------------------------

    async def _post(
        self, row: NotificationRow, target: NotifyTarget, message: Message, secrets: Mapping[str, str]
    ) -> Delivery:
        from weft.executors.http_call.client import NotAnswered
        from weft.executors.http_call.request import BadRequest, HttpRequest, Limits, parse_url

        try:
            url = parse_url(_with_secrets(target.webhook or target.slack or "", secrets, url=True))
            headers = {name: _with_secrets(value, secrets) for name, value in target.headers.items()}
            headers |= {"Content-Type": "application/json", ID_HEADER: row.id}
            body = {"text": message.text} if target.slack is not None else message.body
            request = HttpRequest("POST", url, headers, msgspec.json.encode(body))
            request.encoded()
        except (BadRequest, UnicodeError):
            return Delivery("the URL or a header cannot be used", final=True)
        shown = f"{url.scheme}://{url.authority}"
        try:
            limits = Limits(2 * self._settings.notify_timeout_s, _ANSWER_MAX, False)  # whoever sends has a timeout
            answer = await self._http().fetch(request, limits)
        except NotAnswered as error:
            return Delivery(str(error).replace(url.shown, shown), final=error.final)
        return Delivery(None if 200 <= answer.status < 300 else f"{shown} answered {answer.status}")

    def _http(self) -> "HttpClient":
        if self._client is None:
            from weft.executors.http_call.addresses import AddressRules
            from weft.executors.http_call.client import HttpClient

            rules = AddressRules(self._settings.http_allow, self._settings.http_private)
            self._client = HttpClient(rules, at_once=16)
        return self._client

    # -- e-mail ------------------------------------------------------------------------------------------

    async def _mail(self, row: NotificationRow, to: list[str], message: Message) -> Delivery:
        smtp = self._settings.smtp
        if smtp.host is None or smtp.sender is None:
            return Delivery("this node cannot send e-mail: its settings smtp_host and smtp_from are missing")
        try:
            names = () if smtp.password is None else (smtp.password,)
            password = next(iter(self._secrets.values(names).values()), None)
        except MissingSecret as error:
            return Delivery(str(error))
        timeout_s = self._settings.notify_timeout_s
        delivery = await asyncio.to_thread(_send_mail, smtp, password, row.id, to, message, timeout_s)
        if delivery.error is None or password is None:
            return delivery
        return msgspec.structs.replace(delivery, error=Masker(secret_forms([password])).text(delivery.error))

    # -- commands ----------------------------------------------------------------------------------------

    async def _run(
        self, row: NotificationRow, argv: tuple[str, ...], message: Message, secrets: dict[str, str]
    ) -> Delivery:
        """As an attempt that belongs to no task: the node's spawner owns all that it starts."""
        number = -next(self._numbers)
        env = {
            "WEFT_NOTIFICATION_ID": row.id, "WEFT_NOTIFICATION_EVENT": row.event,
            "WEFT_NOTIFICATION_TEXT": message.text, "WEFT_NOTIFICATION_WORKFLOW": row.workflow,
            "WEFT_RUN_ID": row.run or "",
        }  # fmt: skip
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        directory = tempfile.mkdtemp(prefix="weft-notification-")
        launch = Launch(
            number, 1, row.run or "", "notification", "shell", {"argv": list(argv)}, env, self._settings.workdir,
            directory, _OUTPUT_MAX, secrets=secrets, hidden=self._secrets.hidden,
        )  # fmt: skip
        try:
            self._shell.start(launch, _settle(ended))
            try:
                outcome = await asyncio.shield(ended)
            except asyncio.CancelledError:
                self._shell.stop(number, 1, "cancel", _GRACE_S)
                await ended  # nothing of it is left
                raise
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        gone = outcome.startable and outcome.exit_code in _NOT_RUN
        return Delivery() if outcome.ok else Delivery(_why(outcome), final=gone)


def _settle(ended: "asyncio.Future[Outcome]") -> Callable[[Outcome], None]:
    def settle(outcome: Outcome) -> None:
        if not ended.done():
            ended.set_result(outcome)

    return settle


def _why(outcome: Outcome) -> str:
    said = str((outcome.result or {}).get("stderr") or "").strip().splitlines()
    return (outcome.error or "it failed") + (f": {said[-1][:200]}" if said else "")


def _with_secrets(text: str, values: Mapping[str, str], *, url: bool = False) -> str:
    """In a URL a secret at its beginning is the address itself; any other one is part of its path or query."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1] or match[2])
        if found is None:
            return match[0]
        return quote(found, safe="") if url and match.start() else found.strip()

    return _REFERENCE.sub(value, text)


def _send_mail(
    smtp: SmtpSettings, password: str | None, id: str, to: list[str], message: Message, timeout_s: float
) -> Delivery:
    import smtplib
    import ssl
    from email.message import EmailMessage
    from email.utils import formatdate

    assert smtp.host is not None
    assert smtp.sender is not None
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = smtp.sender, ", ".join(to), message.subject
    mail["Date"], mail["Message-ID"], mail[ID_HEADER] = formatdate(), f"<{id}@weft.invalid>", id
    mail.set_content(message.text)
    try:
        with smtplib.SMTP(smtp.host, smtp.port, timeout=timeout_s) as connection:
            if smtp.starttls:
                connection.starttls(context=ssl.create_default_context())
            if smtp.user is not None and password is not None:
                connection.login(smtp.user, password)
            refused = connection.send_message(mail)
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        return Delivery(f"{smtp.host} answered {error.smtp_code} {text[:200]}", final=error.smtp_code >= 500)
    except smtplib.SMTPRecipientsRefused as error:
        final = all(code >= 500 for code, _ in error.recipients.values())
        return Delivery(f"{smtp.host} refused {', '.join(error.recipients)}", final=final)
    except (smtplib.SMTPException, OSError, UnicodeError) as error:
        return Delivery(f"{smtp.host}: {error or type(error).__name__}"[:300])
    return Delivery(f"{smtp.host} refused {', '.join(refused)}", final=True) if refused else Delivery()
