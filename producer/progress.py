"""What a fetch task has done since it started."""

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
    """What a fetch task has done since it started: row changes sent, in all and by table and
    operation, positions stored, and the last of these. `queued_bytes`: of records that wait for
    Kafka now; the task's `queue_bytes` at most. `open_xa`: the xid of the oldest XA transaction
    that is prepared and not finished, and since when, in epoch seconds. `skipped`: how many
    statements were, that were logged as text; `skipped_at`: when one was last, in epoch seconds.
    `ddl`: definitions of its tables that it has passed; who tells of them takes them out.
    `stages`: how long rows take."""

    done: int = 0
    stored: int = 0
    position: BinlogPosition | None = None
    queued_bytes: int = 0
    open_xa: tuple[str, int] | None = None
    skipped: int = 0
    skipped_at: float = 0.0
    ddl: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    tables: Mapping[TableId, Mapping[Op, int]] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)

    def sent(self, rows: int) -> None:
        self.done += rows

    def queued(self, size_bytes: int) -> None:
        self.queued_bytes = size_bytes

    def __str__(self) -> str:
        return f"{self.done} row changes sent, position {self.position}"
