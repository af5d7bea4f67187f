"""Reads target tables as the database describes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from sqlalchemy import Connection, text

from cdcbus.plugins.contracts import CascadingKey, TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId, type_without_comment
from cdcbus.plugins.transform.selectors import lowered

HOLD_SECONDS: Final = 1
"""How long a table is waited for that only tells whether a foreign key is gone."""
_BY_TABLES: Final = attrgetter("child", "parent", "on_delete", "on_update")


@dataclass(frozen=True, slots=True)
class Catalog:
    """Catalog queries of one kind of database, with the parameters :schema and :table. SQLAlchemy's
    inspector is not used for this: it warns about unknown types and drops them.

    `names`: schema and table of all that match in any case. `columns`: the fields of TargetColumn,
    in order; the last two may be left out. `unique_keys`: is primary, name of the key, column, is
    deferrable; one row per column of each unique key, in order; the column is NULL if the key has
    more than columns. `unsafe`: why nothing may be written to the table, if so: the text after
    "target table T ". `remarks`: texts after the same words, one row each. `rights`: a verb that
    the user has no right to, the columns for which it is missing, and whether these are all.
    `types`: each column, and its type and collation as CREATE TABLE takes them. `view`: the SELECT
    of a view, as text with all names in backticks. `may_create`: whether the user may create tables
    in the default schema; empty = cannot be queried. `folds`: whether names that differ in case are
    one table; empty = they are two. `cascades`: the fields of CascadingKey, in order, each name as
    schema and table; one row per foreign key with an action, of all tables. `identity`: two texts,
    of which the first changes only where the table is made anew, the second also where its rows
    move to other storage; no row for what is no table, as a view. `storages`: further texts like
    the second, of many tables at once. `hold`: see `hold`; None where the queries show every table
    while DDL changes it.
    """

    names: str
    columns: str
    unique_keys: str
    types: str
    unsafe: str = ""
    remarks: str = ""
    rights: str = ""
    view: str = ""
    may_create: str = ""
    folds: str = ""
    cascades: str = ""
    identity: str = ""
    storages: Callable[[Connection, Iterable[TableId]], dict[TableId, str]] | None = None
    folding: Callable[[Connection, TableId], set[str]] | None = None
    hold: Callable[[Connection, TableId, int | None], bool | None] | None = None


def reflect(
    connection: Connection, catalog: Catalog, dialect: str, name: TableId
) -> TargetTable | None:
    """The table of that exact name, else the one whose name differs in case only, else None. Raises
    ConfigError if several do, DBAPIError. May lock the table as `hold` does."""
    hold(connection, catalog, name)
    table = _exact(connection, catalog, dialect, name)
    return table or _any_case(connection, catalog, dialect, name)


def key_of(connection: Connection, catalog: Catalog, name: TableId) -> tuple[str, ...] | None:
    """The key that `reflect` finds of a table of that exact name, None without the table: in two
    queries, for tables that the transaction has locked already. Raises DBAPIError."""
    columns = _plain_columns(connection, catalog, name)
    if not columns:
        return None
    return (_chosen(_unique_keys(connection, catalog, name), columns) or NO_KEY).names


def folds_names(connection: Connection, catalog: Catalog) -> bool:
    """Whether names that differ in case are one table. Raises DBAPIError."""
    return bool(catalog.folds and connection.execute(text(catalog.folds)).scalar())


def cascading_keys(connection: Connection, catalog: Catalog) -> list[CascadingKey]:
    """The foreign keys with an action that the user may see, of all tables. Raises DBAPIError."""
    if not catalog.cascades:
        return []
    found = set[CascadingKey]()
    for row in connection.execute(text(catalog.cascades)):
        child_schema, child, parent_schema, parent, on_delete, on_update = row
        child_id = TableId(child_schema, child)
        parent_id = TableId(parent_schema, parent)
        found.add(CascadingKey(child_id, parent_id, on_delete or "", on_update or ""))
    return sorted(found, key=_BY_TABLES)


def with_hidden(
    connection: Connection,
    catalog: Catalog,
    keys: Iterable[CascadingKey],
    known: Iterable[CascadingKey],
) -> list[CascadingKey]:
    """These keys, and those of the known ones that were left out because DDL changed their tables
    just then, or may have been, as others have locked one of these tables. Locks them as `hold`
    does; raises DBAPIError."""
    found, known = {*keys}, {*known}
    children = sorted({key.child for key in known - found})
    try:
        are_there = [hold(connection, catalog, child, HOLD_SECONDS) for child in children]
    except TimeoutError:
        # Perhaps for long, and a key too many costs less than to wait for it.
        return sorted(found | known, key=_BY_TABLES)
    if any(is_there is not False for is_there in are_there):
        # Beside a lock of the session the server waits for no DDL, so no other reading is sure.
        found.update(cascading_keys(connection, catalog))
    return sorted(found, key=_BY_TABLES)


def keys_of(
    name: TableId, keys: Iterable[CascadingKey], *, is_folding: bool
) -> tuple[CascadingKey, ...]:
    """Those of the keys that are the table's, with this name, which may be spelled in another case
    where the server folds names."""
    if is_folding:
        keys = [_naming(name, key) for key in keys]
    return tuple(key for key in keys if name in (key.child, key.parent))


def _naming(table: TableId, key: CascadingKey) -> CascadingKey:
    """The key with the table's name as it was asked for, which can differ in case."""
    child, parent = [
        table if lowered(name) == lowered(table) else name for name in (key.child, key.parent)
    ]
    return replace(key, child=child, parent=parent)


def hold(
    connection: Connection, catalog: Catalog, name: TableId, wait_seconds: int | None = None
) -> bool | None:
    """Locks the table against DDL until the transaction ends, if the server's catalog can lack a
    table that exists: MariaDB and MySQL 5.7 show none whose files DDL renames just then. Returns
    whether it exists; None if the catalog says so, or nothing else does. Raises DBAPIError if DDL
    does not let go of it; TimeoutError if it does not within `wait_seconds`."""
    if catalog.hold is None:
        return None
    return catalog.hold(connection, name, wait_seconds)


def _exact(
    connection: Connection, catalog: Catalog, dialect: str, name: TableId
) -> TargetTable | None:
    parameters = name._asdict()
    columns = _columns(connection, catalog, name)
    if not columns:
        return None
    keys = _unique_keys(connection, catalog, name)
    key = _chosen(keys, columns) or NO_KEY
    others = []
    for each in keys:
        if key is NO_KEY or each.names != key.names:
            others.append(each.names)
    definition = _definition(connection, catalog, name)
    unsafe = _unsafe(connection, catalog, name, definition or "")
    computed = [column for column in key.names if columns[column].is_generated]
    if computed:
        unsafe.append(f"target table {name} {COMPUTED_KEY.format(', '.join(computed))}")
    remarks = _said(connection, catalog.remarks, parameters)
    if definition is not None:
        remarks.append(VIEW)
    remarks += _lacking(connection, catalog, parameters)
    return TargetTable(
        name,
        columns,
        key.names,
        tuple(others),
        dialect,
        "; ".join(unsafe),
        key.is_deferrable,
        can_move=True,
        remarks=tuple(remarks),
    )


def _unique_keys(connection: Connection, catalog: Catalog, name: TableId) -> list[_Key]:
    keys: dict[str, _Key] = {}
    found = connection.execute(text(catalog.unique_keys), name._asdict())
    for is_primary, key_name, column_name, is_deferrable in found:
        known = keys.setdefault(key_name, _Key(bool(is_primary), bool(is_deferrable), []))
        known.columns.append(column_name)
    return list(keys.values())


def _plain_columns(
    connection: Connection, catalog: Catalog, name: TableId
) -> dict[str, TargetColumn]:
    columns = {}
    for row in connection.execute(text(catalog.columns), name._asdict()):
        column = _column(*row)
        columns[column.name] = column
    return columns


def _columns(connection: Connection, catalog: Catalog, name: TableId) -> dict[str, TargetColumn]:
    columns = _plain_columns(connection, catalog, name)
    if columns and catalog.folding is not None:
        for each in catalog.folding(connection, name):
            columns[each] = replace(columns[each], is_folding=True)
    return columns


def _unsafe(connection: Connection, catalog: Catalog, name: TableId, definition: str) -> list[str]:
    """The reasons why nothing may be written to the table, or to a table that a view selects
    from."""
    found = []
    for why in _said(connection, catalog.unsafe, name._asdict()):
        found.append(f"target table {name} {why}")
    for base in _below(connection, catalog, name, definition):
        for why in _said(connection, catalog.unsafe, base._asdict()):
            found.append(f"target table {name} is a view over {base}, which {why}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    """A unique key. A column is None if the key has more than columns."""

    is_primary: bool
    is_deferrable: bool
    columns: list[str | None]

    @property
    def names(self) -> tuple[str, ...]:
        if None in self.columns:
            return ()
        return tuple(filter(None, self.columns))

    @property
    def rank(self) -> tuple[bool, bool]:
        """The lower, the better it is as a table's key."""
        return not self.is_primary, self.is_deferrable


NO_KEY: Final = _Key(is_primary=False, is_deferrable=False, columns=[])


COMPUTED_KEY: Final = (
    "computes {} of its key, so the source's value is not written there, and no row would be found "
    "by it: make it an ordinary column there, which takes the source's value, or give the table a "
    "unique key of other columns that take no NULL"
)


def _chosen(keys: list[_Key], columns: dict[str, TargetColumn]) -> _Key | None:
    """The primary key, else the first key without nullable columns that is checked immediately,
    else one that is checked at commit. One with generated columns only if there is no other."""
    usable: list[_Key] = []
    computed: list[_Key] = []
    for key in keys:
        is_nullable = any(columns[name].is_nullable for name in key.names)
        if not key.is_primary and (is_nullable or not key.names):
            continue
        is_computed = any(columns[name].is_generated for name in key.names)
        (computed if is_computed else usable).append(key)
    return min(usable or computed, key=attrgetter("rank"), default=None)


def _column(
    name: str,
    type_: str,
    length: int | None,
    is_nullable: object,
    is_generated: object,
    is_required: object,
    scale: int | None,
    declared: str | None,
    is_fixed: object = False,
    is_folding: object = False,
) -> TargetColumn:
    flags = bool(is_nullable), bool(is_generated), bool(is_required)
    whole_type = type_without_comment(declared or "")
    return TargetColumn(
        name, type_, length, *flags, scale, whole_type, bool(is_fixed), bool(is_folding)
    )


def _said(connection: Connection, query: str, parameters: dict[str, str]) -> list[str]:
    """The rows of a query, as text; none without a query."""
    if not query:
        return []
    lines = connection.execute(text(query), parameters).scalars()
    return list(map(str, lines))


def _lacking(connection: Connection, catalog: Catalog, parameters: dict[str, str]) -> list[str]:
    """Sentences about rights that the user lacks."""
    if not catalog.rights:
        return []
    found = []
    for verb, names, is_whole in connection.execute(text(catalog.rights), parameters):
        what = f"its columns {names}"
        if is_whole:
            what = "rows"
        found.append(f"gives this user no right to {verb} {what}")
    return found


VIEW: Final = (
    "is a view, of which no key is known: rows are found by all of their cells, and one that comes "
    "twice is refused, or is there twice. Let the task write to the table that it shows "
    "(mapper[i].schema and .table)"
)
PAIR: Final = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")


def _definition(connection: Connection, catalog: Catalog, name: TableId) -> str | None:
    """The SELECT of a view, empty where the user may not see it; None for a table."""
    if not catalog.view:
        return None
    found: str | None = connection.execute(text(catalog.view), name._asdict()).scalar()
    return found


def _below(
    connection: Connection, catalog: Catalog, name: TableId, definition: str
) -> list[TableId]:
    """The tables that a view selects from, directly or through other views. Can include pairs of
    names that are not a table's but a column's."""
    found = [name]
    for each in found:  # grows during the loop
        if each != name:
            definition = _definition(connection, catalog, each) or ""
        for schema, table in PAIR.findall(definition):
            # within backticks a backtick is doubled
            pair = TableId(schema.replace("``", "`"), table.replace("``", "`"))
            if pair not in found:
                found.append(pair)
    return found[1:]


def _any_case(
    connection: Connection, catalog: Catalog, dialect: str, name: TableId
) -> TargetTable | None:
    rows = connection.execute(text(catalog.names), name._asdict())
    found = list(map(TableId._make, rows))
    if not found:
        return None
    if len(found) > 1:
        raise ConfigError(
            f"target tables {', '.join(map(str, found))} all match {name}: name one exactly with "
            "mapper[i].schema and .table"
        )
    hold(connection, catalog, found[0])
    return _exact(connection, catalog, dialect, found[0])
