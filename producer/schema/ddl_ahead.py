"""The DDL ahead of the reader: each statement is parsed once, and indexed by the tables that it
names."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from heapq import merge

from cdcbus.plugins.errors import PositionLost, SourceUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_changes import Altered, Change, Created, Dropped, Renamed
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement


class DdlAhead:
    """`changes` returns the changes of a statement.

    A query for a table costs only its own statements, however many are ahead. Statements before the
    place of the latest query are dropped: after a step back all statements are parsed again.
    """

    def __init__(self, scan: DdlScan, changes: Callable[[Statement], list[Change]]) -> None:
        self._scan, self._changes = scan, changes
        self._from: BinlogCoordinates | None = None
        self._to: BinlogCoordinates | None = None
        self._all: deque[tuple[Statement, set[TableId | None]]] = deque()
        # None: statements with changes that name no table
        self._of: defaultdict[TableId | None, deque[Statement]] = defaultdict(deque)

    def between(self, after: BinlogCoordinates, until: BinlogCoordinates) -> Iterator[Statement]:
        """Yields the statements that end after `after` and not after `until`, in order. Raises what
        `DdlScan.between` raises, SourceUnavailable for PositionLost: whether the task's position is
        lost shows at the next attempt to read from it."""
        self._look(after, until)
        for statement, _ in self._all:
            if until < statement.end:
                break
            yield statement

    def about(
        self, table: TableId | None, after: BinlogCoordinates, until: BinlogCoordinates
    ) -> Iterator[Statement]:
        """Yields the statements `between` with changes that name the table, or no table."""
        self._look(after, until)
        last = None
        of_table, of_any = self._of.get(table, ()), self._of.get(None, ())
        # Without a table both are the same statements, each of which is then seen twice.
        for statement in merge(of_table, of_any, key=_end):
            if until < statement.end:
                break
            if statement is not last:  # a statement can be under both keys
                last = statement
                yield statement

    def _look(self, after: BinlogCoordinates, until: BinlogCoordinates) -> None:
        if self._from is None or self._to is None or not self._from <= after <= self._to:
            self._to = after
            self._all.clear()
            self._of.clear()
        self._from = after
        while self._all and self._all[0][0].end <= after:
            for key in self._all.popleft()[1]:
                self._of[key].popleft()
                if not self._of[key]:
                    del self._of[key]
        if self._to < until:
            for statement in self._scanned(self._to, until):
                named = self._named(statement)
                self._all.append((statement, named))
                for key in named:
                    self._of[key].append(statement)
            self._to = until

    def _scanned(self, after: BinlogCoordinates, until: BinlogCoordinates) -> list[Statement]:
        try:
            return self._scan.between(after, until)
        except PositionLost as lost:
            raise SourceUnavailable(
                f"the DDL from {after} to {until}, by which rows are decoded, cannot be read: "
                f"{lost}"
            ) from lost

    def _named(self, statement: Statement) -> set[TableId | None]:
        """The tables that its changes name; None for changes that may affect any table."""
        named: set[TableId | None] = set()
        for change in self._changes(statement):
            named.update(_names(change))
        return named


def _end(statement: Statement) -> BinlogCoordinates:
    return statement.end


def _names(change: Change) -> tuple[TableId | None, ...]:
    if isinstance(change, Renamed):
        return change.table, change.to
    if isinstance(change, Altered | Created | Dropped):
        return (change.table,)
    return (None,)
