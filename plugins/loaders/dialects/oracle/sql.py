"""SQL for Oracle, with numbered binds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.dialect import QUOTING, assigned
from cdcbus.plugins.loaders.dialects.oracle.cells import LONG_TYPES

QUOTED: Final = QUOTING["oracle"]


def delete_sql(table: TargetTable) -> str:
    return f"DELETE FROM {QUOTED.table(table.id)} WHERE {has(table.key)}"


def merge_sql(table: TargetTable, columns: Sequence[str]) -> str:
    cells = []
    for place, name in enumerate(columns, 1):
        cells.append(f":{place} AS {QUOTED.name(name)}")
    same = QUOTED.equal(table.key, "t.", "s.")
    others = [name for name in columns if name not in table.key]
    changes = QUOTED.equal(others, "t.", "s.", ", ")
    update = ""
    if changes:
        update = f" WHEN MATCHED THEN UPDATE SET {changes}"
    return (
        f"MERGE INTO {QUOTED.table(table.id)} t USING (SELECT {', '.join(cells)} FROM dual) s "
        f"ON ({same}){update} WHEN NOT MATCHED THEN INSERT ({QUOTED.names(columns)}) VALUES "
        f"({QUOTED.names(columns, 's.')})"
    )


def update_sql(table: TargetTable, columns: Sequence[str]) -> str:
    names = assigned(table, columns)
    where = has(table.key, len(names))
    return f"UPDATE {QUOTED.table(table.id)} SET {_bound(names)} WHERE {where}"


def insert_sql(table: TargetTable, columns: Sequence[str]) -> str:
    cells = ", ".join(map(":{}".format, range(1, len(columns) + 1)))
    return f"INSERT INTO {QUOTED.table(table.id)} ({QUOTED.names(columns)}) VALUES ({cells})"


def swap_sql(
    table: TargetTable, columns: Sequence[str], nulls: Collection[str], *, is_update: bool
) -> str:
    """`nulls`: the columns in which the old row holds NULL."""
    place = 0
    if is_update:
        place = len(columns)  # the new row's cells come first
    same = []
    for name in columns:
        if name in nulls:
            same.append(f"{QUOTED.name(name)} IS NULL")
        else:
            place += 1
            same.append(_equals(table.columns[name], place))
    where = f"WHERE {' AND '.join(same)} AND ROWNUM = 1"
    if not is_update:
        return f"DELETE FROM {QUOTED.table(table.id)} {where}"
    return f"UPDATE {QUOTED.table(table.id)} SET {_bound(columns)} {where}"


def _equals(column: TargetColumn, place: int) -> str:
    """Equality to the last byte, also of a text whose column has another collation."""
    name = QUOTED.name(column.name)
    if column.type in LONG_TYPES:  # LOBs have no =
        return f"DBMS_LOB.COMPARE({name}, :{place}) = 0"
    if column.is_folding:
        name += " COLLATE BINARY"
    return f"{name} = :{place}"


def widen_sql(table: TargetTable, column: str, type_: str) -> str:
    return f"ALTER TABLE {QUOTED.table(table.id)} MODIFY ({QUOTED.name(column)} {type_})"


def locked_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """Selects and locks a row by its key."""
    names = QUOTED.names((*table.key, *columns))
    return f"SELECT {names} FROM {QUOTED.table(table.id)} WHERE {has(table.key)} FOR UPDATE"


def spelled_sql(table: TargetTable) -> str:
    """Selects a key as the table has it."""
    names = QUOTED.names(table.key)
    return f"SELECT {names} FROM {QUOTED.table(table.id)} WHERE {has(table.key)}"


def has(names: Sequence[str], before: int = 0) -> str:
    """The condition for a key. `before`: the number of binds before these."""
    return _bound(names, before, " AND ")


def _bound(names: Sequence[str], before: int = 0, separator: str = ", ") -> str:
    """`"A" = :1, "B" = :2`."""
    parts = []
    for place, name in enumerate(names, before + 1):
        parts.append(f"{QUOTED.name(name)} = :{place}")
    return separator.join(parts)
