"""What of a stream is published already, though reading resumes before it."""

from __future__ import annotations

from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import GtidSet, parse_gtids


class PublishedAhead:
    """The transactions up to `end`: by their places in this server's binlog, or, for another
    server's position, `by_gtids`: that server must have had the last of them, as MariaDB's count by
    their numbers. Raises PositionError."""

    def __init__(self, end: Published, *, by_gtids: bool, is_mariadb: bool) -> None:
        self.end = end
        self._place = BinlogCoordinates(end.file, end.pos)
        self._is_mariadb = is_mariadb
        self._gtids: GtidSet | None = None
        if by_gtids:
            self._gtids = parse_gtids(end.gtid, is_mariadb=is_mariadb)

    @classmethod
    def of(
        cls, position: BinlogPosition, *, by_gtids: bool, is_mariadb: bool
    ) -> PublishedAhead | None:
        """What is published ahead of a position; None if nothing is."""
        if position.published is None:
            return None
        return cls(position.published, by_gtids=by_gtids, is_mariadb=is_mariadb)

    @property
    def is_by_gtids(self) -> bool:
        """Whether its place is one of another server."""
        return self._gtids is not None

    def has(self, gtid: str, place: BinlogCoordinates) -> bool:
        """Whether it has the transaction with an event at `place`; `gtid` is empty where it has
        none."""
        if self._gtids is None:
            return place < self._place
        if not gtid:
            return False
        return self._gtids.covers(parse_gtids(gtid, is_mariadb=self._is_mariadb))

    def is_passed(self, place: BinlogCoordinates, executed: GtidSet | None) -> bool:
        """Whether all of it is before `place`, or among the transactions executed there."""
        if self._gtids is None:
            return not place < self._place
        return executed is not None and executed.covers(self._gtids)
