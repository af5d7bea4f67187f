"""canalProtobuf: canal's records with `canal.mq.flatMessage=false`, read only.

One record is a packet with any number of entries, of many tables and operations, in order; an entry
holds the rows of one binlog event. Begins and ends of transactions, heartbeats, GTIDs and DDL hold
no row; a TRUNCATE is an operation. Cells are the same texts as in canal's flat messages, see
`cdcbus.plugins.converters.canal_values`, and both images are complete.

The place in the binlog is not read: canal gives the same place to all events of a compressed
transaction, so it could not order changes of a row. The format is that of canal's
`CanalProtocol.proto` and `EntryProtocol.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from itertools import starmap
from typing import Final

from cdcbus.plugins.converters.canal_row import WITHOUT_ROWS
from cdcbus.plugins.converters.canal_values import Rendering, mysql_types, ours, read_as
from cdcbus.plugins.converters.protobuf.canal_schema import (
    CanalSchema,
    Entry,
    Field,
    Packet,
    RowData,
    canal_schema,
)
from cdcbus.plugins.converters.read_only import ReadOnly
from cdcbus.plugins.dates import dated_us
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId

FIRST_BYTES: Final = (b"\x08", b"\x10", b"\x18")
"""The first byte of a packet, of its magic number, version or type. No JSON begins like that."""

# 0: the packet names no version.
_VERSIONS = (0, 1)
_ENTRIES_WITHOUT_ROWS = {"TRANSACTIONBEGIN", "TRANSACTIONEND", "HEARTBEAT", "GTIDLOG"}


class CanalProtobuf(ReadOnly):
    """The `canalProtobuf` converter. `zone`: the zone of canal's TIMESTAMP cells; None: UTC."""

    NAME = "canalProtobuf"

    def __init__(self, zone: tzinfo | None = None) -> None:
        """Raises ConfigError where cdcbus was built without the schema."""
        self._zone = zone
        canal_schema()

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The rows of all entries of a packet, in order. Raises ConversionError."""
        schema = canal_schema()
        try:
            packet = schema.packet(value)
            _refuse_other(packet, schema)
            changes: list[RowChange] = []
            for message in schema.messages(packet.body).messages:
                changes += _changes(schema.entry(message), schema, self._zone)
        except schema.unreadable as error:
            raise ConversionError(
                "not a canalProtobuf record: its bytes are not a packet of canal's, whole and with "
                "text in UTF-8"
            ) from error
        return changes


def _refuse_other(packet: Packet, schema: CanalSchema) -> None:
    kind = _word(schema.packet_types, packet.type)
    if kind != "MESSAGES":
        raise ConversionError(
            f"not a canalProtobuf record: a packet of type MESSAGES was expected, not {kind}"
        )
    if packet.version not in _VERSIONS:
        raise ConversionError(
            f"canalProtobuf record of version {packet.version}, which is not known; known is 1"
        )
    compression = _word(schema.compressions, packet.compression)
    if compression not in ("NONE", "NOT_SAID"):
        raise ConversionError(
            f"canalProtobuf record whose body is compressed ({compression}): canal's own readers "
            "take none either; compress by kafka.compression.type in canal.properties"
        )


def _word(words: Mapping[int, str], number: int) -> str:
    """canal's word for a number; the number itself where there is none."""
    return words.get(number, str(number))


def _changes(entry: Entry, schema: CanalSchema, zone: tzinfo | None) -> list[RowChange]:
    """The rows of an entry. Raises ConversionError, and what the schema raises."""
    entry_type = _word(schema.entry_types, entry.entry_type)
    if entry_type in _ENTRIES_WITHOUT_ROWS:
        return []
    if entry_type != "ROWDATA":
        raise ConversionError(f"canalProtobuf record with an entry of unknown type {entry_type}")
    event = schema.row_change(entry.store_value)
    kind = _word(schema.event_types, event.event_type)
    if kind in WITHOUT_ROWS or (event.is_ddl and kind != Op.TRUNCATE):
        return []
    header = entry.header
    name = TableId(header.schema_name, header.table_name)
    if kind not in Op.__members__:
        raise ConversionError(f"canalProtobuf record with an event of unknown type {kind}")
    if not name.schema or not name.table:
        raise ConversionError("canalProtobuf record with rows of a table that is not named")
    origin = Origin(gtid=header.gtid, commit_us=dated_us(header.execute_time * 1000))
    op = Op[kind]
    if op is Op.TRUNCATE:
        table, _ = _known_table(name, (), (), zone)
        return [RowChange(table, op, None, None, origin)]
    if not event.row_datas:
        raise ConversionError(
            f"canalProtobuf record of {name}: {op} without its rows, which canal leaves out with "
            "canal.instance.filter.rows=true, and does not have where the source logs statements: "
            "its binlog_format must be ROW"
        )
    return _row_changes(event.row_datas, op, name, origin, zone)


def _row_changes(
    datas: Sequence[RowData], op: Op, name: TableId, origin: Origin, zone: tzinfo | None
) -> list[RowChange]:
    fields = [(data.before_columns, data.after_columns) for data in datas]
    images = [(_cells(before), _cells(after)) for before, after in fields]
    table, readings = _table(name, fields, images, zone)
    changes = []
    for number, (old, new) in enumerate(images):
        if len(old) + len(new) < sum(map(len, fields[number])):
            raise ConversionError(f"canalProtobuf record of {name}: a row has a column twice")
        row = old if op is Op.DELETE else new
        if not row:
            raise ConversionError(f"canalProtobuf record of {name}: {op} of a row without columns")
        before: Row | None = None
        after: Row | None = None
        if op is not Op.INSERT:
            before = read_as(readings, old) if readings else old
        if op is not Op.DELETE:
            after = read_as(readings, new) if readings else new
        changes.append(RowChange(table, op, before, after, origin, number))
    return changes


def _cells(fields: Sequence[Field]) -> dict[str, Cell]:
    # Runs for each cell: one comprehension is fastest.
    return {field.name: None if field.is_null else field.value for field in fields}


def _table(
    name: TableId,
    rows: Sequence[tuple[Sequence[Field], Sequence[Field]]],
    images: Sequence[tuple[Row, Row]],
    zone: tzinfo | None,
) -> tuple[Table, Mapping[str, Rendering]]:
    """The table, and the readings of canal's cells. Each row describes its columns: the last row
    counts, as in canal's flat messages, and former ones for columns that it lacks."""
    found: dict[str, Field] = {}
    for fields, (before, after) in zip(reversed(rows), reversed(images), strict=True):
        for row, described in ((after, fields[1]), (before, fields[0])):
            if not found.keys() >= row.keys():
                for field in described:
                    found.setdefault(field.name, field)
    columns = tuple((column, field.mysql_type, field.sql_type) for column, field in found.items())
    key = tuple(column for column, field in found.items() if field.is_key)
    return _known_table(name, columns, key, zone)


@lru_cache(maxsize=10_000)
def _known_table(
    name: TableId,
    columns: tuple[tuple[str, str, int], ...],
    key: tuple[str, ...],
    zone: tzinfo | None,
) -> tuple[Table, Mapping[str, Rendering]]:
    """One object per table and shape, as plans for a table are cached by its identity. Images can
    lack columns that no record describes (`binlog_row_image` MINIMAL or NOBLOB, canal's own column
    filter)."""
    described = tuple(starmap(Column, columns))
    table = Table(name, described, key, is_described=False)
    types = mysql_types(table)
    if zone is not None and not all(types.values()):
        raise ConversionError(
            f"canalProtobuf record of {name} names no types (mysqlType), so its TIMESTAMP columns "
            "are not known: without consumer.source.timeZone they are taken as UTC"
        )
    return table, ours(types, zone)
