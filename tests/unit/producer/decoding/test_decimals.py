"""DECIMAL: the server's bytes to text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.producer.decoding.decimals import decimal_size, decimal_text

GROUP_BYTES = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 4}


def stored(digits: str, scale: int, negative: bool) -> bytes:
    """What the server stores for `digits` (precision many), as its manual describes it."""
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    first = len(whole) % 9
    groups = [
        whole[:first],
        *(whole[i : i + 9] for i in range(first, len(whole), 9)),
        *(fraction[i : i + 9] for i in range(0, scale, 9)),
    ]
    raw = bytearray(
        b"".join(int(group).to_bytes(GROUP_BYTES[len(group)], "big") for group in groups if group)
    )
    raw[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in raw) if negative else bytes(raw)


@pytest.mark.parametrize(
    ("raw", "precision", "scale", "text"),
    [
        ("810DFB38D204D2", 14, 4, "1234567890.1234"),  # the two examples of the server's own source
        ("7EF204C72DFB2D", 14, 4, "-1234567890.1234"),
        ("80", 1, 0, "0"),
        ("89", 1, 0, "9"),
        ("76", 1, 0, "-9"),
        ("8063", 4, 2, "0.99"),
        ("8000", 4, 2, "0.00"),
        ("7F9C", 4, 2, "-0.99"),
        ("BB9AC9FF", 9, 9, "0.999999999"),
        ("80000000010000000A", 19, 9, "1.000000010"),
    ],
)
def test_known_bytes_are_read(raw: str, precision: int, scale: int, text: str) -> None:
    assert decimal_text(bytes.fromhex(raw), precision, scale) == text


@given(st.data())
def test_every_decimal_is_read_back(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(30, precision)))
    digits = data.draw(st.text("0123456789", min_size=precision, max_size=precision))
    negative = data.draw(st.booleans()) and bool(int(digits))  # the server has no negative zero
    raw = stored(digits, scale, negative)
    whole = str(int(digits[: precision - scale] or "0"))
    assert len(raw) == decimal_size(precision, scale)
    assert decimal_text(raw, precision, scale) == "-" * negative + whole + (
        f".{digits[precision - scale :]}" if scale else ""
    )
