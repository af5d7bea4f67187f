"""GTID_TAGGED events: the GTIDs `uuid:tag:number` of MySQL 8.3 and newer.

Layout: `mysql::serialization` and `Gtid_event::define_fields` of the MySQL sources: version, size,
the last field that a reader must know, then fields, each a number and a value. Integers have 1 to 9
bytes: the trailing one bits of the first byte count the bytes that follow it, a signed integer has
its sign in the lowest bit.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from cdcbus.plugins.errors import UnreadableEvent

_VERSION = 1
# Field numbers; the ones between are integers that are not needed here.
_UUID, _NUMBER, _TAG, _COMMIT, _ORIGINAL_COMMIT, _LAST = 1, 2, 3, 6, 7, 11


class Gtid(NamedTuple):
    """A transaction's GTID as text, the uuid in it, and its commit time on that server
    (microseconds since 1970)."""

    text: str
    server_uuid: str
    commit_us: int


def parse(body: bytes) -> Gtid:
    """Parses a GTID_TAGGED event's body. Raises UnreadableEvent if it is truncated, or newer than
    this release knows."""
    try:
        integers, uuid, tag = _fields(body)
        # signed, and never negative
        server_uuid, number = str(UUID(bytes=uuid)), integers[_NUMBER] >> 1
        commit_us = integers.get(_ORIGINAL_COMMIT) or integers[_COMMIT]
    except (IndexError, KeyError, ValueError) as error:
        raise UnreadableEvent("a GTID with a tag (GTID_TAGGED) is incomplete") from error
    return Gtid(f"{server_uuid}:{tag + ':' if tag else ''}{number}", server_uuid, commit_us)


def _fields(body: bytes) -> tuple[dict[int, int], bytes, str]:
    version, at = varying_integer(body, 0)
    size, at = varying_integer(body, at)
    needed, at = varying_integer(body, at)
    if version != _VERSION or needed > _LAST:
        raise UnreadableEvent(
            f"a GTID with a tag (GTID_TAGGED) of version {version} with field {needed}, unknown "
            "to this release"
        )
    integers: dict[int, int] = {}
    uuid, tag = b"", ""
    while at < size:
        field, at = varying_integer(body, at)
        if field > _LAST:
            break  # newer, and not needed; fields come in order
        if field == _UUID:
            digits = []
            for _ in range(16):
                digit, at = varying_integer(body, at)
                digits.append(digit)
            uuid = bytes(digits)
        elif field == _TAG:
            length, at = varying_integer(body, at)
            tag = body[at : at + length].decode()
            at += length
        else:
            integers[field], at = varying_integer(body, at)
    return integers, uuid, tag


def varying_integer(body: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned integer and the index after it. Raises IndexError at the body's end."""
    first = body[at]
    following = (~first & (first + 1)).bit_length() - 1  # its trailing one bits
    end = at + 1 + following
    if end > len(body):
        raise IndexError
    # the first byte's remaining bits are the lowest ones; seven or more following bytes leave none
    rest = int.from_bytes(body[at + 1 : end], "little")
    return first >> following + 1 | rest << max(0, 7 - following), end
