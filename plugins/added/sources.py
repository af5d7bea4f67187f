"""What a source of another package promises: rows that are no MySQL binlog's, on their way into
Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cdcbus.plugins.rowchange import RowChange


class SourcePlace(NamedTuple):
    """Where reading can go on: a name of a log of the source's, as of a file, and a number in it.
    It is stored as the task's position, and what operators see and set, as `NAME:NUMBER`."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.number}"


@dataclass(frozen=True, slots=True)
class SourceRows:
    """What one read has brought: `changes` in the source's order, and the `place` behind them,
    from which reading goes on after a restart.

    No place: they are part of something that must not be cut, as of a transaction, and goes on
    with the next ones; all of it comes again after a restart meanwhile. No changes and no place:
    there is nothing new. `more_follow`: the next ones are there already, so that nobody waits
    until Kafka has these.
    """

    changes: Sequence[RowChange] = ()
    place: SourcePlace | None = None
    more_follow: bool = False


NOTHING_NEW = SourceRows()


class RecordSource(Protocol):
    """A source of row changes, of another package.

    The entry point names a class or function of one mapping, the task's settings
    (`consumer.source.plugin.KEY` by KEY, as text), that makes one. It raises ConfigError where
    they do not do. It connects at first use; one thread uses it.

    All methods raise SourceUnavailable for what may pass (the task tries again, with growing
    pauses, for ever), any other SourceError or ConfigError for what needs a person: a sentence
    without cell values. What else they raise stops the task, too.
    """

    def start(self, word: str) -> SourcePlace:
        """The place that an operator's word stands for: of `consumer.offset`, at the first start
        only, and of `cdcbus offset reset --to`. It understands `str(place)` of each of its places.
        A place that it gives, it holds. Raises ConfigError, which says what words there are."""
        ...

    def check(self, place: SourcePlace) -> None:
        """Raises PositionLost where reading cannot go on at a place without leaving rows out."""
        ...

    def read(self, place: SourcePlace) -> Iterator[SourceRows]:
        """All that was changed behind a place, in the same order whenever it is read again.

        It gives something once a second at least, if only NOTHING_NEW, as the task sees only
        then that it is to stop. A place that it gives is behind all changes that it gave before,
        and before all that it gives after. Where it ends, so does the task: there will never be
        more. An error in the middle of it: all that was given counts. Raises PositionLost as
        `check`.

        A change: INSERT with `after`, DELETE with `before`, UPDATE with both; cells are text or
        None, written as `RowChange` says; the images hold the key's columns. No TRUNCATE. Of its
        origin only `commit_us` counts, when the source made it, 0 where that is not known.
        """
        ...

    def close(self) -> None:
        """Gives back what it has open. May be called twice, and before anything else."""
        ...
