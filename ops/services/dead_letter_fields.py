"""Dead letters of either kind of task as names and texts: what a list shows of one, and the original record."""

from __future__ import annotations

import base64
from typing import Any

from cdcbus.consumer.records.dead_letters import OpenLetter
from cdcbus.ops.services.dead_letters import FetchLetter


def fields_of(each: OpenLetter | FetchLetter) -> dict[str, Any]:
    """Without cells."""
    if isinstance(each, FetchLetter):
        return {"record": each.letter.record, "time": each.time, "reason": each.letter.reason}
    letter = each.letter
    return {
        "record": letter.record,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "time": each.time,
        "reason": letter.reason,
    }


def original_of(each: OpenLetter | FetchLetter) -> dict[str, Any]:
    """The record with its cells; of one that Kafka did not take, what is known of it: its key, its table, its place in the binlog."""
    if isinstance(each, FetchLetter):
        return {name: _text(value) for name, value in each.fields.items()}
    return {"key": _text(each.key), "headers": {name: _text(value) for name, value in each.headers}, "value": _text(each.value)}


def _text(value: bytes | None) -> str | None:
    """As text where it is text, else `base64:...`."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"
