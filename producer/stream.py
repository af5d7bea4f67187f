"""The raw binlog event stream of a server."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import COMMAND

from cdcbus.plugins.position import BinlogPosition
from cdcbus.producer.server import Server

if TYPE_CHECKING:
    from cdcbus.producer.server import Connection

HEARTBEAT_SECONDS = 1.0  # an idle server sends one this often, so that the reader also wakes to store positions and to stop
SILENCE_SECONDS = 15.0  # no event and no heartbeat for so long: the connection is dead
MAX_PACKET = 0xFFFFFF
SEND_ANNOTATIONS = 2  # MariaDB does not say where the events of a transaction are: their lengths do, if none is left out
_OK, _ERROR, _END = 0x00, 0xFF, 0xFE


def open_stream(connection: Connection, server: Server, position: BinlogPosition, server_id: int) -> Iterator[bytes]:
    """Events from `position` on, each as header and body with its checksum, for ever. Raises pymysql errors and OSError.

    `connection` serves nothing else afterwards.
    """
    heartbeat = int(HEARTBEAT_SECONDS * 1_000_000_000)
    checksum = "@@global.binlog_checksum" if server.has_checksum else "'NONE'"
    with connection.cursor() as cursor:
        for prefix in ("master", "source"):  # MySQL 8.4 renamed them; setting both does no harm
            cursor.execute(f"SET @{prefix}_heartbeat_period = {heartbeat}, @{prefix}_binlog_checksum = {checksum}")
        # 4: understands GTID events. With less, MariaDB replaces them by others.
        cursor.execute("SET @mariadb_slave_capability = 4")
    flags = SEND_ANNOTATIONS if server.is_mariadb else 0
    dump = struct.pack("<IHI", position.pos, flags, server_id) + position.file.encode()
    raw: Any = connection  # the driver has no public way to read a stream
    raw._execute_command(COMMAND.COM_BINLOG_DUMP, dump)
    raw._sock.settimeout(SILENCE_SECONDS)
    read = raw._rfile.read
    while True:
        packet = _packet(read)
        if packet[0] == _OK:
            yield packet[1:]
        elif packet[0] == _ERROR:
            pymysql.err.raise_mysql_exception(packet)
        elif packet[0] == _END:
            raise EOFError("the server ended the binlog stream")


def _packet(read: Callable[[int], bytes]) -> bytes:
    """One packet, put together from its 16 MB parts. `read(n)` blocks until n bytes are there; fewer mean the connection is gone."""
    parts = []
    while True:
        header = read(4)
        if len(header) < 4:
            raise EOFError("the server closed the binlog connection")
        size = header[0] | header[1] << 8 | header[2] << 16
        part = read(size)
        if len(part) < size:
            raise EOFError("the server closed the binlog connection")
        parts.append(part)
        if size < MAX_PACKET:
            return part if len(parts) == 1 else b"".join(parts)
