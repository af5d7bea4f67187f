"""The checksums of binlog events: a CRC32 of the event in its last four bytes.

A server sends an event as its file has it, and does not look whether the two match (MariaDB's
master_verify_checksum and MySQL's source_verify_checksum are off by default): its replicas do. It
always notices a length that no event can have.
"""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import PositionLost, UnreadableEvent
from cdcbus.producer.binlog.event_types import HEADER, checksum_bytes_of

_HEAD: Final = BINLOG.FORMAT_DESCRIPTION_EVENT
# The CRC32 of any bytes that are followed by their own CRC32.
_RESIDUE: Final = 0x2144DF1C
# What both servers say, under the number of a lost log, of an event that is damaged in its file,
# and of a place where none begins.
_BY_SERVER: Final = re.compile(
    "did not pass crc check|bogus data in log event|log event entry exceeded max_allowed_packet"
)
_BEHIND: Final = (
    "set the position past the event's transaction, or to the next file, and compare the tables "
    "that were changed in between (cdcbus verify --repair)"
)


class Checksums:
    """Checks the events of one stream, each once and in order. `size`: that of the checksum after
    each event, until a file's head says otherwise."""

    def __init__(self, size: int) -> None:
        self._size = size

    def body(self, event: bytes) -> bytes:
        """The event without its header and its checksum. Raises UnreadableEvent if the checksum
        does not match."""
        size = self._size
        if event[4] == _HEAD:
            size = checksum_bytes_of(event)
        # The head of a file without checksums has one, but where a server changes the head for a
        # stream, as it does for GTIDs, it computes the checksum anew only in a file with checksums.
        if size:
            is_damaged = crc32(event) != _RESIDUE
        else:
            is_damaged = event[4] == _HEAD and _is_of_checked_file(event)
        if is_damaged:
            raise UnreadableEvent(
                "the checksum (CRC32) of the binlog event does not match its bytes: the file is "
                "damaged there, or the event was damaged on its way. Start the task again: if it "
                "stops there again, it is the file, as mysqlbinlog --verify-binlog-checksum shows; "
                f"replicas stop there, too. Then {_BEHIND}"
            )
        self._size = size
        return event[HEADER.size : len(event) - size]


def damage_noticed(lost: PositionLost, place: object) -> UnreadableEvent | None:
    """What it means that the server breaks off at a place, if what it says is of a damaged event:
    it says so of an offset within an event, too. None if it says something else."""
    if not _BY_SERVER.search(str(lost)):
        return None
    return UnreadableEvent(
        f"{place}: the server does not send the event that begins there, as it is damaged in the "
        f"server's file: {lost}. Look at it by mysqlbinlog --verify-binlog-checksum; replicas stop "
        f"there, too. Then {_BEHIND}"
    )


def _is_of_checked_file(head: bytes) -> bool:
    """Whether the head says that its file has no checksums because that byte is damaged."""
    return crc32(head[:-5] + b"\1" + head[-4:]) == _RESIDUE
