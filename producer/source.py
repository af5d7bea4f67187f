"""The binlog source: a server's binlog from a position on, as batches of rows and transaction edges."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import ExitStack

from cdcbus.plugins.errors import PositionLost, SourceMisconfigured
from cdcbus.plugins.position import BinlogPosition
from cdcbus.plugins.start import BinlogStart, Edge
from cdcbus.producer import server as servers
from cdcbus.producer.filter import TableFilter
from cdcbus.producer.reading import Reading
from cdcbus.producer.rows import Batch
from cdcbus.producer.schema import SchemaReader
from cdcbus.producer.stream import READ_BYTES, open_stream
from cdcbus.producer.task import FetchTask


class BinlogSource:
    """Reads one server's binlog from a position. A context manager: leaving it closes the connections."""

    def __init__(self, task: FetchTask) -> None:
        self._config = task.source
        self._filter = TableFilter(task.tables)
        self._server_id = server_id(task)
        self._open = ExitStack()

    def __enter__(self) -> BinlogSource:
        """Connects and checks the server. Raises SourceUnavailable, SourceMisconfigured."""
        connection = servers.connect(self._config)
        self._open.callback(connection.close)
        self._connection = connection
        with servers.reported(self._config):
            self._server = servers.inspect(connection, self._config)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def locate(self, start: BinlogStart) -> BinlogPosition:
        """The position that a start rule names. Raises SourceUnavailable, SourceMisconfigured."""
        with servers.reported(self._config):
            if start is Edge.LATEST:
                return servers.latest_position(self._connection)
            if start is Edge.EARLIEST:
                return BinlogPosition(servers.binlog_files(self._connection)[0][0], 4)
        if not isinstance(start, BinlogPosition):
            raise SourceMisconfigured(f"consumer.offset: a binlog task cannot start at {start} yet; give file:pos, earliest or latest")
        return start

    def check(self, position: BinlogPosition) -> None:
        """Raises PositionLost, naming what the server has, when the position's file is gone or shorter."""
        with servers.reported(self._config):
            files = dict(servers.binlog_files(self._connection))
        if position.file not in files or position.pos > files[position.file]:
            host, port = self._config.addresses[0]
            names = list(files)
            size = f"; {position.file} is {files[position.file]} bytes long" if position.file in files else ""
            raise PositionLost(f"source {host}:{port} does not hold {position}: it has {names[0]} to {names[-1]}{size}")

    def batches(self, position: BinlogPosition, read_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Rows and transaction edges from `position` on, for ever, in binlog order.

        Raises UnreadableEvent naming event and position, PositionLost, SourceUnavailable, SourceMisconfigured; what was read before is
        given out first.
        """
        stream = servers.connect(self._config)
        self._open.callback(stream.close)
        with servers.reported(self._config):
            events = open_stream(stream, self._server, position, self._server_id, read_bytes)
            yield from Reading(position, self._server, self._filter, SchemaReader(self._connection)).batches(events)


def server_id(task: FetchTask) -> int:
    """The task's replica id: as configured, else one that is stable for the task and unlikely to meet another, above the range that people
    give by hand."""
    return task.source.server_id or 0x40000000 | zlib.crc32(task.task_id.encode()) & 0x3FFFFFFF
