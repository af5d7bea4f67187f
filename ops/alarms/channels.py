"""The channels to people: mail, webhook, a command. Each either gets a notice accepted, or says why
not."""

from __future__ import annotations

import os
import shlex
import signal
import smtplib
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formataddr
from http.client import HTTPException
from threading import Thread
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import orjson

ANSWER_SECONDS = 15.0
COMMAND_SECONDS = 30.0


class NotAccepted(Exception):
    """A channel did not accept a message. The text says why, without secrets."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A person of a task, from its `receiver[i]`. Each part may be empty."""

    real_name: str = ""
    email: str = ""
    phone: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message: one line, and the details as fields. `receivers`: the people of the task. Those
    with an address get mail, besides those of the settings."""

    subject: str
    fields: Mapping[str, Any]
    receivers: tuple[Receiver, ...] = ()

    @property
    def json(self) -> bytes:
        """The message for programs."""
        people = []
        for each in self.receivers:
            people.append({"realName": each.real_name, "email": each.email, "phone": each.phone})
        return orjson.dumps({"subject": self.subject, **self.fields, "receivers": people})


class Channel(Protocol):
    """`least`: the lowest severity of the alarms that it gets, `warning` or `critical`."""

    @property
    def name(self) -> str: ...

    @property
    def least(self) -> str: ...

    def send(self, message: Message) -> str:
        """Returns once the message is accepted, with a sentence about receivers who refused it
        nevertheless, else empty. Raises NotAccepted."""
        ...


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail server. `tls`: `starttls`, `tls` or `none`."""

    host: str
    port: int
    tls: str
    user: str
    password: str
    sender: str
    receivers: tuple[str, ...]
    name: str = "mail"
    least: str = "warning"

    def send(self, message: Message) -> str:
        # Each address once, also where both the settings and the task name it.
        names = dict.fromkeys(self.receivers, "")
        for each in message.receivers:
            if "@" in each.email:
                names[each.email] = each.real_name
        if not names:
            raise NotAccepted(
                "nobody gets mail: set alarm.smtp.to, or receiver[i].email of the task"
            )
        people, wrong = _people(names)
        if not people:
            raise NotAccepted(wrong)
        if not _can_be_header(self.sender):
            raise NotAccepted("alarm.smtp.from is not a mail address")
        mail = self._mail(message, ", ".join(people.values()))
        refused = self._delivered(mail, list(people))
        return "; ".join(filter(None, (refused, wrong)))

    def _delivered(self, mail: EmailMessage, receivers: list[str]) -> str:
        """Hands the mail to the server. Returns a sentence about those that it refuses, else
        empty. Raises NotAccepted where it takes it for nobody."""
        where = f"mail server {self.host}:{self.port}"
        try:
            with self._connected() as server:
                if self.tls == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if self.user:
                    self._log_in(server)
                refused = server.send_message(mail, _address_of(self.sender), receivers)
        except smtplib.SMTPRecipientsRefused as error:
            raise NotAccepted(f"{where} refuses {', '.join(error.recipients)}") from error
        except smtplib.SMTPAuthenticationError as error:
            raise NotAccepted(
                f"{where} refuses user {self.user} ({error.smtp_code}): check alarm.smtp.user and "
                "alarm.smtp.password"
            ) from error
        except smtplib.SMTPResponseException as error:
            raise NotAccepted(f"{where} answers {error.smtp_code}") from error
        except smtplib.SMTPException as error:
            raise NotAccepted(f"{where}: {error}") from error
        except UnicodeError as error:  # from the look-up of its name
            raise NotAccepted(f"{where}: alarm.smtp.host is not the name of a host") from error
        except OSError as error:
            raise NotAccepted(f"{where} cannot be reached: {error.strerror or error}") from error
        if not refused:
            return ""
        return f"{where} refuses {', '.join(refused)}"

    def _log_in(self, server: smtplib.SMTP) -> None:
        try:
            server.login(self.user, self.password)
        except UnicodeError as error:
            # smtplib encodes both as ASCII; the error's own text would hold them.
            raise NotAccepted(
                "alarm.smtp.user and alarm.smtp.password can have ASCII characters only"
            ) from error

    def _mail(self, message: Message, receivers: str) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = message.subject
        mail["From"] = self.sender
        mail["To"] = receivers
        lines = [message.subject, ""]
        tasks = message.fields.get("tasks", ())
        if len(tasks) > 1:  # for a single task the subject says it all
            for each in tasks:
                lines.append(f"task {each['task']} ({each['state']}): {each['sentence']}")
        for name, value in message.fields.items():
            if name != "tasks":
                lines.append(f"{name}: {value}")
        mail.set_content("\n".join(lines))
        return mail

    def _connected(self) -> smtplib.SMTP:
        if self.tls == "tls":
            return smtplib.SMTP_SSL(
                self.host, self.port, timeout=ANSWER_SECONDS, context=ssl.create_default_context()
            )
        return smtplib.SMTP(self.host, self.port, timeout=ANSWER_SECONDS)


def _address_of(sender: str) -> str:
    """`a@b` of `a@b` and of `a name <a@b>`. Python's releases differ in what they make of a comma
    in the name."""
    if sender.endswith(">"):
        return sender.rpartition("<")[2].removesuffix(">").strip()
    return sender


def _people(names: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The receivers as a mail names them, by address, and a sentence about those whose address is
    none: they keep the mail from nobody else. `names`: by address."""
    people: dict[str, str] = {}
    wrong: list[str] = []
    for address, name in names.items():
        try:
            # A name of several lines must not keep the mail from its person.
            mailbox = formataddr((" ".join(name.split()), address))
        except UnicodeError:
            mailbox = ""
        if mailbox and _can_be_header(mailbox):
            people[address] = mailbox
        else:
            wrong.append(ascii(address))
    if not wrong:
        return people, ""
    return people, f"{', '.join(wrong)} is not a mail address: see alarm.smtp.to and receiver[i]"


def _can_be_header(mailbox: str) -> bool:
    probe = EmailMessage()
    try:
        probe["To"] = mailbox
        probe.as_bytes()
    except Exception:  # the email package raises errors of many kinds, as for `ada@`
        return False
    return True


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: a redirected POST would arrive as a GET without its body."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address, which is a secret: anyone who knows it can post to it. Only an answer 2xx
    accepts."""

    url: str
    name: str = "webhook"
    least: str = "warning"

    def send(self, message: Message) -> str:
        where = f"webhook at {urlsplit(self.url).hostname}"
        try:
            request = Request(
                self.url, message.json, {"Content-Type": "application/json", "User-Agent": "cdcbus"}
            )
            build_opener(_NoRedirect).open(request, timeout=ANSWER_SECONDS).close()
        except HTTPError as error:
            error.close()
            raise NotAccepted(f"{where} answers {error.code}") from error
        except (OSError, HTTPException, ValueError) as error:
            # Never the error's own text, which can hold the URL, a secret.
            reason = getattr(error, "reason", error)
            words = getattr(reason, "strerror", None) or type(reason).__name__
            raise NotAccepted(f"{where} cannot be reached: {words}") from error
        return ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, split into words as by a shell but run without one, with the JSON on its input.
    Only exit code 0 within `seconds` accepts."""

    command: str
    seconds: float = COMMAND_SECONDS
    name: str = "exec"
    least: str = "warning"

    def send(self, message: Message) -> str:
        try:
            words = shlex.split(self.command)
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A group of its own, so that the kill below reaches what the command has started.
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            raise NotAccepted(
                f"alarm.exec.command cannot be run: {getattr(error, 'strerror', None) or error}"
            ) from error
        try:
            process.communicate(message.json + b"\n", self.seconds)
        except subprocess.TimeoutExpired as error:
            late = f"alarm.exec.command has not ended within {self.seconds:g} s"
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except PermissionError:
                # As by sudo. No other alarm waits for it; the thread notes its end.
                Thread(target=process.communicate, name="alarm exec", daemon=True).start()
                raise NotAccepted(f"{late}; it runs as another user, and was not killed") from error
            process.communicate()
            raise NotAccepted(f"{late}; it was killed") from error
        if process.returncode:
            raise NotAccepted(f"alarm.exec.command has ended with code {process.returncode}")
        return ""


def channels_of(settings: Mapping[str, Any]) -> list[Channel]:
    """The channels of the settings. `settings`: the typed values of all `alarm.*`."""
    found: list[Channel] = []
    if settings["alarm.smtp.host"]:
        found.append(
            Mail(
                settings["alarm.smtp.host"],
                settings["alarm.smtp.port"],
                settings["alarm.smtp.tls"],
                settings["alarm.smtp.user"] or "",
                settings["alarm.smtp.password"] or "",
                settings["alarm.smtp.from"],
                settings["alarm.smtp.to"] or (),
                least=settings["alarm.smtp.severity"],
            )
        )
    if settings["alarm.webhook.url"]:
        found.append(
            Webhook(settings["alarm.webhook.url"], least=settings["alarm.webhook.severity"])
        )
    if settings["alarm.exec.command"]:
        found.append(Command(settings["alarm.exec.command"], least=settings["alarm.exec.severity"]))
    return found
