"""canalRow: canal's flat JSON message, so that every reader of canal-json can read it.

Records have one row when written, and any number when read. They have all of canal's keys (`id` is
always 0, as there are no batches), then ours: `file`, `pos`, `row` (number in the transaction),
`serverId`, `txLast`, `epoch` before all others (`plugins/epoch.py`), `snapshot` in records that a
snapshot sends, and `described` (false) where the row was read from a record that does not show all
columns. Values are text, see `cdcbus.plugins.rowchange`. `old` holds the changed columns' values
before an UPDATE, null where none is known; `unknown` names the columns whose value before is not
known though `data` has one, and is there, if only as [], where `data` lacks columns of the table.
The format is canal's `FlatMessage`.

A record without `txLast` is canal's own: its values are read as canal renders them, see
`cdcbus.plugins.converters.canal_values`. It has the columns that the source logged after the
change, and shows no others. DDL records and canal's other records without rows are ignored; a
TRUNCATE is an operation.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import orjson

from cdcbus.plugins.converters.canal_values import (
    Rendering,
    mysql_types,
    ours,
    read_as,
    rendered,
    sql_types,
)
from cdcbus.plugins.converters.json_cells import (
    are_names,
    cells,
    parsed,
    time_us,
    whole_number,
)
from cdcbus.plugins.converters.record_template import Placeholder, RecordTemplate
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.mysql.sql_types import GEOMETRIES
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableDdl, TableId

if TYPE_CHECKING:
    import pyarrow as pa

    from cdcbus.plugins.converters.columnar import Columns

# Canal's record types that change no row.
WITHOUT_ROWS = {
    "CREATE",
    "ALTER",
    "ERASE",
    "QUERY",
    "RENAME",
    "CINDEX",
    "DINDEX",
    "GTID",
    "XACOMMIT",
    "XAROLLBACK",
    "MHEARTBEAT",
}
_DATA = b'"data":['
_OLD = b'"old":['
_LARGE = re.compile(
    rf"(?:tiny|medium|long)?(?:blob|text)|json|vector|{'|'.join(GEOMETRIES)}", re.IGNORECASE
)
_LAST = b'"txLast":true,'
_NOT_LAST = b'"txLast":false,'
# The number of java.sql.Types for a column whose type is not given.
_VARCHAR = 12
OUR_KEYS = {
    "described",
    "epoch",
    "file",
    "pos",
    "row",
    "serverId",
    "snapshot",
    "txLast",
    "unknown",
}


@lru_cache(maxsize=1000)
def _file(name: str) -> str:
    return _json(name)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


class CanalRow:
    """The `canalRow` converter. `zone`: the zone of canal's own TIMESTAMP cells; None: UTC."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    marks_snapshots = True

    def to_bytes(self, change: RowChange) -> bytes:
        """One flat message with one row."""
        return orjson.dumps(self.message(change))

    def ddl_to_bytes(self, ddl: TableDdl) -> bytes:
        """One flat message like that of a TRUNCATE, with the statement as written."""
        truncate = self.message(
            RowChange(Table(ddl.table, (), ()), Op.TRUNCATE, None, None, ddl.origin, is_last=True)
        )
        return orjson.dumps({**truncate, "sql": ddl.sql, "type": ddl.kind})

    def joined(self, values: Sequence[bytes]) -> bytes:
        """One flat message with the rows of many. `row` is the first one's number, `txLast` says
        whether the last one ends the transaction."""
        start, data, to_old, old, rest = zip(*map(_cut, values), strict=True)
        end = rest[0].replace(_NOT_LAST, _LAST) if _LAST in rest[-1] else rest[0]
        return b"".join((start[0], b",".join(data), to_old[0], b",".join(filter(None, old)), end))

    def message(self, change: RowChange) -> dict[str, Any]:
        """The message that `to_bytes` writes."""
        table = change.table
        origin = change.origin
        # To canal a TRUNCATE is DDL, which has a statement and no columns.
        is_ddl = change.op is Op.TRUNCATE
        message: dict[str, Any] = {}
        if origin.epoch:
            # First, so that readers find it without parsing the rest.
            message["epoch"] = origin.epoch
        message["data"] = _data(change)
        message["database"] = table.id.schema
        if not table.is_described:
            message["described"] = False
        unknown = _unknown(table, change.op, change.before or (), change.after or ())
        if unknown is not None:
            message["unknown"] = unknown
        message |= {
            "es": origin.commit_ms,
            "file": origin.file,
            "gtid": origin.gtid,
            "id": 0,
            "isDdl": is_ddl,
            "mysqlType": None,
            "old": None,
            "pkNames": None,
            "pos": origin.pos,
            "row": change.row,
            "serverId": origin.server_id,
        }
        if origin.is_snapshot:
            message["snapshot"] = True
        message |= {
            "sql": "",
            "sqlType": None,
            "table": table.id.table,
            "ts": time.time_ns() // 1_000_000,
            "txLast": change.is_last,
            "type": change.op.value,
        }
        if is_ddl:
            message["sql"] = f"TRUNCATE TABLE `{table.id.table}`"
            return message
        message["mysqlType"] = mysql_types(table)
        message["sqlType"] = _type_numbers(table)
        message["pkNames"] = list(table.key) or None
        if change.op is Op.UPDATE and change.before:
            message["old"] = [_changed(change.before, change.after)]
        return message

    def template(
        self, table: Table, op: Op, before: Collection[str] = (), after: Collection[str] = ()
    ) -> RecordTemplate | None:
        """The template of the messages that `to_bytes` writes."""
        database = _json(table.id.schema)
        name = _json(table.id.table)
        key = _json(list(table.key) or None)
        types = _json(mysql_types(table))
        numbers = _json(_type_numbers(table))
        has_old = op is Op.UPDATE and bool(before)
        old, old_end = ("[", "]") if has_old else ("null", "")
        # Fixed text is named after the values on both sides: `to_es` ends before `es`.
        start = '"data":['
        marks = "" if table.is_described else ',"described":false'
        unknown = _unknown(table, op, before, after)
        if unknown is not None:
            marks += f',"unknown":{_json(unknown)}'
        to_es = f'],"database":{database}{marks},"es":'
        gtid_to_old = f'","id":0,"isDdl":false,"mysqlType":{types},"old":{old}'
        old_to_pos = f'{old_end},"pkNames":{key},"pos":'
        server_to_ts = f',"sql":"","sqlType":{numbers},"table":{name},"ts":'
        end = f',"type":"{op.value}"}}'

        def texts(origin: Origin) -> tuple[str, ...]:
            commit_ms = origin.commit_us // 1000
            now_ms = time.time_ns() // 1_000_000
            file = _file(origin.file)
            head = "{" + start
            if origin.epoch:
                head = f'{{"epoch":"{origin.epoch}",{start}'
            to_old = f'{to_es}{commit_ms},"file":{file},"gtid":"{origin.gtid}{gtid_to_old}'
            to_row = f'{old_to_pos}{origin.pos},"row":'
            mark = ',"snapshot":true' if origin.is_snapshot else ""
            to_last = f',"serverId":{origin.server_id}{mark}{server_to_ts}{now_ms},"txLast":'
            if has_old:
                return head, to_old, to_row, to_last, end
            return head, to_old + to_row, to_last, end

        if has_old:
            return RecordTemplate(
                (Placeholder.AFTER, Placeholder.OLD, Placeholder.ROW, Placeholder.IS_LAST), texts
            )
        row = Placeholder.BEFORE if op is Op.DELETE else Placeholder.AFTER
        return RecordTemplate((row, Placeholder.ROW, Placeholder.IS_LAST), texts)

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The rows of a flat message, in order. Raises ConversionError."""
        try:
            return parsed(value, partial(read, zone=self._zone))
        except ValueError as error:
            raise ConversionError("not a canalRow record: not JSON") from error

    def read_columns(self, records: pa.BinaryArray) -> Columns:
        """The row changes of many records as columns."""
        # Imported here, as it brings Arrow, which writers do not need.
        from cdcbus.plugins.converters.arrow.read import columns_on_wire
        from cdcbus.plugins.converters.arrow.wire import CANAL_ROW

        return columns_on_wire(records, self, CANAL_ROW)


class CanalCompat(CanalRow):
    """The `canalCompat` converter: canal's own rendering of values, and only canal's keys. Reads
    the same records as `canalRow`. `refuses_unknown`: the rows to write were read from other
    records, see `message`."""

    def __init__(self, zone: tzinfo | None = None, *, refuses_unknown: bool = False) -> None:
        super().__init__(zone)
        self._refuses_unknown = refuses_unknown

    marks_snapshots = False

    def template(
        self, table: Table, op: Op, before: Collection[str] = (), after: Collection[str] = ()
    ) -> RecordTemplate | None:
        """None, as each value must be looked at."""
        return None

    def message(self, change: RowChange) -> dict[str, Any]:
        """The message that `to_bytes` writes. Raises ConversionError for an ENUM or SET label that
        the column's type does not have, and with `refuses_unknown` for an UPDATE that holds only
        some of the old cells. Of a source's own rows canal writes what it does not know as
        unchanged, too."""
        table = change.table
        unknown = _without_old(change.before or (), change.after or ())
        if unknown and self._refuses_unknown:
            raise ConversionError(
                f"an UPDATE of {table.id} comes without column {', '.join(unknown)} of the old "
                "row, which canalCompat can only write as unchanged: write canalRow or oggJson, or "
                "let the source log full row images"
            )
        before = _rendered(table, change.before)
        after = _rendered(table, change.after)
        message = super().message(replace(change, before=before, after=after))
        # canal writes whole seconds.
        message["es"] -= message["es"] % 1000
        if message["sqlType"] is not None:
            message["sqlType"] = sql_types(table, message["data"][0])
        for key in OUR_KEYS:
            message.pop(key, None)
        return message


def _data(change: RowChange) -> list[Row] | None:
    """The rows of a message: the one that a DELETE removed, else the one after the change."""
    row = change.before if change.op is Op.DELETE else change.after
    return None if row is None else [row]


def _rendered(table: Table, row: Row | None) -> Row | None:
    return None if row is None else rendered(table, row)


def _type_numbers(table: Table) -> dict[str, int]:
    """Column -> its java.sql.Types number, as in our `sqlType`."""
    return {column.name: column.sql_type for column in table.columns}


def _cut(value: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Cuts a message with one row into the text before the row, the row, the text up to the row in
    `old`, that row, and the rest. No cell can contain the texts searched for: quotation marks in
    cells are escaped, and a row holds no lists."""
    data = value.index(_DATA) + len(_DATA)
    data_end = value.index(b'],"database":')
    old = old_end = data_end
    if (found := value.find(_OLD, data_end)) >= 0:
        old = found + len(_OLD)
        old_end = value.index(b'],"pkNames":', old)
    return (
        value[:data],
        value[data:data_end],
        value[data_end:old],
        value[old:old_end],
        value[old_end:],
    )


def read(message: Any, zone: tzinfo | None = None) -> list[RowChange]:
    """The rows of a parsed message. `zone`: as in `CanalRow`. Raises ConversionError."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ConversionError(
            "not a canalRow record: an object with the keys database, table, type and data was "
            "expected"
        )
    kind = message["type"]
    if kind in WITHOUT_ROWS or (message.get("isDdl") and kind != Op.TRUNCATE):
        return []
    if kind not in Op.__members__:
        raise ConversionError(f"canalRow record of unknown type {kind!r}")
    # The cells of our own records need no reading, and name no zone.
    is_ours = "txLast" in message
    if is_ours:
        zone = None
    table, readings = _table(message, zone)
    origin = _origin(message)
    if kind == Op.TRUNCATE:
        return [RowChange(table, Op.TRUNCATE, None, None, origin)]
    return _changes(message, table, origin, {} if is_ours else readings)


def _changed(before: Row | None, after: Row | None) -> dict[str, str | None]:
    """The before values of the columns that an UPDATE changed, or that only its before image
    holds."""
    after = after or {}
    changed: dict[str, str | None] = {}
    for name, value in (before or {}).items():
        if name not in after or after[name] != value:
            changed[name] = value
    return changed


def _without_old(before: Collection[str], after: Collection[str]) -> list[str]:
    """Of an UPDATE whose images have these columns: those whose old cell is not known; none if the
    image before has no column, as `old` is null then."""
    return [name for name in after if name not in before] if before else []


def _unknown(
    table: Table, op: Op, before: Collection[str], after: Collection[str]
) -> list[str] | None:
    """The member `unknown` of a row with these images; None: it has none. An UPDATE of a part of a
    row has it even where it names nothing, as readers guess without it, see `_old_row`."""
    if op is not Op.UPDATE or not before:
        return None
    unknown = _without_old(before, after)
    is_part = table.is_described and len(after) < len(table.columns)
    return unknown if unknown or is_part else None


def _is_minimal(table: Table, after: Collection[str]) -> bool:
    """Whether the columns after an UPDATE show that the source logs only what a statement sets
    (binlog_row_image=MINIMAL): NOBLOB leaves out columns of large types only, in both rows."""
    missing = [column for column in table.columns if column.name not in after]
    return not all(_LARGE.match(column.mysql_type) for column in missing)


def _table(message: Mapping[str, Any], zone: tzinfo | None) -> tuple[Table, dict[str, Rendering]]:
    """The table, and the readings of canal's own cells."""
    schema = message.get("database")
    name = message.get("table")
    key = message.get("pkNames") or []
    if not isinstance(schema, str) or not isinstance(name, str) or not name:
        raise ConversionError("canalRow record without database and table")
    try:
        if not isinstance(key, list):
            raise TypeError
        types = message.get("mysqlType") or _untyped(message.get("data"))
        is_described = "txLast" in message and message.get("described") is not False
        is_described = is_described and (not types or bool(message.get("mysqlType")))
        if zone is not None and types and not message.get("mysqlType"):
            raise ConversionError(
                f"canalRow record of {schema}.{name} names no types (mysqlType), so its TIMESTAMP "
                "columns are not known: without consumer.source.timeZone they are taken as UTC"
            )
        numbers = message.get("sqlType") or {}
        return _known_table(
            TableId(schema, name),
            tuple(types.items()),
            tuple(numbers.items()),
            tuple(key),
            zone,
            is_described,
        )
    except (AttributeError, TypeError) as error:
        raise ConversionError(
            f"canalRow record of {schema}.{name}: mysqlType, sqlType and pkNames are not as canal "
            "writes them"
        ) from error


def _untyped(data: Any) -> dict[str, str]:
    """The columns of a message without types, as other writers of canal's form send."""
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return dict.fromkeys(data[0], "")
    return {}


@lru_cache(maxsize=10_000)
def _known_table(
    name: TableId,
    types: tuple[tuple[str, str], ...],
    sql_types: tuple[tuple[str, int], ...],
    key: tuple[str, ...],
    zone: tzinfo | None,
    is_described: bool,
) -> tuple[Table, dict[str, Rendering]]:
    """One object per table and shape, as plans for a table are cached by its identity."""
    numbers = dict(sql_types)
    texts = (*dict(types).values(), *key)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    if not all(isinstance(number, int) for number in numbers.values()):
        raise TypeError
    columns = []
    for column, mysql_type in types:
        columns.append(Column(column, mysql_type, numbers.get(column, _VARCHAR)))
    # Only what we have made of a whole row says so.
    table = Table(name, tuple(columns), key, is_described, has_old_rows=is_described)
    return table, ours(dict(types), zone)


def _origin(message: Mapping[str, Any]) -> Origin:
    return Origin(
        file=message.get("file") or "",
        pos=whole_number(message, "pos"),
        gtid=message.get("gtid") or "",
        server_id=whole_number(message, "serverId"),
        commit_us=time_us(message, "es", 1000),
        is_snapshot=message.get("snapshot") is True,
    )


def _pairs(old: object, data: list[Any]) -> bool:
    """Whether `old` has, for each row, its changed columns or null."""
    if not isinstance(old, list) or len(old) != len(data):
        return False
    return all(fields is None or isinstance(fields, dict) for fields in old)


def _changes(
    message: Mapping[str, Any], table: Table, origin: Origin, readings: Mapping[str, Rendering]
) -> list[RowChange]:
    op = Op[message["type"]]
    data = message.get("data")
    old = message.get("old")
    if not isinstance(data, list):
        raise ConversionError(f"canalRow record of {table.id}: data is not a list of rows")
    if op is Op.UPDATE and old is not None and not _pairs(old, data):
        raise ConversionError(f"canalRow record of {table.id}: old does not pair with data")
    unknown = message.get("unknown")
    if unknown is not None and not are_names(unknown):
        raise ConversionError(f"canalRow record of {table.id}: unknown is not a list of names")
    first = whole_number(message, "row")
    is_last = bool(message.get("txLast"))
    changes = []
    for i, fields in enumerate(data):
        if not isinstance(fields, dict):
            raise ConversionError(f"canalRow record of {table.id}: data is not a list of rows")
        row = _row(fields, readings)
        before: Row | None = None
        after: Row | None = row
        if op is Op.DELETE:
            before = row
            after = None
        elif op is Op.UPDATE:
            # Without `old` the former row is unknown.
            before = {}
            if old is not None:
                before = _old_row(table, row, _row(old[i] or {}, readings), unknown)
        ends = is_last and i == len(data) - 1
        changes.append(RowChange(table, op, before, after, origin, first + i, ends))
    return changes


def _old_row(table: Table, row: Row, old: Row, unknown: Collection[str] | None) -> Row:
    """The row before an UPDATE, from the row after it and the changed columns, without those that
    are unknown. None: the record does not say. As earlier versions did not name them of a part of a
    row, a column without its old cell there counts as not logged before, except those of the key,
    where the source has logged only what a statement sets."""
    kept = row
    if unknown:
        kept = {name: cell for name, cell in row.items() if name not in unknown}
    is_part = table.is_described and len(row) < len(table.columns)
    if unknown is None and is_part and (_is_minimal(table, row) or not old):
        kept = {name: row[name] for name in table.key if name in row}
    return {**kept, **old}


def _row(fields: dict[str, Any], readings: Mapping[str, Rendering]) -> dict[str, str | None]:
    row = cells(fields)
    return read_as(readings, row) if readings else row
