"""SQL for MySQL and MariaDB, with the cells as literals. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.dialect import QUOTING, assigned
from cdcbus.plugins.loaders.dialects.mysql.cells import SPATIAL_TYPES, TEXT_TYPES
from cdcbus.plugins.rowchange import TableId

QUOTED: Final = QUOTING["mysql"]
STAGE: Final = "cdcbus_stage"
STAGE_KEY: Final = "cdcbus_stage_row"
LENIENT: Final = "NO_BACKSLASH_ESCAPES"
"""The SQL mode in which an invalid value may be written."""
QUOTED_TEXT: Final = re.compile(r"('(?:[^']|'')*')")
NOW: Final = re.compile(r"\bcurrent_timestamp(\([0-9]?\))?", re.IGNORECASE)
ESCAPES: Final = {"n": "\n", "r": "\r", "0": "\0"}


def stage_of(table: TargetTable) -> TableId:
    """The temporary table, which hides a table of its name: so it has another one than `table`."""
    name = STAGE
    if table.id.table.lower() == STAGE:
        name += "_2"
    return TableId(table.id.schema, name)


def drop_stage_sql(table: TargetTable) -> str:
    return f"DROP TEMPORARY TABLE IF EXISTS {QUOTED.table(stage_of(table))}"


def create_stage_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """With a key of its own, as servers may require one in each table (sql_require_primary_key),
    and of an engine that holds every type and rolls back (default_tmp_storage_engine)."""
    source = f"SELECT {QUOTED.names(columns)} FROM {QUOTED.table(table.id)} WHERE FALSE"
    key = f"{QUOTED.name(STAGE_KEY)} BIGINT AUTO_INCREMENT PRIMARY KEY"
    return (
        f"CREATE TEMPORARY TABLE {QUOTED.table(stage_of(table))} ({key}) ENGINE=InnoDB AS {source}"
    )


def insert_sql(table: TableId, columns: Sequence[str], rows: Iterable[str]) -> str:
    return f"INSERT INTO {QUOTED.table(table)} ({QUOTED.names(columns)}) VALUES {', '.join(rows)}"


def upsert_sql(table: TargetTable, columns: Sequence[str], rows: Iterable[str]) -> str:
    """Updates rows with the same key only. The server would update any row that collides on a
    unique key, and the table may have gained one since it was read: so the first key column is set
    to itself by an expression that overflows in a row with another key. That is an error in every
    SQL mode, whereas NULL would be none in an AUTO_INCREMENT column."""
    first = QUOTED.name(table.key[0])
    same = " AND ".join(map(_is_value, table.key))
    changes = [f"{first} = IF(IF({same}, 1, ~0 + 1), {first}, {first})"]
    for name in columns:
        if name not in table.key:
            changes.append(_is_value(name))
    return f"{insert_sql(table.id, columns, rows)} ON DUPLICATE KEY UPDATE {', '.join(changes)}"


def _is_value(name: str) -> str:
    """The column set to, or compared with, the statement's value."""
    return f"{QUOTED.name(name)} = VALUES({QUOTED.name(name)})"


def update_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """STRAIGHT_JOIN: the staged rows drive the join, the target's are found by primary key."""
    changes = QUOTED.equal(assigned(table, columns), "t.", "s.", ", ")
    return (
        f"UPDATE {QUOTED.table(stage_of(table))} AS s STRAIGHT_JOIN {QUOTED.table(table.id)} "
        f"AS t ON {_same_key(table)} SET {changes}"
    )


def update_row_sql(table: TargetTable, columns: Sequence[str], row: Sequence[str]) -> str:
    """`row`: a literal per column."""
    cells = dict(zip(columns, row, strict=True))
    changes = _set_to(assigned(table, columns), cells)
    return f"UPDATE {QUOTED.table(table.id)} SET {changes} WHERE {_has(table, cells)}"


def _set_to(columns: Sequence[str], cells: Mapping[str, str]) -> str:
    """The assignments of an UPDATE. `cells`: a literal for each column."""
    changes = []
    for name in columns:
        changes.append(f"{QUOTED.name(name)} = {cells[name]}")
    return ", ".join(changes)


def _has(table: TargetTable, cells: Mapping[str, str]) -> str:
    parts = []
    for name in table.key:
        parts.append(f"{QUOTED.name(name)} = {compared(table.columns[name], cells[name])}")
    return " AND ".join(parts)


def compared(column: TargetColumn, literal: str) -> str:
    """The expression that a column is compared with. No short decimal number equals a FLOAT, so it
    is cast."""
    if column.type != "float" or literal in ("NULL", "?"):
        return literal
    return f"CAST({literal} AS FLOAT)"


def swap_sql(
    table: TargetTable, columns: Sequence[str], old: Sequence[str], new: Sequence[str] | None = None
) -> str:
    """`old` and `new`: a literal per column."""
    parts = []
    for name, literal in zip(columns, old, strict=True):
        parts.append(_equals(table.columns[name], literal))
    same = " AND ".join(parts)
    if new is None:
        return f"DELETE FROM {QUOTED.table(table.id)} WHERE {same} LIMIT 1"
    changes = _set_to(columns, dict(zip(columns, new, strict=True)))
    return f"UPDATE {QUOTED.table(table.id)} SET {changes} WHERE {same} LIMIT 1"


def _equals(column: TargetColumn, literal: str) -> str:
    """Equality to the last byte: collations treat `a` and `A` as equal, and no short decimal number
    equals a FLOAT."""
    name = QUOTED.name(column.name)
    if literal == "NULL":
        return f"{name} IS NULL"
    if column.type in TEXT_TYPES:
        return (
            f"{name} = {literal} AND CAST(CONVERT({name} USING utf8mb4) AS BINARY) = "
            f"CAST({literal} AS BINARY)"
        )
    if column.type in SPATIAL_TYPES:
        return f"CAST({name} AS BINARY) = {literal}"
    if column.type in ("float", "json"):
        return f"{name} = CAST({literal} AS {column.type})"
    return f"{name} = {literal}"


def widen_sql(table: TargetTable, column: str, type_: str, old_type: str, printed: str) -> str:
    """`printed`: the output of SHOW CREATE TABLE, in which `old_type` follows the column's name.
    The default CURRENT_TIMESTAMP gets as many digits as the column, else the server refuses it as a
    default."""
    begin = f"  {QUOTED.name(column)} {old_type}"
    [line] = [line for line in printed.split("\n") if line.startswith(begin)]
    rest = line.removeprefix(begin).removesuffix(",")
    moment = re.fullmatch(r"(?:datetime|timestamp)(?P<digits>\([0-9]\)|)", type_)
    definition = type_
    for part in QUOTED_TEXT.split(rest):
        if part.startswith("'"):
            definition += _unescaped(part)
        elif moment:
            definition += NOW.sub(f"CURRENT_TIMESTAMP{moment['digits']}", part)
        else:
            definition += part
    name = QUOTED.name(column)
    return f"ALTER TABLE {QUOTED.table(table.id)} MODIFY COLUMN {name} {definition}"


def _unescaped(text: str) -> str:
    """A text without backslash escapes, which the session does not have; SHOW CREATE TABLE prints
    them nevertheless."""
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text)


def insert_missing_sql(table: TargetTable, columns: Sequence[str]) -> str:
    target = QUOTED.table(table.id)
    stage = QUOTED.table(stage_of(table))
    return (
        f"INSERT INTO {target} ({QUOTED.names(columns)}) SELECT {QUOTED.names(columns, 's.')} "
        f"FROM {stage} AS s LEFT JOIN {target} AS t ON {_same_key(table)} "
        f"WHERE t.{QUOTED.name(table.key[0])} IS NULL"
    )


def locked_sql(table: TargetTable, columns: Sequence[str], number: int, key: Sequence[str]) -> str:
    """`key`: a literal per column."""
    has_key = _has(table, dict(zip(table.key, key, strict=True)))
    return (
        f"SELECT {number}, {QUOTED.names((*table.key, *columns))} FROM "
        f"{QUOTED.table(table.id)} WHERE {has_key} FOR UPDATE"
    )


def delete_sql(table: TargetTable, keys: Sequence[str]) -> str:
    """`keys`: made by `key_sql`."""
    return f"DELETE FROM {QUOTED.table(table.id)} WHERE {_is_one_of(table, keys)}"


def spelled_sql(table: TargetTable, keys: Sequence[str]) -> str:
    """Selects those of the keys that the table has, as text. `keys`: made by `key_sql`."""
    names = ", ".join(map(_as_text, table.key))
    return f"SELECT {names} FROM {QUOTED.table(table.id)} WHERE {_is_one_of(table, keys)}"


def _as_text(name: str) -> str:
    return f"CAST({QUOTED.name(name)} AS CHAR)"


def weights_sql(table: TargetTable, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Selects the weights by which collations compare each row's texts. `rows`: a literal per
    column. The part that returns no rows supplies the columns' collations."""
    weights = ", ".join(map(_weight, columns))
    parts = [f"SELECT {QUOTED.names(columns)} FROM {QUOTED.table(table.id)} WHERE FALSE"]
    for row in rows:
        parts.append(f"SELECT {','.join(row)}")
    return f"SELECT {weights} FROM ({' UNION ALL '.join(parts)}) AS k"


def _weight(name: str) -> str:
    return f"HEX(WEIGHT_STRING({QUOTED.name(name)}))"


def mark_sql(table: TargetTable, column: str, keys: Sequence[str]) -> str:
    """`keys`: made by `key_sql`. Turns off strict mode for this statement only, in the syntax of
    MariaDB and in that of MySQL 8.0 and later."""
    changes = [f"{QUOTED.name(column)} = 0"]
    for name, other in table.columns.items():
        # set to itself, as ON UPDATE CURRENT_TIMESTAMP would change it
        if other.type in ("datetime", "timestamp") and not other.is_generated:
            changes.append(f"{QUOTED.name(name)} = {QUOTED.name(name)}")
    return (
        f"/*M! SET STATEMENT sql_mode = '{LENIENT}' FOR */ UPDATE /*+ SET_VAR(sql_mode = "
        f"'{LENIENT}') */ {QUOTED.table(table.id)} "
        f"SET {', '.join(changes)} WHERE {_is_one_of(table, keys)}"
    )


def key_sql(table: TargetTable, key: Sequence[str]) -> str:
    """One key of a statement. `key`: a literal per column.

    In keys of several columns each column is compared on its own. With `(a, b) IN (('x', 'y'),
    ...)` MariaDB misses rows if a column's character set differs from the literals', and scans the
    whole table for one pair.
    """
    if len(table.key) > 1:
        return f"({_has(table, dict(zip(table.key, key, strict=True)))})"
    return compared(table.columns[table.key[0]], key[0])


def _is_one_of(table: TargetTable, keys: Sequence[str]) -> str:
    if len(table.key) > 1:
        return " OR ".join(keys)
    return f"{QUOTED.name(table.key[0])} IN ({', '.join(keys)})"


def _same_key(table: TargetTable) -> str:
    return QUOTED.equal(table.key, "t.", "s.")
