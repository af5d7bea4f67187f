"""Keys whose values are passed to a plug-in, and whose names only the plug-in knows."""

from __future__ import annotations

import re

from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.types import SECRET, TEXT, word

SEVERITY = "severity"
CHANNELS = "alarm.channels"
CHANNEL_KEY = re.compile(r"alarm\.channel\.([\w-]{1,40})\.(.+)", re.ASCII)
# The names of a plug-in's secrets are unknown, so this matches rather too many. The address of a
# chat's webhook is a secret as well.
SECRET_OPTION = re.compile(
    r"pass|pwd|secret|token|credential|auth|pin$|dsn|hook|key$|url$", re.IGNORECASE
)
SOURCE_OPTION = "consumer.source.plugin."


def find_channel_key(written: str) -> Key | None:
    """The key of a channel's setting, `alarm.channel.NAME.KEY`; None for any other name."""
    found = CHANNEL_KEY.fullmatch(written)
    if found is None:
        return None
    if found[2] == SEVERITY:
        return Key(
            written, word("warning", "critical"), "warning", "The lowest severity that is sent."
        )
    value_type = TEXT
    if SECRET_OPTION.search(found[2]):
        value_type = SECRET
    return Key(written, value_type, "", "A setting of the channel.")


def channel_options(settings: dict[str, object], name: str) -> dict[str, str]:
    """A channel's settings by its own keys; settings without a value are left out."""
    prefix = f"alarm.channel.{name}."
    options: dict[str, str] = {}
    for key, value in settings.items():
        if key.startswith(prefix) and value is not None:
            options[key.removeprefix(prefix)] = str(value)
    # Which alarms it gets is decided before the channel.
    options.pop(SEVERITY, None)
    return options
