"""Target tables as the database describes them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId


@dataclass(frozen=True, slots=True)
class Catalog:
    """Catalog queries of one kind of database, with the parameters :schema and :table. SQLAlchemy's inspector is not used for this: it
    warns of and drops the types it does not know.

    `names`: schema and table of all that match in any case. `columns`: the fields of TargetColumn, in order.
    `unique_keys`: is primary, column; one line per column of each unique key, in order.
    """

    names: str
    columns: str
    unique_keys: str


def reflect(connection: Connection, catalog: Catalog, dialect: str, name: TableId) -> TargetTable | None:
    """The table of that exact name, else the one that differs in case only, else None. Raises ConfigError when several do."""
    return _exact(connection, catalog, dialect, name) or _any_case(connection, catalog, dialect, name)


def _exact(connection: Connection, catalog: Catalog, dialect: str, name: TableId) -> TargetTable | None:
    parameters = name._asdict()
    rows = connection.execute(text(catalog.columns), parameters)
    columns = [TargetColumn(column, type_, length, *map(bool, facts)) for column, type_, length, *facts in rows]
    if not columns:
        return None
    unique = connection.execute(text(catalog.unique_keys), parameters).all()
    return TargetTable(
        id=name,
        columns={column.name: column for column in columns},
        key=tuple(column for is_primary, column in unique if is_primary),
        has_other_unique_keys=any(not is_primary for is_primary, _ in unique),
        dialect=dialect,
    )


def _any_case(connection: Connection, catalog: Catalog, dialect: str, name: TableId) -> TargetTable | None:
    found = [TableId(*row) for row in connection.execute(text(catalog.names), name._asdict())]
    if len(found) > 1:
        raise ConfigError(f"target tables {', '.join(map(str, found))} all match {name}: name one exactly with mapper[i].schema and .table")
    return _exact(connection, catalog, dialect, found[0]) if found else None
