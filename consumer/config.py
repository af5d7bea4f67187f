"""The settings of a consumer task: the typed form of a `KafkaFetch` -> `JdbcBatch` or `KAFKA_SYNC`
task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from cdcbus.plugins.contracts import Converter, JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import has_types, make_converter, takes_zone, zone_of
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.start import Edge, KafkaStart
from cdcbus.plugins.transform.local_times import KEY
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rule_digests import digests
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.table_list import TableList, is_selected, matches_any


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The topics that a task reads, and how it connects to their Kafka."""

    servers: str
    topics: tuple[str, ...]
    # Only these partitions of each topic, in order; empty: all.
    partitions: tuple[int, ...] = ()
    group: str = ""
    # Options of the Java client, passed through.
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Options of librdkafka, which looks the topics up.
    look_up_options: Mapping[str, str] = field(default_factory=dict, repr=False)


SPARK_MASTER: Final = "local[*]"
"""Where Spark runs by default."""
TOPICS: Final = "consumer.source.topics"
PARTITIONS: Final = "consumer.source.partition"
RECORD_ZONE: Final = "consumer.source.timeZone"


class SchemaChange(StrEnum):
    """What happens to a source column that the target lacks."""

    # It is left out.
    IGNORE = "ignore"
    # It is added to the target.
    EVOLVE = "evolve"
    # The task waits until an operator has added it.
    STOP = "stop"


class OnError(StrEnum):
    """What happens to a record that cannot be read or that the target rejects."""

    STOP = "stop"
    DEADLETTER = "deadletter"


@dataclass(frozen=True, slots=True)
class DeadLetterConfig:
    """Where dead letters go, in the Kafka that the task reads."""

    topic: str = "cdcbus-deadletters"
    # The task stops when more dead letters than this are open.
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Kafka topics to one target, a database or other topics."""

    task_id: str
    source: TopicConfig
    converter: str
    loader: str
    target: JdbcTarget | PublishConfig
    # SCHEMA.TABLE in upper case, before mapping. Patterns: see `plugins.transform.table_list`.
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    rules: tuple[MapperRule, ...] = ()
    # `module:function` or an entry point that sees rows before they are mapped; empty: none.
    processor: str = ""
    insert_on_update_error: bool = True
    # Otherwise each change is written on its own, in source order.
    merge: bool = True
    # Target table, SCHEMA.TABLE or TABLE in upper case -> its rank inside a batch: light tables are
    # written first and deleted from last.
    weights: Mapping[str, int] = field(default_factory=dict)
    schema_change: SchemaChange = SchemaChange.STOP
    on_error: OnError = OnError.STOP
    dead_letters: DeadLetterConfig = DeadLetterConfig()
    # `consumer.offset`.
    start: KafkaStart | None = None
    # Where a task begins when nothing else decides it; None: it refuses to start.
    first_consume_from: Edge | None = None
    allow_offset_reset: bool = False
    max_records_per_batch: int = 50_000
    spark_options: Mapping[str, str] = field(default_factory=dict)
    # The table whose rows are heartbeats; None: any table called `cdcbus_heartbeat`.
    heartbeats: TableId | None = None
    # Where the run ends; None: nowhere.
    until: KafkaStart | None = None
    # `until` as an offset for each partition, once these are known: the run ends when everything
    # before them is in the target.
    ends: Mapping[TopicPartition, int] | None = None
    # The zone of times in records that name none; empty: UTC.
    time_zone: str = ""
    # If not empty, one of them must match a table as well.
    regexes: tuple[str, ...] = ()
    include_patterns: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    # Row changes of these operations are left out.
    skipped_operations: frozenset[Op] = frozenset()
    # The zone of local times in the target's columns without a zone; empty: UTC.
    target_zone: str = ""

    @property
    def reader(self) -> Converter:
        """The converter that reads the task's records. Raises ConfigError."""
        return make_converter(self.converter, self.time_zone)

    @property
    def mapper(self) -> Mapper:
        """A new mapper, which caches what it learns about each table. Raises ConfigError."""
        zone = None
        if self.target_zone:
            zone = zone_of(self.target_zone, KEY)
        return Mapper(self.rules, self.named_tables, self.excludes, zone)

    @property
    def spark_master(self) -> str:
        """Where Spark runs."""
        return self.spark_options.get("spark.master", SPARK_MASTER)

    @property
    def row_rules(self) -> dict[str, str]:
        """Digests of the keys that decide which rows are applied, and how, by the keys' names.
        Raises ConfigError for an unknown time zone."""
        # Without types no cell is known to be a TIMESTAMP: the zone is that of `op_ts` only.
        has_zoned_cells = takes_zone(self.converter) and has_types(self.converter)
        values: dict[str, object] = {
            TOPICS: sorted(self.source.topics),
            PARTITIONS: sorted(self.source.partitions),
            "consumer.source.filter": self.regexes,
            "consumer.includes": (self.includes, self.include_patterns),
            "consumer.excludes": (self.excludes, self.exclude_patterns),
            "consumer.skippedOperations": self.skipped_operations,
            "consumer.eventProcessor.className": self.processor,
            "mapper[i]": self.rules,
            RECORD_ZONE: _zone_name(self.time_zone if has_zoned_cells else "", RECORD_ZONE),
            KEY: _zone_name(self.target_zone, KEY),
        }
        return digests(values)

    def is_heartbeat(self, table: TableId) -> bool:
        """Whether rows of this source table are heartbeats, which are timed, not applied. Names
        match in any case."""
        if self.heartbeats is None:
            return table.table.lower() == "cdcbus_heartbeat"
        return str(table).lower() == str(self.heartbeats).lower()

    def wants(self, table: TableId) -> bool:
        """Whether rows of this source table are applied."""
        return not self.is_heartbeat(table) and self.selects(table)

    def selects(self, table: TableId) -> bool:
        """Whether the task file's filter and lists let this source table through."""
        name = str(table)
        if self.regexes and not matches_any(name, self.regexes):
            return False
        includes = TableList(self.includes, self.include_patterns)
        excludes = TableList(self.excludes, self.exclude_patterns)
        return is_selected(name, includes, excludes)

    @property
    def named_tables(self) -> frozenset[str]:
        """`includes` where it lists every table that the task can take; otherwise empty."""
        return frozenset() if self.include_patterns else self.includes

    def weight(self, table: TableId) -> int:
        """The rank of a target table inside a batch; 0 unless the task file sets one."""
        by_table = self.weights.get(table.table.upper(), 0)
        return self.weights.get(str(table).upper(), by_table)


def _zone_name(text: str, key: str) -> str:
    """One name for all spellings of an offset; empty: UTC."""
    return str(zone_of(text or "UTC", key))
