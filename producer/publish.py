"""Row changes to a Kafka topic: key, partition, acknowledgement."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin._metadata import ClusterMetadata

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import BusRejected, BusUnavailable, ConfigError, UnreadableEvent
from cdcbus.plugins.kafka_refusal import Refusals
from cdcbus.plugins.rowchange import RowChange
from cdcbus.producer.generate import TableWriter
from cdcbus.producer.record_key import Record, key_columns, key_text, split_key_change
from cdcbus.producer.rows import Rows
from cdcbus.producer.schema import DecodableTable
from cdcbus.producer.task import PublishConfig

LOG = logging.getLogger(__name__)
# librdkafka reports each failed connection attempt; what matters of it arrives as an error or in `_on_error`.
_LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")
_LIBRARY_LOG.setLevel(logging.CRITICAL)

CONNECT_SECONDS = 10.0
SLICE_SECONDS = 0.5
STOP_SECONDS = 10.0
BATCH_RECORDS = 1000
WRITERS = 1_000  # tables whose writers are kept

# What safety needs is not for a task file to change: acknowledged by all replicas, in order, without duplicates, retried for ever.
_FIXED = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    "partitioner": "murmur2_random",  # the Java client's split by key
    "delivery.report.only.error": True,
}
_DEFAULTS = {
    "linger.ms": 5,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
    "reconnect.backoff.max.ms": 1_000,
}


@dataclass(frozen=True, slots=True)
class TopicShape:
    """`replicas`: of the partition that has the fewest; `brokers`: how many the cluster has."""

    partitions: int
    replicas: int
    brokers: int


class KafkaPublisher:
    """Sends row changes to one topic. A context manager; entering checks that the topic is there."""

    def __init__(self, config: PublishConfig, converter: Converter, stop: Event) -> None:
        self._config = config
        self._converter = converter
        self._stop = stop
        self._failure: BusRejected | None = None
        self._refusals = Refusals()
        options = {key: value for key, value in config.kafka_options.items() if key not in _FIXED}
        try:
            self._producer = Producer(
                {
                    "client.id": "cdcbus",
                    **_DEFAULTS,
                    **options,
                    **_FIXED,
                    "bootstrap.servers": config.servers,
                    "on_delivery": self._on_failed_delivery,
                    "error_cb": self._on_error,
                    "logger": _LIBRARY_LOG,
                }
            )
        except KafkaException as error:
            raise ConfigError(f"Kafka producer settings: {error.args[0].str()}") from error
        self._writers: dict[DecodableTable, TableWriter] = {}
        self._row = 0  # the next row's number in its transaction

    def __enter__(self) -> KafkaPublisher:
        """Raises BusUnavailable when no broker answers, BusRejected when the topic does not exist."""
        error = self._metadata(self._config.topic, CONNECT_SECONDS).topics[self._config.topic].error
        if error is not None:
            raise self._missing(error.str())
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.purge()

    def shape(self, timeout_seconds: float = CONNECT_SECONDS) -> TopicShape:
        """What the topic is like. Names it to no broker, as that may create it. Raises BusUnavailable, and BusRejected when it is not there
        or must not be seen."""
        found = self._metadata(None, timeout_seconds)
        topic = found.topics.get(self._config.topic)
        if topic is None:
            raise self._missing("not there, or not for this user to see")
        replicas = min((len(partition.replicas) for partition in topic.partitions.values()), default=0)
        return TopicShape(len(topic.partitions), replicas, len(found.brokers))

    def _metadata(self, topic: str | None, timeout_seconds: float) -> ClusterMetadata:
        """Of one topic, or of all."""
        try:
            found: ClusterMetadata = self._producer.list_topics(topic, timeout=timeout_seconds)
            return found
        except KafkaException as error:
            raise self._refusals.unanswered(self._producer, self._config.servers, error) from error

    def _missing(self, reason: str) -> BusRejected:
        topic, servers = self._config.topic, self._config.servers
        return BusRejected(
            f"Kafka topic {topic} at {servers}: {reason}; "
            f"create it: kafka-topics --create --topic {topic} --partitions N --bootstrap-server {servers}"
        )

    def send(self, events: Iterable[Rows]) -> int:
        """Queues the rows in order; waits while the queue is full. Gives their number.

        Raises UnreadableEvent, BusRejected for a record that Kafka does not take, BusUnavailable when the task is to stop while it waits.
        """
        sent = 0
        records: list[Record] = []
        try:
            for rows in events:
                if rows.is_first:
                    self._row = 0
                made, count = self._writer(rows.table).records(rows, self._row)
                records += made
                self._row += count
                sent += count
                if len(records) >= BATCH_RECORDS:
                    self._produce(records)
                    records = []
        except UnreadableEvent:
            self._produce(records)  # what comes before it is sent
            raise
        self._produce(records)
        return sent

    def flush(self) -> None:
        """Waits until everything sent is acknowledged. Raises BusRejected, and BusUnavailable when the task is to stop and Kafka does not
        answer for STOP_SECONDS."""
        waited = 0.0
        while self._producer.flush(SLICE_SECONDS):
            self._raise_failure()
            waited = self._waited(waited)
        self._raise_failure()

    def _waited(self, waited: float) -> float:
        """One more slice of waiting for Kafka, counted only once the task is to stop."""
        if not self._stop.is_set():
            return 0.0
        if waited >= STOP_SECONDS:
            raise BusUnavailable(
                f"stopped while no Kafka broker at {self._config.servers} takes records; they are read again at the next start"
            )
        return waited + SLICE_SECONDS

    def _produce(self, records: list[Record]) -> None:
        """Queues the records. When the queue is full in the midst of them, all that follow are left for the next try: none overtakes."""
        waited = 0.0
        while records:
            try:
                queued = self._producer.produce_batch(self._config.topic, records)
            except KafkaException as error:
                raise self._rejected(error.args[0]) from error
            if queued == len(records):
                break
            records = [record for record in records if "_error" in record]
            for record in records:
                failure: KafkaError = record.pop("_error")
                if failure.code() != KafkaError._QUEUE_FULL:
                    raise self._rejected(failure)
            self._producer.poll(SLICE_SECONDS)
            self._raise_failure()
            waited = self._waited(waited)
        self._producer.poll(0)
        self._raise_failure()

    def _on_failed_delivery(self, error: KafkaError, _: Message) -> None:
        self._failure = self._failure or self._rejected(error)

    def _on_error(self, error: KafkaError) -> None:
        self._refusals(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            reason = self._refusals.reason or error.str()
            LOG.warning("no Kafka broker answers at %s (%s); records wait and are sent when one does", self._config.servers, reason)

    def _rejected(self, error: KafkaError) -> BusRejected:
        return BusRejected(f"Kafka topic {self._config.topic} at {self._config.servers} does not take a record: {error.str()}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _writer(self, table: DecodableTable) -> TableWriter:
        writer = self._writers.get(table)
        if writer is None:
            if len(self._writers) >= WRITERS:
                self._writers.clear()
            writer = self._writers[table] = TableWriter(table, self._converter, key_columns(table.table, self._config), self._plain)
        return writer

    def _plain(self, change: RowChange) -> list[Record]:
        key = key_columns(change.table, self._config)
        return [{"key": key_text(part, key), "value": self._converter.to_bytes(part)} for part in split_key_change(change, key)]
