"""Settings -> the typed task of CanalFetch, or a source from another package, -> KAFKA_SYNC."""

from __future__ import annotations

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.start import BinlogStart
from cdcbus.plugins.transform.table_list import TableList
from cdcbus.producer.config import (
    AddedSource,
    DdlConfig,
    Elsewhere,
    FetchTask,
    FilterConfig,
    HeartbeatConfig,
    RowTransform,
    SnapshotMode,
    SourceConfig,
)
from cdcbus.tasks.config.guards.table_expressions import selecting, withholding
from cdcbus.tasks.config.kafka_options import PRODUCER_FIXED, kafka_options
from cdcbus.tasks.config.keys.plugins import SOURCE_OPTION
from cdcbus.tasks.config.keys.start import BINLOG_START, ON_POSITION_LOST, STOP_AT
from cdcbus.tasks.config.keys.stop_at import fetch_end
from cdcbus.tasks.config.keys.topics import TOPIC
from cdcbus.tasks.config.keys.two_way import (
    EXCLUDE_GTID_SOURCES,
    EXCLUDE_MARKS,
    EXCLUDE_SERVER_IDS,
    GTID_SOURCES,
    MARKS,
    SERVER_IDS,
)
from cdcbus.tasks.config.keys.types import (
    ADDRESSES,
    FLAG,
    ON_ERROR,
    ON_STATEMENT,
    OPERATIONS,
    PATH_NAME,
    POSITIVE,
    ROW_IMAGE,
    SECONDS,
    SECRET,
    SERVER_ID,
    SNAPSHOT,
    START,
    TABLE,
    TEXT,
    word,
)
from cdcbus.tasks.config.mapper_rules import mapper_rules, processor_name
from cdcbus.tasks.config.publish_keys import publish_config
from cdcbus.tasks.config.settings import Settings, tables
from cdcbus.tasks.config.source_tls import source_tls


def fetch_task(task_id: str, settings: Settings) -> FetchTask:
    """The task; missing and impossible settings are reported to the settings' diagnostics."""
    # Only checked: a fetch task has one form of rows, so porter's line may name no other.
    settings.get("consumer.converter", word("canalRow"))
    includes, excludes = tables(settings)
    heartbeats = settings.get("consumer.source.heartbeatTable", TABLE)
    ddl = _ddl(settings)
    return FetchTask(
        task_id=task_id,
        swimlane=settings.get("consumer.source.database", PATH_NAME) or "",
        source=source_config(settings),
        tables=_filter(settings, includes, excludes),
        publish=_publish(task_id, settings),
        start=settings.get("consumer.offset", BINLOG_START),
        position_interval_seconds=settings.get("consumer.source.positionIntervalSeconds", SECONDS)
        or 0.0,
        ddl=ddl,
        rows_per_record=_rows_per_record(settings),
        on_position_lost=settings.get("consumer.source.onPositionLost", ON_POSITION_LOST),
        heartbeat=_heartbeat(settings, heartbeats),
        snapshot=SnapshotMode(settings.get("consumer.snapshot", SNAPSHOT) or SnapshotMode.NEVER),
        skips_statements=settings.get("consumer.onStatement", ON_STATEMENT) == "skip",
        left_out=_left_out(settings, ddl),
        transform=_transform(settings, includes, excludes, heartbeats),
        elsewhere=_elsewhere(settings),
        until=_until(settings),
    )


def _filter(settings: Settings, includes: TableList, excludes: TableList) -> FilterConfig:
    return FilterConfig(
        selecting(settings),
        includes.names,
        excludes.names,
        includes.patterns,
        excludes.patterns,
        withholding(settings),
    )


def _until(settings: Settings) -> BinlogStart | None:
    word = settings.get(STOP_AT, TEXT)
    if not word:
        return None
    try:
        return fetch_end(word)
    except ValueError as error:
        settings.reject(STOP_AT, str(error))
        return None


def _elsewhere(settings: Settings) -> Elsewhere:
    found = Elsewhere(
        settings.get(EXCLUDE_SERVER_IDS, SERVER_IDS) or frozenset(),
        settings.get(EXCLUDE_GTID_SOURCES, GTID_SOURCES) or frozenset(),
        settings.get(EXCLUDE_MARKS, MARKS) or frozenset(),
    )
    snapshot = settings.get("consumer.snapshot", SNAPSHOT) or "never"
    # A snapshot reads tables, and rows there do not say which side wrote them.
    if found != Elsewhere() and snapshot != "never":
        settings.reject(
            "consumer.snapshot",
            "a snapshot would send rows back to the side that they came from, older than its own: "
            "copy one side before the tasks of the other direction run",
        )
    return found


def source_config(settings: Settings) -> SourceConfig:
    """The server whose binlog is read."""
    return SourceConfig(
        addresses=settings.need("consumer.source.address", ADDRESSES, ()),
        user=settings.need("consumer.source.username", TEXT, ""),
        password=settings.get("consumer.source.password", SECRET) or "",
        # 0 means the same as no line: the id is then derived from the task's id.
        server_id=settings.get("consumer.source.slaveId", SERVER_ID) or None,
        tls=source_tls(settings),
        takes_partial=settings.get("consumer.source.rowImage", ROW_IMAGE) == "any",
    )


def _left_out(settings: Settings, ddl: DdlConfig) -> frozenset[Op]:
    """The skipped operations except TRUNCATE, which the DDL settings handle."""
    name = "consumer.skippedOperations"
    found = settings.get(name, OPERATIONS) or frozenset()
    if Op.DELETE in found and ddl.truncates:
        settings.warn(
            name,
            "leaves out DELETE, but a TRUNCATE still empties targets: add TRUNCATE to keep their "
            "rows",
        )
    return found - {Op.TRUNCATE}


def _transform(
    settings: Settings,
    includes: TableList,
    excludes: TableList,
    heartbeats: TableId | None,
) -> RowTransform:
    rules = mapper_rules(settings)
    processor = processor_name(settings)
    # Nothing to change: rows then take the fast path, which knows no rules.
    if not processor and all(rule.is_plain for rule in rules):
        return RowTransform(heartbeats=heartbeats)
    named = includes.names
    # With patterns, the names are not all tables that the task can take.
    if includes.patterns:
        named = frozenset()
    return RowTransform(rules, processor, named, excludes.names, heartbeats)


def _heartbeat(settings: Settings, table: TableId | None) -> HeartbeatConfig | None:
    if table is None:
        return None
    interval = settings.get("consumer.source.heartbeatIntervalSeconds", SECONDS) or 0.0
    return HeartbeatConfig(table, interval)


def _publish(task_id: str, settings: Settings) -> PublishConfig:
    given = kafka_options(settings, PRODUCER_FIXED, "kafka.", "loader.source.kafka.")
    name = f"cdcbus-{task_id}-{settings.get('consumer.source.database', PATH_NAME)}"
    return publish_config(settings, given, name, _dead_letter_topic(settings))


def _ddl(settings: Settings) -> DdlConfig:
    truncates = settings.get("loader.source.truncate", FLAG) or False
    definitions = settings.get("loader.source.ddl", FLAG) or False
    # oggJson has no form for DDL.
    if definitions:
        _need_canal_row(settings, "loader.source.ddl", "DDL")
    skipped = settings.get("consumer.skippedOperations", OPERATIONS) or frozenset()
    # A TRUNCATE is a statement in the binlog, so DdlConfig handles it, not `left_out`.
    return DdlConfig(truncates and Op.TRUNCATE not in skipped, definitions)


def _rows_per_record(settings: Settings) -> int:
    number = settings.get("loader.source.rowsPerRecord", POSITIVE) or 1
    if number > 1:
        _need_canal_row(settings, "loader.source.rowsPerRecord", "records of several rows")
    return number


def _need_canal_row(settings: Settings, key: str, what: str) -> None:
    if settings.get("loader.source.oggJson", FLAG):
        settings.reject(
            key,
            f"oggJson has no form for {what}: set loader.source.oggJson=false, which writes "
            "canalRow, or remove the line",
        )


def _dead_letter_topic(settings: Settings) -> str:
    if settings.get("loader.onError", ON_ERROR) != "deadletter":
        return ""
    return settings.get("loader.deadletterTopic", TOPIC) or ""


def source_task(task_id: str, name: str, settings: Settings) -> FetchTask:
    """The task; missing and impossible settings are reported to the settings' diagnostics. The
    source itself checks its own settings, when it is created."""
    if settings.has(STOP_AT):
        settings.reject(
            STOP_AT,
            f"{name} is a source from another package, which itself decides where it ends: remove "
            "the line",
        )
    includes, excludes = tables(settings)
    # As text: only the package knows what its places look like.
    start = settings.get("consumer.offset", START) or ""
    return FetchTask(
        task_id=task_id,
        swimlane=settings.get("consumer.source.database", PATH_NAME) or "",
        source=SourceConfig((), "", added=AddedSource(name, settings.below(SOURCE_OPTION), start)),
        tables=_filter(settings, includes, excludes),
        publish=_publish(task_id, settings),
        position_interval_seconds=settings.get("consumer.source.positionIntervalSeconds", SECONDS)
        or 0.0,
        # Such a source brings rows only, so there is no TRUNCATE to warn of.
        left_out=_left_out(settings, DdlConfig(truncates=False)),
        transform=_transform(settings, includes, excludes, None),
    )
