"""Finds what a table was at a place of the binlog if its history does not say: from later versions,
from the server, and from DDL in the binlog."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple, TypeGuard

from cdcbus.plugins.errors import PositionLost
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_alteration import leaves
from cdcbus.producer.ddl.table_changes import (
    Altered,
    Change,
    Created,
    Dropped,
    Renamed,
    SchemaAltered,
    SchemaDropped,
    folded,
    lower_case,
)
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.ddl.table_states import Missing, State, TemporaryTables, made, touches
from cdcbus.producer.ddl.tokens import Session
from cdcbus.producer.schema.ddl_ahead import DdlAhead
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement
from cdcbus.producer.schema.schema_reader import SchemaReader, UnopenedTable
from cdcbus.producer.schema.table_versions import TableVersions


class _PastChange(NamedTuple):
    """A change by DDL before the place in question."""

    statement: Statement
    change: Change


class TableSearch:
    """Searches the binlog of one server. `ahead`: its DDL after the place being read."""

    def __init__(self, reader: SchemaReader, scan: DdlScan, versions: TableVersions) -> None:
        self._reader = reader
        self._scan = scan
        self._versions = versions
        self.ahead = DdlAhead(scan, self.changes)
        self._replays = DdlAhead(scan, self.changes)  # steps back, which would cost `ahead` its DDL

    def changes(self, statement: Statement) -> list[Change]:
        """The changes of a statement."""
        found = _parsed(statement.sql, statement.schema, statement.session)
        if self._reader.folds_names:
            return list(map(folded, found))
        return found

    def all_changes(self, statements: Iterable[Statement]) -> Iterator[Change]:
        """Yields the changes of statements, in order."""
        for statement in statements:
            yield from self.changes(statement)

    def folded(self, table: TableId) -> TableId:
        """The table's name as the server compares it."""
        if not self._reader.folds_names:
            return table
        return lower_case(table)

    def known(
        self, table: TableId, place: BinlogCoordinates, columns: Collection[str] = ()
    ) -> TableSchema | None:
        """The table at `place`: a later version of it, else the current table, if no DDL between
        changes the table, or, with `columns`, none of these; else None. If it was renamed, its
        later names are followed. Raises UnopenedTable."""
        name = table
        at = place
        until = self._versions.next_place(table, place) or self._reader.end()
        current: tuple[TableSchema | None, BinlogCoordinates] | None = None  # of `name`, once read
        while True:
            for statement in self.ahead.about(name, at, until):
                if version := self._versions.schema_between(name, at, statement.end):
                    return version
                after = self._name_after(statement, name, columns)
                if after is None or (after != name and self._outlives(name, statement)):
                    return None
                if after != name:
                    name = after
                    at = statement.end
                    current = None
                    break
            else:
                # Read once: a busy server has always advanced again after another read.
                if current is None:
                    try:
                        current = self._reader.read(name)
                    except UnopenedTable:
                        # What is known needs no table that can be opened.
                        version = self._versions.schema_between(name, at, self._reader.end())
                        if version is None:
                            raise
                        return version
                now, end = current
                if version := self._versions.schema_between(name, at, end):
                    return version
                if end <= until:
                    return now
                # the server had advanced meanwhile: check the DDL up to where the table was read
                at = max(at, until)
                until = end

    def _name_after(
        self, statement: Statement, table: TableId, columns: Collection[str]
    ) -> TableId | None:
        """The table's name after a statement; None if the statement may change more than its name
        and columns other than `columns`."""
        for change in self.changes(statement):
            if isinstance(change, Renamed) and change.table == table:
                table = change.to
            elif touches(change, table) and not _spares(change, columns):
                return None
        return table

    def _outlives(self, table: TableId, statement: Statement) -> bool:
        """Whether the table is there after a statement that renames it, though nothing has created
        it again: then a temporary table of its name was renamed, which MariaDB writes as well."""
        if any(_makes(change, table) for change in self.changes(statement)):
            return False
        try:
            now, end = self._reader.read(table)
            is_there = now is not None
        except UnopenedTable:  # it need not be opened to be there
            is_there, end = True, self._reader.end()
        for change in self.all_changes(self.ahead.about(table, statement.end, end)):
            if _makes(change, table) or isinstance(change, Dropped):
                return False
            if isinstance(change, Altered | Renamed) and change.table == table:
                return True
        return is_there

    def candidates(self, table: TableId, place: BinlogCoordinates) -> Iterator[TableSchema]:
        """Yields what the table may have been at `place`, most certain first. Raises UnopenedTable
        at the end, if that hides one."""
        unopened = None
        try:
            known = self.known(table, place)
        except UnopenedTable as error:
            known, unopened = None, error
        if known:
            yield known
        if replayed := self.replayed(table, place):
            yield replayed
        if unopened:
            raise unopened

    def replayed(self, table: TableId, place: BinlogCoordinates) -> TableSchema | None:
        """The table at `place`, replayed from all DDL before it that the binlog still has. Most
        renamed tables were created shortly before: the last files are searched first."""
        files = [file for file in self._reader.files() if file <= place]
        state: State | None = None
        count = 1
        while state is None:
            start = files[max(len(files) - count, 0)]
            try:
                state = self._replayed_from(start, table, place)
            except PositionLost:  # purged meanwhile
                return None
            if count >= len(files):
                break
            count *= 2
        if isinstance(state, TableSchema):
            return state
        return None

    def _replayed_from(
        self, start: BinlogCoordinates, table: TableId, place: BinlogCoordinates
    ) -> State | None:
        """The table at `place`, replayed from DDL since `start`, in any schema; None if the table
        is older than that."""
        past = []
        for statement in self._scan.between(start, place):
            for each in self.changes(statement):
                past.append(_PastChange(statement, each))
        names = _earlier_names(table, past)
        states: dict[TableId, State | None] = {}
        temporary = TemporaryTables()
        end = start
        here: dict[TableId, State | None] = {}  # by earlier changes of the same statement

        def before(table: TableId) -> State | None:
            if table in here:
                return here[table]
            kept = self._versions.before(table, end)
            if kept in (None, Missing.UNKNOWN):
                return states.get(table)
            return kept

        for statement, each in past:
            if statement.end != end:
                end = statement.end
                here.clear()
            if not any(_is_about(each, name) for name in names):
                continue
            change = temporary.real(each, statement.thread, is_of_session=statement.is_of_session)
            if change is None:
                continue
            if _is_conditional(change) and before(change.table) is not Missing.DROPPED:
                continue
            charset = partial(self._charset, place=end, ahead=self._replays)
            here |= made(change, before, names, _nothing, charset)
            states |= here
        return states.get(table)

    def charset(self, schema: str, place: BinlogCoordinates) -> str:
        """The default character set of a schema at `place`; empty if it cannot be known."""
        return self._charset(schema, place, self.ahead)

    def _charset(self, schema: str, place: BinlogCoordinates, ahead: DdlAhead) -> str:
        for change in self.all_changes(ahead.about(None, place, self._reader.end())):
            if isinstance(change, SchemaAltered | SchemaDropped) and change.schema == schema:
                return ""
        return self._reader.default_charset(schema)


@lru_cache(maxsize=10_000)
def _parsed(sql: bytes, schema: str, session: Session) -> list[Change]:
    """Parses a statement; cached, as each is examined for many tables."""
    return changes(sql, schema, session)


def _earlier_names(table: TableId, past: list[_PastChange]) -> set[TableId]:
    """The earlier names of a table, and the names of tables that it was copied from."""
    names = {table}
    for _, change in reversed(past):
        if isinstance(change, Renamed) and change.to in names:
            names.add(change.table)
        elif isinstance(change, Created) and change.like and change.table in names:
            names.add(change.like)
    return names


def _makes(change: Change, table: TableId) -> bool:
    """Whether the table is there after the change, and may not have been before."""
    if isinstance(change, Renamed):
        return change.to == table
    return isinstance(change, Created) and change.table == table and not change.is_temporary


def _is_conditional(change: Change) -> TypeGuard[Created]:
    """Whether the change creates its table only if that is missing."""
    return isinstance(change, Created) and change.if_missing


def _is_about(change: Change, table: TableId) -> bool:
    """Whether the change concerns the table."""
    if isinstance(change, Created | Dropped) and change.table == table:
        return True
    return touches(change, table)


def _spares(change: Change, columns: Collection[str]) -> bool:
    """Whether the change certainly leaves these columns of its table unchanged."""
    if not columns or not isinstance(change, Altered) or change.actions is None:
        return False
    return leaves(change.actions, columns)


def _nothing(_: TableId) -> None:
    """Stands for `known` when replaying: only the texts of DDL count."""
