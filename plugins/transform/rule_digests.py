"""Notes by which rules of its text a task has written a position, so that its next start can tell
that rows before it were taken, or left out, by other ones."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from hashlib import sha256

import orjson

LOG = logging.getLogger(__name__)


def digests(values: Mapping[str, object]) -> dict[str, str]:
    """A digest of the values of each key, or group of keys, by their names: values can be secret,
    as the salt of a mask."""
    return {name: _digest(value) for name, value in values.items()}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose values differ from those noted before; names that only a newer cdcbus notes
    tell of no change."""
    return [name for name, digest in before.items() if now.get(name, digest) != digest]


def warn_of_changes(
    task_id: str, before: Mapping[str, str], now: Mapping[str, str], place: str, remedy: str
) -> None:
    """Logs that a task goes on from `place` by other rules than those that led it there, or that a
    newer cdcbus had rules that this one does not know."""
    names = changed(before, now)
    if names:
        LOG.warning(
            "task %s goes on from %s with another value of %s than it had up to there: rows before "
            "it were taken, or left out, by the former value, and do not come again. %s",
            task_id,
            place,
            "; ".join(names),
            remedy,
        )
    unknown = [name for name in before if name not in now]
    if unknown:
        LOG.warning(
            "task %s goes on from %s, up to which a newer cdcbus ran it, which also goes by %s: "
            "this one does not know that, so it has no effect from here on",
            task_id,
            place,
            "; ".join(unknown),
        )


def _digest(value: object) -> str:
    text = orjson.dumps(
        value,
        default=_plain,
        option=orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_NON_STR_KEYS,
    )
    return sha256(text).hexdigest()[:16]


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    # Sorted, as a set has another order in each process.
    if isinstance(value, frozenset):
        return sorted(value, key=str)
    if isinstance(value, re.Pattern):
        return value.pattern
    raise TypeError(type(value))
