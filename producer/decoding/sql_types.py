"""A binlog column's type as CREATE TABLE spells it, and its java.sql.Types number as in canal."""

from __future__ import annotations

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.producer.decoding.charsets import BYTES_PER_CHARACTER
from cdcbus.producer.decoding.column_types import (
    BLOB_COMPRESSED,
    OWN_TYPES,
    VARCHAR_COMPRESSED,
    VECTOR,
    BinlogColumn,
)

# Signed and unsigned java.sql.Types: an unsigned integer needs the next larger type.
_INTEGERS = {
    TYPE.TINY: ("tinyint", -6, 5),
    TYPE.SHORT: ("smallint", 5, 4),
    TYPE.INT24: ("mediumint", 4, 4),
    TYPE.LONG: ("int", 4, -5),
    TYPE.LONGLONG: ("bigint", -5, 3),
}
_TEMPORAL = {
    TYPE.TIME: ("time", 92),
    TYPE.TIME2: ("time", 92),
    TYPE.DATETIME: ("datetime", 93),
    TYPE.DATETIME2: ("datetime", 93),
    TYPE.TIMESTAMP: ("timestamp", 93),
    TYPE.TIMESTAMP2: ("timestamp", 93),
    TYPE.DATE: ("date", 91),
    TYPE.NEWDATE: ("date", 91),
    TYPE.YEAR: ("year", 12),
}
BLOB_PREFIX = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_WITHOUT_SIZE = {
    TYPE.JSON: ("json", 12),
    TYPE.GEOMETRY: ("geometry", 2004),
    VECTOR: ("vector", 2004),
}


def type_names(column: BinlogColumn) -> tuple[str, int]:
    """Returns (mysql type text, java.sql.Types number)."""
    kind, (first, second) = column.type, column.meta
    if kind in _INTEGERS:
        name, signed, unsigned = _INTEGERS[kind]
        name = column.data_type or name
        return (name + " unsigned", unsigned) if column.unsigned else (name, signed)
    if kind in _TEMPORAL:
        name, number = _TEMPORAL[kind]
        return (f"{name}({first})" if first else name), number
    suffix = " unsigned" if column.unsigned else ""
    if kind == TYPE.FLOAT:
        return "float" + suffix, 7
    if kind == TYPE.DOUBLE:
        return "double" + suffix, 8
    if kind == TYPE.NEWDECIMAL:
        return f"decimal({first},{second}){suffix}", 3
    return _other(column, kind, first)


def _other(column: BinlogColumn, kind: int, first: int) -> tuple[str, int]:
    is_binary = column.charset == "binary"
    if column.data_type in OWN_TYPES:
        return column.data_type, 12
    if kind == VARCHAR_COMPRESSED:
        # shown as uncompressed: its length includes the method byte
        kind = TYPE.VARCHAR
        first -= 1
    if kind in (TYPE.VARCHAR, TYPE.VAR_STRING, TYPE.STRING):
        is_fixed = kind == TYPE.STRING
        if is_binary:
            return f"{'binary' if is_fixed else 'varbinary'}({first})", 2004
        # the table map has the length in bytes
        characters = first // BYTES_PER_CHARACTER.get(column.charset, 1)
        return (f"char({characters})", 1) if is_fixed else (f"varchar({characters})", 12)
    if kind in (TYPE.BLOB, BLOB_COMPRESSED):
        prefix = BLOB_PREFIX[first]
        return (prefix + "blob", 2004) if is_binary else (prefix + "text", 2005)
    if kind in (TYPE.ENUM, TYPE.SET):
        quoted = ["'" + label.replace("'", "''") + "'" for label in column.labels]
        labels = ",".join(quoted)
        return (f"enum({labels})", 4) if kind == TYPE.ENUM else (f"set({labels})", -7)
    if kind == TYPE.BIT:
        return f"bit({first})", -7
    return _WITHOUT_SIZE[kind]
