"""The versions of each table of a schema history, in memory and in its store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cdcbus.plugins.contracts import SchemaStore
from cdcbus.plugins.errors import UnusableHistory
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.ddl.table_states import Missing, State
from cdcbus.producer.schema.history_codec import (
    FOLLOWED,
    Followed,
    Version,
    entry_name,
    entry_text,
    followed_text,
    read_entry,
    read_followed,
)


class TableVersions:
    """Iterates over the tables. Each change is stored before the call returns."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._tables: dict[TableId, list[Version]] = {}

    def __contains__(self, table: TableId) -> bool:
        return table in self._tables

    def __iter__(self) -> Iterator[TableId]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def path(self) -> str:
        """Where the versions are stored, for messages."""
        return self._store.path

    def path_of(self, table: TableId) -> str:
        return f"{self._store.path}/{entry_name(table)}"

    def load(self) -> Followed | None:
        """Loads the stored versions. Returns how far DDL was followed. Raises UnusableHistory."""
        followed = None
        for name, text in self._store.load().items():
            try:
                if name == FOLLOWED:
                    followed = read_followed(text)
                else:
                    table, versions = read_entry(name, text)
                    self._tables[table] = versions
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UnusableHistory(
                    f"{self._store.path}/{name} is not the schema history of a table "
                    f"({type(error).__name__}: {error}); "
                    "delete this node and start the task again: the table is then read again"
                ) from error
        return followed

    def at(self, table: TableId, place: BinlogCoordinates) -> State | None:
        """The state of the table in its last version at or before `place`."""
        for version in reversed(self._tables.get(table, ())):
            if version.place <= place:
                return version.state
        return None

    def before(self, table: TableId, place: BinlogCoordinates) -> State | None:
        """The state of the table in its last version before `place`."""
        for version in reversed(self._tables.get(table, ())):
            if version.place < place:
                return version.state
        return None

    def next_place(self, table: TableId, place: BinlogCoordinates) -> BinlogCoordinates | None:
        """Where the first version after `place` begins."""
        for version in self._tables.get(table, ()):
            if version.place > place:
                return version.place
        return None

    def schema_between(
        self, table: TableId, place: BinlogCoordinates, until: BinlogCoordinates
    ) -> TableSchema | None:
        """The first version from `place` on, before `until`, if its columns are known."""
        for version in self._tables.get(table, ()):
            if place <= version.place < until:
                if isinstance(version.state, TableSchema):
                    return version.state
                return None
        return None

    def keep(self, found: Mapping[TableId, State], place: BinlogCoordinates) -> None:
        """Adds versions, and stores them. An existing version at this place is replaced only if it
        was UNKNOWN; otherwise it is the same, read again."""
        changed = []
        for table, state in found.items():
            versions = self._tables.setdefault(table, [])
            same_place = [version for version in versions if version.place == place]
            if same_place and not _is_news(same_place[0].state, state):
                continue
            others = [version for version in versions if version.place != place]
            versions[:] = sorted([*others, Version(place, state)], key=lambda one: one.place)
            changed.append(table)
        self._store.save({entry_name(table): self._text(table) for table in changed})

    def restart(self, states: Mapping[TableId, State | None], place: BinlogCoordinates) -> None:
        """Replaces all versions by one per table, which begins at `place`; None: the table has
        none."""
        self._tables.clear()
        entries: dict[str, str | None] = {}
        for table, state in states.items():
            entries[entry_name(table)] = None
            if state is not None:
                self._tables[table] = [Version(place, state)]
                entries[entry_name(table)] = self._text(table)
        self._store.save(entries)

    def prune(self, oldest: BinlogCoordinates, is_tracked: Callable[[TableId], bool]) -> None:
        """Drops tables that are not tracked, and versions that only rows before `oldest` could
        need."""
        entries: dict[str, str | None] = {}
        for table, versions in list(self._tables.items()):
            first = 0
            for number, version in enumerate(versions):
                if version.place <= oldest:
                    first = number
            kept = versions[first:]
            is_dropped = (
                len(kept) == 1 and kept[0].state is Missing.DROPPED and kept[0].place <= oldest
            )
            if is_dropped or not is_tracked(table):
                del self._tables[table]
                entries[entry_name(table)] = None
            elif first:
                self._tables[table] = kept
                entries[entry_name(table)] = self._text(table)
        self._store.save(entries)

    def remove_all(self) -> None:
        """Removes all versions, also from the store."""
        self._store.save(dict.fromkeys(map(entry_name, self._tables)))
        self._tables.clear()

    def unload(self) -> None:
        """Drops all versions from memory; they stay in the store."""
        self._tables.clear()

    def store_followed(self, followed: Followed) -> None:
        self._store.save({FOLLOWED: followed_text(followed)})

    def _text(self, table: TableId) -> str:
        """The table's entry. Drops the oldest versions while they are too large for a node."""
        versions = self._tables[table]
        text = entry_text(table, versions)
        while text is None:
            del versions[0]
            text = entry_text(table, versions)
        return text


def _is_news(before: State, state: State) -> bool:
    return before is Missing.UNKNOWN and state is not Missing.UNKNOWN


class MemorySchemas:
    """A store that lasts as long as the process, for dry runs and tests. Stores made with one
    mapping share it."""

    def __init__(self, entries: dict[str, str] | None = None) -> None:
        # Also an empty mapping is shared.
        if entries is None:
            entries = {}
        self._entries = entries

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
