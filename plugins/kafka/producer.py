"""Sends records to Kafka, in order, each acknowledged."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Generic, Self, TypeVar

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin._metadata import ClusterMetadata

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable, ConfigError
from cdcbus.plugins.files.taken_texts import changed_files
from cdcbus.plugins.kafka.acknowledgement_watch import SLICE_SECONDS, AcknowledgementWatch
from cdcbus.plugins.kafka.client.asking import asked
from cdcbus.plugins.kafka.client.certificates import written_at
from cdcbus.plugins.kafka.client.errors import (
    CHECK_LOGIN,
    LIBRARY_LOG,
    Refusals,
    are_records_lost,
    drop_unsent,
    fatal_error,
)
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.client.options import Client, client_options
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.delivery_errors import (
    PURGED,
    RAISE_LIMIT,
    TOO_LARGE,
    delivery_error,
    is_fenced,
    needs_new_client,
    refusal,
)
from cdcbus.plugins.kafka.producer_options import producer_options
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.kafka.topics import Topics, missing, named_topics
from cdcbus.plugins.task_status import TaskStatus

LOG = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
# Between two warnings that no broker answers: each failed connection is an error of its own.
WARN_SECONDS = 60.0
STOP_SECONDS = 10.0
# Without an acknowledgement: an operator is told; in a transaction a new client may succeed.
STUCK_SECONDS = 20.0
LARGE_REMEDY = f"{RAISE_LIMIT}, or set loader.onError=deadletter"
# They are read at a task's start.
NEW_LOGIN = f"{CHECK_LOGIN}; where they are others by now, restart the task"


@dataclass(frozen=True, slots=True)
class TopicShape:
    """`replicas`: those of the partition with the fewest; `brokers`: the cluster's number of
    brokers."""

    partitions: int
    replicas: int
    brokers: int


Large = TypeVar("Large")
"""Identifies a record that may be too large."""


class KafkaWriter(ABC, Generic[Large]):
    """Sends records to the topics of a task. A context manager; entering checks that the topics
    that the task names exist. Not thread-safe.

    `sent`, `sent_since`, `is_fenced` and `is_stuck` are for transactions.
    """

    def __init__(
        self,
        config: PublishConfig,
        stop: Event,
        on_queued: Callable[[int], None] | None = None,
        status: TaskStatus | None = None,
    ) -> None:
        """`on_queued` is called about once a second with the bytes of records that wait for Kafka,
        `config.queue_bytes` at most; who gives it serves the client while nothing is sent. `status`
        is told while Kafka acknowledges nothing."""
        self._config = config
        self._stop = stop
        self._acknowledgements = AcknowledgementWatch(config.servers, status, STUCK_SECONDS)
        self._failure: BusError | None = None
        # The client has dropped records that were to be sent.
        self._has_dropped = False
        # Records too large, not handled yet.
        self._refused: list[Large] = []
        self._refusals = Refusals()
        # What has ended the client: the call that serves callbacks can lose it.
        self._fatal: KafkaError | None = None
        # Failed deliveries that are not handled yet, one for each error.
        self._failed: dict[KafkaError, Message] = {}
        self.connecting = client_options(config.kafka_options, Client.LOOK_UP, lambda *_: None)
        self._options: dict[str, Any] = {
            **producer_options(config),
            # No Python code, which cannot run while a fatal error waits to be raised.
            "on_delivery": self._failed.__setitem__,
            "error_cb": self._on_error,
            "logger": LIBRARY_LOG,
        }
        if on_queued is None:
            # Those that nobody takes wait in the client, in memory.
            self._options["statistics.interval.ms"] = 0
        else:
            self._options["stats_cb"] = lambda statistics: on_queued(
                orjson.loads(statistics)["msg_size"]
            )
        self.client = self._new_client()
        self._batch_bytes = int(self._options["batch.size"])
        self._transaction_seconds = int(self._options.get("transaction.timeout.ms", 0)) / 1000
        self._topics = Topics(
            config,
            self.connecting,
            lambda topic: self._metadata(topic, CONNECT_SECONDS),
        )
        # The id of the brokers' cluster; empty before the topics were checked.
        self.cluster_id = ""
        # The number of records that were queued.
        self.sent = 0
        # When the first record of a transaction was queued; None before that.
        self.sent_since: float | None = None
        # The client is unusable: its transaction took too long, or another process has its name.
        self.is_fenced = False
        # It makes no progress, which can happen to librdkafka's transactions when a broker was
        # restarted, or its certificates are out of date.
        self.is_stuck = False
        # When it was last warned of that no broker answers.
        self._warned_at: float | None = None

    def _new_client(self) -> Producer:
        files = written_at(self._options)
        client = make_client(Producer, self._options)
        self._refusals.files = files
        return client

    def __enter__(self) -> Self:
        """Checks the topics. Raises BusUnavailable if no broker answers, BusRejected if a topic
        does not exist."""
        self._topics.need(named_topics(self._config))
        return self

    def __exit__(self, *_: object) -> None:
        self.client.purge()
        if self._config.transactional_id:
            # An open transaction would block readers until it times out; aborting fails if none is.
            with suppress(KafkaException):
                self.client.abort_transaction(STOP_SECONDS)

    def renew(self) -> None:
        """Replaces a client that cannot continue by a new one; records that it has not sent yet are
        dropped. Raises BusUnavailable where none can be made, as while a certificate is renewed and
        its key is not yet."""
        self.client.purge()
        try:
            self.client = self._new_client()
        except ConfigError as error:
            raise BusUnavailable(f"no new Kafka client can be made: {error}") from error
        self.is_fenced = self.is_stuck = False
        self._fatal = None

    def start(self) -> None:
        """Clears earlier failures: rows are read again from a place before them."""
        self.serve()
        # Transactions renew their client when they are taken over.
        if self.is_stuck and not self._config.transactional_id:
            # Otherwise it could still send an older record after the new one has begun.
            drop_unsent(self.client)
            self.renew()
        self._failed.clear()
        self._failure = None
        self._has_dropped = False
        self._refused.clear()

    def shape(self, topic: str, timeout_seconds: float = CONNECT_SECONDS) -> TopicShape | None:
        """The shape of a topic; None if it does not exist and is created at the start. Raises
        BusUnavailable, and BusRejected if it does not exist or may not be seen."""
        found = self._metadata(None, timeout_seconds)
        seen = found.topics.get(topic)
        if seen is None and self._config.new_topics is not None:
            return None
        if seen is None:
            reason = (
                "missing, or this user may not see it: that needs the ACLs Describe and Write on it"
            )
            raise missing(topic, self._config, reason)
        replicas = [len(partition.replicas) for partition in seen.partitions.values()]
        return TopicShape(len(seen.partitions), min(replicas, default=0), len(found.brokers))

    def _metadata(self, topic: str | None, timeout_seconds: float) -> ClusterMetadata:
        """The metadata of one topic, or of all. Raises BusUnavailable, BusRejected."""
        servers = self._config.servers
        # The last rows of a task that stops still go to their topics.
        stop = Event() if self._stop.is_set() else self._stop

        def ask() -> ClusterMetadata:
            found: ClusterMetadata = self.client.list_topics(topic, timeout=timeout_seconds)
            return found

        try:
            found = asked(ask, servers, stop)
        except KafkaException as error:
            unanswered = self._refusals.unanswered(self.client, servers, error)
            self.is_stuck = self.is_stuck or self._refusals.are_files_renewed
            raise unanswered from error
        self.cluster_id = str(found.cluster_id)
        return found

    def flush(self) -> None:
        """Waits until everything sent is acknowledged. Raises BusRejected, and BusUnavailable
        if the task is being stopped and Kafka does not answer for STOP_SECONDS."""
        waited = 0.0
        while self._served(self.client.flush, SLICE_SECONDS) or self._refused:
            waited = self.waited(waited)
        self._acknowledgements.came()
        self._raise_failure()

    def waited(self, waited: float) -> float:
        """Adds a slice of waiting for Kafka, counted only while the task is being stopped. Raises
        BusUnavailable after STOP_SECONDS, and in a transaction that is stuck, and what has failed
        meanwhile."""
        self.serve()
        self._raise_failure()
        self._check_acknowledgements()
        if not self._stop.is_set():
            return 0.0
        if waited >= STOP_SECONDS:
            raise BusUnavailable(
                f"stopped while no Kafka broker at {self._config.servers} takes records; they are "
                "read again at the next start"
            )
        return waited + SLICE_SECONDS

    def _check_acknowledgements(self) -> None:
        """Tells the task's status where Kafka has acknowledged none of the records that wait for
        STUCK_SECONDS. Raises BusUnavailable instead in a transaction."""
        queued = len(self.client)
        if not queued or not self._acknowledgements.are_missing(queued):
            return
        if self._config.transactional_id:
            raise self.stuck(f"has acknowledged none of {queued} records")
        self._acknowledgements.wait(queued, self._refused_login or "they are sent when it answers")

    def stuck(self, what: str) -> BusUnavailable:
        """The error for a client whose transaction makes no progress, as a new one may. `what`:
        what Kafka has not done for STUCK_SECONDS."""
        self.is_stuck = True
        why = self._refused_login
        if self._refusals.reason and not why:
            why = f"the last error: {self._refusals.reason}"
        sentence = f"Kafka at {self._config.servers} {what} for {STUCK_SECONDS:g} s"
        return BusUnavailable(f"{sentence}; {why}" if why else sentence)

    @property
    def _refused_login(self) -> str:
        """That the login is refused, and what to do; empty where it is not."""
        if not self._refusals.is_final:
            return ""
        return f"it refuses the login ({self._refusals.reason}): {NEW_LOGIN}"

    def serve(self) -> None:
        """Takes what the client has to say, such as statistics: it keeps all of it in memory until
        then, and counts it as if it were records. Raises BusError."""
        self._served(self.client.poll, 0)

    def has_sent_all(self) -> bool:
        """Whether Kafka has everything that was sent. Raises BusRejected, BusUnavailable."""
        self.serve()
        has_failed = self._failed or self._failure or self._refused or self._has_dropped
        return not has_failed and not len(self.client)

    def committed(self) -> None:
        """Notes that what was sent is committed."""

    def _produce(self, topic: str, records: list[Record]) -> None:
        """Queues the records in order; records with more than key and value one by one."""
        if self.sent_since is None:
            self.sent_since = time.monotonic()
        self.sent += len(records)
        start = 0
        with_more = [number for number, record in enumerate(records) if len(record) > 2]
        for number in with_more:
            if start < number:
                self._produce_batch(topic, records[start:number])
            self._produce_one(topic, records[number])
            start = number + 1
        self._produce_batch(topic, records[start:] if start else records)
        self.serve()
        self._raise_failure()

    def _produce_batch(self, topic: str, records: list[Record]) -> None:
        """Queues a batch. If the queue becomes full in the middle of it, all following records are
        left for the next try: none overtakes another."""
        waited = 0.0
        while records:
            try:
                queued = self.client.produce_batch(topic, records)
            except KafkaException as error:
                raise self.failure(error.args[0], topic) from error
            self._acknowledgements.taken += queued
            if queued == len(records):
                break
            records = [record for record in records if "_error" in record]
            for record in records:
                failed: KafkaError = record.pop("_error")
                if failed.code() != KafkaError._QUEUE_FULL:
                    raise self.failure(failed, topic)
            waited = self._room(waited)

    def _produce_one(self, topic: str, record: Record) -> None:
        waited = 0.0
        while True:
            try:
                self.client.produce(topic, **record)
                self._acknowledgements.taken += 1
                return None
            except BufferError:
                waited = self._room(waited)
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() not in TOO_LARGE or "on_delivery" not in record:
                    raise self.failure(reason, topic) from error
                record["on_delivery"](reason, None)
                return self._raise_failure()

    def _served(self, serve: Callable[[float], int], seconds: float) -> int:
        """Serves the client's callbacks, and waits. Raises an error that is final for the client,
        even if it surfaced inside a callback."""
        try:
            return serve(seconds)
        # While a fatal error waits to be raised, Python code of a callback can fail with any other.
        except Exception as error:
            self._handle_failed()
            fatal = self._fatal
            if fatal is None and not isinstance(error, KafkaException):
                fatal = self._lost_records()
            if fatal is None:
                if not isinstance(error, KafkaException | SystemError):
                    raise
                fatal = fatal_error(error)
            if fatal is not None:
                raise self._error(fatal, self._config.topic) from error
            if self._failure is not None:
                raise self._failure from error
            if not self._config.transactional_id:
                raise BusError(
                    f"the task's Kafka client has failed, at {self._config.servers}, without a "
                    "reason; a new one begins where this one ended"
                ) from error
            # The only reason that the client loses here is a failed transaction.
            self.is_fenced = True
            raise BusUnavailable(
                f"a Kafka transaction at {self._config.servers} has failed, and is repeated by "
                "a new client"
            ) from error

    def _handle_failed(self) -> None:
        # In order: the first error is the cause of those behind it.
        for error in list(self._failed):
            self._on_failed_delivery(error, self._failed.pop(error))

    def _lost_records(self) -> KafkaError | None:
        """The error of a transaction that has failed as brokers lack acknowledged records; None
        for any other. The client cannot be used afterwards."""
        if self._config.transactional_id:
            try:
                # Refused, with the reason, where one has failed.
                self.client.begin_transaction()
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                return reason if are_records_lost(reason) else None
        return None

    def _room(self, waited: float) -> float:
        """Waits a slice for room in the queue."""
        self._served(self.client.poll, SLICE_SECONDS)
        return self.waited(waited)

    def _on_failed_delivery(self, error: KafkaError, message: Message) -> None:
        if error.code() in PURGED:
            # An aborted transaction drops its records.
            self._has_dropped = not self._config.transactional_id
        else:
            self._failure = self._failure or self._error(error, message.topic() or "")

    def _watch(self, record: Record, large: Large) -> None:
        """Arranges that `_on_too_large` is called with `large` if the record turns out to be too
        large; needed for records above `_batch_bytes`."""
        record["on_delivery"] = partial(self._on_failed_large, large)

    def _on_failed_large(self, large: Large, error: KafkaError, message: Message) -> None:
        """Handles the failed delivery of a record that may be too large."""
        if error.code() in TOO_LARGE:
            self._refused.append(large)
        else:
            self._on_failed_delivery(error, message)

    def _on_error(self, error: KafkaError) -> None:
        self._refusals(error)
        if error.fatal():
            self._fatal = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            return
        reason = self._refusals.reason or error.str()
        if self._refusals.are_files_renewed:
            # A client reads them once, and would be refused until the process ends.
            self.is_stuck = True
            self._failure = self._failure or BusUnavailable(
                f"no Kafka broker answers at {self._config.servers} ({reason}); a new client takes "
                "the certificates that were renewed meanwhile"
            )
            return
        what = f"no Kafka broker answers at {self._config.servers} ({reason})"
        if self._refusals.is_final:
            what = f"Kafka at {self._config.servers} refuses the login by now ({reason})"
            if files := changed_files():
                self._failure = self._failure or BusRejected(
                    f"{what}; the task needs another start, as {', '.join(files)} was written "
                    "since it was read"
                )
                return
        # Before the first record, whoever asks the brokers reports that none answers.
        if not self.sent:
            return
        now = time.monotonic()
        if self._warned_at is not None and now - self._warned_at < WARN_SECONDS:
            return
        self._warned_at = now
        if self._refusals.is_final:
            LOG.warning("%s; records wait until it takes it again: %s", what, NEW_LOGIN)
        else:
            LOG.warning("%s; records wait and are sent when one does", what)

    def failure(self, error: KafkaError, topic: str = "") -> BusError:
        """The error to raise. Raises the failure of an earlier record instead, if there is one."""
        self.serve()
        self._raise_failure()
        return self._error(error, topic)

    def _error(self, error: KafkaError, topic: str) -> BusError:
        in_transactions = bool(self._config.transactional_id)
        if in_transactions and is_fenced(error):
            return self._unusable()
        if needs_new_client(error, in_transactions=in_transactions):
            self.is_stuck = True
        return delivery_error(error, topic, self._config, self._batch_bytes, self._refusals)

    def _unusable(self) -> BusError:
        """The error for a client whose transactions the brokers no longer take."""
        self.is_fenced = True
        if self.sent_since is not None:
            taken = time.monotonic() - self.sent_since
            # The brokers fence a transaction that took too long like one of an earlier holder.
            if taken > self._transaction_seconds:
                return BusUnavailable(
                    "a Kafka transaction took longer than transaction.timeout.ms "
                    f"({self._transaction_seconds:g} s)"
                )
        return self.fenced()

    def fenced(self) -> BusError:
        """The error for another process that has taken over the name of the transactions."""
        return BusRejected(
            "another process has taken over the Kafka transactions "
            f"{self._config.transactional_id} at {self._config.servers}: "
            "it runs this task as well; stop one of the two"
        )

    def _raise_failure(self) -> None:
        self._handle_failed()
        while self._refused:
            self._on_too_large(self._refused.pop(0))
        if self._failure is not None:
            raise self._failure
        if self._has_dropped:
            # The client has failed for good, of which it tells before or after it drops records.
            self._served(self.client.poll, SLICE_SECONDS)
            raise BusUnavailable(
                f"the Kafka client has dropped records for {self._config.servers}: they are sent "
                "again"
            )

    def _refusal(self, topic: str, size_bytes: int, what: str) -> str:
        limit_bytes = self._topics.largest_batch(topic)
        return refusal(topic, self._config.servers, size_bytes, limit_bytes, what)

    @abstractmethod
    def _on_too_large(self, refused: Large) -> None:
        """Handles a record that was too large; sets the failure if an error must be raised for
        it."""
