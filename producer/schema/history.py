"""The tables as they were at each place of the binlog, for rows whose table maps do not name their
columns.

    table map without names -> the version of its table at that place -> completed table map, if the
    shapes fit
    DDL in the stream       -> a new version of each table that it changes, stored before the
                            position moves past it

A version comes, best first, from the server (the table as it is now, or as the next version has it,
when no DDL of it lies between: the binlog is searched for that), from the DDL's own text, or is
`UNKNOWN`. Rows met where a table is UNKNOWN stop the task, unless DDL in the binlog before them
tells what it was: of tables that are renamed into the filter nothing is kept. DDL never stops the
task.

While the server sends full row metadata and no history is stored, nothing is read and nothing is
kept; on MariaDB, only tables with types that even full table maps leave open (`is_open`).
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

import orjson

from cdcbus.plugins.contracts import SchemaStore
from cdcbus.plugins.errors import PositionLost, UnreadableEvent, UnusableHistory
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_changes import (
    Altered,
    Change,
    Created,
    Dropped,
    Renamed,
    SchemaAltered,
    SchemaDropped,
    folded,
)
from cdcbus.producer.ddl.table_schema import TableSchema, leaves
from cdcbus.producer.ddl.table_states import Missing, State, TemporaryTables, made, touches
from cdcbus.producer.ddl.tokens import Session
from cdcbus.producer.decoding.column_types import is_open
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.schema.ddl_ahead import DdlAhead
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement
from cdcbus.producer.schema.resolver import SchemaReader, completed, fits, shape, with_open_types

LOG = logging.getLogger(__name__)
FOLLOWED = "followed"  # the entry that says up to where DDL was followed, on which server
FOLLOWED_SECONDS = 60.0  # how often that is stored: a start looks through what was written since
ENTRY_BYTES = 900_000  # of the million that a ZooKeeper node can hold
# So many tables are read, and locked against DDL meanwhile; more of many, as MariaDB looks through
# all of a schema for each question.
TABLES_AT_ONCE, PARTS = 50, 40
# What gh-ost and pt-online-schema-change call the table that they build and then rename to the one
# they alter.
_BUILT = re.compile(r"_+(.+?)_(?:gho|new)")


class Scope(IntEnum):
    """Which tables have a history."""

    NOTHING = 0
    OPEN_TYPES = 1  # those of MariaDB that even full table maps do not describe, once they are met
    ALL = 2


@dataclass(frozen=True, slots=True)
class Version:
    """A table from a place in the binlog on."""

    place: BinlogCoordinates
    state: State


class SchemaHistory:
    """The history of one task on one server, read from its store when it is first needed.

    `accepts` tells the tables of the task; `identity` names the server, whose binlog the places are
    in; `is_needed`: its table maps are not complete now.
    """

    def __init__(
        self,
        store: SchemaStore,
        reader: SchemaReader,
        scan: DdlScan,
        accepts: Callable[[TableId], bool],
        identity: str,
        *,
        is_needed: bool,
    ) -> None:
        self._store, self._reader, self._scan = store, reader, scan
        self._ahead = DdlAhead(scan, self._changes)
        self._replays = DdlAhead(scan, self._changes)  # goes back, which `_ahead` need not
        self._accepts, self._identity = accepts, identity
        self._scope = Scope.ALL if is_needed else Scope.NOTHING
        self._is_loaded = False
        self._tables: dict[TableId, list[Version]] = {}
        self._followed: BinlogCoordinates | None = None
        self._followed_on = ""  # the server whose files the stored places are in
        self._due = 0.0
        self._temporary = TemporaryTables()

    def begin(self, place: BinlogCoordinates) -> Iterator[None]:
        """Reading begins at `place`: takes the tables that are not known yet, as they were there.
        Later calls do nothing.

        Of many tables that takes a while: it gives control back in between, and whoever does not
        go on leaves nothing behind."""
        if self._is_loaded and (self._followed or not self._scope):
            return
        if not self._is_loaded:
            self._load()
        if not self._scope:
            return
        if (
            self._followed is None
            or self._reader.end() < self._followed
            or not self._caught_up(place)
        ):
            self._forget()
        self._prune()
        if self._scope is Scope.ALL:
            yield from self._take(place)
        self._store_followed(place)

    def move(self, old: BinlogCoordinates, server: str, place: BinlogCoordinates) -> Iterator[None]:
        """Reading goes on at `place`, by GTIDs: what the tables were at `old`, in the files of
        the server that was read before, they are there. `server`: that one's name, empty where
        the position does not tell it. Where the history is not of that server, this does
        nothing. Like `begin`, it gives control back in between."""
        self._load()
        if (
            self._followed is not None
            or not self._tables
            or (server and server != self._followed_on)
        ):
            self._is_loaded = False  # `begin` has its own look at it
            self._tables.clear()
            return
        states = {table: self._state(table, old) for table in self._tables}
        LOG.info(
            "the schema history of %d tables goes on at %s, as they were at %s of %s",
            len(states),
            place,
            old,
            self._followed_on,
        )
        self._tables = {
            table: [Version(place, state)] for table, state in states.items() if state is not None
        }
        self._store.save(
            {
                _entry(table): self._text(table) if table in self._tables else None
                for table in states
            }
        )
        self._followed = None
        if self._scope is Scope.ALL:
            yield from self._take(place)
        self._store_followed(place)

    def _need(self, scope: Scope, place: BinlogCoordinates) -> None:
        is_more = self._followed is not None and self._scope < scope is Scope.ALL
        self._scope = max(self._scope, scope)
        _finish(self.begin(place))
        if is_more:
            _finish(self._take(place))

    def complete(self, table_map: TableMap, place: BinlogCoordinates) -> TableMap:
        """The table map, which stands at `place`, with the columns that the table had there.
        Raises UnreadableEvent with both shapes when they do not fit or are not known."""
        self._need(Scope.ALL, place)
        table = self._folded(table_map.table)
        state = self._state(table, place)
        if not isinstance(state, TableSchema):
            found = next((one for one in self._guesses(table, place) if fits(table_map, one)), None)
            if found is None:
                raise UnreadableEvent(self._unknown(table_map, place))
            self._keep({table: found}, place)
            state = found
        try:
            return completed(table_map, state)
        except UnreadableEvent as error:
            raise UnreadableEvent(
                f"{error}. {REMEDY}, or, if it was altered with sql_log_bin=0, delete "
                f"{self._path(table)}"
            ) from error

    def typed(self, table_map: TableMap, place: BinlogCoordinates) -> TableMap:
        """A complete table map, which stands at `place`, with what it leaves open of its
        columns' types. Raises UnreadableEvent, naming the columns, where that is not known."""
        self._need(Scope.OPEN_TYPES, place)
        table = self._folded(table_map.table)
        state = self._state(table, place)
        found = with_open_types(table_map, state) if isinstance(state, TableSchema) else None
        columns = [column.name for column in table_map.columns if is_open(column)]
        for changes_of_others in ((), columns):
            if found is None and (known := self._known(table, place, changes_of_others)):
                found = with_open_types(table_map, known)
                if not changes_of_others:
                    self._keep({table: known}, place)
        if (
            found is None
            and (told := self._told(table, place))
            and (found := with_open_types(table_map, told))
        ):
            self._keep({table: told}, place)
        if found is None:
            raise UnreadableEvent(
                f"table {table_map.table}: the types of {', '.join(columns)} at {place} are not "
                "known. MariaDB does not send them with its "
                "rows (UUID, INET6 and INET4 look like BINARY, old times do not say how many "
                "digits they have), and the table is not there "
                "as it was then: altered in these columns, renamed, dropped, or the user may not "
                "SELECT from it. "
                "GRANT SELECT, or start behind the last DDL of the table"
            )
        return found

    def follow(self, statement: Statement, start: BinlogCoordinates) -> None:
        """A statement that may be DDL, which starts at `start`: the new versions of the tables
        that it changes are stored."""
        _finish(self.begin(start))
        if self._scope:
            self._follow(statement)

    def passed(self, place: BinlogCoordinates) -> None:
        """All before `place` was followed."""
        if self._scope and self._is_loaded and time.monotonic() >= self._due:
            self._store_followed(place)

    # What is stored

    def _load(self) -> None:
        self._folds = self._reader.folds_names
        scope = Scope.ALL
        for name, text in self._store.load().items():
            try:
                fields = orjson.loads(text)
                if name == FOLLOWED:
                    scope = Scope.ALL if fields.get("isWhole", True) else Scope.OPEN_TYPES
                    self._followed_on = fields["server"]
                    if self._followed_on == self._identity:
                        self._followed = _place(fields)
                    continue
                schema, table = fields["table"]
                versions = sorted(
                    (_version(one) for one in fields["versions"]), key=lambda version: version.place
                )
                if _entry(TableId(schema, table)) != name or not versions:
                    raise ValueError("not its table")
                self._tables[TableId(schema, table)] = versions
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UnusableHistory(
                    f"{self._store.path}/{name} is not the schema history of a table "
                    f"({type(error).__name__}: {error}); "
                    "delete this node and start the task again: the table is then read anew"
                ) from error
        self._is_loaded = True
        if self._tables:
            self._scope = max(self._scope, scope)
        else:
            self._followed = None

    def _caught_up(self, place: BinlogCoordinates) -> bool:
        """Follows the DDL that was passed over since the history was stored; whether the binlog
        still has it."""
        assert self._followed is not None
        try:
            for statement in self._scan.between(self._followed, place):
                self._follow(statement)
        except PositionLost:
            return False
        return True

    def _forget(self) -> None:
        """Leaves out what is known of another server, or of a binlog that is no more: it says
        nothing of the tables here."""
        if self._tables:
            LOG.warning(
                "%s is of another binlog than the one that is read: the tables are read anew",
                self._store.path,
            )
        self._store.save({_entry(table): None for table in self._tables})
        self._tables.clear()
        self._followed = None

    def _prune(self) -> None:
        """Leaves out tables that the task does not read, and versions that only rows in purged
        files could need."""
        oldest = self._reader.start()
        entries: dict[str, str | None] = {}
        for table, versions in list(self._tables.items()):
            first = max(
                (i for i, version in enumerate(versions) if version.place <= oldest), default=0
            )
            kept = versions[first:]
            if not self._is_tracked(table) or (
                len(kept) == 1 and kept[0].state is Missing.DROPPED and kept[0].place <= oldest
            ):
                del self._tables[table]
                entries[_entry(table)] = None
            elif first:
                self._tables[table] = kept
                entries[_entry(table)] = self._text(table)
        self._store.save(entries)

    def _take(self, place: BinlogCoordinates) -> Iterator[None]:
        """The tables of the task that have no version yet, as they were at `place`."""
        found: dict[TableId, State] = {}
        new = [
            table
            for table in map(self._folded, self._reader.tables())
            if self._is_tracked(table) and table not in self._tables
        ]
        if new:
            LOG.info("the schema history begins with %d tables as they are at %s", len(new), place)
        read: dict[TableId, tuple[TableSchema | None, BinlogCoordinates]] = {}
        size = max(TABLES_AT_ONCE, len(new) // PARTS)
        for at in range(0, len(new), size):
            some = new[at : at + size]
            schemas, end = self._reader.read_all(some)
            read |= {table: (schemas.get(table), end) for table in some}
            yield
        last = max((end for _, end in read.values()), default=self._reader.end())
        for table, (schema, end) in read.items():
            about = self._ahead.about(table, place, end)
            if schema is not None and not any(
                touches(change, table) for one in about for change in self._changes(one)
            ):
                found[table] = schema
        # What DDL ahead makes of a table was not always there; what else it changes, was, in a way
        # that cannot be known.
        seen = set(self._tables)
        for change in (
            change for one in self._ahead.between(place, last) for change in self._changes(one)
        ):
            if isinstance(change, Renamed):
                before, after = [change.table], [change.to]
            elif isinstance(change, Altered | Dropped) or (
                isinstance(change, Created) and change.if_missing
            ):
                before, after = [change.table], []
            else:
                before, after = [], [change.table] if isinstance(change, Created) else []
            for table in before:
                if table not in seen and self._is_tracked(table):
                    found.setdefault(table, Missing.UNKNOWN)
            seen.update(before, after)
        for table in read:
            if table not in seen:
                found.setdefault(table, Missing.UNKNOWN)
        self._keep(found, place)

    def _keep(self, found: dict[TableId, State], place: BinlogCoordinates) -> None:
        """New versions; one that is there already is the same, read again."""
        changed = []
        for table, state in found.items():
            versions = self._tables.setdefault(table, [])
            at = next((version for version in versions if version.place == place), None)
            if at is not None and (at.state is not Missing.UNKNOWN or state is Missing.UNKNOWN):
                continue
            versions[:] = sorted(
                [*(one for one in versions if one is not at), Version(place, state)],
                key=lambda version: version.place,
            )
            changed.append(table)
        self._store.save({_entry(table): self._text(table) for table in changed})

    def _text(self, table: TableId) -> str:
        """The entry, without the oldest versions where they are too many for a node."""
        versions = [_fields(version) for version in self._tables[table]]
        while True:
            text = orjson.dumps({"table": list(table), "versions": versions}).decode()
            if len(text.encode()) <= ENTRY_BYTES or len(versions) == 1:
                return text
            del versions[0], self._tables[table][0]

    def _store_followed(self, place: BinlogCoordinates) -> None:
        self._due = time.monotonic() + FOLLOWED_SECONDS
        if self._followed is None or self._followed < place:
            self._followed = place
            fields = {
                "logfileName": place.file,
                "offset": place.pos,
                "server": self._identity,
                "isWhole": self._scope is Scope.ALL,
            }
            self._store.save({FOLLOWED: orjson.dumps(fields).decode()})

    # What DDL makes of tables

    def _follow(self, statement: Statement) -> None:
        place = statement.end
        found: dict[TableId, State] = {}

        def before(table: TableId) -> State | None:
            if table in found:
                return found[table]
            earlier = [
                version.state for version in self._tables.get(table, ()) if version.place < place
            ]
            return earlier[-1] if earlier else None

        def known(table: TableId) -> TableSchema | None:
            return self._known(table, place) if self._is_tracked(table) else None

        for change in self._changes(statement):
            if self._temporary.takes(change, statement.thread):
                continue
            if self._scope < Scope.ALL and not any(
                touches(change, table) for table in self._tables
            ):
                continue
            if (
                isinstance(change, Created)
                and change.if_missing
                and self._is_there(change.table, before)
            ):
                continue
            for table, state in made(
                change,
                before,
                self._tables,
                known,
                lambda schema: self._charset(schema, place, self._ahead),
            ).items():
                if self._is_tracked(table):
                    found[table] = state or Missing.UNKNOWN
        self._keep(found, place)

    def _is_there(self, table: TableId, before: Callable[[TableId], State | None]) -> bool:
        state = before(table)
        return state is not Missing.DROPPED and (state is not None or table in self._tables)

    def _known(
        self, table: TableId, place: BinlogCoordinates, columns: Collection[str] = ()
    ) -> TableSchema | None:
        """The table at `place` as a later version has it, else as it is now, if no DDL of it
        lies between, or none of these columns of it; else None. It may have been renamed: then
        it is looked for by its other names."""
        later = next(
            (version for version in self._tables.get(table, ()) if version.place > place), None
        )
        name, at, until = table, place, later.place if later else self._reader.end()
        while True:
            for statement in self._ahead.about(name, at, until):
                if version := self._version(name, at, statement.end):
                    return version
                if (after := self._name_after(statement, name, columns)) is None:
                    return None
                if after != name:
                    name, at = after, statement.end
                    break
            else:
                now, end = self._reader.read(name)
                if version := self._version(name, at, end):
                    return version
                if end <= until:
                    return now
                at, until = max(at, until), end

    def _version(
        self, table: TableId, place: BinlogCoordinates, until: BinlogCoordinates
    ) -> TableSchema | None:
        """The first version from `place` on, before `until`."""
        found = next(
            (one for one in self._tables.get(table, ()) if place <= one.place < until), None
        )
        return found.state if found and isinstance(found.state, TableSchema) else None

    def _name_after(
        self, statement: Statement, table: TableId, columns: Collection[str]
    ) -> TableId | None:
        """The table's name after a statement; None if that may change more of it than its name,
        and than others of its columns."""
        for change in self._changes(statement):
            if isinstance(change, Renamed) and change.table == table:
                table = change.to
            elif touches(change, table) and not _spares(change, columns):
                return None
        return table

    def _guesses(self, table: TableId, place: BinlogCoordinates) -> Iterator[TableSchema]:
        """What it was at `place`, as far as that can be found out, if it was not kept."""
        for find in (self._known, self._told):
            if found := find(table, place):
                yield found

    def _told(self, table: TableId, place: BinlogCoordinates) -> TableSchema | None:
        """The table at `place` by all DDL that the binlog still has from before it. Most tables
        that are renamed were made not long before: the last files are searched first."""
        files = [file for file in self._reader.files() if file <= place]
        state: State | None = None
        for count in (1 << i for i in range(len(files).bit_length() + 1)):
            try:
                state = self._replayed(table, files[max(len(files) - count, 0)], place)
            except PositionLost:  # purged meanwhile
                return None
            if state is not None or count >= len(files):
                break
        return state if isinstance(state, TableSchema) else None

    def _replayed(
        self, table: TableId, start: BinlogCoordinates, place: BinlogCoordinates
    ) -> State | None:
        """The table as DDL from `start` on made it until `place`, in whatever schema; None where
        it is older than that."""
        told = [
            (statement, change)
            for statement in self._scan.between(start, place)
            for change in self._changes(statement)
        ]
        names = {table}  # that it had, and those of tables that it comes of
        for _, change in reversed(told):
            if isinstance(change, Renamed) and change.to in names:
                names.add(change.table)
            elif isinstance(change, Created) and change.like and change.table in names:
                names.add(change.like)
        states: dict[TableId, State | None] = {}
        temporary, end = TemporaryTables(), start

        def before(table: TableId) -> State | None:
            kept = next(
                (one.state for one in reversed(self._tables.get(table, ())) if one.place < end),
                None,
            )
            return kept if kept not in (None, Missing.UNKNOWN) else states.get(table)

        for statement, change in told:
            end = statement.end
            if not any(_is_about(change, name) for name in names) or temporary.takes(
                change, statement.thread
            ):
                continue
            if (
                isinstance(change, Created)
                and change.if_missing
                and before(change.table) is not Missing.DROPPED
            ):
                continue
            states |= made(
                change,
                before,
                names,
                _nothing,
                partial(self._charset, place=end, ahead=self._replays),
            )
        return states.get(table)

    def _charset(self, schema: str, place: BinlogCoordinates, ahead: DdlAhead) -> str:
        """What a schema gave its tables at `place`; empty where that cannot be known."""
        about = ahead.about(None, place, self._reader.end())
        if any(
            isinstance(change, SchemaAltered | SchemaDropped) and change.schema == schema
            for one in about
            for change in self._changes(one)
        ):
            return ""
        return self._reader.default_charset(schema)

    # Names

    def _changes(self, statement: Statement) -> list[Change]:
        found = _parsed(statement.sql, statement.schema, statement.session)
        return [folded(change) for change in found] if self._folds else found

    def _is_tracked(self, table: TableId) -> bool:
        built = _BUILT.fullmatch(table.table)
        return self._accepts(table) or (
            built is not None and self._accepts(TableId(table.schema, built[1]))
        )

    def _folded(self, table: TableId) -> TableId:
        return TableId(table.schema.lower(), table.table.lower()) if self._folds else table

    def _state(self, table: TableId, place: BinlogCoordinates) -> State | None:
        earlier = [
            version.state for version in self._tables.get(table, ()) if version.place <= place
        ]
        return earlier[-1] if earlier else None

    def _path(self, table: TableId) -> str:
        return f"{self._store.path}/{_entry(table)}"

    def _unknown(self, table_map: TableMap, place: BinlogCoordinates) -> str:
        now, _ = self._reader.read(self._folded(table_map.table))
        is_now = (
            f"has {len(now.columns)}: {now}"
            if now
            else "is not there, or the user may not SELECT from it"
        )
        return (
            f"{shape(table_map)}, the table now {is_now}. It was altered after the row was "
            "written, in a way that does not tell the "
            f"columns at {place}. {REMEDY}, or start behind the last DDL of the table"
        )


@lru_cache(maxsize=10_000)
def _parsed(sql: bytes, schema: str, session: Session) -> list[Change]:
    """Each statement is looked at for many tables."""
    return changes(sql, schema, session)


def _is_about(change: Change, table: TableId) -> bool:
    """Whether it says anything of the table."""
    return touches(change, table) or (
        isinstance(change, Created | Dropped) and change.table == table
    )


def _nothing(_: TableId) -> None:
    """For a place of which only texts tell."""


def _finish(steps: Iterator[None]) -> None:
    deque(steps, maxlen=0)


def _spares(change: Change, columns: Collection[str]) -> bool:
    """Whether it surely leaves these columns of its table as they are."""
    return (
        bool(columns)
        and isinstance(change, Altered)
        and change.actions is not None
        and leaves(change.actions, columns)
    )


REMEDY = "Set binlog_row_metadata=FULL on the server, so that rows carry their columns"


def _entry(table: TableId) -> str:
    """A name that a ZooKeeper node may have."""
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in table)


def _fields(version: Version) -> dict[str, Any]:
    state = (
        {"state": str(version.state)}
        if isinstance(version.state, Missing)
        else version.state.to_fields()
    )
    return {"logfileName": version.place.file, "offset": version.place.pos, **state}


def _version(fields: Any) -> Version:
    state: State = (
        Missing(fields["state"]) if "state" in fields else TableSchema.from_fields(fields)
    )
    return Version(_place(fields), state)


def _place(fields: Any) -> BinlogCoordinates:
    file, pos = fields["logfileName"], fields["offset"]
    if not isinstance(file, str) or type(pos) is not int:
        raise TypeError("logfileName and offset are no place")
    return BinlogCoordinates(file, pos)


class MemorySchemas:
    """A history that is gone with the process, for dry runs and tests. Stores made with one
    mapping share it."""

    def __init__(self, entries: dict[str, str] | None = None) -> None:
        self._entries = {} if entries is None else entries

    @property
    def path(self) -> str:
        return "memory"

    def load(self) -> dict[str, str]:
        return dict(self._entries)

    def save(self, entries: Mapping[str, str | None]) -> None:
        for name, text in entries.items():
            self._entries.pop(name, None)
            if text is not None:
                self._entries[name] = text
