"""Where a run ends that is bounded (`--until`, `consumer.stopAt`): a place in the binlog as it was
at the start, or a GTID set."""

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
    GTIDs count too, as its files are others."""

    position: BinlogPosition
    is_mariadb: bool

    def is_reached(self, edge: BinlogPosition) -> bool:
        """Whether all before the end is before an edge, too. Raises SourceMisconfigured where the
        two cannot be compared."""
        end = self.position
        # An XA transaction that is still open is not before the end, whatever it began before.
        here = edge.published or edge
        if end.file and edge.server_uuid == end.server_uuid:
            return BinlogCoordinates(here.file, here.pos) >= BinlogCoordinates(end.file, end.pos)
        if not end.gtid:
            raise SourceMisconfigured(
                f"--until or consumer.stopAt {end}: the source is another server now, and without "
                "GTIDs nothing says where that is in its binlog; give a place there"
            )
        return covers(here.gtid, end.gtid, is_mariadb=self.is_mariadb)

    def is_sent(self, sent: Sent | None, server: str) -> bool:
        """Whether the server that is read, by its identity, has sent all before the end: it says
        up to where it has, while it has nothing to send. What ends there need not be a
        transaction."""
        end = self.position
        if sent is None or not end.file or server != end.server_uuid:
            return False
        if sent.file == end.file and end.pos >= SPAN:  # of which `sent` has the low digits
            return sent.pos == end.pos % SPAN
        return BinlogCoordinates(sent.file, sent.pos) >= BinlogCoordinates(end.file, end.pos)


def covers(executed: str, wanted: str, *, is_mariadb: bool) -> bool:
    """Whether the one set of GTIDs has all of the other. Raises PositionError."""
    reached, other = (parse_gtids(text, is_mariadb=is_mariadb) for text in (executed, wanted))
    return reached.covers(other)
