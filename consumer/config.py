"""What a consumer task is told: the typed form of a `KafkaFetch` -> `JdbcBatch` or `KAFKA_SYNC`
task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cdcbus.plugins.contracts import Converter, JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter, zone_of
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.start import Edge, KafkaStart
from cdcbus.plugins.transform.local_times import KEY
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.table_list import TableList, is_selected, matches_any


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What is read. `partitions`: only these, of each topic, in order; empty: all.
    `kafka_options` are the Java client's, passed through; `look_up_options` say librdkafka how
    to connect, for questions about the topics."""

    servers: str
    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    group: str = ""
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    look_up_options: Mapping[str, str] = field(default_factory=dict, repr=False)


class SchemaChange(StrEnum):
    """What happens with a source column that the target lacks: IGNORE drops it, EVOLVE adds it,
    STOP waits until somebody has added it."""

    IGNORE = "ignore"
    EVOLVE = "evolve"
    STOP = "stop"


class OnError(StrEnum):
    """What happens with a record that cannot be read or that the target rejects."""

    STOP = "stop"
    DEADLETTER = "deadletter"


@dataclass(frozen=True, slots=True)
class DeadLetterConfig:
    """Where dead letters go, in the Kafka that the task reads. `limit`: more open ones of this
    task stop it."""

    topic: str = "cdcbus-deadletters"
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Kafka topics to one target, a database or other topics.

    `includes` / `excludes` are SCHEMA.TABLE in upper case, before mapping, beside which stand
    patterns: see `plugins.transform.table_list`; of `regexes` one must match as well, if there are
    some. Row changes of `skipped_operations` are left out. `processor`: `module:function` or an
    entry point that sees rows before they are mapped; empty: none. `weights`: target table,
    SCHEMA.TABLE or TABLE in upper case -> its place inside a batch: light tables are written first
    and deleted from last. `merge` false: each change is written by itself, in source order. Rows of
    `heartbeats`, or without it of any table called `cdcbus_heartbeat`, are heartbeats. `start` is
    `consumer.offset`, `first_consume_from` what holds when nothing else says where to begin; None
    and None = refuse. `until` says where the run ends, None: nowhere; `ends` is the same as an
    offset for each partition, once these are known: the run ends when all before it is in the
    target. `time_zone`: of times in records that name none; empty: UTC. `target_zone`: whose clocks
    the target's columns without a zone are filled by; empty: UTC.
    """

    task_id: str
    source: TopicConfig
    converter: str
    loader: str
    target: JdbcTarget | PublishConfig
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    rules: tuple[MapperRule, ...] = ()
    processor: str = ""
    insert_on_update_error: bool = True
    merge: bool = True
    weights: Mapping[str, int] = field(default_factory=dict)
    schema_change: SchemaChange = SchemaChange.STOP
    on_error: OnError = OnError.STOP
    dead_letters: DeadLetterConfig = DeadLetterConfig()
    start: KafkaStart | None = None
    first_consume_from: Edge | None = None
    allow_offset_reset: bool = False
    max_records_per_batch: int = 50_000
    spark_options: Mapping[str, str] = field(default_factory=dict)
    heartbeats: TableId | None = None
    until: KafkaStart | None = None
    ends: Mapping[TopicPartition, int] | None = None
    time_zone: str = ""
    regexes: tuple[str, ...] = ()
    include_patterns: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    skipped_operations: frozenset[Op] = frozenset()
    target_zone: str = ""

    @property
    def reader(self) -> Converter:
        """What reads the task's records. Raises ConfigError."""
        return make_converter(self.converter, self.time_zone)

    @property
    def mapper(self) -> Mapper:
        """A new one, which keeps what it finds of each table. Raises ConfigError."""
        zone = zone_of(self.target_zone, KEY) if self.target_zone else None
        return Mapper(self.rules, self.named_tables, self.excludes, zone)

    def is_heartbeat(self, table: TableId) -> bool:
        """Whether rows of this source table are heartbeats, any case: they are timed, not
        applied."""
        if self.heartbeats is None:
            return table.table.lower() == "cdcbus_heartbeat"
        return str(table).lower() == str(self.heartbeats).lower()

    def wants(self, table: TableId) -> bool:
        """Whether rows of this source table are applied."""
        return not self.is_heartbeat(table) and self.selects(table)

    def selects(self, table: TableId) -> bool:
        """Whether filter and lists of the task file let this source table through."""
        name = str(table)
        if self.regexes and not matches_any(name, self.regexes):
            return False
        includes = TableList(self.includes, self.include_patterns)
        return is_selected(name, includes, TableList(self.excludes, self.exclude_patterns))

    @property
    def named_tables(self) -> frozenset[str]:
        """`includes`, where these are all tables that the task can take; else none."""
        return frozenset() if self.include_patterns else self.includes

    def weight(self, table: TableId) -> int:
        """The place of a target table inside a batch; 0 unless the task file says otherwise."""
        return self.weights.get(str(table).upper(), self.weights.get(table.table.upper(), 0))
