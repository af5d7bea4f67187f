"""The end of a bounded run (`--until`, `consumer.stopAt`): a place in the binlog as it was at the
start, or a GTID set."""

from __future__ import annotations

from dataclasses import dataclass

from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.binlog.coordinates import SPAN, BinlogCoordinates
from cdcbus.producer.binlog.gtid import parse_gtids
from cdcbus.producer.source.end_watch import Sent


@dataclass(frozen=True, slots=True)
class RunEnd:
    """`position` is a transaction edge; without a file its GTIDs alone count. On another server its
    GTIDs count as well, as the files there differ."""

    position: BinlogPosition
    is_mariadb: bool

    def is_reached(self, edge: BinlogPosition) -> bool:
        """Whether an edge is at the end or after it. Raises SourceMisconfigured if the two cannot
        be compared."""
        end = self.position
        # An XA transaction that is still open is not before the end, even if it began before.
        here = edge.reached
        if end.file and edge.server_uuid == end.server_uuid:
            return BinlogCoordinates(here.file, here.pos) >= BinlogCoordinates(end.file, end.pos)
        if not end.gtid:
            raise SourceMisconfigured(
                f"--until or consumer.stopAt {end}: the source is another server now, and without "
                "GTIDs nothing says where that is in its binlog; give a place in its binlog"
            )
        return covers(here.gtid, end.gtid, is_mariadb=self.is_mariadb)

    def is_sent(self, sent: Sent | None, server: str) -> bool:
        """Whether the server being read, by its identity, has sent everything before the end: its
        heartbeats say how far it is while it has nothing to send. That place need not be the end of
        a transaction."""
        end = self.position
        if sent is None or not end.file or server != end.server_uuid:
            return False
        if sent.file == end.file and end.pos >= SPAN:  # `sent` has only its low 32 bits
            return sent.pos == end.pos % SPAN
        return BinlogCoordinates(sent.file, sent.pos) >= BinlogCoordinates(end.file, end.pos)


def covers(executed: str, wanted: str, *, is_mariadb: bool) -> bool:
    """Whether the executed GTID set contains the wanted one. Raises PositionError."""
    other = parse_gtids(wanted, is_mariadb=is_mariadb)
    return parse_gtids(executed, is_mariadb=is_mariadb).covers(other)
