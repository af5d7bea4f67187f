"""Decides when sent rows count as published: once Kafka has acknowledged them, or, with
transactions, once their transaction is committed.

In a transaction the rows and the transaction edge after them become visible together. The edge is
in the metadata of a group offset, with the version that the position in ZooKeeper had then. A start
resumes from it if ZooKeeper's node still has that version: then the task died between the commit
and the write to ZooKeeper. It also does if the task itself wrote the node at a lower version: then
ZooKeeper was restored from an older copy. Otherwise the node was set by an operator, or written
later, and the node counts. ZooKeeper is written in parallel with the rows: if a write was in
progress at the commit, the metadata also has its digest, and a node that holds that write's text
counts as unchanged.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from cdcbus.plugins.contracts import NO_MARK, PositionStore
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.set_by_hand import as_set

LOG = logging.getLogger(__name__)
COMMIT_SECONDS = 0.2  # between commits while rows keep arriving; a commit takes some 30 ms
COMMIT_COSTS = 8  # if commits take longer: the interval as a multiple of their duration
LONGEST_COMMIT_SECONDS = 2.0
BUSY_RECORDS = 500  # this many since the last edge: more are on their way
PUSHED_RECORDS = 100  # at most; more fill a batch
METADATA_BYTES = 4096  # brokers' offset.metadata.max.bytes


class Deliveries(Protocol):
    """Tells the checkpoint what was published."""

    def take_over(self) -> None:
        """Begins an attempt, before the stored position is read: records that were sent and not
        published are sent again. Raises BusRejected, BusUnavailable, and the errors of a position
        store."""
        ...

    def committed(self, own: str) -> BinlogPosition | None:
        """The position that Kafka has committed since the task stored `own`, which must be as last
        loaded; None if there is none. Can be called before an attempt, and after a failure. Raises
        BusRejected, BusUnavailable, PositionError."""
        ...

    def reached(self, edge: BinlogPosition, has_more: Callable[[], bool]) -> None:
        """Notes that everything before `edge` has been sent, and nothing after it. `has_more`:
        whether more has arrived from the source already."""
        ...

    def settle(self, has_more: Callable[[], bool]) -> None:
        """Hands over what `reached` has left for what had arrived by then, which is no rows."""
        ...

    def acknowledged(self) -> int:
        """The number of sent records that are durable in Kafka, as far as is known without
        waiting."""
        ...

    def confirmed(self) -> int:
        """The number of sent records, from the first one on, that Kafka had acknowledged when it
        was last waited for."""
        ...

    def published(self) -> BinlogPosition | None:
        """The last edge before which everything is published, after waiting for outstanding
        acknowledgements; None before the first. Raises BusRejected, BusUnavailable."""
        ...

    def storing(self, texts: Iterable[str]) -> None:
        """Notes that from here on one of these positions may be written to ZooKeeper at any
        time."""
        ...


def deliveries(
    publisher: KafkaPublisher, config: PublishConfig, positions: PositionStore
) -> Deliveries:
    """Returns deliveries with transactions if the task file asks for them."""
    if config.transactional_id:
        return Transactions(publisher, config, positions)
    return Acknowledgements(publisher)


class Acknowledgements:
    """Each record counts as published once it is acknowledged."""

    def __init__(self, publisher: KafkaPublisher) -> None:
        self._publisher = publisher
        self._edge: BinlogPosition | None = None
        self._is_published = True
        # Few records were to be pushed, and are not acknowledged yet.
        self._are_waiting = False
        self._edge_records = self._confirmed = publisher.sent

    def take_over(self) -> None:
        self._publisher.start()
        self._edge = None
        self._are_waiting = False

    def committed(self, own: str) -> None:
        """Nothing: only transactions have positions."""

    def reached(self, edge: BinlogPosition, has_more: Callable[[], bool]) -> None:
        self._edge, self._is_published = edge, False
        count = self._publisher.sent - self._edge_records
        self._edge_records = self._publisher.sent
        # After many records batches fill by themselves, and to wait would hold up the stream.
        if count:
            self._are_waiting = count <= PUSHED_RECORDS
        self.settle(has_more)

    def settle(self, has_more: Callable[[], bool]) -> None:
        if self._are_waiting:
            self._is_published = self._publisher.push(has_more)
            self._are_waiting = not self._is_published
            if self._is_published:
                self._confirmed = self._publisher.sent

    def acknowledged(self) -> int:
        # The client also counts what it has to say, such as statistics.
        return max(self._confirmed, self._publisher.sent - len(self._publisher.client))

    def confirmed(self) -> int:
        return self._confirmed

    def published(self) -> BinlogPosition | None:
        if not self._is_published:
            self._publisher.flush()
            self._is_published, self._confirmed = True, self._publisher.sent
            self._are_waiting = False
        return self._edge

    def storing(self, texts: Iterable[str]) -> None:
        """Does nothing: acknowledgements say nothing about positions."""


class Transactions:
    """Publishes rows by the commit of their Kafka transaction, with the edge after them."""

    def __init__(
        self, publisher: KafkaPublisher, config: PublishConfig, positions: PositionStore
    ) -> None:
        self._publisher, self._positions = publisher, positions
        self._transaction = Transaction(publisher, config, config.transactional_id, config.topic, 0)
        self._committed_at, self._interval_seconds = -math.inf, COMMIT_SECONDS
        self._forget()

    def _forget(self) -> None:
        self._edge: BinlogPosition | None = None  # the last one reached
        self._storing: tuple[str, ...] = ()
        self._published: BinlogPosition | None = None
        # The number of records sent at the last commit, and at the last edge.
        self._committed_records = self._edge_records = self._publisher.sent

    def take_over(self) -> None:
        if self._publisher.is_fenced and self._positions.is_edited():
            raise self._publisher.fenced()
        self._transaction.take_over()
        self._forget()
        self._catch_up()

    def committed(self, own: str) -> BinlogPosition | None:
        found = self._published
        # Kafka forgets a group's offsets with their topic.
        if found is None:
            _, text = self._transaction.committed()
            found = position_in(text, self._positions.position_version, own)
        return found and _behind(found, own)

    def _catch_up(self) -> None:
        """Brings ZooKeeper's node up to Kafka's position. Writes the node in any case: its new
        version keeps a fenced process from writing it."""
        stored = self._positions.load()
        _, text = self._transaction.committed()
        # A tool's note beside a stored position says nothing.
        if (stored is None or version_in(text) >= 0) and _is_foreign(text):
            raise self._transaction.foreign("a fetch task")
        position = self._recovered(text) if stored is None else self._newer(text, stored)
        if position is not None:
            stored = position.to_json()
        if stored is None:
            return
        if position is None:
            # Before the save, which makes it the task's own.
            stored = as_set(stored, self._positions)
        written = self._positions.written
        mark = written.mark if written else NO_MARK
        if not self._positions.is_own:
            # With the position that somebody has set, what was sent before it does not count.
            mark = replace(mark, sent={})
        self._positions.save(stored, mark)
        # A restored ZooKeeper counts from its old number again. Without the new one in Kafka, an
        # operator's position, which the save has made our own, would count as a copy next time.
        version = self._positions.position_version
        if version_in(text) > version:
            self._transaction.commit(0, metadata(BinlogPosition.from_json(stored), version))

    def _newer(self, text: str, stored: str) -> BinlogPosition | None:
        """Kafka's position, if the node is as the task left it before it committed that one."""
        own = stored if self._positions.is_own else ""
        committed = position_in(text, self._positions.position_version, own)
        if committed is not None:
            LOG.info(
                "resuming at %s, which Kafka has with the rows before it, not at %s",
                committed,
                BinlogPosition.from_json(stored),
            )
        elif own:
            committed = self._newer_than_copy(text, own)
        if committed is None:
            return None
        return _behind(committed, stored)

    def _newer_than_copy(self, text: str, own: str) -> BinlogPosition | None:
        """Kafka's position, if it is from after the node, which then comes from an older copy of
        ZooKeeper."""
        version = version_in(text)
        if version <= self._positions.position_version:
            return None
        written, was = self._positions.written, BinlogPosition.from_json(own)
        committed = position_in(text, version)
        # In a tree that was copied node by node, an operator's position counts as our own. Without
        # transactions the task may have gone on since, in a ZooKeeper with lower numbers.
        is_edit = written is None or written.position != own
        if committed is None or is_edit or _is_later(was, committed):
            return None
        LOG.warning(
            "%s, at %s, was restored from an older copy; resuming at %s, which Kafka has with the "
            "rows before it. To send the rows in between again, set the position: "
            "cdcbus offset reset ID --to PLACE",
            self._positions.path,
            was,
            committed,
        )
        return committed

    def _recovered(self, text: str) -> BinlogPosition | None:
        """Kafka's position in place of a missing node, as after a deletion: the start rule is for
        the first start only."""
        _, _, position = text.partition(" ")
        if not position:
            return None
        LOG.warning(
            "%s is missing; resuming at %s, which Kafka has with the rows before it",
            self._positions.path,
            position,
        )
        return BinlogPosition.from_json(position)

    def reached(self, edge: BinlogPosition, has_more: Callable[[], bool]) -> None:
        sent = self._publisher.sent
        are_many = sent - self._edge_records >= BUSY_RECORDS
        self._edge, self._edge_records = edge, sent
        if time.monotonic() - self._committed_at >= self._interval_seconds or not (
            are_many or has_more()
        ):
            self._commit()

    def settle(self, has_more: Callable[[], bool]) -> None:
        # Otherwise rows after the edge are in its transaction.
        if self._edge_records == self._publisher.sent and not has_more():
            self._commit()

    def acknowledged(self) -> int:
        return self._committed_records

    def confirmed(self) -> int:
        return self._committed_records

    def published(self) -> BinlogPosition | None:
        # otherwise rows after the edge are in its transaction
        if self._edge_records == self._publisher.sent:
            self._commit()
        return self._published

    def storing(self, texts: Iterable[str]) -> None:
        self._storing = tuple(texts)

    def _commit(self) -> None:
        """Commits everything before the edge."""
        edge = self._edge
        if edge is not None and self._committed_records != self._edge_records:
            begun = time.monotonic()
            self._publisher.push(lambda: False)
            self._transaction.commit(
                0, metadata(edge, self._positions.position_version, self._storing)
            )
            self._committed_at = time.monotonic()
            cost_seconds = (self._committed_at - begun) * COMMIT_COSTS
            # Where commits are slow they are rarer, so that rows have most of the time.
            self._interval_seconds = min(max(COMMIT_SECONDS, cost_seconds), LONGEST_COMMIT_SECONDS)
            self._committed_records = self._edge_records
        self._published = edge


def _behind(position: BinlogPosition, stored: str) -> BinlogPosition:
    """A position as the one that is stored next."""
    return replace(position, batch_id=BinlogPosition.from_json(stored).batch_id + 1)


def _is_later(one: BinlogPosition, other: BinlogPosition) -> bool:
    """Whether one position is behind another: in one server's binlog by its place, as commit times
    can be whole seconds, of a clock that was put back, or chosen by a session (SET timestamp)."""
    is_one_server = bool(one.server_uuid) and one.server_uuid == other.server_uuid
    if is_one_server and one.file_created_ms and other.file_created_ms:
        # By the time of the files first, as a reset binlog counts them anew; a clock that was put
        # back between two files looks the same, and rows come twice then.
        return (one.file_created_ms, BinlogCoordinates(one.file, one.pos)) > (
            other.file_created_ms,
            BinlogCoordinates(other.file, other.pos),
        )
    return one.timestamp_ms > other.timestamp_ms


def metadata(edge: BinlogPosition, position_version: int, storing: Iterable[str] = ()) -> str:
    """Formats `position_version`, with digests of the positions that may be stored by now, if any;
    a blank, and the position's JSON; without its GTIDs if it would be longer than brokers
    accept."""
    version = ":".join((str(position_version), *map(_digest, storing)))
    text = f"{version} {edge.to_json()}"
    if len(text.encode()) <= METADATA_BYTES:
        return text
    published = edge.published and replace(edge.published, gtid="")
    return f"{version} {replace(edge, gtid='', published=published).to_json()}"


def position_in(text: str, position_version: int, own: str = "") -> BinlogPosition | None:
    """The position in a text that `metadata` made with this version, or while `own`, the position
    that the task itself stored, was being written; None for any other text. Raises
    PositionError."""
    noted, _, position = text.partition(" ")
    version, *storing = noted.split(":")
    # A higher version means that the node was set since: then the node counts.
    is_still_that = version == str(position_version) or (own and _digest(own) in storing)
    if not position or not is_still_that:
        return None
    return BinlogPosition.from_json(position)


def _is_foreign(text: str) -> bool:
    """Whether a text says something where `metadata` has a position, and it is none of a binlog."""
    _, _, position = text.partition(" ")
    try:
        if position:
            BinlogPosition.from_json(position)
    except PositionError:
        return True
    return False


def version_in(text: str) -> int:
    """The version that `metadata` was given; -1 for any other text."""
    noted = text.partition(" ")[0].partition(":")[0]
    return int(noted) if noted.isdecimal() else -1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
