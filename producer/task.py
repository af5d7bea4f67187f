"""What a fetch task is told: the typed form of a `CanalFetch` -> `KAFKA_SYNC` task file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.start import BinlogStart


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """The server whose binlog is read. `addresses` are (host, port), tried in order; `server_id` is ours in its replication
    topology, None to derive one from the task id."""

    addresses: tuple[tuple[str, int], ...]
    user: str
    password: str = field(default="", repr=False)
    server_id: int | None = None
    connect_timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Which tables are read. `regexes` are canal's (matched whole on `schema.table`, any case; none = all); `includes` and `excludes` are
    SCHEMA.TABLE names in upper case, `excludes` ignored where `includes` is given."""

    regexes: tuple[str, ...] = ()
    includes: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """Where row changes go. `partition_keys`: SCHEMA.TABLE in upper case -> column names as written in the task file; tables not in it use
    their primary key. `kafka_options` are librdkafka's, passed through."""

    servers: str
    topic: str
    converter: str
    partition_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kafka_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Binlog to one Kafka topic. `start` says where to begin when ZooKeeper holds no position; None = refuse."""

    task_id: str
    swimlane: str
    source: SourceConfig
    tables: FilterConfig
    publish: PublishConfig
    start: BinlogStart | None = None
    position_interval_seconds: float = 1.0
