"""TABLE_MAP events: the columns of a row image, as far as the server sends them.

Layout: "Table_map_log_event" of the MySQL and MariaDB sources: column types and type metadata
always; with binlog_row_metadata=FULL also names, key, labels; signedness and character sets with
MINIMAL as well (MySQL).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.event_types import packed_integer
from cdcbus.producer.decoding.charsets import decoder
from cdcbus.producer.decoding.column_types import (
    BLOB_COMPRESSED,
    VARCHAR_COMPRESSED,
    VECTOR,
    BinlogColumn,
)

_HASH = re.compile(r"DB_ROW_HASH_\d+", re.ASCII)
# Kinds of optional metadata, one byte each.
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _COLUMN_NAME, _SET_LABELS, _ENUM_LABELS = (
    1,
    2,
    3,
    4,
    5,
    6,
)
_SIMPLE_KEY, _PREFIX_KEY, _LABEL_DEFAULT_CHARSET, _LABEL_COLUMN_CHARSET = 8, 9, 10, 11

NUMERIC = {
    TYPE.YEAR,
    TYPE.TINY,
    TYPE.SHORT,
    TYPE.INT24,
    TYPE.LONG,
    TYPE.LONGLONG,
    TYPE.FLOAT,
    TYPE.DOUBLE,
    TYPE.NEWDECIMAL,
}
# Types that the character set lists count, including MySQL's VECTOR and MariaDB's GEOMETRY, which
# hold bytes.
_CHARACTER = {
    TYPE.VARCHAR,
    TYPE.VAR_STRING,
    TYPE.STRING,
    TYPE.BLOB,
    VECTOR,
    BLOB_COMPRESSED,
    VARCHAR_COMPRESSED,
}
_CHARACTER_MARIADB = _CHARACTER | {TYPE.GEOMETRY}
_LABELLED = {TYPE.ENUM, TYPE.SET}
_TWO_META_BYTES = {
    TYPE.VARCHAR,
    TYPE.VAR_STRING,
    VARCHAR_COMPRESSED,
    TYPE.STRING,
    TYPE.NEWDECIMAL,
    TYPE.BIT,
}
_ONE_META_BYTE = {
    *(TYPE.FLOAT, TYPE.DOUBLE, TYPE.BLOB, BLOB_COMPRESSED, TYPE.GEOMETRY, VECTOR, TYPE.JSON),
    *(TYPE.TIME2, TYPE.DATETIME2, TYPE.TIMESTAMP2),
}
# The byte says how many bytes hold a cell's length.
_WITH_LENGTH = {TYPE.BLOB, BLOB_COMPRESSED, TYPE.GEOMETRY, VECTOR, TYPE.JSON}


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table map. Column names are empty and `is_complete` is false unless the server sends
    full metadata; charset ids are resolved with the server's own list. `has_hashes`: the last
    columns can be hashes, as MariaDB keeps one for a unique key of TEXT, BLOB or long texts.
    `has_signs`: it says of each number whether it is UNSIGNED."""

    table: TableId
    columns: tuple[BinlogColumn, ...]
    key: tuple[str, ...] = ()
    is_complete: bool = False
    has_hashes: bool = False
    has_signs: bool = False


@dataclass(slots=True)
class _Metadata:
    """Optional metadata as sent: per kind, not yet matched to columns."""

    signedness: bytes | None = None
    charsets: Callable[[int], int] | None = None
    label_charsets: Callable[[int], int] | None = None
    names: list[str] = field(default_factory=list)
    set_labels: list[list[bytes]] = field(default_factory=list)
    enum_labels: list[list[bytes]] = field(default_factory=list)
    key: list[int] = field(default_factory=list)


def table_name(body: bytes) -> TableId:
    """Reads only the name from a TABLE_MAP event's body (after the header), enough to filter by."""
    schema_end = 9 + body[8]
    table_start = schema_end + 2
    table_end = table_start + body[schema_end + 1]
    return TableId(body[9:schema_end].decode(), body[table_start:table_end].decode())


def table_id(body: bytes) -> int:
    """The number by which the following row events refer to the table."""
    return int.from_bytes(body[:6], "little")


def parse(body: bytes, charsets: Mapping[int, str], *, is_mariadb: bool) -> TableMap:
    """Parses a TABLE_MAP event's body; `charsets` is collation id -> character set name. Raises
    UnreadableEvent."""
    name = table_name(body)
    try:
        return _parsed(name, body, charsets, is_mariadb=is_mariadb)
    except (IndexError, KeyError, ValueError) as error:
        raise UnreadableEvent(f"table {name}: its table map is damaged") from error


def _parsed(
    name: TableId, body: bytes, charsets: Mapping[int, str], *, is_mariadb: bool
) -> TableMap:
    at = 8 + 1 + len(name.schema.encode()) + 1 + 1 + len(name.table.encode()) + 1
    count, at = packed_integer(body, at)
    types = body[at : at + count]
    size, at = packed_integer(body, at + count)
    columns = _columns(name, types, body[at : at + size])
    # Then comes a bit for each column: whether it can be NULL, which rows do not need.
    at += size + (count + 7) // 8
    metadata = _metadata(body, at)
    found = _complete(
        name, columns, metadata, charsets, _CHARACTER_MARIADB if is_mariadb else _CHARACTER
    )
    if not is_mariadb:
        return found
    return replace(found, columns=_without_hashes(found.columns), has_hashes=True)


def _without_hashes(columns: tuple[BinlogColumn, ...]) -> tuple[BinlogColumn, ...]:
    """Hides the hashes, which have names of the server's own and are the last columns."""
    first = len(columns)
    while first > 1 and _is_named_hash(columns[first - 1]):
        first -= 1
    return columns[:first] + tuple(map(hidden, columns[first:]))


def _is_named_hash(column: BinlogColumn) -> bool:
    return is_hash(column, has_sign=True) and _HASH.fullmatch(column.name) is not None


def is_hash(column: BinlogColumn, *, has_sign: bool) -> bool:
    """Whether the column can be a hash: a BIGINT, UNSIGNED where its sign is known."""
    return column.type == TYPE.LONGLONG and (column.unsigned or not has_sign)


def hidden(column: BinlogColumn) -> BinlogColumn:
    return replace(column, is_hidden=True)


def _columns(name: TableId, types: bytes, meta: bytes) -> list[BinlogColumn]:
    columns, at = [], 0
    is_sound = True
    for kind in types:
        first = second = 0
        if kind in _TWO_META_BYTES:
            first, second, at = meta[at], meta[at + 1], at + 2
        elif kind in _ONE_META_BYTE:
            first, at = meta[at], at + 1
        if kind in _WITH_LENGTH:
            is_sound &= 1 <= first <= 4
        columns.append(_column(kind, first, second))
    if at != len(meta) or not is_sound:
        raise UnreadableEvent(
            f"table {name}: the table map's types {types.hex()} do not fit its metadata "
            f"{meta.hex()}"
        )
    return columns


def _column(kind: int, first: int, second: int) -> BinlogColumn:
    """Normalises metadata: (max bytes, 0) for strings, (precision, scale), (bits, 0), (label
    bytes, 0), else the byte itself."""
    if kind == TYPE.STRING:
        if first in (TYPE.ENUM, TYPE.SET):
            return BinlogColumn("", first, (second, 0))
        # Bits 4 and 5 of the type byte carry, inverted, the high bits of a CHAR's length.
        return BinlogColumn("", kind, (((first & 0x30) ^ 0x30) << 4 | second, 0))
    if kind in (TYPE.VARCHAR, TYPE.VAR_STRING, VARCHAR_COMPRESSED):
        return BinlogColumn("", kind, (first | second << 8, 0))
    if kind == TYPE.BIT:
        return BinlogColumn("", kind, (second * 8 + first, 0))
    return BinlogColumn("", kind, (first, second))


def _metadata(body: bytes, at: int) -> _Metadata:
    metadata = _Metadata()
    while at < len(body):
        kind = body[at]
        size, at = packed_integer(body, at + 1)
        value = body[at : at + size]
        at += size
        if kind == _SIGNEDNESS:
            metadata.signedness = value
        elif kind in (_DEFAULT_CHARSET, _COLUMN_CHARSET):
            metadata.charsets = _charset_lookup(value, has_default=kind == _DEFAULT_CHARSET)
        elif kind in (_LABEL_DEFAULT_CHARSET, _LABEL_COLUMN_CHARSET):
            metadata.label_charsets = _charset_lookup(
                value, has_default=kind == _LABEL_DEFAULT_CHARSET
            )
        elif kind == _COLUMN_NAME:
            metadata.names = [name.decode() for name in _strings(value)]
        elif kind == _SET_LABELS:
            metadata.set_labels = _string_lists(value)
        elif kind == _ENUM_LABELS:
            metadata.enum_labels = _string_lists(value)
        elif kind == _SIMPLE_KEY:
            metadata.key = _integers(value)
        elif kind == _PREFIX_KEY:
            # Each column is followed by the length of its prefix, 0 for the whole column.
            metadata.key = _integers(value)[::2]
    return metadata


def _integers(value: bytes) -> list[int]:
    integers, at = [], 0
    while at < len(value):
        number, at = packed_integer(value, at)
        integers.append(number)
    return integers


def _charset_lookup(value: bytes, *, has_default: bool) -> Callable[[int], int]:
    """Returns a function from the number of a character column to its collation id: a default with
    exceptions, or one id for each."""
    ids = _integers(value)
    if not has_default:
        return lambda n: ids[n]
    exceptions = dict(zip(ids[1::2], ids[2::2], strict=True))
    return lambda n: exceptions.get(n, ids[0])


def _strings(value: bytes) -> list[bytes]:
    strings, at = [], 0
    while at < len(value):
        size, at = packed_integer(value, at)
        strings.append(value[at : at + size])
        at += size
    return strings


def _string_lists(value: bytes) -> list[list[bytes]]:
    lists, at = [], 0
    while at < len(value):
        count, at = packed_integer(value, at)
        labels = []
        for _ in range(count):
            size, at = packed_integer(value, at)
            labels.append(value[at : at + size])
            at += size
        lists.append(labels)
    return lists


def _complete(
    name: TableId,
    columns: Sequence[BinlogColumn],
    metadata: _Metadata,
    charsets: Mapping[int, str],
    character_types: Set[int],
) -> TableMap:
    """Adds the optional metadata to each column. The n-th bit, charset or label list belongs to the
    n-th column of its class."""
    numeric = character = labelled = 0
    enums, sets = iter(metadata.enum_labels), iter(metadata.set_labels)
    completed = []
    for index, column in enumerate(columns):
        if metadata.names:
            column = replace(column, name=metadata.names[index])
        if column.type in NUMERIC:
            if metadata.signedness is not None:
                column = replace(
                    # The highest bit of each byte comes first here, unlike in the bitmaps of rows.
                    column,
                    unsigned=bool(metadata.signedness[numeric // 8] & 0x80 >> numeric % 8),
                )
            numeric += 1
        elif column.type in character_types:
            if metadata.charsets is not None:
                column = replace(
                    column, charset=_charset(metadata.charsets(character), charsets, name)
                )
            character += 1
        elif column.type in _LABELLED:
            labels = next(enums if column.type == TYPE.ENUM else sets, [])
            if metadata.label_charsets is not None:
                charset = _charset(metadata.label_charsets(labelled), charsets, name)
                decode = decoder(charset, column.name)
                column = replace(column, labels=tuple(map(decode, labels)), charset=charset)
            labelled += 1
        completed.append(column)
    key: tuple[str, ...] = ()
    if metadata.names:
        key = tuple(map(metadata.names.__getitem__, metadata.key))
    return TableMap(
        name,
        tuple(completed),
        key,
        is_complete=bool(metadata.names),
        has_signs=metadata.signedness is not None,
    )


def _charset(collation: int, charsets: Mapping[int, str], name: TableId) -> str:
    charset = charsets.get(collation)
    if charset is None:
        raise UnreadableEvent(
            f"table {name}: the server does not list the collation number {collation} that its "
            "table map names"
        )
    return charset
