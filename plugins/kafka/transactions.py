"""Kafka transactions under one name: records and the position of their source become visible
together."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable, PositionUnusable
from cdcbus.plugins.kafka import producer as writers
from cdcbus.plugins.kafka.acknowledgement_watch import SLICE_SECONDS
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import KafkaWriter

OFFSETS_SECONDS = 10.0  # for the position's part of a commit
_REFUSALS = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
}


class Transaction:
    """The records that a writer sends between two commits. Once the name has been taken over, a
    transaction is always open.

    A commit stores an offset and a text as the committed offset of `group` for `topic` and
    `partition`.
    """

    def __init__(
        self,
        writer: KafkaWriter[Any],
        config: PublishConfig,
        group: str,
        topic: str,
        partition: int,
    ) -> None:
        self._writer = writer
        self._config = config
        self._group_name = group
        self._group = self._new_group()
        self._place = confluent_kafka.TopicPartition(topic, partition)
        self._is_open = False

    def _new_group(self) -> Consumer:
        return make_client(
            Consumer,
            {
                **self._writer.connecting,
                "bootstrap.servers": self._config.servers,
                "group.id": self._group_name,
                "logger": LIBRARY_LOG,
            },
        )

    def take_over(self) -> None:
        """Ends the transaction of the earlier holder of this name, even of a process that still
        runs: it is fenced. Uncommitted records are aborted. Raises BusRejected, also if another
        process has taken the name by now; BusUnavailable."""
        writer = self._writer
        writer.start()
        if writer.is_fenced or writer.is_stuck:
            # It has read the same certificates. First, as a writer that is renewed is not again.
            group = self._new_group()
            writer.renew()
            self._group = group
            self._is_open = False
        if self._is_open:
            # Checks with the brokers that the name is still this process's: it must not be taken
            # back from another one.
            self._call(lambda seconds: writer.client.abort_transaction(seconds))
            writer.client.begin_transaction()
            self._send_offset(0, "")
            self._call(lambda seconds: writer.client.abort_transaction(seconds))
        else:
            self._call(lambda seconds: writer.client.init_transactions(seconds))
            self._is_open = True
        self._begin()

    def commit(self, offset: int, text: str) -> None:
        """Commits everything that was sent. Raises BusRejected, BusUnavailable."""
        self._writer.flush()
        self._send_offset(offset, text)
        self._call(lambda seconds: self._writer.client.commit_transaction(seconds))
        self._writer.committed()
        self._begin()

    def committed(self) -> tuple[int, str]:
        """Returns the offset, negative if there is none, and the text of the last commit. Raises
        BusRejected, BusUnavailable."""
        deadline = time.monotonic() + writers.CONNECT_SECONDS
        while True:
            try:
                (found,) = self._group.committed([self._place], timeout=writers.CONNECT_SECONDS)
                # An error of the partition alone does not say that nothing was committed.
                if found.error is not None:
                    raise KafkaException(found.error)
                return found.offset, found.metadata or ""
            except KafkaException as error:
                if error.args[0].code() in _REFUSALS:
                    raise self._refused(error.args[0]) from error
                if time.monotonic() > deadline:
                    raise BusUnavailable(
                        f"Kafka at {self._config.servers} does not say what was committed: "
                        f"{error.args[0].str()}"
                    ) from error
                time.sleep(0.05)  # the coordinator is starting

    def foreign(self, kind: str) -> PositionUnusable:
        """The error for a committed text that no task of this kind writes."""
        where = f"{self._place.topic}[{self._place.partition}]"
        return PositionUnusable(
            f"group {self._group_name} at Kafka {self._config.servers} has committed an offset of "
            f"{where} that is not of {kind}: another task, or program, commits under that name. "
            "Give one of the two another taskId; then delete the group's offset of that topic "
            "(kafka-consumer-groups.sh --delete-offsets), and set this task's position: cdcbus "
            "offset reset"
        )

    def _begin(self) -> None:
        self._writer.client.begin_transaction()
        self._writer.sent_since = None

    def _send_offset(self, offset: int, text: str) -> None:
        place = confluent_kafka.TopicPartition(
            self._place.topic, self._place.partition, offset, text
        )
        group = self._group.consumer_group_metadata()
        client = self._writer.client

        def send() -> None:
            client.send_offsets_to_transaction([place], group, OFFSETS_SECONDS)

        self._call(lambda _: self._in_time(send))

    def _in_time(self, request: Callable[[], object]) -> None:
        """Enforces the time limit of a request. librdkafka does not: after a restart of the group's
        coordinator the request can hang forever (librdkafka issue 5456). Then the client is
        abandoned, and another one continues."""
        failed: list[Exception] = []

        def run() -> None:
            try:
                request()
            except Exception as error:
                failed.append(error)

        # Callbacks are served there, too, and must find the task at work.
        thread = Thread(target=copy_context().run, args=(run,), daemon=True)
        thread.start()
        thread.join(OFFSETS_SECONDS + SLICE_SECONDS)
        if thread.is_alive():
            self._writer.is_stuck = True
            raise BusUnavailable(
                f"Kafka at {self._config.servers} has not taken the position within "
                f"{OFFSETS_SECONDS:g} s"
            )
        if failed:
            raise failed[0]

    def _call(self, request: Callable[[float], object]) -> None:
        """Repeats a request until a broker answers; for STUCK_SECONDS, then a new client is
        needed."""
        deadline = time.monotonic() + writers.STUCK_SECONDS
        waited = 0.0
        while True:
            try:
                request(SLICE_SECONDS)
                return
            except KafkaException as error:
                reason = error.args[0]
                if not reason.retriable():
                    raise self._refused(reason) from error
                waited = self._writer.waited(waited)
                if time.monotonic() > deadline:
                    what = f"has not answered transactions {self._config.transactional_id}"
                    raise self._writer.stuck(what) from error

    def _refused(self, error: KafkaError) -> BusError:
        if error.code() in _REFUSALS:
            return BusRejected(
                f"Kafka at {self._config.servers} refuses transactions "
                f"{self._config.transactional_id}: {error.str()}; "
                "the user needs the rights to write to this transactional id and to read as the "
                "group of this name"
            )
        return self._writer.failure(error)
