"""Row changes to a Kafka topic: key, partition, acknowledgement."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin._metadata import ClusterMetadata

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import BusRejected, BusUnavailable, ConfigError
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table
from cdcbus.producer.task import PublishConfig

LOG = logging.getLogger(__name__)
# librdkafka reports each failed connection attempt; what matters of it arrives as an error or in `_on_error`.
_LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")
_LIBRARY_LOG.setLevel(logging.CRITICAL)

CONNECT_SECONDS = 10.0
SLICE_SECONDS = 0.5
STOP_SECONDS = 10.0

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
        self._keys: dict[Table, tuple[str, ...]] = {}

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
            raise BusUnavailable(f"no Kafka broker answers at {self._config.servers}: {error.args[0].str()}") from error

    def _missing(self, reason: str) -> BusRejected:
        topic, servers = self._config.topic, self._config.servers
        return BusRejected(
            f"Kafka topic {topic} at {servers}: {reason}; "
            f"create it: kafka-topics --create --topic {topic} --partitions N --bootstrap-server {servers}"
        )

    def send(self, changes: Iterable[RowChange]) -> None:
        """Queues the changes in order; waits while the queue is full. Raises BusRejected for a record that Kafka does not take, and
        BusUnavailable when the task is to stop while it waits."""
        for change in changes:
            for part in split_key_change(change, self._key_of(change.table)):
                self._produce(key_text(part, self._key_of(part.table)), self._converter.to_bytes(part))
        self._producer.poll(0)
        self._raise_failure()

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

    def _produce(self, key: bytes, value: bytes) -> None:
        waited = 0.0
        while True:
            try:
                self._producer.produce(self._config.topic, value, key)
                return
            except BufferError:
                self._producer.poll(SLICE_SECONDS)
                self._raise_failure()
                waited = self._waited(waited)
            except KafkaException as error:
                raise self._rejected(error.args[0]) from error

    def _on_failed_delivery(self, error: KafkaError, _: Message) -> None:
        self._failure = self._failure or self._rejected(error)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            LOG.warning("no Kafka broker answers at %s; records wait and are sent when one does", self._config.servers)

    def _rejected(self, error: KafkaError) -> BusRejected:
        return BusRejected(f"Kafka topic {self._config.topic} at {self._config.servers} does not take a record: {error.str()}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _key_of(self, table: Table) -> tuple[str, ...]:
        key = self._keys.get(table)
        if key is None:
            key = self._keys[table] = key_columns(table, self._config)
        return key


def key_columns(table: Table, config: PublishConfig) -> tuple[str, ...]:
    """The columns whose values make the record key, by upper-case name as in porter; the primary key unless `partitionKey` names others.
    Raises ConfigError for a name that the table does not have."""
    wanted = config.partition_keys.get(str(table.id).upper())
    if wanted is None:
        return tuple(sorted(table.key, key=str.upper))
    names = {column.name.upper(): column.name for column in table.columns}
    unknown = [name for name in wanted if name.upper() not in names]
    if unknown:
        raise ConfigError(
            f"loader.source.partitionKey.{table.id}: the table has no column {', '.join(unknown)}; it has {', '.join(names.values())}"
        )
    return tuple(names[name] for name in sorted(map(str.upper, wanted)))


def key_text(change: RowChange, columns: tuple[str, ...]) -> bytes:
    """porter's record key: each value followed by `_`, columns by name; NULL is `null`. Empty for a table without key columns."""
    row: Row = (change.before if change.op is Op.DELETE else change.after) or {}
    return "".join(f"{'null' if (value := row.get(name)) is None else value}_" for name in columns).encode()


def split_key_change(change: RowChange, partition_key: tuple[str, ...]) -> Iterator[RowChange]:
    """The change itself; or, for an update that changes primary key or partition key, a delete of the old row and an insert of the new one,
    so that each key's history stays in one partition."""
    before, after = change.before, change.after
    if change.op is Op.UPDATE and before is not None and after is not None:
        names = (*change.table.key, *partition_key)
        if any(before.get(name) != after.get(name) for name in names if name in before and name in after):
            yield replace(change, op=Op.DELETE, after=None, is_last=False)
            yield replace(change, op=Op.INSERT, before=None)
            return
    yield change
