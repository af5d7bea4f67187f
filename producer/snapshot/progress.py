"""How far the snapshot of each table is: what is stored of it, and what operators wish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.chunks import Bound


class TableState(StrEnum):
    """WAITING: its turn comes. SENDING: a table without a key is on its way to Kafka. STOPPED: by
    an operator, begun anew by the next start. DROPPED: the table was, meanwhile. FAILED: it waits
    for a person."""

    WAITING = "waiting"
    RUNNING = "running"
    SENDING = "sending"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    DROPPED = "dropped"
    FAILED = "failed"


UNFINISHED = frozenset((TableState.WAITING, TableState.RUNNING, TableState.SENDING))


@dataclass(frozen=True, slots=True)
class TableProgress:
    """What Kafka has of a table. `after`: the last key of it; `until`: the greatest key when the
    snapshot began, both as SQL literals. `estimated_rows`: as the server guesses. `where`: an
    operator's condition. Times in epoch milliseconds, 0 for none."""

    state: TableState = TableState.WAITING
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    estimated_rows: int = 0
    after: Bound | None = None
    until: Bound | None = None
    where: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    reason: str = ""

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        fields = {_FIELDS[name]: value for name, value in asdict(self).items()}
        return {name: value for name, value in fields.items() if value not in ("", None)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> TableProgress:
        """Reads what `to_fields` gives, besides others. Raises ValueError."""
        known = {name: fields[spelled] for name, spelled in _FIELDS.items() if spelled in fields}
        try:
            return cls(
                **known
                | {"state": TableState(known["state"])}
                | {name: tuple(map(str, known[name])) for name in ("after", "until") & known.keys()}
            )
        except (TypeError, KeyError) as error:
            raise ValueError(f"not the progress of a table: {error}") from error


_FIELDS = {
    "state": "state",
    "rows": "rows",
    "bytes": "bytes",
    "chunks": "chunks",
    "estimated_rows": "estimatedRows",
    "after": "after",
    "until": "until",
    "where": "where",
    "started_ms": "started",
    "updated_ms": "updated",
    "reason": "reason",
}
"""How a progress is spelled in ZooKeeper."""


class WishKind(StrEnum):
    """What an operator can ask of a running task."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Wish:
    """`tables`: SCHEMA.TABLE in any case; none: all that the task reads. `where`: of START, which
    rows."""

    kind: WishKind
    tables: tuple[str, ...] = ()
    where: str = ""

    def is_for(self, table: TableId) -> bool:
        return not self.tables or str(table).lower() in map(str.lower, self.tables)

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Wish:
        """Reads what `to_fields` gives. Raises ValueError."""
        try:
            tables = tuple(map(str, fields["tables"]))
            return cls(WishKind(fields["kind"]), tables, str(fields["where"]))
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a wish: {error}") from error


class SnapshotStore(Protocol):
    """Where the progress of one swimlane is kept. Raises PositionError, PositionUnavailable."""

    def load(self) -> dict[TableId, TableProgress]:
        """What is known of each table."""
        ...

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        """These tables."""
        ...

    def has_wishes(self) -> bool:
        """Whether there are wishes to be told, or to be taken out as `heeded`. Waits for nothing,
        so it may be late."""
        ...

    def wishes(self) -> list[Wish]:
        """What was wished since the last call, in order. Until they are `heeded` they come again
        after the process has ended."""
        ...

    def heeded(self) -> None:
        """All wishes that were given are done, or noted in what was saved."""
        ...


class MemorySnapshots:
    """For as long as the process lives."""

    def __init__(self) -> None:
        self.tables: dict[TableId, TableProgress] = {}
        self.wished: list[Wish] = []

    def load(self) -> dict[TableId, TableProgress]:
        return dict(self.tables)

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        self.tables |= tables

    def has_wishes(self) -> bool:
        return bool(self.wished)

    def wishes(self) -> list[Wish]:
        wished, self.wished = self.wished, []
        return wished

    def heeded(self) -> None:
        """They are forgotten already."""
