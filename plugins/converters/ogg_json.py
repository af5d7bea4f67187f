"""oggJson: Oracle GoldenGate's JSON, as porter and other GoldenGate readers expect it.

Written are `table`, `op_type` (I, U, D, T), `op_ts` and `current_ts` (UTC, 24-hour, microseconds),
`pos` (20 digits: binlog file number and offset), `primary_keys`, `before`, `after`, and `snapshot`
in records that a snapshot sends; SQL NULL is JSON null. An insert has no `before`, a delete no
`after`. Also read are porter's long words for op_type, numbers as values, `<COLUMN>_isMissing`
flags, images with only some columns, and records without primary_keys.

`table` is SCHEMA.TABLE; a third part before it, the container database, is ignored. A name that
contains a dot or a double quote is written in double quotes, as in SQL, so that it is read back
unchanged. REPLACE, which porter's polling writes, is an insert: the row exists after it, whether it
existed before or not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import orjson

from cdcbus.plugins.converters.json_cells import cells, parsed
from cdcbus.plugins.converters.record_template import Placeholder, RecordTemplate
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.time_zone import read_zone

if TYPE_CHECKING:
    import pyarrow as pa

    from cdcbus.plugins.converters.columnar import Columns

_LETTERS = {Op.INSERT: "I", Op.UPDATE: "U", Op.DELETE: "D", Op.TRUNCATE: "T"}
_OPS = {
    "I": Op.INSERT,
    "U": Op.UPDATE,
    "D": Op.DELETE,
    "T": Op.TRUNCATE,
    **Op.__members__,
    "REPLACE": Op.INSERT,
}
_WITHOUT_ROWS = {"BEGIN", "END"}
_MISSING_FLAG = "_isMissing"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTED = re.compile(r'(?:[^."]+|"(?:[^"]|"")*")(?:\.(?:[^."]+|"(?:[^"]|"")*"))*')
_POS = re.compile(r"[0-9]{20}")
_WITH_ZONE = re.compile(r"(.{16,}?)(Z|[+-][0-9]{2}(?::?[0-5][0-9])?)")
_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')


class OggJson:
    """The `oggJson` converter. `zone`: the zone of times that name none; None: UTC."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    marks_snapshots = True

    def to_bytes(self, change: RowChange) -> bytes:
        """One GoldenGate operation."""
        message: dict[str, Any] = {
            "table": table_text(change.table.id),
            "op_type": _LETTERS[change.op],
            "op_ts": _utc(change.origin.commit_us).replace("T", " "),
            "current_ts": _utc(time.time_ns() // 1000),
            "pos": _pos(change.origin),
            "primary_keys": list(change.table.key),
        }
        if change.before is not None:
            message["before"] = change.before
        if change.after is not None:
            message["after"] = change.after
        if change.origin.is_snapshot:
            message["snapshot"] = True
        if change.origin.epoch:
            # Last, so that readers find it without parsing the rest.
            message["epoch"] = change.origin.epoch
        return orjson.dumps(message)

    def template(
        self, table: Table, op: Op, before: Collection[str] = (), after: Collection[str] = ()
    ) -> RecordTemplate | None:
        """The template of the records that `to_bytes` writes."""
        name = _json(table_text(table.id))
        key = _json(list(table.key))
        placeholders = {
            Op.INSERT: (Placeholder.AFTER,),
            Op.DELETE: (Placeholder.BEFORE,),
            Op.UPDATE: (Placeholder.BEFORE, Placeholder.AFTER),
        }[op]
        image = "after" if op is Op.INSERT else "before"
        start = f'{{"table":{name},"op_type":"{_LETTERS[op]}",'
        end = f'"primary_keys":{key},"{image}":'

        def texts(origin: Origin) -> tuple[str, ...]:
            op_ts = _utc(origin.commit_us).replace("T", " ")
            now = _utc(time.time_ns() // 1000)
            head = f'{start}"op_ts":"{op_ts}","current_ts":"{now}","pos":"{_pos(origin)}",{end}'
            tail = "}"
            if origin.epoch:
                tail = f',"epoch":"{origin.epoch}"}}'
            if origin.is_snapshot:
                tail = ',"snapshot":true' + tail
            if op is Op.UPDATE:
                return head, ',"after":', tail
            return head, tail

        return RecordTemplate(placeholders, texts)

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The operation as one row change. Raises ConversionError."""
        try:
            return parsed(value, partial(read, zone=self._zone))
        except ValueError as error:
            raise ConversionError("not an oggJson record: not JSON") from error

    def read_columns(self, records: pa.BinaryArray) -> Columns:
        """The row changes of many records as columns."""
        # Imported here, as it brings Arrow, which writers do not need.
        from cdcbus.plugins.converters.arrow.read import columns_on_wire
        from cdcbus.plugins.converters.arrow.wire import ogg_json

        return columns_on_wire(records, self, ogg_json(self._zone))


class PorterCompat(OggJson):
    """The `porterCompat` converter: names in upper case, as porter writes them. Reads the same
    records as `oggJson`."""

    def template(
        self, table: Table, op: Op, before: Collection[str] = (), after: Collection[str] = ()
    ) -> RecordTemplate | None:
        """None, as names are changed in each image."""
        return None

    def to_bytes(self, change: RowChange) -> bytes:
        """One GoldenGate operation."""
        table = _upper_table(change.table)
        before = _upper(change.before)
        after = _upper(change.after)
        return super().to_bytes(replace(change, table=table, before=before, after=after))


def _upper(row: Row | None) -> Row | None:
    if row is None:
        return None
    return {name.upper(): cell for name, cell in row.items()}


@lru_cache(maxsize=10_000)
def _upper_table(table: Table) -> Table:
    name = TableId(table.id.schema.upper(), table.id.table.upper())
    columns = tuple(replace(column, name=column.name.upper()) for column in table.columns)
    return Table(name, columns, tuple(map(str.upper, table.key)))


def table_text(name: TableId) -> str:
    """SCHEMA.TABLE, with parts that contain a dot or a double quote in double quotes."""
    text = str(name)
    if text.count(".") == 1 and '"' not in text:
        return text
    return ".".join(map(_quoted, name))


def _quoted(part: str) -> str:
    if "." not in part and '"' not in part:
        return part
    doubled = part.replace('"', '""')
    return f'"{doubled}"'


def read(message: Any, zone: tzinfo | None = None) -> list[RowChange]:
    """The operation of a parsed message. `zone`: as in `OggJson`. Raises ConversionError."""
    if not isinstance(message, dict):
        raise ConversionError(
            "not an oggJson record: an object with the keys table and op_type was expected"
        )
    word = message.get("op_type")
    if not isinstance(word, str) or (word not in _OPS and word not in _WITHOUT_ROWS):
        raise ConversionError(f"oggJson record with unknown op_type {word!r}")
    if word in _WITHOUT_ROWS:
        return []
    before = _image(message, "before")
    after = _image(message, "after")
    table = _table(message, {**(before or {}), **(after or {})})
    return [_change(table, _OPS[word], before, after, _origin(message, zone))]


def _change(
    table: Table,
    op: Op,
    before: dict[str, Cell] | None,
    after: dict[str, Cell] | None,
    origin: Origin,
) -> RowChange:
    if op is Op.TRUNCATE:
        return RowChange(table, op, None, None, origin)
    if op is Op.DELETE:
        # porter writes both images, GoldenGate only `before`.
        row = before or after
        if not row:
            raise ConversionError(f"oggJson delete of {table.id} without columns")
        return RowChange(table, op, row, None, origin)
    if not after:
        raise ConversionError(f"oggJson {op.value.lower()} of {table.id} without after")
    if op is Op.INSERT:
        return RowChange(table, op, None, after, origin)
    return RowChange(table, op, before or {}, after, origin)


def _image(message: Mapping[str, Any], key: str) -> dict[str, Cell] | None:
    fields = message.get(key)
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise ConversionError(f"oggJson record: {key} is not an object")
    flags = {name for name in fields if name.endswith(_MISSING_FLAG) and _is_flag(name, fields)}
    if not flags:
        return cells(fields)
    present = dict(fields)
    for name in flags:
        present.pop(name, None)
        if fields[name] in (True, "true"):
            # Missing is not NULL: the image is without the column, whatever value it has.
            present.pop(name.removesuffix(_MISSING_FLAG), None)
    return cells(present)


def _is_flag(name: str, fields: Mapping[str, Any]) -> bool:
    """Whether a member is GoldenGate's flag for a column, rather than a column with such a name."""
    value = fields[name]
    if isinstance(value, bool):
        return True
    return value in ("true", "false") and name.removesuffix(_MISSING_FLAG) in fields


def _table(message: Mapping[str, Any], columns: Mapping[str, Cell]) -> Table:
    text = message.get("table")
    keys = message.get("primary_keys") or []
    parts = _parts(text)
    if len(parts) not in (2, 3) or not all(parts):
        raise ConversionError(
            f"oggJson record: table is {text!r}, SCHEMA.TABLE was expected, in double quotes what "
            "holds a dot"
        )
    if not isinstance(keys, list):
        raise ConversionError(f"oggJson record of {text}: primary_keys is not a list of names")
    # A container database can come before them.
    schema, name = parts[-2:]
    return _known_table(TableId(schema, name), tuple(columns), tuple(map(str, keys)))


def _parts(text: Any) -> list[str]:
    """The parts of a table's name; none for what is not one."""
    if not isinstance(text, str):
        return []
    if '"' not in text:
        return text.split(".")
    if not _QUOTED.fullmatch(text):
        return []
    return [quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(text)]


@lru_cache(maxsize=10_000)
def _known_table(name: TableId, columns: tuple[str, ...], key: tuple[str, ...]) -> Table:
    """One object per table and shape, as plans for a table are cached by its identity."""
    return Table(name, tuple(map(Column, columns)), key, is_described=False, checks_keys_late=True)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _utc(epoch_us: int) -> str:
    seconds, microseconds = divmod(epoch_us, 1_000_000)
    return f"{_utc_second(seconds)}.{microseconds:06d}"


@lru_cache(maxsize=1000)
def _utc_second(seconds: int) -> str:
    """A second as text. Cached, as records written together share most of their seconds."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def _pos(origin: Origin) -> str:
    return f"{_file_number(origin.file)}{origin.pos:010d}"


@lru_cache(maxsize=1000)
def _file_number(file: str) -> str:
    number = file.rpartition(".")[2]
    if not number.isdigit():
        return "0" * 10
    return f"{int(number):010d}"


def _origin(message: Mapping[str, Any], zone: tzinfo | None) -> Origin:
    """The origin of a parsed message. Only the number of the file is in it; 0 stands for none."""
    text = message.get("pos")
    file = ""
    pos = 0
    if isinstance(text, str) and _POS.fullmatch(text):
        pos = int(text[10:])
        if text[:10].strip("0"):
            file = text[:10]
    return Origin(file, pos, commit_us=_commit_us(message, zone))


def _commit_us(message: Mapping[str, Any], zone: tzinfo | None) -> int:
    """op_ts with 0 to 9 fraction digits, in its own zone, else in the given one, else in UTC; 0
    when it is absent or has another form."""
    text = str(message.get("op_ts") or "")
    try:
        if named := _WITH_ZONE.fullmatch(text):
            text = named[1]
            zone = read_zone(named[2])
        # Cut to microseconds.
        moment = datetime.fromisoformat(text[:26]).replace(tzinfo=zone or UTC)
    except ValueError:
        return 0
    return (moment - _EPOCH) // timedelta(microseconds=1)
