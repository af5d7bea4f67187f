"""Checks each minute, on a connection of its own, that a stream of heartbeats only is at the end of
the server's binlog.

The stream does not end when a server's binlog is reset, or another server takes over the address:
its thread waits at the end of a file that no longer exists, and sends heartbeats forever.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdcbus.plugins.errors import PositionLost, SourceMisconfigured, SourceUnavailable
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source.position_resolver import Binlog, when
from cdcbus.producer.source.row_events import Batch

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
QUIET_SECONDS = 60.0
AGAIN_SECONDS = 5.0  # the latest commits may still be on their way
_PLACE_BITS = 0xFFFFFFFF  # heartbeats carry only these bits of an offset


@dataclass(frozen=True, slots=True)
class Sent:
    """How far the server has sent its binlog, from a heartbeat behind which no event has come:
    file, offset modulo 4 GB, and when that file was created."""

    file: str
    pos: int
    created_ms: int

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


class EndWatch:
    """Watches one stream. Must see each of its batches."""

    def __init__(self, config: SourceConfig, server: Server) -> None:
        self._config, self._server = config, server
        self._look_at = time.monotonic() + QUIET_SECONDS
        # how far the stream was when the server's end was elsewhere
        self._doubt: Sent | None = None

    def see(self, batch: Batch, sent: Sent | None) -> None:
        """Takes note of a batch. `sent`: None while events come, also those of tables that are not
        read. Raises SourceUnavailable when the stream stalls anywhere but at the end: the binlog
        must then be located again."""
        now = time.monotonic()
        if sent is None or batch.edge is not None or batch.closed or batch.opened:
            self._look_at, self._doubt = now + QUIET_SECONDS, None
        elif now >= self._look_at:
            pause = QUIET_SECONDS
            if self._stands_elsewhere(sent):
                pause = AGAIN_SECONDS
            self._look_at = now + pause

    def _stands_elsewhere(self, sent: Sent) -> bool:
        """Whether to check again soon. Raises SourceUnavailable when a second check agrees."""
        host, port = self._config.addresses[0]
        try:
            with (
                servers.reported(self._config),
                closing(servers.connect(self._config)) as connection,
            ):
                identity = servers.identity(connection)
                end = None
                if identity == self._server.identity:  # another one may have no binlog
                    end = self._end(connection)
        except (SourceUnavailable, SourceMisconfigured, PositionLost) as error:
            LOG.warning(
                "source %s:%d sends no rows, and whether it has any cannot be checked: %s",
                host,
                port,
                error,
            )
            return False
        if end is None:
            raise SourceUnavailable(
                f"source {host}:{port} is another server now: {identity}, not "
                f"{self._server.identity}; where to continue is looked at again"
            )
        if sent == replace(end, pos=end.pos & _PLACE_BITS):
            self._doubt = None
            return False
        if self._doubt != sent:
            self._doubt = sent
            return True
        raise SourceUnavailable(
            f"source {host}:{port} has sent its binlog up to {sent} and nothing since, but its "
            f"end is {end}, in a file of {when(end.created_ms)}, as after RESET BINARY LOGS AND "
            "GTIDS (RESET MASTER); where to continue is looked at again"
        )

    def _end(self, connection: Connection) -> Sent:
        """As it would be sent, with the whole offset."""
        end = servers.latest_position(connection)
        start = Binlog(connection, self._server, self._config).start_of(end.file)
        return Sent(end.file, end.pos, start.file_created_ms)
