"""debeziumJson: the change events of Debezium's connectors as Kafka Connect's JsonConverter writes
them, read only.

With the schema (`value.converter.schemas.enable=true`) each value is read by its column's type, see
`cdcbus.plugins.converters.debezium_values`. Without it text and numbers are taken unchanged, as
nothing distinguishes a date from a number or bytes from text: columns are marked `Unclear`, and
base64 with padding is refused; columns that no image holds are unknown. `c` and `r` (snapshot) are
inserts, `u` an update, `d` a delete, `t` a truncate. In an update with a null `before` the former
row is unknown. Tombstones, transaction marks, schema changes and heartbeats hold no row. The record
key is not read: the target's key counts.

A column that Debezium calls unavailable was not logged by the source: it is missing. An insert
without one is refused, as it can belong to a change of the key, which Debezium sends as a delete
and an insert.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from cdcbus.plugins.converters.debezium_values import Decode, column_type, geometry
from cdcbus.plugins.converters.json_cells import cells, parsed, time_us, whole_number
from cdcbus.plugins.converters.read_only import ReadOnly
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import (
    Cell,
    Column,
    Op,
    Origin,
    Row,
    RowChange,
    Table,
    TableId,
    Unclear,
)

_SCHEMA = b'{"schema":'
_PAYLOAD = b',"payload":'
_OPS = {"c": Op.INSERT, "r": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "t": Op.TRUNCATE}
_PADDED_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=)")
_PLACEHOLDER = b"__debezium_unavailable_value"
# Debezium's word for a column that the source did not send: as text, as an object, and as bytes in
# each binary.handling.mode.
_UNAVAILABLE = (
    _PLACEHOLDER.decode(),
    f'{{"{_PLACEHOLDER.decode()}":"{_PLACEHOLDER.decode()}"}}',
    b64encode(_PLACEHOLDER).decode(),
    _PLACEHOLDER.hex(),
)


class DebeziumJson(ReadOnly):
    """The `debeziumJson` converter."""

    NAME = "debeziumJson"

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row as one change. Raises ConversionError."""
        try:
            changes = _with_known_schema(value)
            if changes is None:
                changes = parsed(value, read)
        except ValueError as error:
            raise ConversionError("not a debeziumJson record: not JSON") from error
        return changes


def read(message: Any) -> list[RowChange]:
    """The row of a parsed message, with or without a schema. Raises ConversionError."""
    if not isinstance(message, dict) or not {"payload", "schema"} <= message.keys():
        return _row(message, None)
    payload = message["payload"]
    schema = message["schema"]
    if schema is None:
        return _row(payload, None)
    return _row(payload, _columns(orjson.dumps(schema)))


def _with_known_schema(value: bytes) -> list[RowChange] | None:
    """The row of a message that begins with its schema, which is not parsed again if it has been
    seen before. None for any other message."""
    if not value.startswith(_SCHEMA) or not value.endswith(b"}"):
        return None
    cut = value.find(_PAYLOAD)
    if cut < 0:
        return None
    try:
        # If both parts are JSON, they are the two members of the message, as no JSON text contains
        # the bytes between them.
        columns = _columns(value[len(_SCHEMA) : cut])
        return parsed(value[cut + len(_PAYLOAD) : -1], lambda payload: _row(payload, columns))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Columns:
    """A row's columns according to a schema. `decode`: column -> how its values are read;
    `unknown`: column -> its type, where that is unknown."""

    columns: tuple[Column, ...]
    decode: Mapping[str, Decode]
    unknown: Mapping[str, str]


@lru_cache(maxsize=1_000)
def _columns(schema: bytes) -> _Columns | None:
    """The columns of a schema; None for one without a row. Raises ValueError for text that is not
    JSON, ConversionError for JSON that is not a schema."""
    try:
        members = (orjson.loads(schema) or {}).get("fields") or []
        images = {field["field"]: field for field in members}
        image = images.get("after") or images.get("before")
        if image is None:
            return None
        columns = []
        decode: dict[str, Decode] = {}
        unknown: dict[str, str] = {}
        for field in image["fields"]:
            name = str(field["field"])
            column = Column(name)
            try:
                found = column_type(field)
                decode[name] = found.decode
                column = Column(
                    name,
                    found.mysql_type,
                    unclear=found.unclear,
                    is_bound=found.is_bound,
                    least=found.least,
                )
            except (KeyError, ValueError):
                unknown[name] = str(field.get("name") or field.get("type"))
            columns.append(column)
    except (AttributeError, KeyError, TypeError) as error:
        raise ConversionError(
            "debeziumJson record: its schema is not one of Kafka Connect's"
        ) from error
    return _Columns(tuple(columns), decode, unknown)


def _row(payload: Any, columns: _Columns | None) -> list[RowChange]:
    # A tombstone.
    if payload is None:
        return []
    if not isinstance(payload, dict):
        raise ConversionError(
            "not a debeziumJson record: an object with the keys op, source, before and after was "
            "expected"
        )
    op = payload.get("op")
    if op is None and _is_without_row(payload):
        return []
    # A message that was written into the log manually.
    if op == "m":
        return []
    if not isinstance(op, str) or op not in _OPS:
        raise ConversionError(
            "debeziumJson record whose op is none of c, r, u, d, t, m: take transforms such as "
            "ExtractNewRecordState off the connector"
        )
    name = _table_id(payload)
    before = _image(name, payload, "before", columns)
    after = _image(name, payload, "after", columns)
    if _OPS[op] is Op.INSERT and after is not None:
        _refuse_partial(name, payload["after"], after)
    if columns is None:
        # Those that are unavailable as well.
        names = {**(payload.get("before") or {}), **(payload.get("after") or {})}
        table = _table(name, tuple(map(_untyped, names)), is_described=False)
    else:
        table = _table(name, columns.columns, is_described=True)
    return [_change(table, _OPS[op], before, after, payload)]


def _refuse_partial(table: TableId, fields: Mapping[str, Any], row: Row) -> None:
    lacking = [name for name in fields if name not in row]
    if lacking:
        raise ConversionError(
            f"debeziumJson insert of {table} without column {', '.join(lacking)}, which the source "
            "has not logged: it may be of a row whose key has changed, and would be emptied. The "
            "source must log full row images (binlog_row_image=FULL, REPLICA IDENTITY FULL); put "
            "the row right at the target, then set the position behind the record"
        )


def _is_without_row(payload: Mapping[str, Any]) -> bool:
    """Whether a payload is a transaction mark, a schema change or a heartbeat."""
    keys = payload.keys()
    is_mark = {"status", "id", "event_count"} <= keys
    is_ddl = {"source", "ddl", "databaseName"} <= keys
    is_heartbeat = "ts_ms" in keys and keys <= {"ts_ms", "ts_us", "ts_ns"}
    return is_mark or is_ddl or is_heartbeat


def _change(
    table: Table, op: Op, before: Row | None, after: Row | None, payload: Mapping[str, Any]
) -> RowChange:
    origin = _origin(payload["source"])
    if op is Op.TRUNCATE:
        return RowChange(table, op, None, None, origin)
    if op is Op.DELETE:
        if not before:
            raise ConversionError(
                f"debeziumJson delete of {table.id} without before: the source must log full row "
                "images"
            )
        return RowChange(table, op, before, None, origin)
    if not after:
        raise ConversionError(f"debeziumJson {op.value.lower()} of {table.id} without after")
    if op is Op.INSERT:
        return RowChange(table, op, None, after, origin)
    return RowChange(table, op, before or {}, after, origin)


def _table_id(payload: Mapping[str, Any]) -> TableId:
    source = payload.get("source")
    if isinstance(source, dict):
        # The schema of databases that have schemas, else the database, as of MySQL.
        schema = source.get("schema") or source.get("db")
        name = source.get("table")
        if isinstance(schema, str) and isinstance(name, str) and name:
            return TableId(schema, name)
    raise ConversionError("debeziumJson record: source does not name db and table")


@lru_cache(maxsize=10_000)
def _untyped(name: str) -> Column:
    return Column(name, unclear=Unclear.TIMES | Unclear.BYTES | Unclear.BITS)


@lru_cache(maxsize=10_000)
def _table(name: TableId, columns: tuple[Column, ...], is_described: bool) -> Table:
    """One object per table and shape, as plans for a table are cached by its identity."""
    return Table(name, columns, (), is_described)


def _origin(source: Mapping[str, Any]) -> Origin:
    return Origin(
        file=str(source.get("file") or ""),
        pos=whole_number(source, "pos"),
        gtid=str(source.get("gtid") or ""),
        server_id=whole_number(source, "server_id"),
        commit_us=time_us(source, "ts_us", 1) or time_us(source, "ts_ms", 1000),
    )


def _image(
    table: TableId, payload: Mapping[str, Any], key: str, columns: _Columns | None
) -> dict[str, Cell] | None:
    fields = payload.get(key)
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise ConversionError(f"debeziumJson record of {table}: {key} is not an object")
    # Debezium's values for a column that the source did not send.
    values = fields.values()
    if any(word in values for word in _UNAVAILABLE):
        fields = {name: value for name, value in fields.items() if value not in _UNAVAILABLE}
    if columns is None:
        return _plain(table, fields)
    return _decoded(table, fields, columns)


def _decoded(table: TableId, fields: Mapping[str, Any], columns: _Columns) -> dict[str, Cell]:
    row: dict[str, Cell] = {}
    name = ""
    decode = columns.decode
    try:
        for name, value in fields.items():
            row[name] = None if value is None else decode[name](value)
    except (ValueError, TypeError, AttributeError, OverflowError, KeyError) as error:
        what = "does not fit its schema"
        # A KeyError can also come from a value that is an object.
        if isinstance(error, KeyError) and (found := columns.unknown.get(name)):
            what = f"has type {found}, which is not known"
        raise ConversionError(f"debeziumJson record of {table}: column {name} {what}") from None
    return row


def _plain(table: TableId, fields: Mapping[str, Any]) -> dict[str, Cell]:
    """The values unchanged. Raises ConversionError for base64 with padding, which is a DECIMAL or
    bytes, rarely text: without a schema these cannot be distinguished."""
    row = dict(fields)
    for name, value in fields.items():
        if isinstance(value, str) and value.endswith("=") and _PADDED_BASE64.fullmatch(value):
            raise ConversionError(
                f"debeziumJson record of {table}: column {name} holds base64 and the record has "
                "no schema, so a DECIMAL, bytes and text "
                "cannot be told apart: set decimal.handling.mode=string for a DECIMAL, else "
                "value.converter.schemas.enable=true"
            )
        if isinstance(value, dict | list):
            row[name] = _struct(table, name, value)
    return cells(row)


def _struct(table: TableId, name: str, value: Any) -> str:
    try:
        if value.keys() <= {"wkb", "srid", "x", "y"}:
            return geometry(value)
    except (ValueError, TypeError, AttributeError, OverflowError, KeyError):
        pass
    raise ConversionError(
        f"debeziumJson record of {table}: column {name} holds a structure and the record has no "
        "schema: "
        "set value.converter.schemas.enable=true at the connector"
    )
