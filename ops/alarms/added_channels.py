"""Channels of other packages: made by name, and held to what every channel promises."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cdcbus.ops.alarms.channels import Channel, Message, NotAccepted, channels_of
from cdcbus.plugins.added.entry_points import CHANNELS, make_added, with_added
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.registry import CHANNEL_NAMES
from cdcbus.tasks.config.keys.plugins import CHANNELS as NAMES_KEY
from cdcbus.tasks.config.keys.plugins import SEVERITY, channel_options

SEND_SECONDS = 30.0


class AlarmChannel(Protocol):
    """A channel to people that another package adds.

    The entry point names a class or function that makes one from a mapping, the channel's settings
    (`alarm.channel.NAME.KEY` by KEY, as text). It raises ConfigError where they cannot be used, as
    a sentence that names the key. Made once; called on one thread at a time.
    """

    def send(self, message: Message) -> str | None:
        """Returns once the message is accepted, with a sentence about receivers who refused it
        nevertheless, else nothing. Raises NotAccepted, whose text says why, without secrets: the
        message is sent again every minute until it is accepted."""
        ...


@dataclass(slots=True)
class AddedChannel:
    """Wraps a channel of another package: whatever it raises is a refusal, and so is an answer that
    takes longer than `seconds`, so that no other alarm waits for it."""

    name: str
    channel: AlarmChannel
    least: str = "warning"
    seconds: float = SEND_SECONDS
    _under_way: threading.Thread | None = None

    def send(self, message: Message) -> str:
        # A channel is called on one thread at a time.
        if self._under_way is not None and self._under_way.is_alive():
            raise NotAccepted("the previous message is not accepted yet; this one was not sent")
        answer: list[str | Exception] = []

        def work() -> None:
            try:
                answer.append(self.channel.send(message) or "")
            except Exception as error:  # code of another package can raise anything
                answer.append(error)

        # On a thread of its own, as code of another package cannot be interrupted.
        self._under_way = threading.Thread(target=work, name=f"alarm {self.name}", daemon=True)
        self._under_way.start()
        self._under_way.join(self.seconds)
        if not answer:
            raise NotAccepted(f"no answer within {self.seconds:g} s")
        [found] = answer
        if isinstance(found, NotAccepted):
            raise found
        if isinstance(found, Exception):  # its text may hold secrets
            raise NotAccepted(f"the channel of another package raised {type(found).__name__}")
        if not isinstance(found, str):
            raise NotAccepted(f"it returned a {type(found).__name__}; expected a sentence or None")
        return found


def all_channels(settings: Mapping[str, Any]) -> list[Channel]:
    """The built-in channels of the settings, then those of other packages that they name. Raises
    ConfigError for one that cannot be made."""
    found = channels_of(settings)
    for name in settings[NAMES_KEY] or ():
        found.append(_made(name, settings))
    return found


def channel_names(settings: Mapping[str, Any]) -> list[str]:
    """The names of all channels, without making any."""
    return [*(each.name for each in channels_of(settings)), *(settings[NAMES_KEY] or ())]


def _made(name: str, settings: Mapping[str, Any]) -> Channel:
    if name in CHANNEL_NAMES:
        raise ConfigError(
            f"{NAMES_KEY} names channels of other packages; {name} is built in and needs no name "
            f"there, see alarm.* in docs/configuration.md"
        )
    known = with_added((), CHANNELS) or ("none: no package adds one",)
    channel = make_added(CHANNELS, name, known, channel_options(dict(settings), name))
    if not callable(getattr(channel, "send", None)):
        raise ConfigError(f"alarm channel {name} has no method send, so it is not a channel")
    return AddedChannel(
        name, channel, settings.get(f"alarm.channel.{name}.{SEVERITY}") or "warning"
    )
