"""Stores: the position and the schema history of one swimlane of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol


@dataclass(frozen=True, slots=True)
class Landmark:
    """A record by which a log is recognized."""

    offset: int
    # When the record arrived in Kafka, in epoch milliseconds.
    came_ms: int

    @classmethod
    def of(cls, found: object) -> Landmark | None:
        """Reads `[offset, ms]`, the form of `kept`; None for anything else."""
        match found:
            # Not isinstance, as True and False are instances of int but not offsets.
            case [offset, came_ms] if type(offset) is int and type(came_ms) is int:
                return cls(offset, came_ms)
        return None

    @property
    def kept(self) -> list[int]:
        return [self.offset, self.came_ms]


_LOST: Final = "lost"


@dataclass(frozen=True, slots=True)
class SentLog:
    """A topic that a task writes to: its id, empty where unknown, and how many records its
    partitions were given together, at least."""

    topic_id: str
    records: int

    @classmethod
    def lost(cls) -> SentLog:
        """One that lacks records, whatever it was given since. To versions that do not know of it,
        a topic with another id."""
        return cls(_LOST, 1)

    @property
    def is_lost(self) -> bool:
        return self.topic_id == _LOST


@dataclass(frozen=True, slots=True)
class Mark:
    """What a task notes along with a position that it writes."""

    # The target keeps offsets of its own, so it knows everything that is stored here.
    is_kept: bool = False
    # The id of the topic that was read, which changes when the topic is deleted and created again;
    # empty where unknown.
    topic_id: str = ""
    # The last record read of each partition, unless the target knows it.
    last: Mapping[int, Landmark] = field(default_factory=dict)
    # Offsets are committed with the rows; otherwise those that the target may have are older.
    is_committed: bool = True
    # What kind of target the rows went to: a database's name, `kafka`, or the name of a loader from
    # another package; empty where unknown.
    target: str = ""
    # Partitions in the position that the task does not read, with the offsets that it had written
    # of them itself, None where there are none: a different one in the position is an operator's.
    unread: Mapping[int, int | None] = field(default_factory=dict)
    # Digests of the keys that decide which rows the task takes, and how, by the keys' names.
    rules: Mapping[str, str] = field(default_factory=dict)
    # The topics that the task writes to, by name.
    sent: Mapping[str, SentLog] = field(default_factory=dict)


NO_MARK = Mark()


@dataclass(frozen=True, slots=True)
class Written:
    """The position that a task itself last wrote, without the partitions that a command has set
    since. `others`: members that only another version of cdcbus knows; a command keeps them."""

    position: str
    mark: Mark = NO_MARK
    others: Mapping[str, Any] = field(default_factory=dict, compare=False)


class PositionStore(Protocol):
    """The stored position of one swimlane of one task: one ZooKeeper node, and beside it what the
    task itself last wrote.

    The store remembers the version that it last loaded or saved, so that `save` never overwrites
    somebody else's edit. While a save runs on another thread, everything except `load` can be
    called.
    """

    @property
    def path(self) -> str:
        """Where the position is stored, for messages."""
        ...

    @property
    def position_version(self) -> int:
        """The version of the position as last loaded or saved, a fencing token: every write, by the
        task or anyone else, changes it; 0 when there is no position."""
        ...

    @property
    def written(self) -> Written | None:
        """What the task had written when the node was last loaded; None where that is unknown, as
        before the task's first start."""
        ...

    @property
    def is_own(self) -> bool:
        """Whether the node, as last loaded, was written by the task, or by a command that recorded
        its write; also in a copy of the tree. Setting the same text again counts as an edit."""
        ...

    @property
    def trace(self) -> str:
        """The place where the last load saw that the task has run before, although it has no
        position; empty where nothing shows that."""
        ...

    def others(self) -> Sequence[str]:
        """The other swimlanes for which the task has written positions, sorted."""
        ...

    def load(self) -> str | None:
        """The stored JSON, or None when there is no node or it is blank."""
        ...

    def save(self, text: str, mark: Mark = ...) -> None:
        """Stores the position durably, as written by the task. Raises PositionConflict when the
        node is not as last loaded or saved."""
        ...

    def is_edited(self) -> bool:
        """Whether somebody else has set or deleted the node since the last load or save. Cheap: a
        watch reports it, without a request to the server."""
        ...


class SchemaStore(Protocol):
    """The schema history of one swimlane of one task: text entries by name, one ZooKeeper node
    each. Only the task itself writes them."""

    @property
    def path(self) -> str:
        """Where the entries are stored, for messages."""
        ...

    def load(self) -> dict[str, str]:
        """All entries."""
        ...

    def save(self, entries: Mapping[str, str | None]) -> None:
        """Stores each entry durably in place of the one with its name; None deletes it. Not atomic:
        a crash can leave some entries unwritten."""
        ...
