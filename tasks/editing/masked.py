"""Masks the inline secrets in a task's text, and restores them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import javaproperties

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.parser import Entry, is_inline_secret, split_lines
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.porter.dist_json import properties_text

MASK = "(secret, not shown)"


def masked_text(dist: Mapping[str, Any]) -> str:
    """The task file of a task in ZooKeeper, with MASK for each inline secret."""
    text = properties_text(dist)
    lines: dict[int, str] = {}
    for key, entry in _entries(text).items():
        if is_inline_secret(key, find_key(key), entry.written):
            lines[entry.line] = javaproperties.join_key_value(key, MASK)
    return _with_lines(text, lines)


def unmasked_text(text: str, dist: Mapping[str, Any]) -> str:
    """A text with the stored secrets in place of MASK. Raises ConfigError for a secret that the
    task does not have, as nobody means the mask's words themselves."""
    stored = _entries(properties_text(dist))
    lines = {}
    for key, entry in _entries(text).items():
        if entry.written.strip() != MASK:
            continue
        if key not in stored:
            raise ConfigError(
                f"{key}: there is no stored secret that {MASK!r} could stand for; write "
                "${env:NAME} or ${file:/path}"
            )
        lines[entry.line] = javaproperties.join_key_value(key, stored[key].written)
    return _with_lines(text, lines)


def _entries(text: str) -> Mapping[str, Entry]:
    # Without environment and sources: only what stands in the text itself may be shown.
    return inspect_text(text, {}, sources=lambda _: None).entries


def _with_lines(text: str, changed: Mapping[int, str]) -> str:
    lines = split_lines(text)
    for number, line in changed.items():
        lines[number - 1] = line
    return "".join(f"{line}\n" for line in lines)
