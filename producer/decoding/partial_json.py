"""Converts PARTIAL_UPDATE_ROWS events (MySQL, `binlog_row_value_options=PARTIAL_JSON`) to
UPDATE_ROWS events: applies the changes of a JSON document to the document in the before image.

Layout: "Rows_log_event" and `Json_diff` of the MySQL sources. The after image begins with options;
if their lowest bit is set, a bitmap follows with a bit for each JSON column of the table, and if a
bit is set the column's value is a list of changes: operation, path, new value. Binary JSON: see
`cdcbus.producer.decoding.json_document`.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass

from pymysqlreplication.constants import BINLOG
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.event_types import packed_integer
from cdcbus.producer.decoding.row_image import Layout, is_set, layout, present
from cdcbus.producer.decoding.table import DecodableTable

PARTIAL_UPDATE_ROWS = 0x27
_PARTIAL_JSON = 1
_REPLACE, _INSERT, _REMOVE = range(3)


def whole_updates(body: bytes, table: DecodableTable) -> bytes:
    """Returns the body of an UPDATE_ROWS event (version 2) with the same rows. Raises
    UnreadableEvent naming the table."""
    try:
        shape, at = layout(BINLOG.UPDATE_ROWS_EVENT_V2, body, table)
        parts = [body[:at]]
        while at < len(body):
            before, middle = _places(body, at, shape.first, table)
            after, end = _whole(body, middle, shape, table, before)
            if end == at:  # rows without columns: the loop would never end
                raise _damaged()
            parts += body[at:middle], after
            at = end
        if at > len(body):
            raise _damaged()
        return b"".join(parts)
    except (UnreadableEvent, IndexError, KeyError, ValueError, struct.error) as error:
        raise UnreadableEvent(
            f"table {table.table.id}: a row with changes of JSON documents (PARTIAL_UPDATE_ROWS) "
            f"cannot be completed ({error}); "
            "set binlog_row_value_options='' for every session"
        ) from error


def _damaged() -> UnreadableEvent:
    return UnreadableEvent("a change does not fit the document in the before image")


def _places(
    body: bytes, at: int, bitmap: bytes, table: DecodableTable
) -> tuple[dict[int, bytes], int]:
    """Returns the values of a complete row image, column number -> bytes, without NULLs; and where
    the image ends."""
    columns = present(bitmap, table)
    nulls = body[at : at + (len(columns) + 7) // 8]
    at += len(nulls)
    values = {}
    for i, index in enumerate(columns):
        if not is_set(nulls, i):
            _, end = table.readers[index](body, at)
            values[index] = body[at:end]
            at = end
    return values, at


def _whole(
    body: bytes, at: int, shape: Layout, table: DecodableTable, before: dict[int, bytes]
) -> tuple[bytes, int]:
    """Returns the after image whose options start at `at`, without the options and with complete
    documents; and where it ends."""
    options, at = packed_integer(body, at)
    if options & ~_PARTIAL_JSON:
        raise UnreadableEvent(f"options {options} of a row, unknown to this release")
    documents = [index for index, column in enumerate(table.columns) if column.type == TYPE.JSON]
    partial: set[int] = set()
    if options & _PARTIAL_JSON:
        partial = {index for i, index in enumerate(documents) if is_set(body[at:], i)}
        at += (len(documents) + 7) // 8
    columns = present(shape.second, table)
    nulls = body[at : at + (len(columns) + 7) // 8]
    at += len(nulls)
    parts = [nulls]
    for i, index in enumerate(columns):
        if is_set(nulls, i):
            continue
        if index in partial:
            end = at + 4 + int.from_bytes(body[at : at + 4], "little")
            # Without the four bytes of its length, which a row has before a document.
            document = changed(before[index][4:], body[at + 4 : end])
            parts.append(len(document).to_bytes(4, "little") + document)
        else:
            _, end = table.readers[index](body, at)
            parts.append(body[at:end])
        at = end
    return b"".join(parts), at


@dataclass(slots=True)
class _Scalar:
    """A scalar's type byte and bytes, as stored."""

    kind: int
    data: bytes


_Object = dict[bytes, "_Node"]
_Node = _Scalar | list["_Node"] | _Object


def changed(document: bytes, changes: bytes) -> bytes:
    """Applies a list of changes to a stored document (type byte and value), and returns the result.
    Raises UnreadableEvent, and IndexError or ValueError for damaged bytes."""
    root: list[_Node] = [_parsed(document[0], document, 1) if document else _Scalar(4, b"\0")]
    at = 0
    while at < len(changes):
        operation = changes[at]
        size, at = packed_integer(changes, at + 1)
        path = _path(changes[at : at + size].decode())
        at += size
        value: _Node | None = None
        if operation != _REMOVE:
            size, at = packed_integer(changes, at)
            value = _parsed(changes[at], changes[: at + size], at + 1)
            at += size
        _apply(root, operation, path, value)
    kind, data = _stored(root[0])
    return bytes((kind,)) + data


_LEG = re.compile(r'\.(?:"((?:[^"\\]|\\.)*)"|([^.\[\s"]+))|\[(\d+|last(?:-(\d+))?)\]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Cell:
    """An array's cell; counted from the end, the last one is 1."""

    number: int
    is_from_end: bool

    def place(self, array: list[_Node]) -> int:
        if self.is_from_end:
            return len(array) - self.number
        return self.number


def _path(text: str) -> list[bytes | _Cell]:
    """The legs of a path without wildcards: names of members and array cells."""
    legs: list[bytes | _Cell] = []
    at = 1
    while at < len(text):
        leg = _LEG.match(text, at)
        if leg is None or text[0] != "$":
            raise UnreadableEvent("a path of a form unknown to this release")
        quoted, name, cell, from_last = leg.groups()
        if cell is not None and cell.startswith("last"):
            legs.append(_Cell(int(from_last or 0) + 1, True))
        elif cell is not None:
            legs.append(_Cell(int(cell), False))
        elif quoted is not None:
            legs.append(json.loads(f'"{quoted}"', strict=False).encode())
        else:
            legs.append(name.encode())
        at = leg.end()
    return legs


def _apply(
    root: list[_Node], operation: int, path: list[bytes | _Cell], value: _Node | None
) -> None:
    """Applies one change, like `apply_json_diff` of the MySQL sources. Raises UnreadableEvent."""
    container: _Node = root
    leg: bytes | _Cell = _Cell(0, False)
    for following in path:
        container = _child(container, leg)
        leg = following
    if isinstance(container, list) and isinstance(leg, _Cell):
        place = leg.place(container)
        if operation == _REMOVE and container is root:
            raise _damaged()
        _apply_to_array(container, operation, place, value)
    elif isinstance(container, dict) and isinstance(leg, bytes):
        _apply_to_object(container, operation, leg, value)
    else:
        raise _damaged()


def _apply_to_array(array: list[_Node], operation: int, place: int, value: _Node | None) -> None:
    exists = 0 <= place < len(array)
    if operation == _INSERT and value is not None:
        # A place beyond the end appends, one before the beginning prepends.
        array.insert(max(0, place), value)
    elif operation == _REPLACE and value is not None and exists:
        array[place] = value
    elif operation == _REMOVE and exists:
        del array[place]
    else:
        raise _damaged()


def _apply_to_object(members: _Object, operation: int, name: bytes, value: _Node | None) -> None:
    exists = name in members
    # INSERT requires a new member, REPLACE an existing one
    if value is not None and exists is (operation == _REPLACE):
        members[name] = value
    elif operation == _REMOVE and exists:
        del members[name]
    else:
        raise _damaged()


def _child(container: _Node, leg: bytes | _Cell) -> _Node:
    if isinstance(container, list) and isinstance(leg, _Cell):
        place = leg.place(container)
        if 0 <= place < len(container):
            return container[place]
    if isinstance(container, dict) and isinstance(leg, bytes) and leg in container:
        return container[leg]
    raise _damaged()


_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_STRING = 0x0C
_OPAQUE = 0x0F
# Bytes by type: literals, then numbers of 16, 32 and 64 bits and doubles.
_SIZES = {_LITERAL: 1, 0x05: 2, 0x06: 2, 0x07: 4, 0x08: 4, 0x09: 8, 0x0A: 8, 0x0B: 8}
_INLINE = {_LITERAL, 0x05, 0x06}
_INLINE_LARGE = _INLINE | {0x07, 0x08}


def _parsed(kind: int, data: bytes, at: int) -> _Node:
    """Parses the value of type `kind` that begins at `at`."""
    if kind in _SIZES:
        return _Scalar(kind, data[at : at + _SIZES[kind]])
    if kind in (_STRING, _OPAQUE):
        return _Scalar(kind, data[at : _text_end(kind, data, at)])
    if kind > _LARGE_ARRAY:
        raise UnreadableEvent(f"a JSON value of type {kind}, unknown to this release")
    is_large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    # bytes of each offset and count
    width = 4 if is_large else 2
    inline = _INLINE_LARGE if is_large else _INLINE

    def number(place: int, size: int = width) -> int:
        return int.from_bytes(data[place : place + size], "little")

    # Count and size, then an entry per name (offset, length), then one per value (type, offset or
    # the value itself). Offsets are from the beginning.
    count = number(at)
    entry = at + 2 * width
    names = []
    if is_object:
        for _ in range(count):
            start = at + number(entry)
            names.append(data[start : start + number(entry + width, 2)])
            entry += width + 2
    values = []
    for _ in range(count):
        child = data[entry]
        # Small values are in the place of their own offset.
        place = entry + 1 if child in inline else at + number(entry + 1)
        values.append(_parsed(child, data, place))
        entry += 1 + width
    if is_object:
        return dict(zip(names, values, strict=True))
    return values


def _text_end(kind: int, data: bytes, at: int) -> int:
    """Where a text ends: its length precedes it, in seven-bit groups, lowest first. An opaque value
    has its column type before the length."""
    start = at + 1 if kind == _OPAQUE else at
    end = start
    while data[end] & 0x80:
        end += 1
    length = 0
    for place, byte in enumerate(data[start : end + 1]):
        length += (byte & 0x7F) << 7 * place
    return end + 1 + length


def _stored(node: _Node) -> tuple[int, bytes]:
    """Returns type byte and bytes; objects and arrays in their large form, names in the server's
    order: shorter ones first."""
    if isinstance(node, _Scalar):
        return node.kind, node.data
    names: list[bytes] = []
    members: list[_Node]
    if isinstance(node, dict):
        names = sorted(node, key=lambda name: (len(name), name))
        members = [node[name] for name in names]
    else:
        members = node
    children = list(map(_stored, members))
    # count and size, six bytes per name, five per value; then the names, then the values
    at = 8 + 6 * len(names) + 5 * len(children)
    parts = []
    for name in names:
        parts.append(at.to_bytes(4, "little") + len(name).to_bytes(2, "little"))
        at += len(name)
    outside = []
    for kind, data in children:
        if kind in _INLINE_LARGE:
            parts.append(bytes((kind,)) + data.ljust(4, b"\0"))
        else:
            parts.append(bytes((kind,)) + at.to_bytes(4, "little"))
            outside.append(data)
            at += len(data)
    body = b"".join([*parts, *names, *outside])
    kind = _LARGE_ARRAY
    if isinstance(node, dict):
        kind = _LARGE_OBJECT
    return kind, struct.pack("<II", len(children), 8 + len(body)) + body
