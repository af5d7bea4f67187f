"""Whether a stream that brings heartbeats only is at the end of the server's binlog, which a
connection of its own asks each minute.

A server whose binlog was reset, and another server behind the same address, do not end the stream:
its thread waits at the end of a file that no longer exists, and sends heartbeats for ever.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass

from cdcbus.plugins.errors import PositionLost, SourceMisconfigured, SourceUnavailable
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source.position_resolver import Binlog, when
from cdcbus.producer.source.row_events import Batch

LOG = logging.getLogger(__name__)
QUIET_SECONDS = 60.0
AGAIN_SECONDS = 5.0  # what has just been committed is on its way
_PLACE_BITS = 0xFFFFFFFF  # heartbeats carry no more of a place


@dataclass(frozen=True, slots=True)
class Sent:
    """Up to where the server has sent its binlog, as its last heartbeat says: file, place modulo
    4 GB, and when that file was begun."""

    file: str
    pos: int
    created_ms: int

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


class EndWatch:
    """Of one stream. Sees each of its batches."""

    def __init__(self, config: SourceConfig, server: Server) -> None:
        self._config, self._server = config, server
        self._look_at = time.monotonic() + QUIET_SECONDS
        # up to where the stream had been sent when the server's end was another place
        self._doubt: Sent | None = None

    def see(self, batch: Batch, sent: Sent | None) -> None:
        """`sent`: None before the first heartbeat. Raises SourceUnavailable when the stream stands
        still elsewhere than at the end: then the binlog is to be looked at again."""
        now = time.monotonic()
        if batch.edge is not None or batch.closed or batch.opened:
            self._look_at, self._doubt = now + QUIET_SECONDS, None
        elif now >= self._look_at and sent is not None:
            self._look_at = now + (AGAIN_SECONDS if self._stands_elsewhere(sent) else QUIET_SECONDS)

    def _stands_elsewhere(self, sent: Sent) -> bool:
        """Whether to look again soon."""
        host, port = self._config.addresses[0]
        try:
            with (
                servers.reported(self._config),
                closing(servers.connect(self._config)) as connection,
            ):
                identity = servers.identity(connection)
                end = servers.latest_position(connection)
                created_ms = (
                    Binlog(connection, self._server, self._config)
                    .start_of(end.file)
                    .file_created_ms
                )
        except (SourceUnavailable, SourceMisconfigured, PositionLost) as error:
            LOG.warning(
                "source %s:%d sends no rows, and whether there are any cannot be asked: %s",
                host,
                port,
                error,
            )
            return False
        if identity != self._server.identity:
            raise SourceUnavailable(
                f"source {host}:{port} is another server now: {identity}, not "
                f"{self._server.identity}; it is looked at again where to go on"
            )
        if sent == Sent(end.file, end.pos & _PLACE_BITS, created_ms):
            self._doubt = None
            return False
        if self._doubt != sent:
            self._doubt = sent
            return True
        raise SourceUnavailable(
            f"source {host}:{port} has sent its binlog up to {sent} and nothing since, but its "
            f"end is {end}, in a file of "
            f"{when(created_ms)}, as after RESET BINARY LOGS AND GTIDS (RESET MASTER); it is "
            "looked at again where to go on"
        )
