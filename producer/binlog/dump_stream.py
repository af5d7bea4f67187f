"""The raw binlog event stream of a server."""

from __future__ import annotations

import select
import ssl
import struct
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import COMMAND

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.binlog.gtid import GtidSet, MysqlGtids
from cdcbus.producer.server.connection import Server

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

# an idle server sends one this often, so that the reader also wakes to store positions and to stop
HEARTBEAT_SECONDS = 1.0
SILENCE_SECONDS = 15.0  # no event and no heartbeat for so long: the connection is dead
MAX_PACKET = 0xFFFFFF
READ_BYTES = 1 << 18
# MariaDB does not say where the events of a transaction are: their lengths do, if none is left out
SEND_ANNOTATIONS = 2
# as server id: the stream ends where the binlog does now, and takes no other reader's place
BOUNDED = 0
_THROUGH_GTID = 4
_OK, _ERROR = 0x00, 0xFF
_STATUS = itemgetter(0)
_HEAD = struct.Struct("<I").unpack_from


def open_stream(
    connection: Connection,
    server: Server,
    start: BinlogPosition | GtidSet,
    server_id: int,
    read_bytes: int = READ_BYTES,
) -> Iterator[list[bytes]]:
    """Events from a position on, or all transactions that are not in a GTID set: for ever, as many
    at once as have come: at least one, some `read_bytes` at most. Each is header and body with its
    checksum. Raises pymysql errors and OSError.

    `connection` serves nothing else afterwards.
    """
    heartbeat = int(HEARTBEAT_SECONDS * 1_000_000_000)
    # What is said here holds for the first event alone, which names the file; then come the head of
    # that file, and what it says.
    checksum = "'CRC32'" if server.has_checksum else "'NONE'"
    with connection.cursor() as cursor:
        for prefix in ("master", "source"):  # MySQL 8.4 renamed them; setting both does no harm
            cursor.execute(
                f"SET @{prefix}_heartbeat_period = {heartbeat}, @{prefix}_binlog_checksum = "
                f"{checksum}"
            )
        # 4: understands GTID events. With less, MariaDB replaces them by others.
        cursor.execute("SET @mariadb_slave_capability = 4")
        if server.is_mariadb and not isinstance(start, BinlogPosition):
            cursor.execute(
                "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1, "
                "@slave_gtid_ignore_duplicates = 0",
                (str(start),),
            )
    raw: Any = connection  # the driver has no public way to read a stream
    raw._execute_command(*_request(start, server_id, SEND_ANNOTATIONS if server.is_mariadb else 0))
    raw._sock.settimeout(SILENCE_SECONDS)
    yield from _events(packets(raw._rfile.read1, read_bytes), is_bounded=server_id == BOUNDED)


def has_more(connection: Connection) -> bool:
    """Whether more of its stream has come than was read."""
    sock: Any = connection._sock  # type: ignore[attr-defined]
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(0))


def _request(start: BinlogPosition | GtidSet, server_id: int, flags: int) -> tuple[int, bytes]:
    """Command and arguments; MariaDB gets its GTIDs by a variable, and takes the plain
    command without a file."""
    if isinstance(start, MysqlGtids):
        executed = start.to_bytes()
        return COMMAND.COM_BINLOG_DUMP_GTID, struct.pack(
            "<HIIQI", _THROUGH_GTID, server_id, 0, 4, len(executed)
        ) + executed
    file, pos = (start.file, start.pos) if isinstance(start, BinlogPosition) else ("", 4)
    return COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", pos, flags, server_id) + file.encode()


def _events(batches: Iterator[list[bytes]], *, is_bounded: bool) -> Iterator[list[bytes]]:
    """The events in the packets. The server's error, or the end of its stream, is raised after
    the events before it were given out; that end is no error where it `is_bounded`."""
    for batch in batches:
        if not any(map(_STATUS, batch)):
            yield [packet[1:] for packet in batch]
            continue
        events: list[bytes] = []
        batch.reverse()
        while batch:  # a packet may be large: none is kept beside its event
            packet = batch.pop()
            if packet[0] != _OK:
                if events:
                    yield events
                if packet[0] == _ERROR:
                    pymysql.err.raise_mysql_exception(packet)
                if is_bounded:
                    return
                raise EOFError("the server ended the binlog stream")
            events.append(packet[1:])
        packet = b""
        yield events


def packets(read: Callable[[int], bytes], read_bytes: int) -> Iterator[list[bytes]]:
    """The protocol's packets, put together from their 16 MB parts, as many at once as have come.
    `read(n)` gives 1 to n bytes, none when the connection is lost; then EOFError is raised."""
    data = b""
    parts: list[bytes] = []  # of a packet of more than 16 MB
    while True:
        found = []
        at, end, size = 0, 0, len(data)
        while at + 4 <= size:
            length = _HEAD(data, at)[0] & MAX_PACKET  # the fourth byte numbers the packets
            end = at + 4 + length
            if end > size:
                break
            part = data[at + 4 : end]
            if length == MAX_PACKET:
                parts.append(part)
            elif parts:
                found.append(b"".join([*parts, part]))
                parts.clear()
            else:
                found.append(part)
            at = end
        lacking = (end if end > size else at + 4) - size
        data, part = data[at:], b""
        if found:
            yield found
        data = b"".join([data, *_chunks(read, lacking, read_bytes)])


def _chunks(read: Callable[[int], bytes], lacking: int, read_bytes: int) -> Iterator[bytes]:
    """What is there to be read, at least `lacking` bytes."""
    while lacking > 0:
        chunk = read(max(read_bytes, lacking))
        if not chunk:
            raise EOFError("the server closed the binlog connection")
        lacking -= len(chunk)
        yield chunk
