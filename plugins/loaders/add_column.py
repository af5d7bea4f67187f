"""Maps a source column's type to a target's, and generates the ALTER TABLE statement that adds the
column. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.dialect import QUOTING
from cdcbus.plugins.rowchange import Column

# MySQL type name -> the target's; {} takes the length or precision as the source spells it,
# "(10,2)" or nothing.
POSTGRESQL: Final = {
    "tinyint": "smallint",
    "tinyint unsigned": "smallint",
    "smallint": "smallint",
    "smallint unsigned": "integer",
    "mediumint": "integer",
    "mediumint unsigned": "integer",
    "int": "integer",
    "int unsigned": "bigint",
    "bigint": "bigint",
    # no integer type is larger than bigint
    "bigint unsigned": "numeric(20)",
    "decimal": "numeric{}",
    "float": "real",
    "double": "double precision",
    "bit": "bit{}",
    "year": "smallint",
    "date": "date",
    "time": "interval",
    "datetime": "timestamp{}",
    "timestamp": "timestamptz{}",
    "char": "char{}",
    "varchar": "varchar{}",
    "json": "jsonb",
    "binary": "bytea",
    "varbinary": "bytea",
    "tinyblob": "bytea",
    "blob": "bytea",
    "mediumblob": "bytea",
    "longblob": "bytea",
    "geometry": "bytea",
    "vector": "bytea",
}
ORACLE: Final = {
    "tinyint": "NUMBER(3)",
    "smallint": "NUMBER(5)",
    "mediumint": "NUMBER(8)",
    "int": "NUMBER(10)",
    "bigint": "NUMBER(20)",
    "decimal": "NUMBER{}",
    "float": "BINARY_FLOAT",
    "double": "BINARY_DOUBLE",
    "bit": "NUMBER(20)",
    "year": "NUMBER(4)",
    "date": "DATE",
    "datetime": "TIMESTAMP{}",
    "timestamp": "TIMESTAMP{}",
    "time": "VARCHAR2(17)",
    "char": "CHAR({} CHAR)",
    "varchar": "VARCHAR2({} CHAR)",
    "enum": "VARCHAR2(255 CHAR)",
    "set": "VARCHAR2(4000 CHAR)",
    "uuid": "VARCHAR2(36)",
    "inet6": "VARCHAR2(39)",
    "inet4": "VARCHAR2(15)",
    "binary": "RAW{}",
    "varbinary": "RAW{}",
    "tinyblob": "BLOB",
    "blob": "BLOB",
    "mediumblob": "BLOB",
    "longblob": "BLOB",
    "geometry": "BLOB",
    "vector": "BLOB",
}
ORACLE_LONGEST: Final = {
    "varchar": (4000, "CLOB"),
    "varbinary": (2000, "BLOB"),
    "decimal": (38, "NUMBER"),
}
"""The maximum length of a type, and the type for longer ones. Counted in characters, as the maximum
in bytes would hold fewer."""
EMPTY: Final = ("char", "varchar", "binary", "varbinary")
"""Types that can have length 0 in MySQL only."""
TYPE: Final = re.compile(r"(\w+)\s*(\([^)]*\))?(.*)", re.DOTALL)
NAME_BYTES: Final = {"postgresql": 63, "oracle": 128, "mysql": 256}
"""The limits of names, in bytes; MySQL's 64 characters of at most four bytes."""


def too_long(names: Iterable[str], dialect: str) -> list[str]:
    """The names that the target cannot have. PostgreSQL would cut them, and not be asked for what
    is left."""
    limit = NAME_BYTES.get(dialect)
    if limit is None:
        return []
    return [name for name in names if len(name.encode()) > limit]


def add_column(table: TargetTable, column: Column) -> str:
    """`add_columns` for a single column."""
    return add_columns(table, [column])


def add_columns(table: TargetTable, columns: Sequence[Column]) -> str:
    """ALTER TABLE for the target's dialect; the columns are nullable, as older rows have no value.
    A column of unknown type becomes long text."""
    # A loader from another package may name any dialect: standard SQL quotes like PostgreSQL.
    quoting = QUOTING.get(table.dialect, QUOTING["postgresql"])
    added = []
    for column in columns:
        type_ = column_type(column.mysql_type, table.dialect)
        if table.dialect == "mysql" and type_.lower().startswith("timestamp"):
            # Where explicit_defaults_for_timestamp is off, it would take none.
            type_ += " NULL"
        added.append(f"{quoting.name(column.name)} {type_}")
    if table.dialect != "oracle":
        adds = "ADD COLUMN " + ", ADD COLUMN ".join(added)
    elif len(added) == 1:
        adds = f"ADD {added[0]}"
    else:
        adds = f"ADD ({', '.join(added)})"
    return f"ALTER TABLE {quoting.table(table.id)} {adds}"


def column_type(mysql_type: str, dialect: str) -> str:
    """The target's type for a type as MySQL spells it; long text for an unknown one."""
    if dialect == "mysql":
        # all of it, with UNSIGNED and the labels of an ENUM
        return mysql_type or "longtext"
    match = TYPE.match(mysql_type.lower())
    if match is None:
        return "CLOB" if dialect == "oracle" else "text"
    name = match[1]
    length = match[2] or ""
    if name in ("datetime", "timestamp", "time") and not length:
        length = "(0)"  # without a number, targets default to six digits
    elif length == "(0)" and name in EMPTY:
        length = "(1)"
    if dialect == "oracle":
        return _oracle_type(name, length)
    type_ = POSTGRESQL.get(name, "text")
    # PostgreSQL has no unsigned types: the next larger one holds the same numbers
    if "unsigned" in match[3]:
        type_ = POSTGRESQL.get(f"{name} unsigned", type_)
    return type_.format(length)


def _oracle_type(name: str, length: str) -> str:
    size = 0
    if found := re.search("[0-9]+", length):
        size = int(found[0])
    longest, beyond = ORACLE_LONGEST.get(name, (size, ""))
    if size > longest:
        return beyond
    if name in ("char", "varchar"):
        length = str(size)
    return ORACLE.get(name, "CLOB").format(length)
