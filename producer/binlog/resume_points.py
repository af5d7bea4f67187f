"""The places of a stream at which reading can resume: its transaction edges, as positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import GtidSet, gtids_before_file, parse_gtids
from cdcbus.producer.binlog.published_ahead import PublishedAhead
from cdcbus.producer.server.connection import Server


class Edge(NamedTuple):
    """Where a transaction ends, when it was committed, and when the file was created."""

    file: str
    pos: int
    commit_ms: int
    created_ms: int


class ResumePoints:
    """Knows what a position says besides its place. For one stream, which begins at `start`;
    `is_before_gtids`: its GTIDs are known to be none.

    `published`: what is published already of the following events; None once all of it has been
    read."""

    def __init__(
        self, start: BinlogPosition, server: Server, *, is_before_gtids: bool = False
    ) -> None:
        self._server = server
        # The GTIDs of all transactions that have ended, None until a file's head lists them.
        self._executed: GtidSet | None = None
        if server.has_gtids and (start.gtid or is_before_gtids):
            self._executed = parse_gtids(start.gtid, is_mariadb=server.is_mariadb)
        has_its_files = server.has_files_of(start)
        self.published = PublishedAhead.of(
            start, by_gtids=not has_its_files, is_mariadb=server.is_mariadb
        )
        # A server that selects transactions by GTIDs may omit some after the place where it starts
        # sending. Until it says that all of them are in earlier files, edges do not name the
        # server, so that a restart goes by GTIDs as well.
        self._files_of = ""
        if has_its_files:
            self._files_of = server.identity

    def take_file_head(self, body: bytes) -> None:
        """Takes the event of a file's head that lists the GTIDs before the file."""
        if not self._server.has_gtids:
            return
        found = gtids_before_file(body, is_mariadb=self._server.is_mariadb)
        if self._executed is None:
            self._executed = found
            return
        if not self._files_of and found.covers(self._executed):
            self._files_of = self._server.identity
        self._executed.merge(found)

    def end(self, gtid: str, place: Callable[[], BinlogCoordinates]) -> None:
        """Takes the end of a transaction; `gtid` is empty where it has none. `place`: where it
        ends, asked for only while something is published already."""
        if gtid and self._executed is not None:
            self._executed.add(gtid)
        if self.published and self.published.is_passed(place(), self._executed):
            self.published = None

    @property
    def gtids(self) -> str | None:
        """The GTIDs of all transactions that have ended; None if they are not known."""
        return None if self._executed is None else str(self._executed)

    def at(self, edge: Edge) -> BinlogPosition:
        """The latest edge, as a position."""
        published = None
        files_of = self._files_of
        if self.published is not None:
            published = self.published.end
            if self.published.is_by_gtids:  # its place is in another server's files
                files_of = ""
        return BinlogPosition(
            edge.file,
            edge.pos,
            -1,
            self.gtids or "",
            edge.commit_ms,
            files_of,
            edge.created_ms,
            published,
        )
