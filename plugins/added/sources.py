"""The contract of a source of another package: rows from elsewhere than a MySQL binlog, to be sent
to Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cdcbus.plugins.rowchange import RowChange


class SourcePlace(NamedTuple):
    """A place where reading can resume: the name of one of the source's logs, such as a file, and a
    number in it. It is stored as the task's position; operators see and set it as `NAME:NUMBER`."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.number}"


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The result of one read: `changes` in the source's order, and the `place` after them, from
    which reading resumes after a restart.

    No place: the changes are part of something that must not be cut, such as a transaction, which
    continues with the next ones; all of it comes again after a restart in between. No changes and
    no place: there is nothing new. `more_follow`: the next changes are available already, so the
    task need not wait until Kafka has these.
    """

    changes: Sequence[RowChange] = ()
    place: SourcePlace | None = None
    more_follow: bool = False


NOTHING_NEW = SourceRows()


class RecordSource(Protocol):
    """A source of row changes, from another package.

    The entry point names a class or function that makes one from a single mapping, the task's
    settings (`consumer.source.plugin.KEY` by KEY, as text). It raises ConfigError for settings that
    it cannot use. The source connects at first use; one thread uses it.

    All methods raise SourceUnavailable for errors that may pass (the task retries indefinitely,
    with growing pauses), and any other SourceError or ConfigError for errors that need a person: a
    sentence without cell values. Any other exception stops the task, too.
    """

    def start(self, word: str) -> SourcePlace:
        """The place that an operator's word stands for: from `consumer.offset`, at the first start
        only, or from `cdcbus offset reset --to`. Accepts `str(place)` of each of its places. The
        source must hold the place that it returns. Raises ConfigError, which lists the valid
        words."""
        ...

    def check(self, place: SourcePlace) -> None:
        """Raises PositionLost where reading cannot resume at a place without missing rows."""
        ...

    def read(self, place: SourcePlace) -> Iterator[SourceRows]:
        """Yields all changes after a place, in the same order whenever it is read again.

        It yields at least once a second, if only NOTHING_NEW, as only then the task notices that it
        must stop. A place is after all changes yielded before it or with it, and before all those
        yielded later. When the iterator ends, the task ends: there will never be more. After an
        error in the middle, everything yielded before counts. Raises PositionLost as `check`.

        A change is an INSERT with `after`, a DELETE with `before`, or an UPDATE with both; cells
        are text or None, written as `RowChange` says; the images hold the key's columns. No
        TRUNCATE. Only `commit_us` of its origin counts: when the source made the change, 0 where
        that is unknown.
        """
        ...

    def close(self) -> None:
        """Closes everything open. Can be called twice, and before any other method."""
        ...
