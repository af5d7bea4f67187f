"""Completes table maps from the known schema of their table. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.mysql.sql_types import GEOMETRIES
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema
from cdcbus.producer.ddl.type_names import labels_in
from cdcbus.producer.decoding.column_types import (
    BINARY,
    BLOB_COMPRESSED,
    BOOL,
    OLD_TEMPORAL,
    OWN_TYPES,
    VARCHAR_COMPRESSED,
    VECTOR,
    BinlogColumn,
    is_open,
)
from cdcbus.producer.decoding.sql_types import BLOB_PREFIX
from cdcbus.producer.decoding.table_map import NUMERIC, TableMap, hidden, is_hash

_BLOBS = frozenset((TYPE.BLOB, BLOB_COMPRESSED))
# information_schema's data_type -> the type codes that a table map may show for it.
_CODES: dict[str, Set[int]] = {
    "tinyint": {TYPE.TINY},
    "smallint": {TYPE.SHORT},
    "mediumint": {TYPE.INT24},
    "int": {TYPE.LONG},
    "bigint": {TYPE.LONGLONG},
    "float": {TYPE.FLOAT},
    "double": {TYPE.DOUBLE},
    "decimal": {TYPE.NEWDECIMAL},
    "bit": {TYPE.BIT},
    "year": {TYPE.YEAR},
    "date": {TYPE.DATE, TYPE.NEWDATE},
    "time": {TYPE.TIME, TYPE.TIME2},
    "datetime": {TYPE.DATETIME, TYPE.DATETIME2},
    "timestamp": {TYPE.TIMESTAMP, TYPE.TIMESTAMP2},
    "char": {TYPE.STRING},
    "binary": {TYPE.STRING},
    "varchar": {TYPE.VARCHAR, TYPE.VAR_STRING, VARCHAR_COMPRESSED},
    "varbinary": {TYPE.VARCHAR, TYPE.VAR_STRING, VARCHAR_COMPRESSED},
    "json": {TYPE.JSON, TYPE.BLOB},  # MariaDB's is a text
    "enum": {TYPE.ENUM},
    "set": {TYPE.SET},
    "vector": {VECTOR, TYPE.VARCHAR},  # MariaDB's is a VARBINARY
    **dict.fromkeys(OWN_TYPES, frozenset((TYPE.STRING,))),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), _BLOBS),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _BLOBS),
    **dict.fromkeys(GEOMETRIES, frozenset((TYPE.GEOMETRY,))),
}
# Numbers that can be UNSIGNED or not: MySQL counts a YEAR as unsigned.
_SIGNED = NUMERIC - {TYPE.YEAR}
_NAMES = {code: kind for kind, codes in reversed(_CODES.items()) for code in codes}


def completed(table_map: TableMap, schema: TableSchema) -> TableMap:
    """Returns the table map with names, key, signedness, character sets and labels. Raises
    UnreadableEvent with both shapes if they do not fit."""
    if not fits(table_map, schema):
        raise UnreadableEvent(
            f"{shape(table_map)}, but the table, as far as is known, has {len(schema.columns)}: "
            f"{schema}"
        )
    count = len(schema.columns)
    columns = [*map(_completed, table_map.columns, schema.columns)]
    columns += map(hidden, table_map.columns[count:])
    return replace(table_map, columns=tuple(columns), key=schema.key, is_complete=True)


def _completed(column: BinlogColumn, known: TableColumn) -> BinlogColumn:
    labels: tuple[str, ...] = ()
    if column.type in (TYPE.ENUM, TYPE.SET):
        labels = labels_in(known.type)
    charset = column.charset or known.charset or BINARY
    column = replace(
        column, name=known.name, unsigned="unsigned" in known.type, charset=charset, labels=labels
    )
    if known.type.startswith(BOOL):
        return replace(column, data_type=BOOL)
    if is_open(column):
        return _closed(column, known)
    return column


def fits(table_map: TableMap, schema: TableSchema) -> bool:
    """Whether a schema can be the one that a table map describes: as many columns, of types that a
    table map shows like this, with the signs that it says. In MariaDB a hash follows for each key
    that is one."""
    count = len(schema.columns)
    hashes = table_map.columns[count:]
    if hashes:
        is_for_each = table_map.has_hashes and len(hashes) == len(schema.hashed)
        has_sign = table_map.has_signs
        if not is_for_each or not all(is_hash(each, has_sign=has_sign) for each in hashes):
            return False
    if count > len(table_map.columns):
        return False
    columns = table_map.columns[:count]
    if table_map.has_signs and not all(map(_has_sign, columns, schema.columns)):
        return False
    return all(map(_fits, columns, schema.columns))


def _fits(column: BinlogColumn, known: TableColumn) -> bool:
    if column.type not in _CODES.get(known.data_type, ()):
        return False
    return OWN_TYPES.get(known.data_type, column.meta[0]) == column.meta[0]


def _has_sign(column: BinlogColumn, known: TableColumn) -> bool:
    """Whether the known column is UNSIGNED where the table map says so, and only there."""
    return column.type not in _SIGNED or column.unsigned == ("unsigned" in known.type)


def with_open_types(table_map: TableMap, schema: TableSchema) -> TableMap | None:
    """Returns a complete table map with the column types that it leaves open (`is_open`); None if
    the known columns do not have them."""
    known = schema.by_name
    columns = []
    for column in table_map.columns:
        if is_open(column):
            own = known.get(column.name)
            if own is None or not _fits(column, own):
                return None
            column = _closed(column, own)
        columns.append(column)
    return replace(table_map, columns=tuple(columns))


def _closed(column: BinlogColumn, known: TableColumn) -> BinlogColumn:
    if column.type in OLD_TEMPORAL:
        return replace(column, meta=(int(known.type.partition("(")[2][:1] or 0), 0))
    return replace(column, data_type=known.data_type)


def shape(table_map: TableMap) -> str:
    """The beginning of a sentence about a row's table map."""
    types = ", ".join(map(_type_name, table_map.columns))
    return f"table {table_map.table}: the row has {len(table_map.columns)} columns of types {types}"


def _type_name(column: BinlogColumn) -> str:
    """The type as far as a table map alone shows it: TEXT and BLOB are one type in it, and some
    types of MariaDB are a CHAR."""
    if column.type in (TYPE.BLOB, BLOB_COMPRESSED):
        prefix = BLOB_PREFIX[column.meta[0]]
        return f"{prefix}text or {prefix}blob"
    if column.type == TYPE.STRING:
        own = [kind for kind, size in OWN_TYPES.items() if size == column.meta[0]]
        return " or ".join(["char", *own])
    name = _NAMES.get(column.type, str(column.type))
    if column.unsigned and column.type in _SIGNED:
        return f"{name} unsigned"
    return name
