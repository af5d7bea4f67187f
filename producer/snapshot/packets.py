"""A server's answer to a query, in the protocol's text form. Pure."""

from __future__ import annotations

_NULL = 251
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}


def cells(packet: bytes, count: int) -> list[bytes | None]:
    """Returns the cells of a row in the protocol's text form."""
    found: list[bytes | None] = []
    at = 0
    for _ in range(count):
        size = packet[at]
        at += 1
        if size == _NULL:
            found.append(None)
            continue
        if size > _NULL:
            width = _LENGTH_BYTES[size]
            size = int.from_bytes(packet[at : at + width], "little")
            at += width
        found.append(packet[at : at + size])
        at += size
    return found
