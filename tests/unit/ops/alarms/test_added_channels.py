"""Alarm channels of other packages: found by name, made with their settings, and never a reason
for others to wait."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.alarms.added_channels import AddedChannel, all_channels, channel_names
from cdcbus.ops.alarms.channels import Message, NotAccepted
from cdcbus.ops.cli.main import main
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from tests.support.processes.plugins import add_example, add_package

MESSAGE = Message("task 7: error: no topic t", {"task": "7"})
GROUP = "cdcbus.alarm_channels"


@pytest.fixture(autouse=True)
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_example("alarm_channel", tmp_path / "example", monkeypatch)


def settings(tmp_path: Path, *lines: str) -> BusSettings:
    file = tmp_path / "cdcbus.properties"
    file.write_text("\n".join(lines))
    return read_bus_settings({}, file, {})


def test_the_example_writes_alarms_into_its_file(tmp_path: Path) -> None:
    log = tmp_path / "alarms.jsonl"
    bus = settings(
        tmp_path,
        "alarm.channels=exampleLog",
        f"alarm.channel.exampleLog.path={log}",
        "alarm.channel.exampleLog.severity=critical",
    )
    assert bus.warnings == ()
    assert channel_names(bus.alarm) == ["exampleLog"]
    [channel] = all_channels(bus.alarm)
    assert (channel.name, channel.least) == ("exampleLog", "critical")
    assert channel.send(MESSAGE) == ""
    assert json.loads(log.read_bytes())["subject"] == MESSAGE.subject


def test_alarm_test_tries_it_too(tmp_path: Path) -> None:
    log = tmp_path / "alarms.jsonl"
    settings(tmp_path, "alarm.channels=exampleLog", f"alarm.channel.exampleLog.path={log}")
    command = ["alarm", "test", "--config", str(tmp_path / "cdcbus.properties")]
    found = CliRunner().invoke(main, command)
    assert found.output == "exampleLog: accepted\n"
    assert "this is a test by" in log.read_text()
    log.chmod(0o400)
    log.unlink()
    log.mkdir()
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1
    assert f"exampleLog: not accepted: {log} cannot be written: Is a directory" in refused.output


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["alarm.channels=chat"], "no alarm channel is called chat; known are exampleLog$"),
        (["alarm.channels=mail"], "mail is built in and needs no name there"),
        (["alarm.channels=exampleLog"], "alarm.channel.exampleLog.path is missing"),
    ],
)
def test_a_channel_that_cannot_be_made_is_a_sentence(
    lines: list[str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        all_channels(settings(tmp_path, *lines).alarm)


def test_an_object_that_cannot_send_is_no_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_package(tmp_path / "p", monkeypatch, "deaf", {GROUP: {"deaf": "builtins:dict"}})
    with pytest.raises(ConfigError, match="alarm channel deaf has no method send"):
        all_channels(settings(tmp_path, "alarm.channels=deaf").alarm)


def test_settings_of_a_channel_that_is_not_used_are_a_warning(tmp_path: Path) -> None:
    bus = settings(tmp_path, "alarm.channels=exampleLog", "alarm.channel.exampelLog.path=/x")
    [warning] = bus.warnings
    assert "without effect: alarm.channels does not name exampelLog" in warning


def test_its_secrets_are_not_shown(tmp_path: Path) -> None:
    lines = [
        f"alarm.channel.exampleLog.{key}=s3cret" for key in ("token", "url", "password", "path")
    ]
    bus = settings(tmp_path, "alarm.channels=exampleLog", *lines)
    shown = [setting.shown for key, setting in bus.settings.items() if "exampleLog." in key]
    assert shown == ["***", "***", "***", "s3cret"]


class Odd:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def send(self, message: Message) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (NotAccepted("the chat is closed"), "the chat is closed$"),
        (KeyError("token s3cret"), "the channel of another package raised KeyError$"),
        (7, "it returned a int; expected a sentence or None"),
    ],
)
def test_whatever_it_raises_is_a_refusal(answer: object, sentence: str) -> None:
    with pytest.raises(NotAccepted, match=sentence):
        AddedChannel("odd", Odd(answer)).send(MESSAGE)


def test_a_sentence_of_a_channel_is_handed_on() -> None:
    assert AddedChannel("odd", Odd("x refuses")).send(MESSAGE) == "x refuses"


def test_a_channel_that_does_not_answer_is_not_waited_for_and_not_asked_twice_at_once() -> None:
    is_free = threading.Event()
    sent: list[Message] = []

    class Slow:
        def send(self, message: Message) -> str:
            is_free.wait(60)
            sent.append(message)
            return ""

    channel = AddedChannel("slow", Slow(), seconds=0.05)
    with pytest.raises(NotAccepted, match=r"no answer within 0\.05 s"):
        channel.send(MESSAGE)
    with pytest.raises(NotAccepted, match="the previous message is not accepted yet"):
        channel.send(MESSAGE)
    assert sent == []
    is_free.set()
    assert channel._under_way is not None
    channel._under_way.join(60)
    channel.seconds = 60
    assert channel.send(MESSAGE) == ""
    assert sent == [MESSAGE, MESSAGE]
