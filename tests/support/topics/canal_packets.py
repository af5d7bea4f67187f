"""What canal writes with `canal.mq.flatMessage=false`, byte by byte by the field numbers of its own
schema, without any code that reads it. And the same changes as canal's flat messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

Fields = Mapping[str, Any]

# The name of each field: its number, and of what it holds where that is a message.
_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Packet": {
        "magic_number": (1, ""),
        "version": (2, ""),
        "type": (3, "PacketType"),
        "compression": (4, "Compression"),
        "body": (5, "Messages"),
    },
    "Messages": {"batch_id": (1, ""), "messages": (2, "Entry")},
    "Entry": {
        "header": (1, "Header"),
        "entryType": (2, "EntryType"),
        "storeValue": (3, "RowChange"),
        "begin": (3, "TransactionBegin"),
        "end": (3, "TransactionEnd"),
    },
    "Header": {
        "version": (1, ""),
        "logfileName": (2, ""),
        "logfileOffset": (3, ""),
        "serverId": (4, ""),
        "serverenCode": (5, ""),
        "executeTime": (6, ""),
        "sourceType": (7, ""),
        "schemaName": (8, ""),
        "tableName": (9, ""),
        "eventLength": (10, ""),
        "eventType": (11, "EventType"),
        "props": (12, "Pair"),
        "gtid": (13, ""),
    },
    "RowChange": {
        "tableId": (1, ""),
        "eventType": (2, "EventType"),
        "isDdl": (10, ""),
        "sql": (11, ""),
        "rowDatas": (12, "RowData"),
        "props": (13, "Pair"),
        "ddlSchemaName": (14, ""),
    },
    "RowData": {
        "beforeColumns": (1, "Column"),
        "afterColumns": (2, "Column"),
        "props": (3, "Pair"),
    },
    "Column": {
        "index": (1, ""),
        "sqlType": (2, ""),
        "name": (3, ""),
        "isKey": (4, ""),
        "updated": (5, ""),
        "isNull": (6, ""),
        "props": (7, "Pair"),
        "value": (8, ""),
        "length": (9, ""),
        "mysqlType": (10, ""),
    },
    "TransactionBegin": {"executeTime": (1, ""), "transactionId": (2, ""), "threadId": (4, "")},
    "TransactionEnd": {"executeTime": (1, ""), "transactionId": (2, "")},
    "Pair": {"key": (1, ""), "value": (2, "")},
}
# By number; 0 is what an old writer left unsaid.
_WORDS = {
    "PacketType": "- HANDSHAKE CLIENTAUTHENTICATION ACK SUBSCRIPTION UNSUBSCRIPTION GET MESSAGES "
    "CLIENTACK SHUTDOWN DUMP HEARTBEAT CLIENTROLLBACK",
    "Compression": "- NONE ZLIB GZIP LZF",
    "EntryType": "- TRANSACTIONBEGIN ROWDATA TRANSACTIONEND HEARTBEAT GTIDLOG",
    "EventType": "- INSERT UPDATE DELETE CREATE ALTER ERASE QUERY TRUNCATE RENAME CINDEX DINDEX "
    "GTID XACOMMIT XAROLLBACK MHEARTBEAT",
}


def encoded(kind: str, fields: Fields) -> bytes:
    """A message of canal's; members are named as in its schema, enums by their words or numbers."""
    parts = []
    for name, value in fields.items():
        number, of = _FIELDS[kind][name]
        values = value if isinstance(value, list) else [value]
        for each in values:
            parts.append(_field(number, of, each))
    return b"".join(parts)


def _field(number: int, of: str, value: object) -> bytes:
    if of in _WORDS and isinstance(value, str):
        value = _WORDS[of].split().index(value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % 2**64)
    if isinstance(value, dict):
        value = encoded(of, value)
    if isinstance(value, str):
        value = value.encode()
    assert isinstance(value, bytes)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def packet(entries: Iterable[Fields], batch_id: int = 7) -> bytes:
    """A record's value, as canal builds it from entries."""
    body = {"batch_id": batch_id, "messages": list(entries)}
    return encoded("Packet", {"version": 1, "type": "MESSAGES", "body": body})


def flat(entries: Iterable[Fields]) -> list[bytes]:
    """The same as canal's flat messages: one for each entry with rows or a statement."""
    messages = []
    for entry in entries:
        if entry["entryType"] not in ("TRANSACTIONBEGIN", "TRANSACTIONEND"):
            messages.append(orjson.dumps(_flat(entry["header"], entry["storeValue"])))
    return messages


def _flat(header: Fields, change: Fields) -> dict[str, Any]:
    kind = change["eventType"]
    message: dict[str, Any] = {
        **dict.fromkeys(("data", "mysqlType", "old", "pkNames", "sqlType")),
        "database": header["schemaName"],
        "es": header["executeTime"],
        "gtid": header.get("gtid", ""),
        "id": 7,
        "isDdl": change.get("isDdl", False),
        "sql": change.get("sql", ""),
        "table": header["tableName"],
        "ts": header["executeTime"] + 12,
        "type": kind,
    }
    datas: Sequence[Fields] = change.get("rowDatas", [])
    if not datas or message["isDdl"]:
        return message
    image = "beforeColumns" if kind == "DELETE" else "afterColumns"
    columns = datas[-1][image]
    message["data"] = [_cells(data[image]) for data in datas]
    message["mysqlType"] = _by_column(columns, "mysqlType")
    message["sqlType"] = _by_column(columns, "sqlType")
    key = [column["name"] for column in datas[0][image] if column.get("isKey")]
    message["pkNames"] = key or None
    if kind == "UPDATE":
        message["old"] = [_old(data) for data in datas]
    return message


def _by_column(columns: Iterable[Fields], member: str) -> dict[str, Any]:
    return {column["name"]: column[member] for column in columns}


def _old(data: Fields) -> dict[str, str | None]:
    updated = {column["name"] for column in data["afterColumns"] if column.get("updated")}
    return _cells(column for column in data["beforeColumns"] if column["name"] in updated)


def _cells(columns: Iterable[Fields]) -> dict[str, str | None]:
    cells: dict[str, str | None] = {}
    for column in columns:
        cells[column["name"]] = None
        if not column.get("isNull"):
            cells[column["name"]] = column.get("value", "")
    return cells
