"""Whether a task that seems to start for the first time has sent rows before: its topics show that
where ZooKeeper has lost everything."""

from __future__ import annotations

from collections.abc import Iterator

from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import ConversionError, NoPosition, PositionError
from cdcbus.plugins.kafka.topic_log import TopicLog, access_to
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import RowChange
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import parse_gtids
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server.connection import Server
from cdcbus.producer.table_filter import TableFilter

NEWEST_RECORDS = 10
"""Of each partition. The last ones can be no rows, as transaction markers are not."""


def refuse_to_skip(task: FetchTask, server: Server, start: BinlogPosition) -> None:
    """Raises NoPosition if the task's topics hold a row that this server has logged before `start`,
    of a table that the task reads: what was logged between the two would be skipped. Formats that
    do not say which server has logged a row pass, as oggJson does. Raises BusError."""
    newest: RowChange | None = None
    for change in _rows_of(task):
        if _is_before(change, server, start) and (newest is None or _is_later(change, newest)):
            newest = change
    if newest is None:
        return
    origin, reset = newest.origin, f"cdcbus offset reset {task.task_id} --to"
    logged_at = utc_text(origin.commit_ms, separator="T", zone="Z")
    raise NoPosition(
        f"task {task.task_id} has no position in ZooKeeper, as before its first start, but its "
        f"topics hold rows that it has read from this source up to {origin.file}:{origin.pos} "
        f"({newest.table.id}). It would skip those between there and {start.file}:{start.pos}, "
        "where consumer.offset starts. If ZooKeeper has lost its data, let the task resume there: "
        f"{reset} {logged_at}; to skip the rows: {reset} {start.file}:{start.pos}"
    )


def _rows_of(task: FetchTask) -> Iterator[RowChange]:
    """The newest rows in the task's topics, of tables that it reads."""
    accepts = TableFilter(task.tables).accepts
    converter = make_converter(task.publish.converter)
    with TopicLog(access_to(task.publish)) as log:
        known = log.topics()
        for topic in named_topics(task.publish):
            if topic not in known:
                continue  # it may be made later
            for record in log.newest(topic, NEWEST_RECORDS):
                try:
                    changes = converter.from_bytes(record.value or b"")
                except ConversionError:
                    continue  # somebody else's, as a dead letter is
                yield from (change for change in changes if accepts(change.table.id))


def _is_before(change: RowChange, server: Server, start: BinlogPosition) -> bool:
    """Whether this server has logged the row before `start`."""
    origin = change.origin
    if not origin.file:
        return False
    if server.has_gtids and origin.gtid and start.gtid:
        return _covers(start.gtid, origin.gtid, is_mariadb=server.is_mariadb)
    here = BinlogCoordinates(origin.file, origin.pos)
    return origin.server_id == server.server_id and here < BinlogCoordinates(start.file, start.pos)


def _covers(before: str, gtid: str, *, is_mariadb: bool) -> bool:
    try:
        row = parse_gtids(gtid, is_mariadb=is_mariadb)
    except PositionError:
        return False  # of another kind of server
    return parse_gtids(before, is_mariadb=is_mariadb).covers(row)


def _is_later(change: RowChange, other: RowChange) -> bool:
    here, there = (BinlogCoordinates(each.origin.file, each.origin.pos) for each in (change, other))
    return here > there
