"""MySQL's binary JSON, written here after its description (`json_binary.h`), is read back."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.decoding.json_document import double_text, json_text

DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), inner)
    ),
    max_leaves=20,
)
LITERALS = {None: 0, True: 1, False: 2}


def stored(value: Any, large: bool) -> tuple[int, bytes]:
    """(type byte, bytes) of a value; containers with 4-byte offsets if `large`."""
    if value is None or isinstance(value, bool):
        return 4, bytes((LITERALS[value],))
    if isinstance(value, int):
        for kind, layout in ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q")):
            try:
                return kind, struct.pack(layout, value)
            except struct.error:
                continue
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, length(len(value.encode())) + value.encode()
    return container(value, large)


def length(number: int) -> bytes:
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*groups, number))


def container(value: Any, large: bool) -> tuple[int, bytes]:
    offset, width = ("<I", 4) if large else ("<H", 2)
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    items = list(value.values()) if isinstance(value, dict) else value
    place = 2 * width + len(keys) * (width + 2) + len(items) * (1 + width)
    key_entries, key_bytes = b"", b""
    for key in keys:
        key_entries += struct.pack(offset, place + len(key_bytes)) + struct.pack("<H", len(key))
        key_bytes += key
    value_entries, value_bytes = b"", b""
    for item in items:
        kind, raw = stored(item, large)
        if kind in (4, 5, 6) or (large and kind in (7, 8)):
            value_entries += bytes((kind,)) + raw.ljust(width, b"\0")
        else:
            value_entries += bytes((kind,)) + struct.pack(
                offset, place + len(key_bytes) + len(value_bytes)
            )
            value_bytes += raw
    body = key_entries + value_entries + key_bytes + value_bytes
    head = struct.pack(offset, len(items)) + struct.pack(offset, 2 * width + len(body))
    return (0 if isinstance(value, dict) else 2) + large, head + body


@given(DOCUMENTS, st.booleans())
def test_every_document_is_read_back(value: Any, large: bool) -> None:
    kind, raw = stored(value, large)
    assert json.loads(json_text(bytes((kind,)) + raw)) == value


def test_a_document_is_spaced_as_the_server_does() -> None:
    kind, raw = stored({"a": [1, None], "b": {}}, large=False)
    assert json_text(bytes((kind,)) + raw) == '{"a": [1, null], "b": {}}'


def opaque(kind: int, raw: bytes) -> bytes:
    return bytes((0x0F, kind)) + length(len(raw)) + raw


def packed(
    year: int, month: int, day: int, hour: int, minute: int, second: int, micros: int
) -> int:
    return (
        ((year * 13 + month) << 5 | day) << 41 | (hour << 12 | minute << 6 | second) << 24 | micros
    )


@pytest.mark.parametrize(
    ("kind", "raw", "text"),
    [
        (246, bytes((4, 2)) + bytes.fromhex("8063"), "0.99"),
        (246, bytes((14, 4)) + bytes.fromhex("7EF204C72DFB2D"), "-1234567890.1234"),
        (10, packed(2024, 2, 29, 0, 0, 0, 0).to_bytes(8, "little"), '"2024-02-29"'),
        (
            12,
            packed(2024, 2, 29, 23, 59, 58, 7).to_bytes(8, "little"),
            '"2024-02-29 23:59:58.000007"',
        ),
        (7, packed(1970, 1, 1, 0, 0, 1, 0).to_bytes(8, "little"), '"1970-01-01 00:00:01.000000"'),
        (11, packed(0, 0, 0, 838, 59, 59, 0).to_bytes(8, "little"), '"838:59:59.000000"'),
        (
            11,
            (-packed(0, 0, 0, 1, 2, 3, 500000)).to_bytes(8, "little", signed=True),
            '"-01:02:03.500000"',
        ),
        (252, b"\x00\xff", '"base64:type252:AP8="'),
        (16, b"\x05", '"base64:type16:BQ=="'),
        (15, b"", '"base64:type15:"'),
        (15, b"\0" * 57, f'"base64:type15:{"A" * 76}"'),
        (15, b"\0" * 58, f'"base64:type15:{"A" * 76}\\nAA=="'),
    ],
)
def test_values_that_json_does_not_have(kind: int, raw: bytes, text: str) -> None:
    assert json_text(opaque(kind, raw)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1e16, "1e16"),
        (1e20, "1e20"),
        (123456789012345.0, "123456789012345.0"),
        (1234567890123456.0, "1.234567890123456e15"),
        (1234567890123456.5, "1234567890123456.5"),
        (0.00001, "0.00001"),
        (1.5e-7, "0.00000015"),
        (1e-15, "0.000000000000001"),
        (1.2345678901234567e-15, "0.0000000000000012345678901234568"),
        (1e-16, "1e-16"),
        (5e-324, "5e-324"),
        (-1.7976931348623157e308, "-1.7976931348623157e308"),
    ],
)
def test_a_double_is_spelled_as_the_server_does(value: float, text: str) -> None:
    assert double_text(value) == text
    assert json_text(b"\x0b" + struct.pack("<d", value)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_and_is_no_integer(value: float) -> None:
    text = double_text(value)
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)
    assert isinstance(json.loads(text), float)


def test_an_empty_document_is_null() -> None:
    assert json_text(b"") == "null"


def test_a_value_of_unknown_type_stops() -> None:
    with pytest.raises(UnreadableEvent, match="unknown type 13"):
        json_text(b"\x0d\x00")
    with pytest.raises(UnreadableEvent, match="unknown type 4"):
        json_text(b"\x04\x03")
