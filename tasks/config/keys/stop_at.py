"""Where a run ends: `consumer.stopAt` in a task file and `--until`, which share one syntax."""

from __future__ import annotations

from typing import Final, TypeVar

from cdcbus.plugins.start import AfterOffset, BinlogStart, Edge, KafkaStart, Replay
from cdcbus.tasks.config.keys.start import BINLOG_START, KAFKA_START
from cdcbus.tasks.config.keys.types import ValueType

T = TypeVar("T")
NOW: Final = "now"


def fetch_end(word: str) -> BinlogStart:
    """Where a run of a fetch task ends. Raises ValueError with a sentence."""
    return _read(BINLOG_START, word, "now, an ISO time, file:position or a GTID set")


def load_end(word: str, topics: int) -> KafkaStart:
    """Where a run of a consumer task with this number of topics ends. Raises ValueError with a
    sentence."""
    what = "now, an ISO time, or the last offset to apply"
    until = _read(KAFKA_START, word, what)
    if isinstance(until, Replay):
        raise ValueError(
            f"{word} is a replay, which ends on its own as consumer.offset; expected {what}"
        )
    if isinstance(until, AfterOffset) and until.offset < 0:
        raise ValueError(f"{word!r} is before the first offset; expected {what}")
    if isinstance(until, AfterOffset) and topics > 1:
        raise ValueError(f"{word}: one offset for {topics} topics; give a time, or now")
    return until


def _read(value_type: ValueType[T], word: str, what: str) -> T:
    try:
        # The end of the log at the start of the run is `latest` when read as a beginning.
        found = value_type.read(Edge.LATEST if word == NOW else word)
    except ValueError:
        found = None
    # A run that ends at the beginning would do nothing.
    if found is None or found is Edge.EARLIEST:
        raise ValueError(f"{word!r} cannot be the end of a run; expected {what}")
    return found
