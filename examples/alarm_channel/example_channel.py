"""exampleLog: an alarm channel that appends each alarm to a file, one JSON object a line, for a log
shipper to collect.

    alarm.channels=exampleLog
    alarm.channel.exampleLog.path=/var/log/cdcbus-alarms.jsonl
    alarm.channel.exampleLog.severity=critical
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cdcbus import ConfigError, Message, NotAccepted


class ExampleLog:
    """The `exampleLog` channel, created with the settings `alarm.channel.exampleLog.*`. cdcbus
    itself has already compared an alarm's severity with the channel's."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        if not settings.get("path"):
            raise ConfigError("alarm.channel.exampleLog.path is missing: which file is meant?")
        self._path = Path(settings["path"])

    def send(self, message: Message) -> None:
        """Appends the message to the file, which accepts it. Raises NotAccepted."""
        try:
            with self._path.open("ab") as file:
                file.write(message.json + b"\n")
        except OSError as error:
            raise NotAccepted(f"{self._path} cannot be written: {error.strerror}") from error
