"""The settings of a fetch task: the typed form of a `CanalFetch` -> `KAFKA_SYNC` task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.mysql_tls import BY_ITSELF, MysqlTls
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.start import BinlogStart, Edge
from cdcbus.plugins.transform.rules import MapperRule


@dataclass(frozen=True, slots=True)
class AddedSource:
    """A source of another package, by the name of its entry point. `options`: its settings, by
    its own keys; `start`: the word for where the first start begins, empty: none."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    start: str = ""


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """The server whose binlog is read; of a source of another package (`added`) there is none, and
    no address. `addresses` are (host, port), tried in order; `server_id` is ours in its replication
    topology, None to derive one from the task id. `takes_partial`: rows are read whatever
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
        """Where rows come from, for people."""
        if self.added is not None:
            return self.added.name
        return ", ".join(f"{host}:{port}" for host, port in self.addresses)


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Which tables are read. `regexes` are canal's (matched whole on `schema.table`, any case;
    none = all); tables that one of `black_regexes` fits are not, whatever else says so; `includes`
    and `excludes` are SCHEMA.TABLE names in upper case, beside which stand patterns: see
    `plugins.transform.table_list`."""

    regexes: tuple[str, ...] = ()
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    include_patterns: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    black_regexes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """A row that is written to `table` at the source every `interval_seconds`, and read like any
    other."""

    table: TableId
    interval_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class DdlConfig:
    """What of DDL is published: that a table was emptied, and that its definition changed."""

    truncates: bool = True
    definitions: bool = False


@dataclass(frozen=True, slots=True)
class RowTransform:
    """What becomes of rows on their way to Kafka: `rules` of the mapper, before that `processor`,
    `module:function` or an entry point, empty = none. `includes` and `excludes` are the task's,
    which tell what tables there are; rows of `heartbeats` stay as they are."""

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
    """Transactions of which no row is sent, as they come from elsewhere. `server_ids`: of the
    server that wrote an event first; `gtid_sources`: the UUID in front of a GTID, of MariaDB
    `domain-server`; `marks`: names of `loader.mark`, told by a first row of table
    `cdcbus_mark_<name>`, in any schema."""

    server_ids: frozenset[int] = frozenset()
    gtid_sources: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()


class SnapshotMode(StrEnum):
    """Whether rows that tables have already are read, too. INITIAL: once per table. ONLY: so, and
    then the task ends."""

    NEVER = "never"
    INITIAL = "initial"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Binlog to Kafka. `start` says where to begin when ZooKeeper holds no position; None =
    refuse. `on_position_lost`: where to go on when the server no longer has what comes next;
    None = stop. `heartbeat`: None = none is written. `rows_per_record`: at most.
    `skips_statements`: goes on without what a statement has changed that was logged as text.
    `until`: where the run ends; None = nowhere. `transform`: what becomes of rows.
    `left_out`: operations whose rows are not sent; `elsewhere`: transactions of which none is."""

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
