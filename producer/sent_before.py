"""Whether a task that seems to start for the first time has sent rows before: its topics show that
where ZooKeeper has lost everything."""

from __future__ import annotations

import logging
from contextlib import suppress

from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import BusError, ConversionError, NoPosition, PositionError
from cdcbus.plugins.kafka.topic_log import TopicLog, access_to
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Origin, RowChange
from cdcbus.plugins.start import Edge
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import parse_gtids
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
NEWEST_RECORDS = 10
"""Of each partition. The last ones can be no rows, as transaction markers are not."""


def has_sent(task: FetchTask, source: BinlogSource, start: BinlogPosition, path: str) -> bool:
    """Whether the topics of a task without a position hold rows of its tables that this source, or
    one before it, has logged: it, or another task, has sent them. Not looked for, False, with an
    operator's place and without a snapshot. Raises NoPosition if it would begin at the end of the
    binlog although more has been logged since. `path`: of the position. Only where that is certain:
    other tasks and other sources may fill the same topics."""
    # A place or time is an operator's decision.
    may_skip = task.start is Edge.LATEST and task.snapshot is not SnapshotMode.ONLY
    if not may_skip and task.snapshot is SnapshotMode.NEVER:
        return False
    rows = [row for row in _rows_of(task) if _is_of(source.server, row.origin, start)]
    newest = max(rows, key=_place, default=None)
    if newest is None or not may_skip or not source.has_logged(newest.origin, start):
        return bool(rows)
    origin = newest.origin
    logged_at = utc_text(origin.commit_ms, separator="T", zone="Z")
    lacking = ""
    if task.snapshot is SnapshotMode.INITIAL:
        lacking = ", of which a snapshot would not send the deletes"
    raise NoPosition(
        f"task {task.task_id} has no position at {path}, as before its first start, but its topics "
        "hold rows that it has read from this source up to "
        f"{origin.file}:{origin.pos} ({newest.table.id}). With consumer.offset=latest it would "
        f"skip what was logged between there and {start.file}:{start.pos}{lacking}. If the "
        "position was "
        f"lost, as with all of ZooKeeper, resume with consumer.offset={logged_at}; to skip the "
        f"rows: consumer.offset={start.file}:{start.pos}"
    )


def _rows_of(task: FetchTask) -> list[RowChange]:
    """The newest rows in the task's topics that say where they were logged, of tables that it
    reads; none where Kafka does not let it look."""
    config = task.publish
    accepts = TableFilter(task.tables).accepts
    converter = make_converter(config.converter)
    rows: list[RowChange] = []
    try:
        with TopicLog(access_to(config)) as log:
            known = log.topics()
            # Dead letters may be another task's.
            topics = set(named_topics(config)) - {config.dead_letter_topic}
            for topic in topics & known.keys():
                for record in log.newest(topic, NEWEST_RECORDS):
                    with suppress(ConversionError):
                        rows += converter.from_bytes(record.value or b"")
    except BusError as error:
        # A fetch task needs no right to read its topics.
        LOG.info(
            "task %s: whether its topics hold rows from before is not known: %s",
            task.task_id,
            error,
        )
        return []
    return [row for row in rows if row.origin.file and accepts(row.table.id)]


def _is_of(server: Server, row: Origin, start: BinlogPosition) -> bool:
    """Whether the row can have come from this server, or through it from another one."""
    if row.server_id == server.server_id:
        return True
    if not (server.has_gtids and row.gtid and start.gtid):
        return False
    try:
        gtid = parse_gtids(row.gtid, is_mariadb=server.is_mariadb)
    except PositionError:
        return False  # of another kind of server
    return parse_gtids(start.gtid, is_mariadb=server.is_mariadb).covers(gtid)


def _place(row: RowChange) -> tuple[BinlogCoordinates, bool]:
    # A snapshot's rows are at the end of the transaction before them: live ones are behind them.
    return BinlogCoordinates(row.origin.file, row.origin.pos), not row.origin.is_snapshot
