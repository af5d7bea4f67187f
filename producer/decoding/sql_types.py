"""A binlog column's type as CREATE TABLE spells it, and its java.sql.Types number as in canal."""

from __future__ import annotations

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.mysql.sql_types import sql_type_number
from cdcbus.producer.decoding.charsets import BYTES_PER_CHARACTER
from cdcbus.producer.decoding.column_types import (
    BLOB_COMPRESSED,
    OWN_TYPES,
    VARCHAR_COMPRESSED,
    VECTOR,
    BinlogColumn,
)

_INTEGERS = {
    TYPE.TINY: "tinyint",
    TYPE.SHORT: "smallint",
    TYPE.INT24: "mediumint",
    TYPE.LONG: "int",
    TYPE.LONGLONG: "bigint",
}
_NUMBERS = {*_INTEGERS, TYPE.FLOAT, TYPE.DOUBLE, TYPE.NEWDECIMAL}
_TEMPORAL = {
    TYPE.TIME: "time",
    TYPE.TIME2: "time",
    TYPE.DATETIME: "datetime",
    TYPE.DATETIME2: "datetime",
    TYPE.TIMESTAMP: "timestamp",
    TYPE.TIMESTAMP2: "timestamp",
    TYPE.DATE: "date",
    TYPE.NEWDATE: "date",
    TYPE.YEAR: "year",
}
BLOB_PREFIX = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_WITHOUT_SIZE = {TYPE.JSON: "json", TYPE.GEOMETRY: "geometry", VECTOR: "vector"}


def type_names(column: BinlogColumn) -> tuple[str, int]:
    """Returns (mysql type text, java.sql.Types number)."""
    name, size = _name_and_size(column)
    is_unsigned = column.unsigned and column.type in _NUMBERS
    suffix = " unsigned" if is_unsigned else ""
    number = sql_type_number(name, is_unsigned=is_unsigned)
    if column.type in _INTEGERS:
        # Such as MariaDB's own name for it.
        name = column.data_type or name
    return name + size + suffix, number


def _name_and_size(column: BinlogColumn) -> tuple[str, str]:
    """The type's name, and what stands in brackets behind it."""
    kind, (first, second) = column.type, column.meta
    if kind in _INTEGERS:
        return _INTEGERS[kind], ""
    if kind in _TEMPORAL:
        return _TEMPORAL[kind], f"({first})" if first else ""
    if kind == TYPE.FLOAT:
        return "float", ""
    if kind == TYPE.DOUBLE:
        return "double", ""
    if kind == TYPE.NEWDECIMAL:
        return "decimal", f"({first},{second})"
    if column.data_type in OWN_TYPES:
        return column.data_type, ""
    if kind in (TYPE.ENUM, TYPE.SET):
        labels = ",".join("'" + label.replace("'", "''") + "'" for label in column.labels)
        return "enum" if kind == TYPE.ENUM else "set", f"({labels})"
    if kind == TYPE.BIT:
        return "bit", f"({first})"
    return _text_or_bytes(column, kind, first) or (_WITHOUT_SIZE[kind], "")


def _text_or_bytes(column: BinlogColumn, kind: int, first: int) -> tuple[str, str] | None:
    is_binary = column.charset == "binary"
    if kind == VARCHAR_COMPRESSED:
        # shown as uncompressed: its length includes the method byte
        kind = TYPE.VARCHAR
        first -= 1
    if kind in (TYPE.VARCHAR, TYPE.VAR_STRING, TYPE.STRING):
        prefix = "" if kind == TYPE.STRING else "var"
        if is_binary:
            return f"{prefix}binary", f"({first})"
        # the table map has the length in bytes
        return f"{prefix}char", f"({first // BYTES_PER_CHARACTER.get(column.charset, 1)})"
    if kind in (TYPE.BLOB, BLOB_COMPRESSED):
        return BLOB_PREFIX[first] + ("blob" if is_binary else "text"), ""
    return None
