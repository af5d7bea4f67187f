"""The binlog source: reads a server's binlog from a position on, as batches of rows and
transaction edges."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

from cdcbus.plugins.contracts import SchemaStore
from cdcbus.plugins.errors import (
    ConfigError,
    PositionLost,
    SourceBehind,
    SourceMisconfigured,
    SourceUnavailable,
)
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.plugins.rowchange import Origin
from cdcbus.plugins.start import AtGtid, AtTime, BinlogStart, Edge
from cdcbus.producer.binlog.checksums import damage_noticed
from cdcbus.producer.binlog.coordinates import SPAN, BinlogCoordinates
from cdcbus.producer.binlog.dump_stream import (
    BOUNDED,
    BROKEN_OFF,
    READ_BYTES,
    has_more,
    open_stream,
)
from cdcbus.producer.binlog.gtid import GtidSet, parse_gtids
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.schema.ddl_scanner import DdlScan
from cdcbus.producer.schema.history import SchemaHistory
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.unlogged import find_gaps, refuse_sure
from cdcbus.producer.source.between import has_more_after_edge, has_more_after_rows
from cdcbus.producer.source.ddl_events import DdlReader
from cdcbus.producer.source.end_watch import EndWatch, Sent
from cdcbus.producer.source.event_reader import Reading
from cdcbus.producer.source.position_resolver import Binlog, when
from cdcbus.producer.source.row_events import Batch
from cdcbus.producer.source.run_end import RunEnd, covers
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
# read again when resuming by time alone: clocks differ, and so does the order of commits
OVERLAP_MS = 60_000
# each step of a snapshot waits for the next heartbeat of an idle source: half a second in all with
# 0.1 s
SOON_SECONDS = 0.02


class BinlogSource:
    """Reads one server's binlog from a position. A context manager: leaving it closes the
    connections.

    Without `schemas`, the schema history lasts as long as the source. `epoch` identifies the
    sender in each row. `proceed` is called all the time while a time or GTIDs are looked for, and
    raises what ends that.
    """

    def __init__(
        self,
        task: FetchTask,
        schemas: SchemaStore | None = None,
        epoch: str = "",
        proceed: Callable[[], None] = lambda: None,
    ) -> None:
        self._epoch = epoch
        self._proceed = proceed
        self._schemas: SchemaStore = MemorySchemas()
        if schemas is not None:
            self._schemas = schemas
        self._config = task.source
        self._filter = TableFilter(task.tables, task.heartbeat_table)
        self._ddl = task.ddl
        self._server_id = server_id(task)
        self._on_position_lost = task.on_position_lost
        # where the task last stopped, possibly on another server
        self._read_before: BinlogPosition | None = None
        self._skips_statements = task.skips_statements
        self._elsewhere = task.elsewhere
        # Such a task has nothing to read, and looks at each heartbeat whether its snapshot is done.
        self._heartbeat_seconds = SOON_SECONDS if task.snapshot is SnapshotMode.ONLY else None
        self._stream: servers.Connection | None = None
        self._sent: Sent | None = None
        self._open = ExitStack()

    def __enter__(self) -> BinlogSource:
        """Connects and checks the server. Raises SourceUnavailable, SourceMisconfigured, also for a
        server that does not log rows which the task wants."""
        # Nobody leaves a block that was not entered: a refused server would keep each connection.
        with ExitStack() as opened:
            connection = servers.connect(self._config)
            opened.callback(connection.close)
            self._connection = connection
            with servers.reported(self._config):
                self._server = servers.inspect(connection, self._config)
                self._gaps = find_gaps(connection, self._filter, self._elsewhere)
            refuse_sure(self._gaps, self._config)
            self._binlog = Binlog(connection, self._server, self._config, self._proceed)
            self._open = opened.pop_all()
        return self

    @property
    def server(self) -> servers.Server:
        """The server being read."""
        return self._server

    @property
    def where(self) -> str:
        """Its address."""
        host, port = self._config.addresses[0]
        return f"{host}:{port}"

    @property
    def doubts(self) -> list[str]:
        """What this server does not log, and the task may want: a sentence each."""
        return [f"source {self.where}: {gap}" for gap in self._gaps]

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def locate(self, start: BinlogStart, *, is_own: bool = False) -> BinlogPosition:
        """Locates a start rule, or a stored position, in this server's binlog: by file and offset
        if the position is this server's or its server is unknown, else by GTIDs, else by time.
        `is_own`: the task itself stored it, so its schema history reaches up to it, and is carried
        over when reading resumes by GTIDs. Raises PositionLost naming the gap, PositionError,
        ConfigError, SourceUnavailable, SourceMisconfigured."""
        self._read_before = None
        if is_own and isinstance(start, BinlogPosition):
            self._read_before = start
        match start:
            case Edge.LATEST:
                return self._binlog.latest()
            case Edge.EARLIEST:
                return self._binlog.earliest()
            case AtTime():
                return self._binlog.at_time(start.epoch_ms)
            case AtGtid():
                return self._by_gtids(BinlogPosition("", 0, gtid=start.gtid))
        if not self._server.has_files_of(start):
            return self._by_gtids(start)
        if start.server_uuid in ("", self._server.identity):
            return self._binlog.check(start)
        return self._by_time(start)

    def _by_gtids(self, position: BinlogPosition) -> BinlogPosition:
        if not self._server.has_gtids:
            raise SourceMisconfigured(
                f"source {self.where} has no GTIDs (gtid_mode is not ON): start at a file, "
                "file:pos or time instead"
            )
        found = self._binlog.after_gtids(position)
        LOG.info(
            "source %s: the first transaction not in GTID set %s is at %s",
            self.where,
            position.gtid,
            found,
        )
        return found

    def _by_time(self, position: BinlogPosition) -> BinlogPosition:
        known = (
            f"{position} was read from server {position.server_uuid}, source {self.where} is "
            f"{self._server.identity}"
        )
        if not position.timestamp_ms:
            raise PositionLost(
                f"{known}, and neither GTIDs nor a commit time say where to continue"
            )
        found = self._binlog.from_time(position.timestamp_ms, OVERLAP_MS)
        LOG.warning(
            "%s, and there are no GTIDs: continuing by time at %s; what was committed from there "
            "to %s is sent again",
            *(known, found, when(position.timestamp_ms)),
        )
        return replace(found, batch_id=position.batch_id)

    def run_end(self, until: BinlogStart) -> RunEnd:
        """Resolves the end of a bounded run in the server's current binlog. Raises ConfigError for
        an end in the future, PositionLost, SourceUnavailable, SourceMisconfigured."""
        is_mariadb = self._server.is_mariadb
        match until:
            case AtTime():
                end = self._binlog.at_time(until.epoch_ms)
            case BinlogPosition():
                end = self._binlog.check(until)
            case AtGtid():
                end = BinlogPosition("", 0, gtid=until.gtid)
                executed = self._binlog.latest().gtid
                if not covers(executed, until.gtid, is_mariadb=is_mariadb):
                    raise ConfigError(
                        f"--until or consumer.stopAt {until.gtid}: source {self.where} has not "
                        f"executed all of that, only {executed or 'what has no GTIDs'}; give a set "
                        "that it has executed, or now"
                    )
            case _:
                end = self._binlog.latest()
        return RunEnd(end, is_mariadb)

    def has_come_to(self, end: RunEnd, edge: BinlogPosition | None) -> bool:
        """Whether `batches`, whose last batch had this edge, has yielded everything before the
        end."""
        if edge is not None and end.is_reached(edge):
            return True
        return end.is_sent(self._sent, self._server.identity)

    def instead(self, lost: PositionLost) -> BinlogPosition:
        """Returns the position to resume from after a lost one, as the task file says, and logs
        it; raises `lost` if the task file does not say, or the server may still catch up."""
        if self._on_position_lost is None or isinstance(lost, SourceBehind):
            raise lost
        position = self.locate(self._on_position_lost)
        LOG.warning(
            "%s. consumer.source.onPositionLost=%s: continuing at %s without what lies between",
            lost,
            self._on_position_lost,
            position,
        )
        return position

    def batches(self, position: BinlogPosition, read_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yields rows and transaction edges from `position` on, forever, in binlog order; by its
        GTIDs if the position is another server's.

        If a file is truncated, as after a power loss, reading continues with the next one and logs
        it. Raises UnreadableEvent naming event and position, UnusableHistory, PositionLost,
        SourceUnavailable, SourceMisconfigured, each after yielding what was read before.
        """
        position = askable(position, self._server)
        history = self._history()
        for _ in self._begin(history, position):
            yield Batch([], None, [])  # so that the caller can stop
        ddl = DdlReader(self._filter, self._ddl, folds_names=self._server.folds_names)
        reading: Reading | None = None
        while True:
            reading = Reading(
                position,
                self._server,
                self._filter,
                history,
                ddl,
                self._epoch,
                skips_statements=self._skips_statements,
                elsewhere=self._elsewhere,
                is_before_gtids=self._binlog.is_before_gtids(position),
                after=reading,
            )
            try:
                yield from self._read(reading, position, read_bytes)
            except PositionLost as lost:
                following = ""
                if BROKEN_OFF in str(lost):
                    following = self._file_after_break(reading.file, position)
                if not following:
                    damage = damage_noticed(lost, reading.reached())
                    if damage and self._begins_at_edge(position):
                        raise damage from lost
                    if not self._server.has_files_of(position):
                        self._binlog.check_executed(position)
                    raise self._binlog.lost(position, str(lost)) from lost
                LOG.warning(
                    "%s: %s breaks off, as after a power loss; continuing with %s. %s",
                    lost,
                    reading.file,
                    following,
                    reading.left_over,
                )
                position = self._binlog.start_after_break(following, reading.gtids)

    def _begins_at_edge(self, position: BinlogPosition) -> bool:
        """Whether the position is an edge of an event, or can be one: behind a damaged event, past
        which it was set, nothing else is known."""
        if not self._server.has_files_of(position):
            return True
        is_edge = self._binlog.is_edge(BinlogCoordinates(position.file, position.pos))
        return is_edge is not False

    def prepare(self, position: BinlogPosition) -> Iterator[None]:
        """Stores the table schemas that reading from `position` on needs. Yields control in
        between; a caller that stops early leaves nothing that harms a later start. Raises
        UnusableHistory, PositionLost, SourceUnavailable, SourceMisconfigured."""
        yield from self._begin(self._history(is_begun=False), askable(position, self._server))

    def _begin(self, history: SchemaHistory, position: BinlogPosition) -> Iterator[None]:
        with servers.reported(self._config):
            here, before = BinlogCoordinates(position.file, position.pos), self._read_before
            if self._server.has_files_of(position):
                try:
                    yield from history.begin(here)
                except SourceUnavailable:
                    # A search for DDL says this also where the position itself cannot be read.
                    if not self._begins_at_edge(position):
                        raise self._binlog.lost(position, "no event begins there") from None
                    raise
            elif before is not None and before.file:
                yield from history.move(
                    BinlogCoordinates(before.file, before.pos), before.server_uuid, here
                )

    def _history(self, *, is_begun: bool = True) -> SchemaHistory:
        server = self._server
        with servers.reported(self._config):
            row_metadata = servers.global_variables(self._connection, ("binlog_row_metadata",)).get(
                "binlog_row_metadata", ""
            )
            reader = SchemaReader(self._connection)
        return SchemaHistory(
            self._schemas,
            reader,
            self.ddl_scan(),
            self._filter.accepts,
            server.identity,
            self._binlog.created_ms,
            is_needed=row_metadata.upper() != "FULL",
            is_begun=is_begun,
        )

    def ddl_scan(self, proceed: Callable[[], None] = lambda: None) -> DdlScan:
        """A scan of the DDL in this server's binlog. `proceed` is called all the time, and raises
        what ends the scan."""
        server = self._server

        def events(place: BinlogCoordinates) -> Iterator[list[bytes]]:
            for some in self._events_until_now(place):
                proceed()
                yield some

        return DdlScan(
            events,
            server.checksum_bytes,
            server.charsets,
            server.version,
            self._binlog.file_after_break,
        )

    def end(self) -> BinlogCoordinates:
        """The current end of this server's binlog."""
        with servers.reported(self._config):
            end = servers.latest_position(self._connection)
        return BinlogCoordinates(end.file, end.pos)

    def _events_until_now(self, place: BinlogCoordinates) -> Iterator[list[bytes]]:
        with servers.reported(self._config), closing(servers.connect(self._config)) as stream:
            yield from open_stream(
                stream, self._server, BinlogPosition(place.file, place.pos), BOUNDED
            )

    def _file_after_break(self, file: str, position: BinlogPosition) -> str:
        if not self._server.has_files_of(position):
            return self._binlog.file_after(file)
        start = BinlogCoordinates(position.file, position.pos)
        return self._binlog.file_after_break(file, start)

    def _read(self, reading: Reading, position: BinlogPosition, read_bytes: int) -> Iterator[Batch]:
        server = self._server
        start: BinlogPosition | GtidSet = position
        if not server.has_files_of(position):
            start = parse_gtids(position.gtid, is_mariadb=server.is_mariadb)
        with servers.reported(self._config), closing(servers.connect(self._config)) as stream:
            watch, self._stream = EndWatch(self._config, server), stream
            for batch in reading.batches(
                open_stream(
                    stream, server, start, self._server_id, read_bytes, self._heartbeat_seconds
                )
            ):
                watch.see(batch, reading.sent)
                self._sent = reading.sent
                yield batch

    def has_logged(self, row: Origin, before: BinlogPosition) -> bool:
        """Whether this server has logged the row, and other transactions between it and `before`;
        for a row of a snapshot between the place at which it was sent and `before`. False where it
        cannot tell. Raises SourceUnavailable, SourceMisconfigured."""
        place = BinlogCoordinates(row.file, row.pos)
        end = BinlogCoordinates(before.file, before.pos)
        has_more = has_more_after_edge if row.is_snapshot else has_more_after_rows
        with servers.reported(self._config):
            return has_more(self._connection, place, end) and (
                self._binlog.created_ms(row.file) <= row.commit_ms
            )

    def has_more(self) -> bool:
        """Whether more of the binlog has arrived than `batches` has yielded."""
        return self._stream is not None and has_more(self._stream)


def askable(position: BinlogPosition, server: servers.Server) -> BinlogPosition:
    """The position to request from the server. A request has 32 bits for the offset: a position
    beyond 4 GB is reached by reading from its file's head, and nothing before it is sent again. A
    position in another server's files is unchanged, as its GTIDs are used."""
    if position.pos < SPAN or not server.has_files_of(position):
        return position
    return replace(
        position,
        pos=4,
        gtid="",
        published=position.published
        or Published(position.file, position.pos, position.gtid, position.file_created_ms),
    )


def server_id(task: FetchTask) -> int:
    """The task's replica id: as configured, else one that is stable for the task and unlikely to
    collide with another, above the range that people assign by hand."""
    return task.source.server_id or 0x40000000 | zlib.crc32(task.task_id.encode()) & 0x3FFFFFFF
