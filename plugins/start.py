"""Where a task's first start begins, unless a position was set: the typed forms of
`consumer.offset` and `firstConsumeFrom`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdcbus.plugins.positions import BinlogPosition


class Edge(StrEnum):
    """One end of a log; the value is the word in a task file."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AfterOffset:
    """Kafka: `offset` is the last processed one; reading starts at the next."""

    offset: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Kafka: a bounded replay of the records `first` to `last`, both included; then the task
    ends."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def is_at(self, next_offset: int) -> bool:
        """Whether a replay can have come this far: to its begin, its end, or in between."""
        return self.first <= next_offset <= self.last + 1


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first transaction or record at or after this time, epoch milliseconds."""

    epoch_ms: int


@dataclass(frozen=True, slots=True)
class AtGtid:
    """Binlog: after this executed GTID set (MySQL) or position (MariaDB)."""

    gtid: str


KafkaStart = Edge | AfterOffset | Replay | AtTime
BinlogStart = Edge | BinlogPosition | AtTime | AtGtid
