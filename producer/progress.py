"""Progress of a fetch task since its start."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.producer.publish.stages import Stages
from cdcbus.producer.source.seen_ddl import KEPT, Seen


@dataclass(slots=True)
class Progress:
    """Counts since the task's start: row changes sent (`done`; by table and operation in
    `tables`), positions stored, and the last stored `position`. `address`: of the server that is
    read, None before the first and for sources without one. `queued_bytes`: records waiting
    for Kafka now, at most the task's `queue_bytes`. `open_xa`: the xid of the oldest XA
    transaction that is prepared but not finished, and when it was prepared, in epoch seconds.
    `skipped`: the number of skipped statements that were logged as text; `skipped_at`: the time
    of the last one, in epoch seconds. `ddl`: changes of its tables' definitions that it has
    passed; the reporter removes what it has reported. `stages`: how long rows take.
    `repeated`: how many of `done` were sent by attempts that must send them once more."""

    done: int = 0
    stored: int = 0
    position: BinlogPosition | None = None
    address: tuple[str, int] | None = None
    queued_bytes: int = 0
    open_xa: tuple[str, int] | None = None
    skipped: int = 0
    skipped_at: float = 0.0
    ddl: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    tables: Mapping[TableId, Mapping[Op, int]] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)
    repeated: int = 0

    @property
    def headway(self) -> int:
        """A count of work that grows if an attempt has come further than those before it."""
        return self.done + self.stored - self.repeated

    def sent(self, rows: int) -> None:
        self.done += rows

    def queued(self, size_bytes: int) -> None:
        self.queued_bytes = size_bytes

    def __str__(self) -> str:
        return f"{self.done} row changes sent, position {self.position}"
