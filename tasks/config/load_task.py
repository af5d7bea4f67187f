"""Settings -> the typed task of KafkaFetch -> Jdbc* or KAFKA_SYNC."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from cdcbus.consumer.config import (
    RECORD_ZONE,
    DeadLetterConfig,
    LoadTask,
    OnError,
    SchemaChange,
    TopicConfig,
)
from cdcbus.plugins.contracts import JdbcTarget, ZeroDate
from cdcbus.plugins.kafka.client.options import CONNECTING, Client
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.registry import converter_names, has_types, is_added_loader, takes_zone
from cdcbus.plugins.start import AfterOffset, Edge, KafkaStart, Replay
from cdcbus.plugins.time_zone import read_zone
from cdcbus.plugins.transform.local_times import KEY as TARGET_ZONE_KEY
from cdcbus.tasks.config.guards.table_expressions import selecting
from cdcbus.tasks.config.kafka_options import CONSUMER_FIXED, PRODUCER_FIXED, kafka_options
from cdcbus.tasks.config.keys.start import KAFKA_START, STOP_AT
from cdcbus.tasks.config.keys.stop_at import load_end
from cdcbus.tasks.config.keys.task import ISOLATED
from cdcbus.tasks.config.keys.two_way import LOADER_MARK, MARK
from cdcbus.tasks.config.keys.types import (
    ANY_ADDRESS,
    EDGE,
    FLAG,
    JDBC_URL,
    LOADER_NAME,
    NAMES,
    NATURAL,
    NUMBER,
    ON_ERROR,
    OPERATIONS,
    PARTITIONS,
    POSITIVE,
    SCHEMA_CHANGE,
    SECRET,
    TABLE,
    TEXT,
    TIME_ZONE,
    ZERO_DATE,
    ValueType,
    word,
)
from cdcbus.tasks.config.mapper_rules import mapper_rules, processor_name
from cdcbus.tasks.config.publish_keys import publish_config
from cdcbus.tasks.config.settings import Settings, tables


def load_task(task_id: str, settings: Settings) -> LoadTask:
    """The task; missing and impossible settings are reported to the settings' diagnostics."""
    source = _source(settings)
    loader = _loader(settings)
    includes, excludes = tables(settings)
    return LoadTask(
        task_id=task_id,
        source=source,
        converter=_converter(settings),
        time_zone=_time_zone(settings),
        target_zone=_target_zone(settings, loader),
        loader=loader,
        target=_target(task_id, loader, settings),
        includes=includes.names,
        excludes=excludes.names,
        include_patterns=includes.patterns,
        exclude_patterns=excludes.patterns,
        regexes=_regexes(settings),
        skipped_operations=settings.get("consumer.skippedOperations", OPERATIONS) or frozenset(),
        rules=mapper_rules(settings),
        processor=processor_name(settings),
        insert_on_update_error=bool(settings.get("loader.insertOnUpdateError", FLAG)),
        merge=bool(settings.get("loader.merge", FLAG)),
        weights=_weights(settings),
        schema_change=SchemaChange(
            settings.get("loader.schemaChange", SCHEMA_CHANGE) or SchemaChange.STOP
        ),
        on_error=OnError(settings.get("loader.onError", ON_ERROR) or OnError.STOP),
        dead_letters=DeadLetterConfig(
            settings.get("loader.deadletterTopic", TEXT) or "",
            settings.get("loader.deadletterLimit", POSITIVE) or 0,
        ),
        start=_start(settings, source.topics),
        until=_until(settings, len(source.topics)),
        first_consume_from=_first_consume_from(settings),
        allow_offset_reset=bool(settings.get("consumer.source.allowOffsetReset", FLAG)),
        max_records_per_batch=settings.get("consumer.source.maxRecordsPerBatch", POSITIVE) or 0,
        spark_options=_spark_options(settings),
        heartbeats=settings.get("consumer.source.heartbeatTable", TABLE),
    )


def _first_consume_from(settings: Settings) -> Edge | None:
    word = settings.get("consumer.source.firstConsumeFrom", EDGE)
    if not word:
        return None
    return Edge(word)


def _converter(settings: Settings) -> str:
    return settings.get("consumer.converter", word(*converter_names())) or "oggJson"


def _time_zone(settings: Settings) -> str:
    """The zone of the source's times; empty for UTC, which needs no conversion."""
    zone = settings.get(RECORD_ZONE, TIME_ZONE) or ""
    if not settings.has(RECORD_ZONE) or not zone:
        return ""
    # An error unless allowed: the zone looks as if it corrected times, and does not.
    if not takes_zone(converter := _converter(settings)):
        settings.unsafe(
            RECORD_ZONE,
            f"without effect: times in {converter} records need no zone; remove the line",
        )
    if read_zone(zone) is UTC:
        return ""
    return zone


def _target_zone(settings: Settings, loader: str) -> str:
    """The zone of the target's times; empty for UTC, which needs no conversion. A format without
    column types is refused: its TIMESTAMP cells would silently stay in UTC."""
    zone = settings.get(TARGET_ZONE_KEY, TIME_ZONE) or ""
    if loader == "KAFKA_SYNC" or not settings.has(TARGET_ZONE_KEY) or not zone:
        return ""
    if read_zone(zone) is UTC:
        return ""
    if not has_types(converter := _converter(settings)):
        settings.reject(
            TARGET_ZONE_KEY,
            f"{converter} records carry no column types, so their TIMESTAMP cells cannot be "
            "recognized; let the topic carry canalRow or debeziumJson, or remove the line",
        )
    return zone


def _loader(settings: Settings) -> str:
    name = settings.get("loader.loaderName", LOADER_NAME) or ""
    # porter's loader with threads; partitions are written in parallel anyway.
    if name == "JdbcMultiThread":
        return "JdbcBatch"
    return name


def _source(settings: Settings) -> TopicConfig:
    topics = settings.need("consumer.source.topics", NAMES, ())
    options: dict[str, str] = {}
    poll_size = "consumer.source.oncePollSize"
    # Only when the file sets it: the choice made without it is better than porter's default.
    if settings.has(poll_size):
        options["max.poll.records"] = str(settings.get(poll_size, POSITIVE))
    given = kafka_options(settings, CONSUMER_FIXED, "kafka.", "consumer.source.kafka.")
    return TopicConfig(
        servers=settings.servers("consumer.source.servers"),
        topics=topics,
        partitions=_partitions(settings, topics),
        group=settings.get("consumer.source.group", TEXT) or "",
        kafka_options=options | given.of(Client.JAVA),
        look_up_options=given.of(Client.LOOK_UP),
    )


def _target(task_id: str, loader: str, settings: Settings) -> JdbcTarget | PublishConfig:
    if loader == "KAFKA_SYNC":
        return _publish(task_id, settings)
    # A loader from another package reads its address itself.
    if is_added_loader(loader):
        return jdbc_target(task_id, settings, ANY_ADDRESS)
    return jdbc_target(task_id, settings)


def _publish(task_id: str, settings: Settings) -> PublishConfig:
    """Where a task from Kafka to Kafka writes. Of `kafka.*`, which is also for reading, the
    producer takes only what it needs to connect."""
    given = kafka_options(settings, PRODUCER_FIXED, "kafka.", "loader.source.kafka.")
    own: dict[str, str] = {}
    for name, value in given.options.items():
        is_shared = given.keys[name].startswith("kafka.")
        if not is_shared or CONNECTING.match(name):
            own[name] = value
    return publish_config(settings, replace(given, options=own), f"cdcbus-{task_id}")


def _partitions(settings: Settings, topics: tuple[str, ...]) -> tuple[int, ...]:
    name = "consumer.source.partition"
    partitions = settings.get(name, PARTITIONS) or ()
    # Several numbers mean the same partitions of each topic.
    if len(partitions) != 1 or len(topics) < 2:
        if partitions == (0,):
            settings.note(name, "only partition 0 is read; remove the line to read all")
        return partitions
    # porter's 0 means all partitions where there are several topics.
    if partitions != (0,):
        settings.reject(
            name,
            f"partition {partitions[0]} of {len(topics)} topics; expected one topic; example: "
            f"topics={topics[0]}",
        )
    else:
        settings.warn(
            name,
            "0 with several topics means all partitions of all topics, as in porter; remove the "
            "line",
        )
    return ()


def _until(settings: Settings, topics: int) -> KafkaStart | None:
    word = settings.get(STOP_AT, TEXT)
    if not word:
        return None
    try:
        return load_end(word, topics)
    except ValueError as error:
        settings.reject(STOP_AT, str(error))
        return None


def _start(settings: Settings, topics: tuple[str, ...]) -> KafkaStart | None:
    name = "consumer.offset"
    start = settings.get(name, KAFKA_START)
    # An offset means another record in each topic.
    if isinstance(start, AfterOffset | Replay) and len(topics) > 1:
        settings.reject(
            name,
            f"one offset for {len(topics)} topics; expected one topic, or a time; example: "
            f"{name}=2024-05-01T03:04:05Z",
        )
    return start


def jdbc_target(task_id: str, settings: Settings, address: ValueType[str] = JDBC_URL) -> JdbcTarget:
    """The target database. `address`: the type of its address."""
    size = settings.get("loader.source.maxPoolSize", POSITIVE) or 0
    return JdbcTarget(
        url=settings.need("loader.source.url", address, ""),
        user=settings.get("loader.source.userName", TEXT) or "",
        password=settings.get("loader.source.password", SECRET) or "",
        task_id=task_id,
        pool_size=size,
        min_connections=max(
            _connections(settings, "loader.source.minPoolSize", size),
            _connections(settings, "loader.source.initialPoolSize", size),
        ),
        # porter counts in milliseconds.
        max_wait_seconds=(settings.get("loader.source.maxWait", POSITIVE) or 0) / 1000,
        connect_retries=settings.get("loader.source.connectionErrorRetryAttempts", NUMBER) or 0,
        is_tested=bool(settings.get("loader.source.testOnBorrow", FLAG)),
        zero_date=ZeroDate(settings.get("loader.zeroDate", ZERO_DATE) or ZeroDate.REJECT),
        mark=_mark(settings),
    )


def _mark(settings: Settings) -> str:
    """The mark of the task's transactions. Refused for a target without a binlog: nothing could
    recognize its rows, and they would circulate forever."""
    mark = settings.get(LOADER_MARK, MARK) or ""
    url = (settings.get("loader.source.url", ANY_ADDRESS) or "").lower()
    if mark and not url.startswith(("jdbc:mysql:", "jdbc:mariadb:")):
        settings.reject(LOADER_MARK, "only MySQL and MariaDB targets have a binlog to mark")
    return mark


def _connections(settings: Settings, name: str, most: int) -> int:
    wanted = settings.get(name, NATURAL) or 0
    if wanted > most:
        settings.warn(
            name,
            f"{wanted} connections are more than maxPoolSize, which is {most}: {most} are opened",
        )
    return min(wanted, most)


def _spark_options(settings: Settings) -> dict[str, str]:
    options: dict[str, str] = {}
    rests = settings.below("spark.", "consumer.source.spark.", "loader.source.spark.")
    for rest, value in rests.items():
        options[f"spark.{rest}"] = value
    if options.get("spark.speculation", "").strip().lower() == "true":
        settings.reject(
            "spark.speculation",
            "true has Spark apply one partition twice at the same time, which destroys the order "
            "of changes: remove the line",
        )
    # Checked here; nodes read it, and Spark does not know it.
    settings.get(ISOLATED, FLAG)
    options.pop(ISOLATED, None)
    return options


def _regexes(settings: Settings) -> tuple[str, ...]:
    found = selecting(settings)
    if found:
        settings.warn(
            "consumer.source.filter",
            "has an effect here, unlike in porter: rows of other tables, by their names in "
            "records, are not applied; remove the line if it comes from the fetch task's file",
        )
    return found


def _weights(settings: Settings) -> dict[str, int]:
    weights: dict[str, int] = {}
    for table, key in settings.keys_below("loader.weight.").items():
        weights[table.upper()] = settings.get(key, NUMBER) or 0
    return weights
