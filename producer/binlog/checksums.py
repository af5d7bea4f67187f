"""The checksums of binlog events: a CRC32 of the event in its last four bytes.

A server sends an event as its file has it, and does not look whether the two match (MariaDB's
master_verify_checksum and MySQL's source_verify_checksum are off by default): its replicas do.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.event_types import HEADER, checksum_bytes_of

_HEAD: Final = BINLOG.FORMAT_DESCRIPTION_EVENT
# The CRC32 of any bytes that are followed by their own CRC32.
_RESIDUE: Final = 0x2144DF1C


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
                "replicas stop there, too. Then set the position past the event's transaction, or "
                "to the next file, and compare the tables that were changed in between (cdcbus "
                "verify --repair)"
            )
        self._size = size
        return event[HEADER.size : len(event) - size]


def _is_of_checked_file(head: bytes) -> bool:
    """Whether the head says that its file has no checksums because that byte is damaged."""
    return crc32(head[:-5] + b"\1" + head[-4:]) == _RESIDUE
