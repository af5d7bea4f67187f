"""Where reading of the binlog starts."""

from __future__ import annotations

from threading import Event

from cdcbus.plugins.contracts import Mark, PositionStore
from cdcbus.plugins.errors import NoPosition, PositionError, PositionLost, PositionUnusable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import BinlogStart
from cdcbus.producer.config import FetchTask
from cdcbus.producer.set_by_hand import as_set
from cdcbus.producer.source.binlog_source import BinlogSource


def store_start(
    task: FetchTask,
    source: BinlogSource,
    start: BinlogPosition,
    positions: PositionStore,
    mark: Mark,
    stop: Event,
) -> bool:
    """Stores where reading begins, with a mark. Returns False, and stores nothing, if `stop` was
    set meanwhile."""
    # Schemas before the position: with a position alone, an ALTER after a kill would make the rows
    # before that ALTER unreadable.
    for _ in source.prepare(start):
        if stop.is_set():
            return False
    positions.save(start.to_json(), mark)
    return True


def start_position(
    task: FetchTask, positions: PositionStore, source: BinlogSource
) -> tuple[BinlogPosition, bool]:
    """Returns the stored position, else the one the start rule names, located in this source's
    binlog; and whether it is the stored one. Writes nothing.

    Raises NoPosition when neither exists, PositionLost when the source no longer has it,
    PositionError, SourceError.
    """
    stored = positions.load()
    is_stored = stored is not None
    start = _first_start(task, positions) if stored is None else _read(task, positions, stored)
    try:
        return source.locate(start, is_own=is_stored and positions.is_own), is_stored
    except PositionLost as lost:
        return source.instead(lost), False


def _read(task: FetchTask, positions: PositionStore, stored: str) -> BinlogPosition:
    try:
        return BinlogPosition.from_json(as_set(stored, positions))
    except PositionError as error:
        raise PositionUnusable(
            f"{positions.path}: {error}; set it: cdcbus offset reset {task.task_id} --to PLACE"
        ) from error


def _first_start(task: FetchTask, positions: PositionStore) -> BinlogStart:
    """The task's start rule. Raises NoPosition if the task has run before: the rule would repeat
    or skip rows."""
    if positions.trace:
        raise NoPosition(
            f"task {task.task_id} has run before, as {positions.trace} shows, and has no position "
            f"at {positions.path}; consumer.offset is for the first start only: restore "
            "consumer.source.database if it was changed, or set a position with cdcbus offset "
            f"reset {task.task_id} --to PLACE{_last_written(positions)}"
        )
    if task.start is None:
        raise NoPosition(
            f"task {task.task_id} has no position at {positions.path} and no consumer.offset; "
            "give consumer.offset=latest, earliest, or a binlog file such as mysql-bin.000064:4"
        )
    return task.start


def _last_written(positions: PositionStore) -> str:
    """A clause that names the last position the task itself stored, empty if unknown."""
    if not positions.written:
        return ""
    try:
        last = BinlogPosition.from_json(positions.written.position)
    except PositionError:
        return ""
    return f"; the last position it stored was {last}"
