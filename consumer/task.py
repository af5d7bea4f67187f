"""What a consumer task is told: the typed form of a `KafkaFetch` -> `JdbcBatch` task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Edge, KafkaStart


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What is read. `partition` None = all partitions. `kafka_options` are the Java client's, passed through;
    `look_up_options` say librdkafka how to connect, for questions about the topics."""

    servers: str
    topics: tuple[str, ...]
    partition: int | None = None
    group: str = ""
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    look_up_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class MapperRule:
    """One `mapper[i]`. `schema` and `table` are (source, target) and select what the rule is for, any case; None = any.
    `columns`: source column -> target column, any case. `force_matched`: a source column that the target lacks stops the task, else it is
    dropped."""

    schema: tuple[str, str] | None = None
    table: tuple[str, str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    force_matched: bool = True


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Kafka topics to one target.

    `includes` / `excludes` are SCHEMA.TABLE in upper case, before mapping; `excludes` ignored where `includes` is given.
    `start` is `consumer.offset`, `first_consume_from` what holds when nothing else says where to begin; None and None = refuse.
    """

    task_id: str
    source: TopicConfig
    converter: str
    loader: str
    target: JdbcTarget
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    rules: tuple[MapperRule, ...] = ()
    insert_on_update_error: bool = True
    start: KafkaStart | None = None
    first_consume_from: Edge | None = None
    allow_offset_reset: bool = False
    max_records_per_batch: int = 50_000
    spark_options: Mapping[str, str] = field(default_factory=dict)

    def wants(self, table: TableId) -> bool:
        """Whether rows of this source table are applied."""
        name = str(table).upper()
        return name in self.includes if self.includes else name not in self.excludes
