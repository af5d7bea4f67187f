"""GTID_TAGGED events: the GTIDs `uuid:tag:number` of MySQL 8.3 and newer.

Layout: `mysql::serialization` and `Gtid_event::define_fields` of the MySQL sources: version, size,
the last field that a reader must know, then fields, each a number and a value. Integers have 1 to 9
bytes: the ones at the end of the first byte count those that follow it, a signed one has its sign
in the lowest bit.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from cdcbus.plugins.errors import UnreadableEvent

_VERSION = 1
# Fields by number; those between are integers that nothing here needs.
_UUID, _NUMBER, _TAG, _COMMIT, _ORIGINAL_COMMIT, _LAST = 1, 2, 3, 6, 7, 11


class Gtid(NamedTuple):
    """A transaction's GTID as text, the uuid in it, and when it was committed on that server
    (microseconds since 1970)."""

    text: str
    server_uuid: str
    commit_us: int


def parse(body: bytes) -> Gtid:
    """A GTID_TAGGED event's body. Raises UnreadableEvent for what is cut off, or of a form newer
    than this release knows."""
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
    """An unsigned integer and the place after it. Raises IndexError at the end of the body."""
    first = body[at]
    following = (~first & (first + 1)).bit_length() - 1  # ones at its end
    end = at + 1 + following
    if end > len(body):
        raise IndexError
    rest = int.from_bytes(body[at + 1 : end], "little")
    return first >> following + 1 | rest << max(0, 7 - following), end
