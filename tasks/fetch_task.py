"""Settings -> the typed task of CanalFetch -> KAFKA_SYNC."""

from __future__ import annotations

from cdcbus.plugins.kafka_client import Client
from cdcbus.producer.task import FetchTask, FilterConfig, HeartbeatConfig, PublishConfig, SourceConfig
from cdcbus.tasks.kafka_options import PRODUCER_FIXED, kafka_options
from cdcbus.tasks.kinds import (
    ADDRESSES,
    BYTES,
    FLAG,
    NAMES,
    ON_ERROR,
    PATH_NAME,
    REGEXES,
    ROW_IMAGE,
    SECONDS,
    SECRET,
    SERVER_ID,
    TABLE,
    TEXT,
    word,
)
from cdcbus.tasks.settings import Settings, tables
from cdcbus.tasks.source_tls import source_tls
from cdcbus.tasks.start_forms import BINLOG_START, ON_POSITION_LOST
from cdcbus.tasks.topic_forms import NEW_TOPICS, TOPIC, TOPIC_RULES

PARTITION_KEY = "loader.source.partitionKey."


def fetch_task(task_id: str, settings: Settings) -> FetchTask:
    """The task; whatever is missing or impossible is reported to the settings' findings."""
    settings.get("consumer.converter", word("canalRow"))
    includes, excludes = tables(settings)
    return FetchTask(
        task_id=task_id,
        swimlane=settings.get("consumer.source.database", PATH_NAME) or "",
        source=source_config(settings),
        tables=FilterConfig(settings.get("consumer.source.filter", REGEXES) or (), includes, excludes),
        publish=_publish(task_id, settings),
        start=settings.get("consumer.offset", BINLOG_START),
        position_interval_seconds=settings.get("consumer.source.positionIntervalSeconds", SECONDS) or 0.0,
        on_position_lost=settings.get("consumer.source.onPositionLost", ON_POSITION_LOST),
        heartbeat=_heartbeat(settings),
    )


def source_config(settings: Settings) -> SourceConfig:
    """The server whose binlog is read."""
    return SourceConfig(
        addresses=settings.need("consumer.source.address", ADDRESSES, ()),
        user=settings.need("consumer.source.username", TEXT, ""),
        password=settings.get("consumer.source.password", SECRET) or "",
        server_id=settings.get("consumer.source.slaveId", SERVER_ID) or None,
        tls=source_tls(settings),
        takes_partial=settings.get("consumer.source.rowImage", ROW_IMAGE) == "any",
    )


def _heartbeat(settings: Settings) -> HeartbeatConfig | None:
    table = settings.get("consumer.source.heartbeatTable", TABLE)
    return HeartbeatConfig(table, settings.get("consumer.source.heartbeatIntervalSeconds", SECONDS) or 0.0) if table else None


def _publish(task_id: str, settings: Settings) -> PublishConfig:
    form, compat = ("oggJson", "porterCompat") if settings.get("loader.source.oggJson", FLAG) else ("canalRow", "canalCompat")
    client_id = settings.get("loader.source.group", TEXT)
    options = {"client.id": client_id} if client_id else {}
    given = kafka_options(settings, PRODUCER_FIXED, "kafka.", "loader.source.kafka.")
    return PublishConfig(
        servers=settings.servers("loader.source.servers"),
        topic=settings.need("loader.source.topic", TEXT, ""),
        converter=compat if settings.get(f"loader.source.{compat}", FLAG) else form,
        partition_keys=_partition_keys(settings),
        kafka_options=options | given.of(Client.LIBRDKAFKA),
        queue_bytes=settings.get("loader.source.queueBytes", BYTES) or 0,
        topic_rules=settings.get("loader.source.dynamicTopic", TOPIC_RULES) or (),
        new_topics=settings.get("loader.source.createTopic", NEW_TOPICS),
        dead_letter_topic=_dead_letter_topic(settings),
        transactional_id=_transactional_id(task_id, settings),
    )


def _dead_letter_topic(settings: Settings) -> str:
    if settings.get("loader.onError", ON_ERROR) != "deadletter":
        return ""
    return settings.get("loader.deadletterTopic", TOPIC) or ""


def _transactional_id(task_id: str, settings: Settings) -> str:
    """Stable, and the task's alone: whoever uses it next ends the transactions of the one before."""
    if not settings.get("loader.source.transaction", FLAG):
        return ""
    return f"cdcbus-{task_id}-{settings.get('consumer.source.database', PATH_NAME)}"


def _partition_keys(settings: Settings) -> dict[str, tuple[str, ...]]:
    keys: dict[str, tuple[str, ...]] = {}
    for table in settings.below(PARTITION_KEY):
        columns = settings.get(PARTITION_KEY + table, NAMES)
        if columns:
            keys[table.upper()] = columns
    return keys
