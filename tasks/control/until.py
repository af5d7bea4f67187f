"""`--until`: a task that ends by itself once all before a point is at the far side."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.start import AfterOffset, Edge, Replay
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.keys.start import BINLOG_START, KAFKA_START
from cdcbus.tasks.config.keys.types import ValueType

T = TypeVar("T")
NOW: Final = "now"


def bounded_by(task: FetchTask | LoadTask, word: str) -> FetchTask | LoadTask:
    """The task, bounded so. Raises ConfigError for what is no end of a run of it."""
    if isinstance(task, FetchTask):
        what = "now, an ISO time, file:position or a GTID set"
        return replace(task, until=_read(BINLOG_START, word, what))
    what = "now, an ISO time, or the last offset to apply"
    until = _read(KAFKA_START, word, what)
    if isinstance(until, Replay):
        raise ConfigError(
            f"--until {word} is a replay, which ends by itself as consumer.offset; expected {what}"
        )
    if isinstance(until, AfterOffset) and len(task.source.topics) > 1:
        raise ConfigError(
            f"--until {word}: one offset for {len(task.source.topics)} topics; give a time, or now"
        )
    return replace(task, until=until)


def _read(value_type: ValueType[T], word: str, what: str) -> T:
    try:
        found = value_type.read(Edge.LATEST if word == NOW else word)
    except ValueError:
        found = None
    if found is None or found is Edge.EARLIEST:
        raise ConfigError(f"--until {word!r} is no end of a run; expected {what}")
    return found
