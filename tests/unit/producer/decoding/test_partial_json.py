"""Changes of stored JSON documents; what real servers write is in
tests/integration/producer/publish/test_delivery.py."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.decoding.json_document import json_text
from cdcbus.producer.decoding.partial_json import changed

REPLACE, INSERT, REMOVE = range(3)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=200)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
    ),
    max_leaves=20,
)


def length(size: int) -> bytes:
    """In seven-bit groups, lowest first."""
    return bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80,)) + length(size >> 7)


def stored(value: Any) -> bytes:
    """A document as the server stores it, in the form for small ones; integers in the smallest
    type."""
    if value is None or isinstance(value, bool):
        return b"\x04" + bytes(({None: 0, True: 1, False: 2}[value],))
    if isinstance(value, int):
        kind, form = next(
            (kind, form)
            for kind, form, bits in ((5, "h", 15), (7, "i", 31), (9, "q", 63))
            if -(1 << bits) <= value < 1 << bits
        )
        return bytes((kind,)) + struct.pack("<" + form, value)
    if isinstance(value, str):
        return b"\x0c" + length(len(value.encode())) + value.encode()
    names = (
        sorted((name.encode() for name in value), key=lambda name: (len(name), name))
        if isinstance(value, dict)
        else []
    )
    children = (
        [stored(value[name.decode()]) for name in names]
        if isinstance(value, dict)
        else [stored(child) for child in value]
    )
    at = 4 + 4 * len(names) + 3 * len(children)
    entries = []
    for name in names:
        entries.append(struct.pack("<HH", at, len(name)))
        at += len(name)
    for child in children:
        is_inline = child[0] in (4, 5)
        entries.append(
            child[:1] + (child[1:].ljust(2, b"\0") if is_inline else struct.pack("<H", at))
        )
        at += 0 if is_inline else len(child) - 1
    parts = [*entries, *names, *(child[1:] for child in children if child[0] not in (4, 5))]
    return (
        bytes((0 if isinstance(value, dict) else 2,))
        + struct.pack("<HH", len(children), at)
        + b"".join(parts)
    )


def change(operation: int, path: str, value: Any = None) -> bytes:
    def sized(data: bytes) -> bytes:
        return (
            bytes((len(data),)) if len(data) < 251 else b"\xfc" + struct.pack("<H", len(data))
        ) + data

    return (
        bytes((operation,))
        + sized(path.encode())
        + (b"" if operation == REMOVE else sized(stored(value)))
    )


def after(document: Any, *changes: bytes) -> Any:
    return json.loads(json_text(changed(stored(document), b"".join(changes))))


@given(DOCUMENTS, DOCUMENTS)
def test_a_member_is_put_in_replaced_and_removed(first: Any, second: Any) -> None:
    document = {"a": [first], "b": second}
    assert after(document, change(INSERT, "$.c", first)) == {**document, "c": first}
    assert after(document, change(REPLACE, "$.a[0]", second)) == {"a": [second], "b": second}
    assert after(document, change(REMOVE, "$.b")) == {"a": [first]}


@given(st.text(min_size=1, max_size=20).filter(lambda name: name != "other"), DOCUMENTS)
def test_a_member_s_name_may_be_anything(name: str, value: Any) -> None:
    assert after(
        {"other": 1, name: 2}, change(REPLACE, f"$.{json.dumps(name, ensure_ascii=False)}", value)
    ) == {"other": 1, name: value}


CASES: dict[str, tuple[Any, bytes, Any]] = {
    "in an array, those behind move on": ([1, 2], change(INSERT, "$[0]", 0), [0, 1, 2]),
    "behind an array's end": ([1, 2], change(INSERT, "$[9]", 3), [1, 2, 3]),
    "the last cell": ([1, 2], change(REPLACE, "$[last]", 3), [1, 3]),
    "before the last cell": ([1, 2, 3], change(REMOVE, "$[last-1]"), [1, 3]),
    "deep": (
        {"a": [{"b": {"c": 1}}]},
        change(REPLACE, "$.a[0].b.c", [1]),
        {"a": [{"b": {"c": [1]}}]},
    ),
    "a name beyond ASCII": ({"ä": 1}, change(REPLACE, "$.ä", 2), {"ä": 2}),
    "one after the other": (
        {"a": 1},
        change(INSERT, "$.b", {}) + change(INSERT, "$.b.c", 1),
        {"a": 1, "b": {"c": 1}},
    ),
    "nothing": ({"a": 1}, b"", {"a": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_change_is_made_as_the_server_makes_it(case: str) -> None:
    document, changes, expected = CASES[case]
    assert after(document, changes) == expected


@pytest.mark.parametrize(
    "changes",
    [
        lambda: change(REPLACE, "$.x", 1),
        lambda: change(INSERT, "$.a", 1),
        lambda: change(REMOVE, "$.list[5]"),
        lambda: change(REMOVE, "$"),
        lambda: change(REPLACE, "$.a.b", 1),
        lambda: change(REPLACE, "$.list.b", 1),
        lambda: change(REPLACE, "$.list[*]", 1),
        lambda: change(3, "$.a", 1),
    ],
)
def test_what_does_not_fit_the_document_stops(changes: Callable[[], bytes]) -> None:
    with pytest.raises(UnreadableEvent):
        changed(stored({"a": 1, "list": [1]}), changes())
