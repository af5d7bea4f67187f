"""What a fetch task is told: the typed form of a `CanalFetch` -> `KAFKA_SYNC` task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.mysql_tls import BY_ITSELF, MysqlTls
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import BinlogStart, Edge


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """The server whose binlog is read. `addresses` are (host, port), tried in order; `server_id` is ours in its replication
    topology, None to derive one from the task id. `takes_partial`: rows are read whatever binlog_row_image is."""

    addresses: tuple[tuple[str, int], ...]
    user: str
    password: str = field(default="", repr=False)
    server_id: int | None = None
    connect_timeout_seconds: float = 10.0
    tls: MysqlTls = BY_ITSELF
    takes_partial: bool = False


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Which tables are read. `regexes` are canal's (matched whole on `schema.table`, any case; none = all); `includes` and `excludes` are
    SCHEMA.TABLE names in upper case, `excludes` ignored where `includes` is given."""

    regexes: tuple[str, ...] = ()
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Tables whose rows go to a topic of their own. `regex` is matched whole, in any case: on `schema.table` if it `names_tables`, else on
    the schema. An empty `topic`: one named after what was matched."""

    regex: str
    names_tables: bool
    topic: str = ""


@dataclass(frozen=True, slots=True)
class NewTopics:
    """What a topic that is made gets."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """Where row changes go: to the topic of the first of `topic_rules` that fits their table, else to `topic`.

    `partition_keys`: SCHEMA.TABLE in upper case -> column names as written in the task file; tables not in it use their primary key.
    `kafka_options` are librdkafka's, passed through. `queue_bytes`: how many bytes of records may wait for Kafka. `new_topics`: how missing
    topics are made; None = they are not. `dead_letter_topic`: of records too large for Kafka; empty = such a record stops the task.
    `transactional_id`: rows are written in transactions of this name, the same at each start; empty = without.
    """

    servers: str
    topic: str
    converter: str
    partition_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    queue_bytes: int = 64 << 20
    topic_rules: tuple[TopicRule, ...] = ()
    new_topics: NewTopics | None = None
    dead_letter_topic: str = ""
    transactional_id: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """A row that is written to `table` at the source every `interval_seconds`, and read like any other."""

    table: TableId
    interval_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Binlog to Kafka. `start` says where to begin when ZooKeeper holds no position; None = refuse. `on_position_lost`: where to
    go on when the server no longer has what comes next; None = stop. `heartbeat`: None = none is written."""

    task_id: str
    swimlane: str
    source: SourceConfig
    tables: FilterConfig
    publish: PublishConfig
    start: BinlogStart | None = None
    position_interval_seconds: float = 1.0
    on_position_lost: Edge | None = None
    heartbeat: HeartbeatConfig | None = None
