"""The settings of a fetch task: the typed form of a `CanalFetch` -> `KAFKA_SYNC` task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.mysql.tls import BY_ITSELF, MysqlTls
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.start import BinlogStart, Edge
from cdcbus.plugins.transform.rule_digests import digests
from cdcbus.plugins.transform.rules import MapperRule


@dataclass(frozen=True, slots=True)
class AddedSource:
    """A source from another package, by the name of its entry point. `options`: its settings,
    under its own keys; `start`: the word for where the first start begins, empty = none."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    start: str = ""


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """The server whose binlog is read; a source from another package (`added`) has no server and
    no addresses. `addresses` are (host, port), tried in order; `server_id` is ours in its
    replication topology, None = derived from the task id. `takes_partial`: rows are read whatever
    binlog_row_image is."""

    addresses: tuple[tuple[str, int], ...]
    user: str
    password: str = field(default="", repr=False)
    server_id: int | None = None
    connect_timeout_seconds: float = 10.0
    tls: MysqlTls = BY_ITSELF
    takes_partial: bool = False
    added: AddedSource | None = None

    @property
    def shown(self) -> str:
        """Where rows come from, for display."""
        if self.added is not None:
            return self.added.name
        return ", ".join(f"{host}:{port}" for host, port in self.addresses)


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Selects the tables to read. `regexes` are canal's (they match the whole `schema.table`,
    ignoring case; none = all); a match of `black_regexes` excludes a table, whatever the other
    rules say; `includes` and `excludes` are SCHEMA.TABLE names in upper case; for their patterns
    see `plugins.transform.table_list`."""

    regexes: tuple[str, ...] = ()
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    include_patterns: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    black_regexes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """A row written to `table` at the source every `interval_seconds`, and read like any other."""

    table: TableId
    interval_seconds: float = 60.0


TRUNCATE = "TRUNCATE"
CLUSTER = "loader.source.servers"
TOPICS = "loader.source.topic, dynamicTopic"
DECIDE_TOPICS = frozenset(
    {
        "consumer.source.filter",
        "consumer.source.blackFilter",
        "consumer.includes",
        "consumer.excludes",
        "consumer.eventProcessor.className",
        "mapper[i]",
        TOPICS,
    }
)
"""The `row_rules` that decide to which topics rows go."""


@dataclass(frozen=True, slots=True)
class DdlConfig:
    """Which DDL is published: that a table was truncated, and that its definition changed."""

    truncates: bool = True
    definitions: bool = False

    def publishes(self, kind: str) -> bool:
        """Whether DDL of a kind, as `named` tells it, is published."""
        if kind == TRUNCATE:
            return self.truncates
        return self.definitions


@dataclass(frozen=True, slots=True)
class RowTransform:
    """How rows are transformed on their way to Kafka: first by `processor` (`module:function` or
    an entry point, empty = none), then by the mapper's `rules`. `includes` and `excludes` are the
    task's, they name the tables; rows of `heartbeats` are left unchanged."""

    rules: tuple[MapperRule, ...] = ()
    processor: str = ""
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    heartbeats: TableId | None = None

    def __bool__(self) -> bool:
        return bool(self.rules or self.processor)


AS_THEY_ARE = RowTransform()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Selects transactions that originate elsewhere; none of their rows is sent. `server_ids`: the
    servers that first wrote an event; `gtid_sources`: the UUID of a GTID, for MariaDB
    `domain-server`; `marks`: names of `loader.mark`, recognized by a transaction's first row, in
    table `cdcbus_mark_<name>` of any schema."""

    server_ids: frozenset[int] = frozenset()
    gtid_sources: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()


class SnapshotMode(StrEnum):
    """Whether existing rows of tables are read, too. INITIAL: once per table. ONLY: likewise, then
    the task ends."""

    NEVER = "never"
    INITIAL = "initial"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Binlog to Kafka. `start` says where the first start begins, unless a position was set; None =
    refuse. `on_position_lost`: where to resume when the server no longer has the next event;
    None = stop. `heartbeat`: None = none is written. `rows_per_record`: at most.
    `skips_statements`: skips changes by statements that were logged as text, and continues.
    `until`: where the run ends; None = nowhere. `transform`: how rows are transformed.
    `left_out`: operations whose rows are not sent; `elsewhere`: transactions whose rows are not."""

    task_id: str
    swimlane: str
    source: SourceConfig
    tables: FilterConfig
    publish: PublishConfig
    start: BinlogStart | None = None
    position_interval_seconds: float = 1.0
    ddl: DdlConfig = DdlConfig()
    rows_per_record: int = 1
    on_position_lost: Edge | None = None
    heartbeat: HeartbeatConfig | None = None
    skips_statements: bool = False
    until: BinlogStart | None = None
    snapshot: SnapshotMode = SnapshotMode.NEVER
    transform: RowTransform = AS_THEY_ARE
    left_out: frozenset[Op] = frozenset()
    elsewhere: Elsewhere = Elsewhere()

    def rules_at(self, cluster_id: str) -> dict[str, str]:
        """`row_rules`, with the Kafka cluster that rows go to: its id, as addresses change."""
        return self.row_rules | digests({CLUSTER: cluster_id})

    @property
    def row_rules(self) -> dict[str, str]:
        """Digests of the keys that decide which rows are sent, and how, by the keys' names."""
        tables, publish, transform = self.tables, self.publish, self.transform
        values: dict[str, object] = {
            "consumer.source.filter": tables.regexes,
            "consumer.source.blackFilter": tables.black_regexes,
            "consumer.includes": (tables.includes, tables.include_patterns),
            "consumer.excludes": (tables.excludes, tables.exclude_patterns),
            "consumer.skippedOperations": self.left_out,
            "consumer.eventProcessor.className": transform.processor,
            "mapper[i]": transform.rules,
            TOPICS: (publish.topic, publish.topic_rules),
            "loader.source.partitionKey": (publish.partition_keys, publish.key_rules),
            "loader.source.truncate, consumer.skippedOperations": self.ddl.truncates,
            "consumer.onStatement": self.skips_statements,
            "consumer.source.excludeServerIds": self.elsewhere.server_ids,
            "consumer.source.excludeGtidSources": self.elsewhere.gtid_sources,
            "consumer.source.excludeMarks": self.elsewhere.marks,
        }
        return digests(values)

    @property
    def heartbeat_table(self) -> TableId | None:
        """The table that heartbeats are written to."""
        if self.heartbeat is None:
            return None
        return self.heartbeat.table
