"""When what was sent counts as published: once Kafka has acknowledged it, or, in transactions, once they are committed.

In a transaction the rows and the transaction edge behind them become visible together. The edge is the metadata of a group offset, beside
the change number (mzxid) that the ZooKeeper position had then. A start goes on from it only if ZooKeeper's node is still that one: then
the task died between the commit and the write to ZooKeeper. Else somebody has set the node, or it was written later, and it holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.position import BinlogPosition
from cdcbus.producer import publish
from cdcbus.producer.publish import LIBRARY_LOG, SLICE_SECONDS, KafkaPublisher
from cdcbus.producer.task import PublishConfig

LOG = logging.getLogger(__name__)
COMMIT_SECONDS = 0.2  # while rows come without end; a commit takes some 30 ms
BUSY_RECORDS = 500  # so many at once: more are on their way
OFFSETS_SECONDS = 10.0  # for the position's part of a commit
METADATA_BYTES = 4096  # brokers' offset.metadata.max.bytes
_REFUSALS = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
}


class Deliveries(Protocol):
    """What was published, in the eyes of the checkpoint."""

    def take_over(self) -> None:
        """At the beginning of an attempt, before the stored position is read: what was sent and is not published yet comes again.
        Raises BusRejected, BusUnavailable, and as a position store does."""
        ...

    def reached(self, edge: BinlogPosition) -> None:
        """Everything before `edge` has been sent, and nothing behind it."""
        ...

    def published(self) -> BinlogPosition | None:
        """The last edge before which all is published, after waiting for what can be waited for; None before the first.
        Raises BusRejected, BusUnavailable."""
        ...


def deliveries(publisher: KafkaPublisher, config: PublishConfig, positions: PositionStore) -> Deliveries:
    """With transactions where the task file wants them."""
    return Transactions(publisher, config, positions) if config.transactional_id else Acknowledgements(publisher)


class Acknowledgements:
    """Each record counts as published once it is acknowledged."""

    def __init__(self, publisher: KafkaPublisher) -> None:
        self._publisher = publisher
        self._edge: BinlogPosition | None = None
        self._is_published = True

    def take_over(self) -> None:
        self._publisher.start()
        self._edge = None

    def reached(self, edge: BinlogPosition) -> None:
        self._edge, self._is_published = edge, False

    def published(self) -> BinlogPosition | None:
        if not self._is_published:
            self._publisher.flush()
            self._is_published = True
        return self._edge


class Transactions:
    """Rows are published by the commit of their Kafka transaction, with the edge behind them."""

    def __init__(self, publisher: KafkaPublisher, config: PublishConfig, positions: PositionStore) -> None:
        self._publisher, self._config, self._positions = publisher, config, positions
        self._group = Consumer(
            {**publisher.connecting, "bootstrap.servers": config.servers, "group.id": config.transactional_id, "logger": LIBRARY_LOG}
        )
        self._place = TopicPartition(config.topic, 0)
        self._is_open = False
        self._committed_at = 0.0
        self._forget()

    def _forget(self) -> None:
        self._edge: BinlogPosition | None = None  # the last one reached
        self._published: BinlogPosition | None = None
        # How many records were sent at the last commit, and at the last edge.
        self._committed_records = self._edge_records = self._publisher.sent

    def take_over(self) -> None:
        """Ends the transaction of whoever had this name before, also of a process that still runs: it is fenced."""
        publisher = self._publisher
        publisher.start()
        if publisher.is_fenced and self._positions.is_edited():
            raise publisher.fenced()
        if publisher.is_fenced or publisher.is_stuck:
            publisher.renew()
            self._is_open = False
        if self._is_open:
            # Asks the brokers whether the name is still this process's: it must not be taken back from another one.
            self._call(lambda seconds: publisher.client.abort_transaction(seconds))
            publisher.client.begin_transaction()
            self._send_edge("")
            self._call(lambda seconds: publisher.client.abort_transaction(seconds))
        else:
            self._call(lambda seconds: publisher.client.init_transactions(seconds))
            self._is_open = True
        self._begin()
        self._forget()
        self._settle()

    def _settle(self) -> None:
        """Brings ZooKeeper's node up to what Kafka has. Writes it in any case: a process that was fenced can do so no longer."""
        stored = self._positions.load()
        if stored is None:
            return
        committed = position_in(self._committed_metadata(), self._positions.mzxid)
        if committed is not None:
            was = BinlogPosition.from_json(stored)
            LOG.info("going on at %s, which Kafka has with the rows before it, not at %s", committed, was)
            stored = replace(committed, batch_id=was.batch_id + 1).to_json()
        self._positions.save(stored)

    def reached(self, edge: BinlogPosition) -> None:
        sent = self._publisher.sent
        is_busy = sent - self._edge_records >= BUSY_RECORDS
        self._edge, self._edge_records = edge, sent
        if not is_busy or time.monotonic() - self._committed_at >= COMMIT_SECONDS:
            self._commit()

    def published(self) -> BinlogPosition | None:
        if self._edge_records == self._publisher.sent:  # else rows behind the edge are in its transaction
            self._commit()
        return self._published

    def _commit(self) -> None:
        """Of everything before the edge."""
        edge = self._edge
        if edge is not None and self._committed_records != self._edge_records:
            self._publisher.flush()
            self._send_edge(metadata(edge, self._positions.mzxid))
            self._call(lambda seconds: self._publisher.client.commit_transaction(seconds))
            self._begin()
            self._committed_at = time.monotonic()
            self._committed_records = self._edge_records
        self._published = edge

    def _begin(self) -> None:
        self._publisher.client.begin_transaction()
        self._publisher.sent_since = None

    def _send_edge(self, text: str) -> None:
        place = TopicPartition(self._place.topic, self._place.partition, 0, text)
        group, client = self._group.consumer_group_metadata(), self._publisher.client
        self._call(lambda _: self._in_time(lambda: client.send_offsets_to_transaction([place], group, OFFSETS_SECONDS)))

    def _in_time(self, request: Callable[[], object]) -> None:
        """librdkafka does not keep to the time limit of this request: after a restart of the group's coordinator it may take for ever
        (librdkafka issue 5456). Then the client is left alone with it, and another one goes on."""
        failed: list[Exception] = []

        def run() -> None:
            try:
                request()
            except Exception as error:
                failed.append(error)

        thread = Thread(target=run, daemon=True)
        thread.start()
        thread.join(OFFSETS_SECONDS + SLICE_SECONDS)
        if thread.is_alive():
            self._publisher.is_stuck = True
            raise BusUnavailable(f"Kafka at {self._config.servers} has not taken the position within {OFFSETS_SECONDS:g} s")
        if failed:
            raise failed[0]

    def _call(self, request: Callable[[float], object]) -> None:
        """Repeats a request for as long as no broker answers."""
        waited = 0.0
        while True:
            try:
                request(SLICE_SECONDS)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise self._refused(error.args[0]) from error
                waited = self._publisher.waited(waited)

    def _refused(self, error: KafkaError) -> BusError:
        if error.code() in _REFUSALS:
            return BusRejected(
                f"Kafka at {self._config.servers} refuses transactions {self._config.transactional_id}: {error.str()}; "
                "the user needs the rights to write to this transactional id and to read as the group of this name"
            )
        return self._publisher.failure(error)

    def _committed_metadata(self) -> str:
        deadline = time.monotonic() + publish.CONNECT_SECONDS
        while True:
            try:
                (found,) = self._group.committed([self._place], timeout=publish.CONNECT_SECONDS)
                return found.metadata or ""
            except KafkaException as error:
                if error.args[0].code() in _REFUSALS:
                    raise self._refused(error.args[0]) from error
                if time.monotonic() > deadline:
                    raise BusUnavailable(
                        f"Kafka at {self._config.servers} does not say what was committed: {error.args[0].str()}"
                    ) from error
                time.sleep(0.05)  # a coordinator that starts


def metadata(edge: BinlogPosition, mzxid: int) -> str:
    """`mzxid`, a blank, and the position's JSON; without its GTIDs where it would be longer than brokers take."""
    text = f"{mzxid} {edge.to_json()}"
    return text if len(text.encode()) <= METADATA_BYTES else f"{mzxid} {replace(edge, gtid='').to_json()}"


def position_in(text: str, mzxid: int) -> BinlogPosition | None:
    """The position in a text that `metadata` has made beside this change number; None for any other text. Raises PositionError."""
    noted, _, position = text.partition(" ")
    return BinlogPosition.from_json(position) if position and noted == str(mzxid) else None
