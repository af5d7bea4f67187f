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
SILENCE_SECONDS = 15.0  # without an event or heartbeat for this long, the connection is dead
MAX_PACKET = 0xFFFFFF
READ_BYTES = 1 << 18
# MariaDB omits the offsets of events within a transaction: their lengths give them if all are sent
SEND_ANNOTATIONS = 2
# as server id: the stream ends at the binlog's current end, and displaces no other reader
BOUNDED = 0
# the text of both servers, under the error number of a lost log, for a file whose end is missing
BROKEN_OFF = "truncated in the middle of event"
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
    heartbeat_seconds: float | None = None,
) -> Iterator[list[bytes]]:
    """Yields, forever, events from a position on, or all transactions that are not in a GTID set:
    in lists of those that have arrived, at least one event, about `read_bytes` at most. Each is
    header and body with its checksum. An idle server sends a heartbeat each `heartbeat_seconds`,
    None = HEARTBEAT_SECONDS. Raises pymysql errors and OSError.

    `connection` cannot be used for anything else afterwards.
    """
    heartbeat = int((heartbeat_seconds or HEARTBEAT_SECONDS) * 1_000_000_000)
    # This checksum setting holds for the first event only, which names the file; the head of that
    # file then states its own.
    checksum = "'NONE'"
    if server.has_checksum:
        checksum = "'CRC32'"
    with connection.cursor() as cursor:
        for prefix in ("master", "source"):  # MySQL 8.4 renamed them; setting both does no harm
            cursor.execute(
                f"SET @{prefix}_heartbeat_period = {heartbeat}, @{prefix}_binlog_checksum = "
                f"{checksum}"
            )
        # 4: understands GTID events. With less, MariaDB replaces them with other events.
        cursor.execute("SET @mariadb_slave_capability = 4")
        if server.is_mariadb and not isinstance(start, BinlogPosition):
            cursor.execute(
                "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1, "
                "@slave_gtid_ignore_duplicates = 0",
                (str(start),),
            )
    raw: Any = connection  # the driver has no public way to read a stream
    raw._execute_command(*_request(start, server_id, SEND_ANNOTATIONS if server.is_mariadb else 0))
    # Heartbeats come even while there are no events: longer silence is a lost connection.
    raw._sock.settimeout(SILENCE_SECONDS)
    yield from _events(packets(raw._rfile.read1, read_bytes), is_bounded=server_id == BOUNDED)


def has_more(connection: Connection) -> bool:
    """Whether more of its stream has arrived than was read."""
    sock: Any = connection._sock  # type: ignore[attr-defined]
    if sock is None:
        return False  # closed, as the task ends
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(0))


def _request(start: BinlogPosition | GtidSet, server_id: int, flags: int) -> tuple[int, bytes]:
    """Returns command and arguments; MariaDB gets its GTIDs through a variable, and the plain
    command without a file."""
    if isinstance(start, MysqlGtids):
        executed = start.to_bytes()
        return COMMAND.COM_BINLOG_DUMP_GTID, struct.pack(
            "<HIIQI", _THROUGH_GTID, server_id, 0, 4, len(executed)
        ) + executed
    file, pos = "", 4
    if isinstance(start, BinlogPosition):
        file, pos = start.file, start.pos
    return COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", pos, flags, server_id) + file.encode()


def _events(batches: Iterator[list[bytes]], *, is_bounded: bool) -> Iterator[list[bytes]]:
    """Yields the events in the packets. Raises the server's error, or EOFError at the end of its
    stream, after the events before it were yielded; the end of an `is_bounded` stream is no
    error."""
    for batch in batches:
        # Nearly always: then no packet is looked at one by one.
        if not any(map(_STATUS, batch)):
            yield [packet[1:] for packet in batch]
            continue
        events: list[bytes] = []
        batch.reverse()
        while batch:  # a packet can be large: none is kept in memory together with its event
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


def packets(
    read: Callable[[int], bytes],
    read_bytes: int,
    cut: Callable[[bytes], tuple[list[bytes], int]] | None = None,
) -> Iterator[list[bytes]]:
    """Yields the protocol's packets, joined from their 16 MB parts, in lists of those that have
    arrived. `read(n)` returns 1 to n bytes, or none when the connection is lost: then this raises
    EOFError. `cut` does the same faster for packets at the begin of some bytes that are whole and
    have no other parts, and says where these end."""
    data = b""
    parts: list[bytes] = []  # of a packet of more than 16 MB
    while True:
        found: list[bytes] = []
        at, end, size = 0, 0, len(data)
        if cut is not None and not parts:
            found, at = cut(data)
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
        # Bytes missing to the end of a begun packet, or else to the end of the next head.
        lacking = (end if end > size else at + 4) - size
        # A part can have 16 MB: it is not kept while the next ones are awaited.
        data, part = data[at:], b""
        if found:
            yield found
        data = b"".join([data, *_chunks(read, lacking, read_bytes)])


def _chunks(read: Callable[[int], bytes], lacking: int, read_bytes: int) -> Iterator[bytes]:
    """Reads what is available, at least `lacking` bytes. Raises EOFError."""
    while lacking > 0:
        chunk = read(max(read_bytes, lacking))
        if not chunk:
            raise EOFError("the server closed the binlog connection")
        lacking -= len(chunk)
        yield chunk
