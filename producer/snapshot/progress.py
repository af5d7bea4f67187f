"""The progress of each table's snapshot, as stored, and the wishes of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.chunks import Bound


class TableState(StrEnum):
    """WAITING: not begun yet. SENDING: a table without a key is being sent to Kafka. STOPPED: by an
    operator; the next start begins from scratch. DROPPED: the table was dropped meanwhile, or the
    filter left it out. FAILED: an operator must act."""

    WAITING = "waiting"
    RUNNING = "running"
    SENDING = "sending"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    DROPPED = "dropped"
    FAILED = "failed"


UNFINISHED = frozenset((TableState.WAITING, TableState.RUNNING, TableState.SENDING))
PENDING = UNFINISHED - {TableState.SENDING} | {TableState.PAUSED}
"""Rows of the table are yet to be read. What is SENDING ends only by Kafka's acknowledgement."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The part of a table that Kafka has. `after`: its last key; `until`: the table's greatest key
    when the snapshot began, both as SQL literals. `key`: their columns, and by what each is
    ordered, as `SelectedTable.key_order`; unknown in progress of older versions. `shape`: for
    direct loads, `SelectedTable.shape_digest`. `estimated_rows`: the server's estimate. `where`: an
    operator's condition. Times in epoch milliseconds, 0 for none. `is_keyless`: nothing tells the
    table's rows apart; unknown, as False, before it is described, and for some that the stream has
    brought whole. `has_held_back`: changes of the table were not sent, as its rows are yet to be
    read with them. `is_unconfirmed`: the task has sent rows before, and nobody has said that a
    table without a key may be read all the same.
    `was_whole`: `is_whole` before the rows of `where` were asked for once more; None: not known, as
    of a version that did not say it of a part."""

    state: TableState = TableState.WAITING
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    estimated_rows: int = 0
    key: tuple[str, ...] = ()
    shape: str = ""
    after: Bound | None = None
    until: Bound | None = None
    where: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    reason: str = ""
    is_keyless: bool = False
    has_held_back: bool = False
    is_unconfirmed: bool = False
    was_whole: bool | None = False

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the table were read, not only those of a condition."""
        if self.state is TableState.DROPPED:
            return False
        return self.was_whole is True or (self.state is TableState.DONE and not self.where)

    @property
    def is_part(self) -> bool:
        """Whether it is done, and rows for which a condition does not hold were never read."""
        return self.state is TableState.DONE and not self.is_whole and self.was_whole is False

    @property
    def may_be_part(self) -> bool:
        """Whether it is done, and nothing says if more than a condition's rows were read."""
        return self.state is TableState.DONE and not self.is_whole and self.was_whole is None

    @property
    def whole_before_part(self) -> bool | None:
        """`was_whole` of a part that is asked for now."""
        if self.is_whole or self.state is TableState.DROPPED:
            return self.is_whole
        return self.was_whole

    @property
    def would_come_twice(self) -> bool:
        """Whether Kafka may have rows of the table that another snapshot would add once more."""
        if self.state in PENDING or self.state is TableState.SENDING:
            return False
        # In progress of older versions, bounds are what tells of a key.
        return self.is_keyless or bool(self.rows and not self.key and self.until is None)

    @property
    def may_be_in_kafka(self) -> bool:
        """Whether Kafka may have rows of the table, also if it had a key then."""
        return self.state is TableState.DONE or self.rows > 0 or self.would_come_twice

    def is_by(self, key: tuple[str, ...]) -> bool:
        """Whether the bounds can be ones of this key."""
        return self.key in ((), key)

    def to_fields(self) -> dict[str, Any]:
        """The progress as JSON fields."""
        fields = {}
        for name, value in asdict(self).items():
            if value is not False and value not in ("", None, ()):
                fields[_FIELDS[name]] = value
        # Said also where it is not, as earlier versions did not say it of a part at all.
        if self.where and self.was_whole is False:
            fields[_FIELDS["was_whole"]] = False
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> TableProgress:
        """Reads the fields that `to_fields` returns, ignores others. Raises ValueError."""
        known = {name: fields[spelled] for name, spelled in _FIELDS.items() if spelled in fields}
        if known.get("where"):
            known.setdefault("was_whole", None)
        try:
            known["state"] = TableState(known["state"])
            for name in ("key", "after", "until") & known.keys():
                known[name] = tuple(map(str, known[name]))
            for name in _NUMBERS & known.keys():
                known[name] = int(known[name])
            return cls(**known)
        except (TypeError, KeyError) as error:
            raise ValueError(f"not the progress of a table: {error}") from error


_FIELDS = {
    "state": "state",
    "rows": "rows",
    "bytes": "bytes",
    "chunks": "chunks",
    "estimated_rows": "estimatedRows",
    "key": "key",
    "shape": "shape",
    "after": "after",
    "until": "until",
    "where": "where",
    "started_ms": "started",
    "updated_ms": "updated",
    "reason": "reason",
    "is_keyless": "keyless",
    "has_held_back": "heldBack",
    "is_unconfirmed": "unconfirmed",
    "was_whole": "whole",
}
"""The names of the fields in ZooKeeper."""
_NUMBERS = {"rows", "bytes", "chunks", "estimated_rows", "started_ms", "updated_ms"}


class WishKind(StrEnum):
    """What an operator can ask of a running task."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Wish:
    """`tables`: SCHEMA.TABLE in any case; none = all that the task reads. `where`: for START, the
    condition for rows; `is_confirmed`: also where rows of tables without a key can come twice; for
    STOP, also where the progress of a direct load is lost."""

    kind: WishKind
    tables: tuple[str, ...] = ()
    where: str = ""
    is_confirmed: bool = False

    def is_for(self, table: TableId) -> bool:
        return not self.tables or str(table).lower() in map(str.lower, self.tables)

    def to_fields(self) -> dict[str, Any]:
        """The wish as JSON fields."""
        return {
            "kind": self.kind,
            "tables": self.tables,
            "where": self.where,
            "confirmed": self.is_confirmed,
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Wish:
        """Reads the fields that `to_fields` returns. Raises ValueError."""
        try:
            tables = tuple(map(str, fields["tables"]))
            # Older versions had asked, and wrote no such field.
            is_confirmed = fields.get("confirmed", True) is True
            return cls(WishKind(fields["kind"]), tables, str(fields["where"]), is_confirmed)
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a wish: {error}") from error


@dataclass(frozen=True, slots=True)
class Search:
    """The search for tables that have no snapshot, or one of a part, of these names in lower case;
    None: of any."""

    names: frozenset[str] | None = None

    def is_for(self, table: TableId) -> bool:
        return self.names is None or str(table).lower() in self.names


def start_command(task_id: str, table: TableId, *, is_confirmed: bool) -> str:
    """The command that has a table read from its beginning; `is_confirmed`: also where rows of a
    table without a key can come twice."""
    confirmed = " --yes" if is_confirmed else ""
    return f"cdcbus snapshot start {task_id} --table {table}{confirmed}"


class SnapshotStore(Protocol):
    """Stores the progress of one swimlane. Raises PositionError, PositionUnavailable."""

    def load(self) -> dict[TableId, TableProgress]:
        """Returns the stored progress of each table."""
        ...

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        """Stores the progress of these tables."""
        ...

    def note_live(self, is_live: bool) -> None:
        """Notes whether the task has ever sent changes without having snapshots."""
        ...

    def is_live(self) -> bool | None:
        """What was noted; None for nothing."""
        ...

    def lost(self) -> set[TableId]:
        """The tables whose progress was saved before and is gone, or cannot be read. What is saved
        is noted from then on, for later processes."""
        ...

    def start_order(self, task_id: str, table: TableId, *, is_confirmed: bool) -> str:
        """What an operator is to do where `start_command` would be given, in the imperative."""
        ...

    def has_wishes(self) -> bool:
        """Whether there are new wishes, or wishes to remove as `heeded`. Never waits, so the answer
        can be late."""
        ...

    def wishes(self) -> list[Wish]:
        """Returns the wishes since the last call, in order. Until they are `heeded`, they are
        returned again after a restart of the process."""
        ...

    def heeded(self, but_last: int = 0) -> None:
        """Removes all wishes that were returned, except for the last ones: they are done, or part
        of the saved progress."""
        ...


class MemorySnapshots:
    """A store that lasts as long as the process."""

    def __init__(self) -> None:
        self.tables: dict[TableId, TableProgress] = {}
        self.wished: list[Wish] = []
        self._is_live: bool | None = None

    def load(self) -> dict[TableId, TableProgress]:
        return dict(self.tables)

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        self.tables |= tables

    def note_live(self, is_live: bool) -> None:
        self._is_live = is_live

    def is_live(self) -> bool | None:
        return self._is_live

    def lost(self) -> set[TableId]:
        return set()

    def start_order(self, task_id: str, table: TableId, *, is_confirmed: bool) -> str:
        return start_command(task_id, table, is_confirmed=is_confirmed)

    def has_wishes(self) -> bool:
        return bool(self.wished)

    def wishes(self) -> list[Wish]:
        wished, self.wished = self.wished, []
        return wished

    def heeded(self, but_last: int = 0) -> None:
        """Does nothing: `wishes` has removed them already."""
