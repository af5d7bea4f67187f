"""No bytes make a converter raise anything but ConversionError, and whatever it reads has the
shape of its operation."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.converters import auto
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, RowChange
from tests.unit.plugins.converters.test_golden import CASES, value

NAMES = [
    "canalRow",
    "oggJson",
    "porterCompat",
    "canalCompat",
    "canalProtobuf",
    "debeziumJson",
    "maxwellJson",
    "porterJson",
    "auto",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
MESSAGES = [json.loads(value(case)) for case in CASES.values() if "packet" not in case]
PACKETS = [value(case) for case in CASES.values() if "packet" in case]
SHAPES = {
    Op.INSERT: (False, True),
    Op.UPDATE: (True, True),
    Op.DELETE: (True, False),
    Op.TRUNCATE: (False, False),
}


def members(message: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a message."""
    parts = (
        message.items()
        if isinstance(message, dict)
        else enumerate(message)
        if isinstance(message, list)
        else ()
    )
    return [path, *(found for name, part in parts for found in members(part, (*path, name)))]


def replaced(message: Any, path: tuple[Any, ...], part: Any) -> Any:
    if not path:
        return part
    copy = dict(message) if isinstance(message, dict) else list(message)
    copy[path[0]] = replaced(message[path[0]], path[1:], part)
    return copy


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A golden message, one part of which is something else."""
    message = draw(st.sampled_from(MESSAGES))
    path = draw(st.sampled_from(members(message)))
    return json.dumps(
        replaced(message, path, draw(JSON)), separators=(",", ":"), allow_nan=False
    ).encode()


@st.composite
def cut(draw: st.DrawFn) -> bytes:
    """A golden message with some of its bytes lost or changed."""
    text = value(draw(st.sampled_from(list(CASES.values()))))
    first, last = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return text[:first] + draw(st.binary(max_size=3)) + text[last:]


@st.composite
def garbled(draw: st.DrawFn) -> bytes:
    """A golden packet of canal's with some bytes changed, whose lengths still fit."""
    packet = bytearray(draw(st.sampled_from(PACKETS)))
    for _ in range(draw(st.integers(1, 3))):
        packet[draw(st.integers(0, len(packet) - 1))] = draw(st.integers(0, 255))
    return bytes(packet)


def check(name: str, record: bytes) -> None:
    try:
        changes: list[RowChange] = make_converter(name).from_bytes(record)
    except ConversionError:
        return
    for change in changes:
        assert (change.before is not None, change.after is not None) == SHAPES[change.op]
        cells = [*(change.before or {}).values(), *(change.after or {}).values()]
        assert all(cell is None or isinstance(cell, str) for cell in cells)
        assert isinstance(change.origin.commit_ms, int)
        assert isinstance(change.row, int)
        assert all(
            isinstance(column.name, str) and isinstance(column.mysql_type, str)
            for column in change.table.columns
        )
        assert hash(change.table) is not None


@pytest.mark.parametrize("name", NAMES)
@given(
    record=st.binary() | nearly_right() | cut() | JSON.map(lambda part: json.dumps(part).encode())
)
def test_no_bytes_crash_a_converter(name: str, record: bytes) -> None:
    check(name, record)


@pytest.mark.parametrize("name", ["canalProtobuf", "auto"])
@given(record=garbled())
def test_no_garbled_packet_crashes_a_converter(name: str, record: bytes) -> None:
    check(name, record)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [200, 900, 100_000])
def test_deep_nesting_crashes_no_converter(name: str, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for message in MESSAGES:
        for image in ("data", "after"):
            if isinstance(message, dict) and image in message:
                row = (
                    b'[{"a":' + deep + b"}]"
                    if isinstance(message[image], list)
                    else b'{"a":' + deep + b"}"
                )
                check(name, orjson.dumps({**message, image: "?deep?"}).replace(b'"?deep?"', row))


def test_what_auto_does_not_know_is_named() -> None:
    for record in (b"", b"7", b"{}", b'{"id": 1}', b'{"type": "x"}'):
        with pytest.raises(ConversionError):
            auto.Auto().from_bytes(record)
