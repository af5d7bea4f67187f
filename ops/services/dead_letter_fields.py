"""Dead letters of either kind of task as names and texts: what a list shows of one, and the
original record."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from cdcbus.consumer.records.dead_letters import OpenDeadLetter
from cdcbus.ops.services.dead_letters import FetchLetter


def fields_of(each: OpenDeadLetter | FetchLetter) -> dict[str, Any]:
    """What a list shows, without cells."""
    if isinstance(each, FetchLetter):
        return {
            "record": each.dead_letter.record,
            "time": each.time,
            "reason": each.dead_letter.reason,
        }
    dead_letter = each.dead_letter
    return {
        "record": dead_letter.record,
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "time": each.time,
        "reason": dead_letter.reason,
    }


def original_of(each: OpenDeadLetter | FetchLetter) -> dict[str, Any]:
    """The record with its cells; for one that Kafka did not accept, what is known of it: its key,
    its table, its place in the binlog."""
    if isinstance(each, FetchLetter):
        return _texts(each.fields.items())
    return {
        "key": _text(each.key),
        "headers": _texts(each.headers),
        "value": _text(each.value),
    }


def _texts(values: Iterable[tuple[str, bytes | None]]) -> dict[str, str | None]:
    return {name: _text(value) for name, value in values}


def _text(value: bytes | None) -> str | None:
    """The value as text where it is text, else as `base64:...`."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"
