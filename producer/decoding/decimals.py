"""MySQL's binary DECIMAL to text (`my_decimal` of the servers): groups of nine digits in four
bytes, big-endian."""

from __future__ import annotations

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_size(precision: int, scale: int) -> int:
    """The size of a DECIMAL(precision, scale) in bytes: four per nine digits on either side of the
    point, fewer for the rest."""
    whole, fraction = divmod(precision - scale, 9), divmod(scale, 9)
    return whole[0] * 4 + _DIGIT_BYTES[whole[1]] + fraction[0] * 4 + _DIGIT_BYTES[fraction[1]]


def decimal_text(raw: bytes, precision: int, scale: int) -> str:
    """The text: plain digits with the declared scale. Groups of nine digits are big-endian; the
    first bit is the sign, negative numbers are inverted."""
    negative = not raw[0] & 0x80
    raw = bytes((raw[0] ^ 0x80,)) + raw[1:]
    if negative:
        raw = bytes(byte ^ 0xFF for byte in raw)
    whole_groups, whole_rest = divmod(precision - scale, 9)
    fraction_groups, fraction_rest = divmod(scale, 9)
    widths = [whole_rest] * bool(whole_rest) + [9] * whole_groups
    digits, at = "", 0
    for width in widths:
        size = _DIGIT_BYTES[width]
        digits += f"{int.from_bytes(raw[at : at + size], 'big'):0{width}d}"
        at += size
    text = ("-" if negative else "") + (digits.lstrip("0") or "0")
    if not scale:
        return text
    digits = ""
    for width in [9] * fraction_groups + [fraction_rest] * bool(fraction_rest):
        size = _DIGIT_BYTES[width]
        digits += f"{int.from_bytes(raw[at : at + size], 'big'):0{width}d}"
        at += size
    return f"{text}.{digits}"
