"""The tables as they were at each place of the binlog, for rows whose table maps do not name their
columns.

    table map without names -> the version of its table at that place -> completed table map, if the
    shapes fit
    DDL in the stream       -> a new version of each table that it changes, stored before the
                            position moves past it

A version comes, best first, from the server (the current table, or the next version, if no DDL of
the table lies between: the binlog is searched for that), from the DDL's own text, or is `UNKNOWN`.
Rows of an UNKNOWN table stop the task, unless earlier DDL in the binlog shows what the table was:
nothing is kept of tables that are renamed into the filter. DDL never stops the task.

While the server sends full row metadata and no history is stored, nothing is read and nothing is
kept; on MariaDB, only tables with types that even full table maps leave open (`is_open`).
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum

from cdcbus.plugins.contracts import SchemaStore
from cdcbus.plugins.errors import PositionLost, UnreadableEvent
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.checksums import damage_noticed
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_changes import Altered, Change, Created, Dropped, Renamed
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.ddl.table_states import Missing, State, TemporaryTables, made, touches
from cdcbus.producer.decoding.column_types import is_open
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.schema.completion import completed, fits, shape, with_open_types
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement
from cdcbus.producer.schema.history_codec import Followed
from cdcbus.producer.schema.schema_reader import SchemaReader, UnopenedTable
from cdcbus.producer.schema.table_search import TableSearch
from cdcbus.producer.schema.table_versions import TableVersions

LOG = logging.getLogger(__name__)
FOLLOWED_SECONDS = 60.0  # interval of storing it: a start scans the binlog written since
# Tables read in one step, during which they are locked against DDL; if there are many, a PARTS-th
# of them, as MariaDB scans the whole schema for each query.
TABLES_AT_ONCE = 50
PARTS = 40
REMEDY = "Set binlog_row_metadata=FULL on the server, so that rows carry their columns"
# The names that gh-ost and pt-online-schema-change give the table that they build and then rename
# to the altered one.
_BUILT = re.compile(r"_+(.+?)_(?:gho|new)")


class Scope(IntEnum):
    """Which tables have a history."""

    NOTHING = 0
    OPEN_TYPES = 1  # those of MariaDB that even full table maps do not describe, once they are met
    ALL = 2


class SchemaHistory:
    """The history of one task on one server, loaded from its store when first needed.

    `accepts` says which tables the task reads; `identity` names the server whose binlog the places
    refer to; `created_ms` says when one of its files was created; `is_needed`: its table maps are
    currently incomplete; `is_begun`: the position from which it is read is stored.
    """

    def __init__(
        self,
        store: SchemaStore,
        reader: SchemaReader,
        scan: DdlScan,
        accepts: Callable[[TableId], bool],
        identity: str,
        created_ms: Callable[[str], int],
        *,
        is_needed: bool,
        is_begun: bool = True,
    ) -> None:
        self._reader = reader
        self._scan = scan
        self._accepts = accepts
        self._identity = identity
        self._created_ms = created_ms
        self._versions = TableVersions(store)
        self._search = TableSearch(reader, scan, self._versions)
        self._scope = Scope.NOTHING
        if is_needed:
            self._scope = Scope.ALL
        self._is_loaded = False
        self._is_begun = is_begun
        self._says_begun = False  # what is stored
        self._followed: BinlogCoordinates | None = None
        self._followed_on = ""  # the server whose files the stored places are in
        self._followed_created_ms = 0  # the time in the stored place's file
        self._file_created = ("", 0)  # the file asked for last, and its time
        self._due = 0.0  # by time.monotonic: when `_followed` is stored next
        self._temporary = TemporaryTables()

    def begin(self, place: BinlogCoordinates) -> Iterator[None]:
        """Begins reading at `place`: takes the tables that are not known yet, as they were at that
        place. Later calls do nothing.

        With many tables this takes a while: it yields control in between. A caller that stops
        early leaves nothing behind."""
        if self._is_loaded and (self._followed or not self._scope):
            return
        if not self._is_loaded:
            self._load()
        if not self._scope:
            return
        if reason := self._cannot_follow(place):
            self._forget(reason)
        self._versions.prune(self._reader.start(), self._is_tracked)
        if self._scope is Scope.ALL:
            yield from self._take(place)
        self._store_followed(place)

    def move(self, old: BinlogCoordinates, server: str, place: BinlogCoordinates) -> Iterator[None]:
        """Continues reading at `place`, by GTIDs: the tables are the same as at `old`, in the files
        of the server read before. `server`: the name of that server, empty if the position does not
        name it. Does nothing if the history is not of that server. Like `begin`, it yields control
        in between."""
        self._load()
        is_of_another = bool(server) and server != self._followed_on
        if self._followed is not None or not self._versions or is_of_another:
            self._is_loaded = False  # `begin` decides whether the history is kept
            self._versions.unload()
            return
        states = {table: self._versions.at(table, old) for table in self._versions}
        LOG.info(
            "the schema history of %d tables continues at %s, as they were at %s of %s",
            len(states),
            place,
            old,
            self._followed_on,
        )
        self._versions.restart(states, place)
        self._followed = None
        if self._scope is Scope.ALL:
            yield from self._take(place)
        self._store_followed(place)

    def complete(self, table_map: TableMap, place: BinlogCoordinates) -> TableMap:
        """Returns the table map at `place`, completed with the columns that the table had then.
        Raises UnreadableEvent with both shapes if they do not fit or are not known, and
        UnopenedTable."""
        self._need(Scope.ALL, place)
        table = self._search.folded(table_map.table)
        state = self._versions.at(table, place)
        if not isinstance(state, TableSchema):
            state = self._found(table_map, place)
            self._versions.keep({table: state}, place)
        try:
            return completed(table_map, state)
        except UnreadableEvent as error:
            raise UnreadableEvent(
                f"{error}. {REMEDY}, or, if it was altered with sql_log_bin=0, delete "
                f"{self._versions.path_of(table)}"
            ) from error

    def typed(self, table_map: TableMap, place: BinlogCoordinates) -> TableMap:
        """Returns the complete table map at `place` with the column types that it leaves open.
        Raises UnreadableEvent, naming the columns, if they are not known, and UnopenedTable."""
        self._need(Scope.OPEN_TYPES, place)
        columns = [column.name for column in table_map.columns if is_open(column)]
        found = self._with_open_types(table_map, columns, place)
        if found is None:
            raise UnreadableEvent(
                f"table {table_map.table}: the types of {', '.join(columns)} at {place} are not "
                "known. MariaDB does not send them with its "
                "rows (UUID, INET6 and INET4 look like BINARY, old times do not say how many "
                "digits they have), and the table no longer exists "
                "as it was then: altered in these columns, renamed, dropped, or the user may not "
                "SELECT from it. "
                "GRANT SELECT, or start after the last DDL of the table"
            )
        return found

    def follow(self, statement: Statement, start: BinlogCoordinates) -> None:
        """Follows a statement that may be DDL and starts at `start`: stores the new versions of the
        tables that it changes."""
        _finish(self.begin(start))
        if self._scope:
            self._follow(statement)

    def server_started(self) -> None:
        """Forgets the temporary tables of sessions, whose numbers are given out again."""
        self._temporary = TemporaryTables()

    def passed(self, place: BinlogCoordinates) -> None:
        """Notes that all DDL before `place` was followed."""
        if not self._scope or not self._is_loaded:
            return
        # A file may be purged once the position has left it, and no later edge may come by then.
        is_in_file = self._followed is not None and self._followed.file == place.file
        if not is_in_file or time.monotonic() >= self._due:
            self._store_followed(place)

    # How it begins

    def _need(self, scope: Scope, place: BinlogCoordinates) -> None:
        """Widens the scope, and takes the tables that are new in it."""
        is_wider = self._followed is not None and self._scope < scope is Scope.ALL
        self._scope = max(self._scope, scope)
        _finish(self.begin(place))
        if is_wider:
            _finish(self._take(place))

    def _load(self) -> None:
        followed = self._versions.load()
        scope = Scope.ALL
        if followed is not None:
            if not followed.is_whole:
                scope = Scope.OPEN_TYPES
            self._followed_on = followed.server
            self._says_begun = followed.is_begun
            if followed.server == self._identity:
                self._followed = followed.place
                self._followed_created_ms = followed.file_created_ms
        self._is_loaded = True
        if self._versions:
            self._scope = max(self._scope, scope)
        else:
            self._followed = None

    def _is_of_this_binlog(self) -> bool:
        """Whether the history belongs to this binlog: False for another server's history, and after
        a RESET of this one's binlog, however far that has grown since."""
        if self._followed is None or self._followed > self._reader.end():
            return False
        stored_ms = self._followed_created_ms
        return not stored_ms or stored_ms == self._file_created_ms(self._followed.file)

    def _file_created_ms(self, file: str) -> int:
        """When the file was created; 0 if the server does not hold it."""
        if file != self._file_created[0]:
            try:
                self._file_created = (file, self._created_ms(file))
            except PositionLost:
                return 0
        return self._file_created[1]

    def _cannot_follow(self, place: BinlogCoordinates) -> str:
        """Follows the DDL passed since the history was stored. Returns what is wrong with the
        history if the binlog does not have it; empty once it has been followed."""
        other = "belongs to another binlog than the one being read"
        if not self._is_of_this_binlog():
            return other
        assert self._followed is not None
        try:
            followed = self._reader.still_there(self._followed)
            for statement in self._scan.between(followed, place):
                self._follow(statement)
        except PositionLost as lost:
            if damage_noticed(lost, place):
                return f"ends at {self._followed}, and the binlog is damaged behind it ({lost})"
            return other
        return ""

    def _forget(self, reason: str) -> None:
        """Drops the history of another server, or of a binlog that no longer exists or is damaged:
        it says nothing about the tables here."""
        if self._versions:
            LOG.warning("%s %s: the tables are read again", self._versions.path, reason)
        self._versions.remove_all()
        self._followed = None

    def _take(self, place: BinlogCoordinates) -> Iterator[None]:
        """Takes the task's tables that have no version yet, as they were at `place`."""
        new = list(filter(self._is_new, map(self._search.folded, self._reader.tables())))
        if new:
            LOG.info("the schema history begins with %d tables as they are at %s", len(new), place)
        read: dict[TableId, tuple[TableSchema | None, BinlogCoordinates]] = {}
        size = max(TABLES_AT_ONCE, len(new) // PARTS)
        for at in range(0, len(new), size):
            some = new[at : at + size]
            schemas, end = self._reader.read_all(some)
            for table in some:
                read[table] = (schemas.get(table), end)
            yield
        found: dict[TableId, State] = {}
        for table, (schema, end) in read.items():
            if schema is not None and not self._is_touched(table, place, end):
                found[table] = schema
        # With a table read later than others, DDL up to there counts for all of them.
        last = max((end for _, end in read.values()), default=self._reader.end())
        known = self._take_from_ddl(found, place, last)
        for table in read:
            if table not in known:
                found.setdefault(table, Missing.UNKNOWN)
        self._versions.keep(found, place)

    def _is_touched(self, table: TableId, place: BinlogCoordinates, end: BinlogCoordinates) -> bool:
        """Whether DDL between the two may have changed the table."""
        ahead = self._search.all_changes(self._search.ahead.about(table, place, end))
        return any(touches(change, table) for change in ahead)

    def _take_from_ddl(
        self, found: dict[TableId, State], place: BinlogCoordinates, last: BinlogCoordinates
    ) -> set[TableId]:
        """Returns the tables that DDL between the two names, and those that have a version. A table
        that the DDL creates did not exist at `place`. A table that it changes did, in an unknown
        form: it is added to `found` as UNKNOWN."""
        seen = set(self._versions)
        for change in self._search.all_changes(self._search.ahead.between(place, last)):
            existed = _table_before(change)
            if existed is not None:
                if existed not in seen and self._is_tracked(existed):
                    found.setdefault(existed, Missing.UNKNOWN)
                seen.add(existed)
            if isinstance(change, Renamed):
                seen.add(change.to)
            elif isinstance(change, Created):
                seen.add(change.table)
        return seen

    def _store_followed(self, place: BinlogCoordinates) -> None:
        self._due = time.monotonic() + FOLLOWED_SECONDS
        is_further = self._followed is None or self._followed < place
        if is_further or self._is_begun > self._says_begun:
            if self._followed is None or is_further:
                self._followed = place
            is_whole = self._scope is Scope.ALL
            created_ms = self._file_created_ms(self._followed.file)
            self._says_begun |= self._is_begun
            self._versions.store_followed(
                Followed(self._followed, self._identity, is_whole, created_ms, self._says_begun)
            )

    # What DDL makes of tables

    def _follow(self, statement: Statement) -> None:
        place = statement.end
        found: dict[TableId, State] = {}

        def before(table: TableId) -> State | None:
            return found[table] if table in found else self._versions.before(table, place)

        def known(table: TableId) -> TableSchema | None:
            # A table that the server cannot open is needed by its rows only.
            with suppress(UnopenedTable):
                return self._search.known(table, place) if self._is_tracked(table) else None
            return None

        def charset(schema: str) -> str:
            return self._search.charset(schema, place)

        for each in self._search.changes(statement):
            change = self._temporary.real(
                each, statement.thread, is_of_session=statement.is_of_session
            )
            if change is None or not self._is_in_scope(change):
                continue
            if self._does_nothing(change, before):
                continue
            for table, state in made(change, before, self._versions, known, charset).items():
                if self._is_tracked(table):
                    found[table] = state or Missing.UNKNOWN
        self._versions.keep(found, place)

    def _is_in_scope(self, change: Change) -> bool:
        return self._scope is Scope.ALL or any(touches(change, table) for table in self._versions)

    def _does_nothing(self, change: Change, before: Callable[[TableId], State | None]) -> bool:
        """Whether the change is a CREATE IF NOT EXISTS of an existing table."""
        if not isinstance(change, Created) or not change.if_missing:
            return False
        state = before(change.table)
        if state is None:
            return change.table in self._versions
        return state is not Missing.DROPPED

    # What a table was

    def _found(self, table_map: TableMap, place: BinlogCoordinates) -> TableSchema:
        """Finds the columns of a table without a version. Raises UnreadableEvent if none fit, and
        UnopenedTable."""
        for schema in self._search.candidates(self._search.folded(table_map.table), place):
            if fits(table_map, schema):
                return schema
        raise UnreadableEvent(self._unknown(table_map, place))

    def _with_open_types(
        self, table_map: TableMap, columns: list[str], place: BinlogCoordinates
    ) -> TableMap | None:
        """Completes the types of the columns from the first source that knows them; None if none
        does. Raises UnopenedTable."""
        table = self._search.folded(table_map.table)
        state = self._versions.at(table, place)
        if isinstance(state, TableSchema) and (found := with_open_types(table_map, state)):
            return found
        unopened = None
        try:
            if found := self._typed_as_now(table_map, columns, place):
                return found
        except UnopenedTable as error:
            unopened = error
        replayed = self._search.replayed(table, place)
        if replayed and (found := with_open_types(table_map, replayed)):
            self._versions.keep({table: replayed}, place)
            return found
        if unopened:
            raise unopened
        return None

    def _typed_as_now(
        self, table_map: TableMap, columns: list[str], place: BinlogCoordinates
    ) -> TableMap | None:
        """As `_with_open_types`, from what the table is now, or was before later DDL."""
        table = self._search.folded(table_map.table)
        known = self._search.known(table, place)
        if known:
            self._versions.keep({table: known}, place)
            if found := with_open_types(table_map, known):
                return found
        # If DDL has left these columns unchanged, the later table still has their types. It is not
        # kept as a version, as its other columns may have changed.
        known = self._search.known(table, place, columns)
        return with_open_types(table_map, known) if known else None

    # Names

    def _is_new(self, table: TableId) -> bool:
        return self._is_tracked(table) and table not in self._versions

    def _is_tracked(self, table: TableId) -> bool:
        if self._accepts(table):
            return True
        built = _BUILT.fullmatch(table.table)
        return built is not None and self._accepts(TableId(table.schema, built[1]))

    def _unknown(self, table_map: TableMap, place: BinlogCoordinates) -> str:
        now, _ = self._reader.read(self._search.folded(table_map.table))
        is_now = (
            f"has {len(now.columns)}: {now}"
            if now
            else "does not exist, or the user may not SELECT from it"
        )
        return (
            f"{shape(table_map)}, the table now {is_now}. It was altered after the row was "
            "written, in a way that does not show the "
            f"columns at {place}. {REMEDY}, or start after the last DDL of the table"
        )


def _table_before(change: Change) -> TableId | None:
    """The table that a change names and that must have existed before it."""
    if isinstance(change, Renamed | Altered | Dropped):
        return change.table
    if isinstance(change, Created) and change.if_missing:
        return change.table
    return None


def _finish(steps: Iterator[None]) -> None:
    deque(steps, maxlen=0)
