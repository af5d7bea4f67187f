"""Holds a source from another package to its contract: only a valid place is stored, only a valid
row is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from cdcbus.plugins.added.sources import RecordSource, SourcePlace, SourceRows
from cdcbus.plugins.dates import dated_us
from cdcbus.plugins.errors import (
    CdcError,
    ConfigError,
    NoPosition,
    PositionError,
    SourceError,
    SourceMisconfigured,
    UnreadableEvent,
)
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_source
from cdcbus.plugins.rowchange import Op, Origin, Row, RowChange
from cdcbus.producer.config import AddedSource

NAME_CHARACTERS = 1000  # of a place's name: it must fit into Kafka's offset metadata
END = object()  # its own object, as a source may yield anything
T = TypeVar("T")
LOG = logging.getLogger(__name__)
_IMAGES = {Op.INSERT: (False, True), Op.UPDATE: (True, True), Op.DELETE: (True, False)}


class OpenSource:
    """A source made from its task's settings. A context manager. `epoch`: the epoch of the holder
    of the swimlane's lock, part of each record. Everything it raises is a CdcError."""

    def __init__(self, config: AddedSource, epoch: str = "") -> None:
        """Raises ConfigError for a source that cannot be made."""
        self.name = config.name
        self._epoch = epoch
        self._source: RecordSource = make_source(config.name, config.options)

    def __enter__(self) -> OpenSource:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Closes the source. An error of the block takes precedence over a failing close."""
        try:
            self._guarded(self._source.close)
        except CdcError as of_close:
            if error is None:
                raise
            LOG.warning("%s", of_close)

    def start(self, word: str) -> BinlogPosition:
        """The position that a word stands for."""
        return self._position(self._guarded(lambda: self._source.start(word)))

    def check(self, position: BinlogPosition) -> None:
        """Raises PositionError for a position of another source, PositionLost if reading cannot
        resume at it."""
        if position.server_uuid not in ("", self.name):
            raise PositionError(
                f"the stored position {position} is of source {position.server_uuid}, but the task "
                f"reads {self.name} now: set a position of that source"
            )
        self._guarded(lambda: self._source.check(SourcePlace(position.file, position.pos)))

    def read(self, start: BinlogPosition) -> Iterator[tuple[SourceRows, BinlogPosition | None]]:
        """Yields rows after a position, and the edge after them, if there is one."""
        place = SourcePlace(start.file, start.pos)
        rows = self._guarded(lambda: iter(self._source.read(place)))
        # Row by row, as an error of the source can come with each of them.
        while (found := self._guarded(lambda: next(rows, END))) is not END:
            if not isinstance(found, SourceRows):
                raise self._broken(f"gave a {type(found).__name__}; expected SourceRows")
            changes = [self._checked(change, place) for change in found.changes]
            edge = None
            if found.place is not None:
                edge = self._position(found.place)
                place = SourcePlace(edge.file, edge.pos)
            yield replace(found, changes=changes), edge

    def _guarded(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except CdcError:
            raise
        except Exception as error:  # code of another package; its text may hold cell values
            raise self._broken(f"raised {type(error).__name__}") from error

    def _broken(self, what: str) -> SourceError:
        return SourceMisconfigured(
            f"source {self.name} of another package {what}: report this to its author"
        )

    def _position(self, place: object) -> BinlogPosition:
        if (
            not isinstance(place, SourcePlace)
            or not isinstance(place.name, str)
            or not 0 < len(place.name) <= NAME_CHARACTERS
            or not place.name.isprintable()
            or type(place.number) is not int
            or not 0 <= place.number < 2**63
        ):
            raise self._broken(
                f"gave an invalid place; expected SourcePlace(NAME, NUMBER), a name of 1 to "
                f"{NAME_CHARACTERS} printable characters and a number from 0"
            )
        return BinlogPosition(place.name, place.number, server_uuid=self.name)

    def _checked(self, change: object, place: SourcePlace) -> RowChange:
        """Returns the change with the origin for its record. It gets no file and position: readers
        compare these as places of a binlog, which a source's places are not."""
        if not isinstance(change, RowChange):
            raise self._broken(f"gave a {type(change).__name__}; expected RowChange")
        where = f"source {self.name}, after {place}, a row of {change.table.id}"
        if change.op is Op.TRUNCATE:
            raise UnreadableEvent(f"{where}: a TRUNCATE, which no source of another package sends")
        images = change.before, change.after
        if tuple(image is not None for image in images) != _IMAGES[change.op]:
            raise UnreadableEvent(
                f"{where}: {change.op} with the wrong images; INSERT has after, DELETE before, "
                "UPDATE both"
            )
        for image in images:
            if image is not None:
                _check_cells(image, change, where)
        origin = Origin(commit_us=dated_us(change.origin.commit_us), epoch=self._epoch)
        return replace(change, origin=origin)


def _check_cells(image: Row, change: RowChange, where: str) -> None:
    names = {column.name for column in change.table.columns}
    for name, cell in image.items():
        if not (cell is None or isinstance(cell, str)):
            raise UnreadableEvent(
                f"{where}: a {type(cell).__name__} in column {name}; expected text or None"
            )
        if name not in names:
            raise UnreadableEvent(f"{where}: its table has no column {name}")
    lacking = [name for name in change.table.key if name not in image]
    if lacking:
        raise UnreadableEvent(f"{where}: {', '.join(lacking)} of its key is missing")


def stored_or_start(
    source: OpenSource, start: str, stored: str | None, path: str, trace: str, task_id: str
) -> tuple[BinlogPosition, bool]:
    """Returns where the task begins, and whether that is the stored position. Raises NoPosition if
    nothing says where, PositionLost, PositionError, SourceError, ConfigError."""
    if stored is not None:
        try:
            position = BinlogPosition.from_json(stored)
        except PositionError as error:
            raise PositionError(
                f"{path}: {error}. Set it (cdcbus offset reset {task_id} --to PLACE) and start "
                "again"
            ) from error
        source.check(position)
        return replace(position, server_uuid=source.name), True
    if trace:
        raise NoPosition(
            f"task {task_id} has run before, as {trace} shows, and has no position at {path}; "
            "consumer.offset is for the first start only: restore consumer.source.database if it "
            f"was changed, or set a position with cdcbus offset reset {task_id} --to PLACE"
        )
    if not start:
        raise NoPosition(
            f"task {task_id} has no position at {path} and no consumer.offset; give "
            f"consumer.offset, a word that source {source.name} knows"
        )
    return source.start(start), False


def need_added(config: AddedSource | None) -> AddedSource:
    """Raises ConfigError for a task of a binlog."""
    if config is None:
        raise ConfigError("the task reads a binlog, not a source of another package")
    return config
