"""The ways to people, against real servers on this machine: what is accepted, and what is not."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from email import message_from_string
from email.policy import default
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from cdcbus.ops.alarms.channels import (
    Command,
    Mail,
    Message,
    NotAccepted,
    Receiver,
    Webhook,
)
from cdcbus.ops.stack.addresses import free_port

OWNER, ON_CALL = (
    Receiver("李雷, owner", "owner@example.com"),
    Receiver("on call", phone="+49 30 1234"),
)
MESSAGE = Message(
    "task 7: error: no topic t", {"task": "7", "rule": "error", "times": 1}, (OWNER, ON_CALL)
)
PEOPLE = [
    {"realName": "李雷, owner", "email": "owner@example.com", "phone": ""},
    {"realName": "on call", "email": "", "phone": "+49 30 1234"},
]


class Mailbox:
    """What an SMTP server has accepted. It refuses whom a test wants refused."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], str]] = []
        self.refused: set[str] = set()

    async def handle_RCPT(
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.mails.append((envelope.rcpt_tos, envelope.content.decode()))
        return "250 OK"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Where nobody listens, and nobody else can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port(set()))
    controller.start()
    yield box, controller.port
    controller.stop()


@pytest.fixture
def login() -> Iterator[int]:
    """The port of a mail server that wants a login."""
    controller = Controller(
        Mailbox(),
        hostname="127.0.0.1",
        port=free_port(set()),
        authenticator=lambda *_: AuthResult(success=False),
        auth_require_tls=False,
    )
    controller.start()
    yield controller.port
    controller.stop()


def mail(port: int, *receivers: str) -> Mail:
    return Mail("127.0.0.1", port, "none", "", "", "cdcbus@example.com", receivers)


def test_a_mail_goes_to_those_of_the_settings_and_of_the_task(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    assert mail(port, "ops@example.com").send(MESSAGE) == ""
    (((receivers, text)),) = box.mails
    assert receivers == ["ops@example.com", "owner@example.com"]
    got = message_from_string(text, policy=default)
    assert got["Subject"] == "task 7: error: no topic t"
    assert [(each.display_name, each.addr_spec) for each in got["To"].addresses] == [
        ("", "ops@example.com"),
        ("李雷, owner", "owner@example.com"),
    ]
    assert "rule: error" in got.get_content()


def test_a_mail_that_some_get_is_accepted_and_the_others_are_named(
    mailbox: tuple[Mailbox, int],
) -> None:
    box, port = mailbox
    box.refused = {"ops@example.com"}
    assert (
        mail(port, "ops@example.com").send(MESSAGE)
        == f"mail server 127.0.0.1:{port} refuses ops@example.com"
    )
    box.refused.add("owner@example.com")
    with pytest.raises(NotAccepted, match=r"refuses ops@example.com, owner@example.com"):
        mail(port, "ops@example.com").send(MESSAGE)
    assert len(box.mails) == 1


def test_a_mail_without_a_server_or_a_receiver_is_not_accepted(
    mailbox: tuple[Mailbox, int], closed_port: int
) -> None:
    with pytest.raises(NotAccepted, match="cannot be reached: Connection refused"):
        mail(closed_port, "ops@example.com").send(MESSAGE)
    with pytest.raises(NotAccepted, match=r"set alarm\.smtp\.to"):
        mail(mailbox[1]).send(Message("s", {}))


def test_a_server_that_cannot_do_what_the_settings_want_has_not_accepted(
    mailbox: tuple[Mailbox, int],
) -> None:
    with pytest.raises(NotAccepted, match="STARTTLS"):
        Mail("127.0.0.1", mailbox[1], "starttls", "", "", "a@b.com", ("ops@example.com",)).send(
            MESSAGE
        )
    with pytest.raises(NotAccepted, match=r"127\.0\.0\.1") as refused:
        Mail("127.0.0.1", mailbox[1], "none", "me", "s3cret", "a@b.com", ("ops@example.com",)).send(
            MESSAGE
        )
    assert "s3cret" not in str(refused.value)
    assert mailbox[0].mails == []


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [("a\nBcc: b@c.com", "ops@example.com"), ("a@b.com", "ops@exa\nmple.com")],
)
def test_a_line_end_in_an_address_goes_to_nobody(
    mailbox: tuple[Mailbox, int], sender: str, receiver: str
) -> None:
    with pytest.raises(NotAccepted, match="is not a mail address"):
        Mail("127.0.0.1", mailbox[1], "none", "", "", sender, (receiver,)).send(Message("s", {}))
    assert mailbox[0].mails == []


@pytest.mark.parametrize("address", ["ada@", "ada@[", "adä@example.com", "ada@exa\nmple.com"])
def test_what_is_no_address_keeps_the_mail_from_nobody_else(
    mailbox: tuple[Mailbox, int], address: str
) -> None:
    message = Message("s", {}, (Receiver("", address), Receiver("on\ncall", "on@example.com")))
    said = mail(mailbox[1], "ops@example.com").send(message)
    assert said == f"{address!a} is not a mail address: see alarm.smtp.to and receiver[i]"
    ((receivers, _),) = mailbox[0].mails
    assert receivers == ["ops@example.com", "on@example.com"]


def test_a_sender_may_have_a_name(mailbox: tuple[Mailbox, int]) -> None:
    sender = "cdcbus, in Köln <cdcbus@example.com>"
    named = Mail("127.0.0.1", mailbox[1], "none", "", "", sender, ("ops@example.com",))
    assert named.send(MESSAGE) == ""


def test_a_password_that_smtp_cannot_send_is_named(login: int) -> None:
    with pytest.raises(NotAccepted, match=r"alarm\.smtp\.password can have ASCII") as refused:
        Mail("127.0.0.1", login, "none", "me", "söcret", "a@b.com", ("o@example.com",)).send(
            MESSAGE
        )
    assert "cret" not in str(refused.value)


def test_a_host_that_is_no_name_is_named() -> None:
    with pytest.raises(NotAccepted, match=r"alarm\.smtp\.host is not the name of a host"):
        Mail("mail..example", 25, "none", "", "", "a@b.com", ("o@example.com",)).send(MESSAGE)


class Hook(BaseHTTPRequestHandler):
    """Answers with what the path says."""

    got: list[Any] = []

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(int(self.path.strip("/")))
        self.send_header("Location", "/200")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Not to stderr."""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Hook.got = []
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_json_and_only_2xx_is_an_acceptance(hook: str) -> None:
    assert Webhook(f"{hook}/204").send(MESSAGE) == ""
    assert Hook.got == [
        {
            "subject": "task 7: error: no topic t",
            "task": "7",
            "rule": "error",
            "times": 1,
            "receivers": PEOPLE,
        }
    ]
    for status in (302, 404, 500):
        with pytest.raises(NotAccepted, match=f"webhook at 127.0.0.1 answers {status}"):
            Webhook(f"{hook}/{status}").send(MESSAGE)


def test_a_webhook_that_is_not_there_is_named_without_its_address(
    hook: str, closed_port: int
) -> None:
    with pytest.raises(NotAccepted, match="cannot be reached: Connection refused") as refused:
        Webhook(f"http://127.0.0.1:{closed_port}/s3cret").send(MESSAGE)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(NotAccepted, match="webhook at h cannot be reached: InvalidURL"):
        Webhook("http://h:port/s3cret").send(MESSAGE)


def test_a_command_gets_json_on_its_input_and_code_0_is_an_acceptance(tmp_path: Path) -> None:
    out = tmp_path / "a b"
    script = f"import sys,pathlib; pathlib.Path({str(out)!r}).write_text(sys.stdin.read())"
    assert Command(f'{sys.executable} -c "{script}"').send(MESSAGE) == ""
    told = json.loads(out.read_text())
    assert (told["rule"], told["receivers"]) == ("error", PEOPLE)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false", "ended with code 1"),
        ("/no/such/command", "cannot be run: No such file or directory"),
        ("", "cannot be run"),
        ('"', "cannot be run"),
    ],
)
def test_a_command_that_fails_has_not_accepted(command: str, why: str) -> None:
    with pytest.raises(NotAccepted, match=why):
        Command(command).send(MESSAGE)


def test_a_command_that_does_not_end_is_killed_with_what_it_started() -> None:
    with pytest.raises(NotAccepted, match=r"has not ended within 0\.5 s; it was killed"):
        Command("sh -c 'sleep 600 & sleep 600'", 0.5).send(MESSAGE)


def test_a_command_that_cannot_be_killed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs as another user, as by sudo: here the kill is refused, as tests may run as root."""

    group: list[int] = []
    kill = os.killpg

    def refuse(pid: int, _: int) -> None:
        group.append(pid)
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    try:
        with pytest.raises(NotAccepted, match="as another user, and was not killed"):
            Command("sleep 600", 0.2).send(MESSAGE)
    finally:
        kill(group[0], signal.SIGKILL)
