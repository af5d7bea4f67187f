"""SQL for PostgreSQL: the cells of each column as one array. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from sqlalchemy.dialects.postgresql.base import PGDialect

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.dialect import QUOTING, Quoting, assigned
from cdcbus.plugins.loaders.dialects.postgresql.cells import COMPARED_AS_TEXT
from cdcbus.plugins.loaders.schema_evolution import labels_of

STAGE: Final = "pg_temp.cdcbus_stage"
QUOTED: Final = Quoting(PGDialect, paramstyle="pyformat")
COPIED: Final = QUOTING["postgresql"]
"""For statements without parameters, in which percent signs are not doubled."""


def truncate_sql(table: TargetTable) -> str:
    return f"TRUNCATE TABLE {QUOTED.table(table.id)}"


def delete_sql(table: TargetTable) -> str:
    """Deletes by key. Keys of one column are looked up in order, which takes half the time or less
    if they are close together."""
    if len(table.key) == 1 and not _is_array(table, table.key[0]):
        key = table.key[0]
        cells = f"%s::{sent_type(table.columns[key])}[]"
        if is_by_locale(table.columns[key]):
            cells += f"::{table.columns[key].type}[]"
        return f"DELETE FROM {QUOTED.table(table.id)} WHERE {QUOTED.name(key)} = ANY ({cells})"
    return (
        f"DELETE FROM {QUOTED.table(table.id)} AS t USING {rows_of(table, table.key)} WHERE "
        f"{_same_key(table)}"
    )


def upsert_sql(table: TargetTable, columns: Sequence[str]) -> str:
    return f"{insert_sql(table, columns)} {_on_conflict(table, columns, QUOTED)}"


def _on_conflict(table: TargetTable, columns: Sequence[str], quoted: Quoting) -> str:
    written = [name for name in assigned(table, columns) if name not in table.key]
    then = "NOTHING"
    if written:
        then = f"UPDATE SET {quoted.equal(written, '', 'EXCLUDED.', ', ')}"
    return f"ON CONFLICT ({quoted.names(table.key)}) DO {then}"


def insert_missing_sql(table: TargetTable, columns: Sequence[str]) -> str:
    return (
        f"{insert_sql(table, columns)} WHERE NOT EXISTS (SELECT FROM {QUOTED.table(table.id)} "
        f"AS t WHERE {_same_key(table)})"
    )


def insert_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """Overrides system values, so that an identity column gets the source's number."""
    return (
        f"INSERT INTO {QUOTED.table(table.id)} ({QUOTED.names(columns)}) OVERRIDING SYSTEM VALUE "
        f"SELECT {cells_of(table, columns)} FROM {rows_of(table, columns)}"
    )


def locked_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """Selects and locks rows by key. The last parameter is the array of row numbers."""
    types = [*_parameter_types(table, table.key), "int"]
    rows = f"{_unnested(types)} AS s({QUOTED.names(table.key)}, cdcbus_n)"
    found = QUOTED.names((*table.key, *columns), "t.")
    return (
        f"SELECT s.cdcbus_n, {found} FROM {QUOTED.table(table.id)} AS t JOIN {rows} ON "
        f"{_same_key(table)} FOR UPDATE OF t"
    )


def copy_sql(table: str, columns: Sequence[str], form: str) -> str:
    """`form`: see `copied_rows`."""
    return f"COPY {table} ({COPIED.names(columns)}) FROM STDIN ({form})"


def merge_sqls(table: TargetTable, columns: Sequence[str], form: str) -> list[str]:
    """Merges through a temporary table, created each time so that it always fits."""
    types = []
    for name in columns:
        types.append(f"{COPIED.name(name)} {sent_type(table.columns[name])}")
    names = COPIED.names(columns)
    insert = (
        f"INSERT INTO {COPIED.table(table.id)} ({names}) OVERRIDING SYSTEM VALUE SELECT "
        f"{names} FROM {STAGE}"
    )
    return [
        f"CREATE TEMPORARY TABLE {STAGE} ({', '.join(types)})",
        copy_sql(STAGE, columns, form),
        f"{insert} {_on_conflict(table, columns, COPIED)}",
        f"DROP TABLE {STAGE}",
    ]


def update_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """Updates by key; only counts the rows if there is nothing that an UPDATE may set."""
    changes = []
    for name in assigned(table, columns):
        changes.append(f"{QUOTED.name(name)} = {_cell(table, name)}")
    if not changes:
        return (
            f"SELECT count(*) FROM {QUOTED.table(table.id)} AS t JOIN {rows_of(table, columns)} "
            f"ON {_same_key(table)}"
        )
    return (
        f"UPDATE {QUOTED.table(table.id)} AS t SET {', '.join(changes)} "
        f"FROM {rows_of(table, columns)} WHERE {_same_key(table)}"
    )


def swap_sql(
    table: TargetTable, columns: Sequence[str], nulls: Collection[str], *, is_update: bool
) -> str:
    """Changes one row, found by its ctid, as DELETE and UPDATE have no LIMIT; in a partitioned
    table a ctid can occur in each partition. The row is locked first, so that two partitions of a
    topic take two rows. `nulls`: the columns in which the old row holds NULL."""
    same = []
    for name in columns:
        if name in nulls:
            same.append(f"{QUOTED.name(name)} IS NULL")
        else:
            same.append(_equals(table, name))
    one = (
        f"(SELECT tableoid AS part, ctid AS place FROM {QUOTED.table(table.id)} "
        f"WHERE {' AND '.join(same)} LIMIT 1 FOR UPDATE) AS one"
    )
    here = "WHERE t.tableoid = one.part AND t.ctid = one.place"
    if not is_update:
        return f"DELETE FROM {QUOTED.table(table.id)} AS t USING {one} {here}"
    changes = []
    for name in settable(table, columns):
        changes.append(f"{QUOTED.name(name)} = {_cast('%s', table.columns[name])}")
    return f"UPDATE {QUOTED.table(table.id)} AS t SET {', '.join(changes)} FROM {one} {here}"


def settable(table: TargetTable, columns: Sequence[str]) -> list[str]:
    """The columns that an UPDATE can set in a table without a key."""
    return [name for name in columns if not table.columns[name].is_fixed]


def compared_cells(column: TargetColumn, cell: str) -> list[str]:
    """The parameters by which `swap_sql` compares a column with a cell."""
    if column.is_folding and not _is_compared_as_text(column):
        return [cell, cell]
    return [cell]


def _is_compared_as_text(column: TargetColumn) -> bool:
    # A type outside the search path has its schema before it.
    return column.type.rpartition(".")[2] in COMPARED_AS_TEXT


def _equals(table: TargetTable, name: str) -> str:
    """A collation of the column's own may treat other texts as equal, so the bytes are compared,
    too; not only these, as an index is of the column's collation."""
    column = table.columns[name]
    quoted = QUOTED.name(name)
    if _is_compared_as_text(column):
        exact = ' COLLATE "C"' if column.is_folding else ""
        return f"{quoted}::text{exact} = %s"
    same = f"{quoted} = {_cast('%s', column)}"
    if column.is_folding:
        same += f' AND {quoted} COLLATE "C" = %s::{column.type}'
    return same


def widen_sqls(
    table: TargetTable, column: str, type_: str, default: str | None = None
) -> list[str]:
    """An enum type gets new labels after the others. New bits are put before the existing ones,
    where PostgreSQL would append them; `default` is the column's, which PostgreSQL would not
    lengthen."""
    if labels := labels_of(type_):
        return _add_label_sqls(table.columns[column], labels)
    name = COPIED.name(column)
    change = f"ALTER COLUMN {name} TYPE {type_}"
    if bits := re.fullmatch(r"bit\(([0-9]+)\)", type_):
        change += f" USING {_lengthened(name, bits[1])}"
        if default is not None:
            change = (
                f"ALTER COLUMN {name} DROP DEFAULT, {change}, ALTER COLUMN {name} SET "
                f"DEFAULT {_lengthened(default, bits[1])}"
            )
    return [f"ALTER TABLE {COPIED.table(table.id)} {change}"]


def _add_label_sqls(column: TargetColumn, labels: Sequence[str]) -> list[str]:
    own = labels_of(column.declared)
    added = []
    for label in labels:
        if label not in own:
            added.append(f"ALTER TYPE {column.type} ADD VALUE IF NOT EXISTS {_literal(label)}")
    return added


def _lengthened(bits: str, length: str) -> str:
    return f"lpad(({bits})::text, {length}, '0')::bit({length})"


def _literal(cell: str) -> str:
    """A text literal. Backslashes are literal, which is the server's default."""
    return "'" + cell.replace("'", "''") + "'"


def spelled_sql(table: TargetTable) -> str:
    """Selects those of the keys that the table has, as text."""
    texts = []
    for name in table.key:
        texts.append(f"t.{QUOTED.name(name)}::text")
    return (
        f"SELECT {', '.join(texts)} FROM {QUOTED.table(table.id)} AS t "
        f"JOIN {rows_of(table, table.key)} ON {_same_key(table)}"
    )


def distinct_sql(table: TargetTable) -> str:
    """Counts the keys that are distinct at the target. The part that returns no rows supplies the
    columns' collations."""
    own = f"SELECT {QUOTED.names(table.key)} FROM {QUOTED.table(table.id)} WHERE false"
    keys = f"SELECT {cells_of(table, table.key)} FROM {rows_of(table, table.key)}"
    return f"SELECT count(*) FROM ({own} UNION {keys}) AS k"


def rows_of(table: TargetTable, columns: Sequence[str]) -> str:
    """The parameters as rows of `s`."""
    return f"{_unnested(_parameter_types(table, columns))} AS s({QUOTED.names(columns)})"


def _unnested(types: Sequence[str]) -> str:
    parameters = []
    for type_ in types:
        parameters.append(f"%s::{type_}[]")
    return f"unnest({', '.join(parameters)})"


def _parameter_types(table: TargetTable, columns: Sequence[str]) -> list[str]:
    """The parameters' types. An array cannot hold arrays of different lengths, so cells of array
    columns are sent as text."""
    types = []
    for name in columns:
        if _is_array(table, name):
            types.append("text")
        else:
            types.append(sent_type(table.columns[name]))
    return types


def cells_of(table: TargetTable, columns: Sequence[str]) -> str:
    return ", ".join(map(partial(_cell, table), columns))


def _cell(table: TargetTable, name: str) -> str:
    cell = f"s.{QUOTED.name(name)}"
    column = table.columns[name]
    if _is_array(table, name):
        return _cast(cell, column)
    if is_by_locale(column):
        cell += f"::{column.type}"
    return cell


def is_by_locale(column: TargetColumn) -> bool:
    """Whether the server reads a text of the column by its locale, as money: in some 12.50 is
    1,250. So such cells are sent as numbers. The locale is not set instead, as it also says how
    many digits of a stored number are cents, for all who read it."""
    return column.type in ("money", "money[]")


def sent_type(column: TargetColumn) -> str:
    """The type that the column's cells are sent as."""
    return column.type.replace("money", "numeric") if is_by_locale(column) else column.type


def _cast(cell: str, column: TargetColumn) -> str:
    if is_by_locale(column):
        cell += f"::{sent_type(column)}"
    return f"{cell}::{column.type}"


def _is_array(table: TargetTable, name: str) -> bool:
    return table.columns[name].type.endswith("[]")


def _same_key(table: TargetTable) -> str:
    parts = []
    for name in table.key:
        parts.append(f"t.{QUOTED.name(name)} = {_cell(table, name)}")
    return " AND ".join(parts)
