"""Converts positions of canal, Debezium and Maxwell to the start of a task: `consumer.offset`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from cdcbus.plugins.errors import PositionError
from cdcbus.tasks.foreign.conversion import time_of

# canal's own client, when it writes to a broker.
CANAL_CLIENT = "1001"
# Times in a binlog are not in strict order, and clocks of servers differ; rows may come again.
BEFORE = timedelta(seconds=60)
# A byte array in Java's serialization: TC_ARRAY with the class description of byte[], or with a
# reference to it, then the length in four bytes.
_ARRAY = re.compile(rb"\x75(?:\x72\x00\x02\[B.{8}\x02\x00\x00\x78\x70|\x71.{4})(.{4})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a task. `offset`: the text of consumer.offset. `remark`: what an operator should
    know about it. `is_snapshot`: the tool had not finished its first copy. `unfinished`: the tables
    of a later copy that it had not finished."""

    offset: str
    remark: str = ""
    is_snapshot: bool = False
    unfinished: tuple[str, ...] = ()


def cursor_path(destination: str, client: str = CANAL_CLIENT) -> str:
    """The znode of canal's cursor."""
    return f"/otter/canal/destinations/{destination}/{client}/cursor"


def from_cursor(text: str | bytes, address: str) -> Start:
    """The start at canal's cursor, for a task that reads from `address`: a file position is not
    valid on another server. Raises PositionError."""
    cursor = _object(text, "canal's cursor")
    # canal's own spelling is `postion`.
    place = _part(cursor, "postion") or _part(cursor, "position")
    at = _part(_part(cursor, "identity"), "sourceAddress")
    host = str(at.get("address", ""))
    # Java shows an address as name/number; the task may have either.
    where = f"{host.rpartition('/')[2] or host.partition('/')[0]}:{at.get('port', '')}"
    file, pos = place.get("journalName"), place.get("position")
    is_same = address in (where, f"{host.partition('/')[0]}:{at.get('port', '')}")
    if is_same and isinstance(file, str) and file and isinstance(pos, int):
        return Start(f"{file}:{pos}")
    if gtid := str(place.get("gtid") or ""):
        return Start(gtid, f"by GTID, as canal's cursor is of {where}")
    if moment := time_of(str(place.get("timestamp", ""))):
        before = moment - BEFORE
        return Start(
            f"{before:%Y-%m-%dT%H:%M:%S}Z",
            f"a minute before canal's cursor, which is of {where or 'another server'}: rows of "
            "that minute come again",
        )
    raise PositionError("canal's cursor has neither a place at this server, GTIDs, nor a time")


def from_meta_file(text: str | bytes, address: str) -> Start:
    """The start at the cursor in canal's meta.dat. Raises PositionError."""
    clients = _object(text, "meta.dat").get("clientDatas")
    cursors: list[dict[str, Any]] = []
    for client in clients or ():
        if isinstance(client, dict) and isinstance(client.get("cursor"), dict):
            cursors.append(client["cursor"])
    if len(cursors) != 1:
        raise PositionError(f"meta.dat has cursors of {len(cursors)} clients; expected one")
    return from_cursor(orjson.dumps(cursors[0]), address)


def from_debezium_offset(fields: Mapping[str, Any]) -> Start:
    """The start at a connector's stored offset, which is the beginning of its current transaction.
    Raises PositionError."""
    # `incremental`: a later copy, beside the stream.
    if str(fields.get("snapshot") or "").lower() not in ("", "false", "last", "incremental"):
        return Start("", "its snapshot was not finished, and starts again", is_snapshot=True)
    rows = fields.get("row") or 0
    events = fields.get("event") or 0
    # They count what the connector has sent since the beginning of the transaction.
    remark = ""
    if rows or events:
        remark = "rows of the transaction in hand come again"
    unfinished = _unfinished(str(fields.get("incremental_snapshot_collections") or ""))
    if gtids := str(fields.get("gtids") or ""):
        return Start(re.sub(r"\s", "", gtids), remark, unfinished=unfinished)
    file, pos = fields.get("file"), fields.get("pos")
    if not isinstance(file, str) or not file or not isinstance(pos, int):
        raise PositionError("the connector's offset has neither file and pos nor gtids")
    return Start(f"{file}:{pos}", remark, unfinished=unfinished)


def _unfinished(text: str) -> tuple[str, ...]:
    """The tables of an incremental snapshot in progress: JSON objects, formerly names with
    commas."""
    try:
        tables = [str(each["incremental_snapshot_collections_id"]) for each in orjson.loads(text)]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        tables = list(filter(None, map(str.strip, text.split(","))))
    return tuple(tables)


def connector_offset(
    pairs: Iterator[tuple[bytes, bytes | None]], name: str, prefix: str
) -> Start | None:
    """The start at the newest record of this connector among Debezium's offsets; None where there
    is none. `prefix`: its topic.prefix. Raises PositionError."""
    found: bytes | None = None
    for key, value in pairs:
        try:
            connector, partition = orjson.loads(key)
        except (orjson.JSONDecodeError, ValueError, TypeError):
            # Another tool's record.
            continue
        if isinstance(partition, dict) and (connector, partition.get("server")) == (name, prefix):
            # The last one counts; an empty value, a tombstone, means that there is none.
            found = value
    if not found:
        return None
    return from_debezium_offset(_object(found, "the connector's offset"))


def offsets_in_file(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The keys and values in a file of Kafka Connect's FileOffsetBackingStore: a map of byte
    arrays, serialised by Java. Raises PositionError."""
    # Java's magic number of a serialized stream.
    if data[:2] != b"\xac\xed":
        raise PositionError("not a file of offsets; expected what Kafka Connect standalone writes")
    arrays, at = [], 0
    while found := _ARRAY.search(data, at):
        end = found.end() + int.from_bytes(found[1], "big")
        arrays.append((found.start(), data[found.end() : end]))
        at = end
        # Java's null: this key has no value.
        if data[at : at + 1] == b"\x70":
            arrays.append((at, b""))
    # The map's arrays come in turns: a key, then its value.
    if len(arrays) % 2:
        raise PositionError("the file of offsets breaks off; copy it again")
    for number in range(0, len(arrays), 2):
        yield arrays[number][1], arrays[number + 1][1] or None


def from_maxwell_row(
    file: str | None, pos: int | None, gtids: str | None, unfinished: tuple[str, ...] = ()
) -> Start:
    """The start at a row of Maxwell's `positions`. `unfinished`: the tables of its `bootstrap`.
    Raises PositionError."""
    if gtids:
        return Start(re.sub(r"\s", "", gtids), unfinished=unfinished)
    if not file or pos is None:
        raise PositionError("Maxwell's positions have neither a file nor GTIDs")
    return Start(f"{file}:{pos}", unfinished=unfinished)


def _object(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise PositionError(f"{what} is not a JSON object")
    return fields


def _part(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = fields.get(name)
    if not isinstance(found, dict):
        return {}
    return found
