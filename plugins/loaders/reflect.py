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
    `unique_keys`: is primary, name of the key, column; one line per column of each unique key, in order; the column is NULL where the key
    is more than its columns. `engine`: the storage engine, where it has no transactions; empty: all have. `may_create`: whether the user
    may make tables in the default schema; empty: cannot be asked.
    """

    names: str
    columns: str
    unique_keys: str
    engine: str = ""
    may_create: str = ""


def reflect(connection: Connection, catalog: Catalog, dialect: str, name: TableId) -> TargetTable | None:
    """The table of that exact name, else the one that differs in case only, else None. Raises ConfigError when several do."""
    return _exact(connection, catalog, dialect, name) or _any_case(connection, catalog, dialect, name)


def _exact(connection: Connection, catalog: Catalog, dialect: str, name: TableId) -> TargetTable | None:
    parameters = name._asdict()
    columns = [
        TargetColumn(column, type_, length, bool(is_nullable), bool(is_generated), bool(is_required), scale, declared or "")
        for column, type_, length, is_nullable, is_generated, is_required, scale, declared in connection.execute(
            text(catalog.columns), parameters
        )
    ]
    if not columns:
        return None
    primary: list[str] = []
    unique: dict[str, list[str | None]] = {}
    for is_primary, key, column in connection.execute(text(catalog.unique_keys), parameters):
        (primary if is_primary else unique.setdefault(key, [])).append(column)
    by_name = {column.name: column for column in columns}
    others = [() if None in key else tuple(filter(None, key)) for key in unique.values()]
    key = tuple(primary) or next((key for key in others if key and not any(by_name[column].is_nullable for column in key)), ())
    engine = connection.execute(text(catalog.engine), parameters).scalar() if catalog.engine else None
    return TargetTable(name, by_name, key, tuple(other for other in others if other != key), dialect, without_transactions(name, engine))


def without_transactions(table: TableId, engine: str | None) -> str:
    """Why nothing is written to a table of such an engine: what is undone would stay, and come again. Empty where there is no engine."""
    if not engine:
        return ""
    return (
        f"target table {table} has the engine {engine}, which knows no transactions: rows could not be undone, nor written together with "
        f"their offset, so that they would be lost or come twice. Run there: ALTER TABLE {table} ENGINE=InnoDB"
    )


def _any_case(connection: Connection, catalog: Catalog, dialect: str, name: TableId) -> TargetTable | None:
    found = [TableId(*row) for row in connection.execute(text(catalog.names), name._asdict())]
    if len(found) > 1:
        raise ConfigError(f"target tables {', '.join(map(str, found))} all match {name}: name one exactly with mapper[i].schema and .table")
    return _exact(connection, catalog, dialect, found[0]) if found else None
