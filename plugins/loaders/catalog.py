"""Target tables as the database describes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId


@dataclass(frozen=True, slots=True)
class Catalog:
    """Catalog queries of one kind of database, with the parameters :schema and :table. SQLAlchemy's
    inspector is not used for this: it warns of and drops the types it does not know.

    `names`: schema and table of all that match in any case. `columns`: the fields of TargetColumn,
    in order; the last two may be left out. `unique_keys`: is primary, name of the key, column, may
    be deferred; one line per column of each unique key, in order; the column is NULL where the key
    is more than its columns. `unsafe`: why nothing may be written to the table, if so: what follows
    "target table T ". `remarks`: what follows the same, one line each. `rights`: a verb that the
    user has no right to, and the columns that it lacks it for, whether these are all. `view`: what
    a view selects, as text with all names in backticks. `may_create`: whether the user may make
    tables in the default schema; empty: cannot be asked.
    """

    names: str
    columns: str
    unique_keys: str
    unsafe: str = ""
    remarks: str = ""
    rights: str = ""
    view: str = ""
    may_create: str = ""


def reflect(
    connection: Connection, catalog: Catalog, dialect: str, name: TableId
) -> TargetTable | None:
    """The table of that exact name, else the one that differs in case only, else None. Raises
    ConfigError when several do."""
    return _exact(connection, catalog, dialect, name) or _any_case(
        connection, catalog, dialect, name
    )


def _exact(
    connection: Connection, catalog: Catalog, dialect: str, name: TableId
) -> TargetTable | None:
    parameters = name._asdict()
    columns = [_column(*row) for row in connection.execute(text(catalog.columns), parameters)]
    if not columns:
        return None
    keys: dict[str, _Key] = {}
    for is_primary, key, column, is_deferrable in connection.execute(
        text(catalog.unique_keys), parameters
    ):
        keys.setdefault(key, _Key(bool(is_primary), bool(is_deferrable), [])).columns.append(column)
    by_name = {column.name: column for column in columns}
    key = _chosen(list(keys.values()), by_name)
    others = tuple(each.names for each in keys.values() if key is None or each.names != key.names)
    unsafe = [
        f"target table {name} {said}" for said in _said(connection, catalog.unsafe, parameters)
    ]
    for base in _below(connection, catalog, name):
        said = _said(connection, catalog.unsafe, base._asdict())
        unsafe += [f"target table {name} is a view over {base}, which {each}" for each in said]
    remarks = (
        *_said(connection, catalog.remarks, parameters),
        *_lacking(connection, catalog, parameters),
    )
    names = key.names if key else ()
    return TargetTable(
        name,
        by_name,
        names,
        others,
        dialect,
        "; ".join(unsafe),
        key is not None and key.is_deferrable,
        remarks,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    """A unique key. A column is None where the key is more than its columns."""

    is_primary: bool
    is_deferrable: bool
    columns: list[str | None]

    @property
    def names(self) -> tuple[str, ...]:
        return () if None in self.columns else tuple(filter(None, self.columns))


def _chosen(keys: list[_Key], columns: dict[str, TargetColumn]) -> _Key | None:
    """The primary key, else the first one without nullable columns that is checked at once, else
    one that is checked later."""
    usable = [
        key
        for key in keys
        if key.is_primary
        or (key.names and not any(columns[name].is_nullable for name in key.names))
    ]
    return min(usable, key=lambda key: (not key.is_primary, key.is_deferrable), default=None)


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
    return TargetColumn(
        name, type_, length, *flags, scale, declared or "", bool(is_fixed), bool(is_folding)
    )


def _said(connection: Connection, query: str, parameters: dict[str, str]) -> list[str]:
    return [str(line) for (line,) in connection.execute(text(query), parameters)] if query else []


def _lacking(connection: Connection, catalog: Catalog, parameters: dict[str, str]) -> list[str]:
    """Sentences on rights that the user has not got."""
    found = connection.execute(text(catalog.rights), parameters).all() if catalog.rights else []
    return [
        f"gives this user no right to {verb} rows"
        if is_whole
        else f"gives this user no right to {verb} its columns {names}"
        for verb, names, is_whole in found
    ]


PAIR: Final = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")


def _below(connection: Connection, catalog: Catalog, name: TableId) -> list[TableId]:
    """What a view selects from, and what the views among these do. Pairs of names that are no
    table's are among them: a column's."""
    found, asked = [name], set[TableId]()
    while catalog.view and (each := next((each for each in found if each not in asked), None)):
        asked.add(each)
        definition = connection.execute(text(catalog.view), each._asdict()).scalar() or ""
        pairs = [
            TableId(*(part.replace("``", "`") for part in pair))
            for pair in PAIR.findall(definition)
        ]
        found += [pair for pair in dict.fromkeys(pairs) if pair not in found]
    return found[1:]


def _any_case(
    connection: Connection, catalog: Catalog, dialect: str, name: TableId
) -> TargetTable | None:
    found = [TableId(*row) for row in connection.execute(text(catalog.names), name._asdict())]
    if len(found) > 1:
        raise ConfigError(
            f"target tables {', '.join(map(str, found))} all match {name}: name one exactly with "
            "mapper[i].schema and .table"
        )
    return _exact(connection, catalog, dialect, found[0]) if found else None
