"""Settings -> the PublishConfig of a task that writes to Kafka: CanalFetch and KafkaFetch ->
KAFKA_SYNC."""

from __future__ import annotations

from cdcbus.plugins.kafka.client.options import Client
from cdcbus.plugins.kafka.config import KeyRule, PublishConfig, TopicRule
from cdcbus.plugins.transform.selectors import is_pattern
from cdcbus.tasks.config.kafka_options import KafkaOptions
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.keys.topics import (
    KEY_RULES,
    NEW_TOPICS,
    TOPIC_RULES,
    is_misread,
    is_regex,
    plain_tables,
)
from cdcbus.tasks.config.keys.types import BYTES, FLAG, NAMES, TEXT
from cdcbus.tasks.config.settings import Settings

PARTITION_KEY = "loader.source.partitionKey."


def publish_config(
    settings: Settings, given: KafkaOptions, transactional_id: str, dead_letter_topic: str = ""
) -> PublishConfig:
    """How and where the task publishes. `transactional_id`: used where the file asks for
    transactions; stable and unique to the task, because its next user aborts the transactions of
    the previous one."""
    if not settings.get("loader.source.transaction", FLAG):
        transactional_id = ""
    keys, patterns = _partition_keys(settings)
    return PublishConfig(
        servers=settings.servers("loader.source.servers"),
        topic=settings.need("loader.source.topic", TEXT, ""),
        converter=_converter(settings),
        partition_keys=keys,
        kafka_options=_options(settings, given),
        queue_bytes=settings.get("loader.source.queueBytes", BYTES) or 0,
        topic_rules=_topic_rules(settings),
        new_topics=settings.get("loader.source.createTopic", NEW_TOPICS),
        dead_letter_topic=dead_letter_topic,
        transactional_id=transactional_id,
        key_rules=patterns + (settings.get("loader.source.partitionHash", KEY_RULES) or ()),
    )


def _topic_rules(settings: Settings) -> tuple[TopicRule, ...]:
    name = "loader.source.dynamicTopic"
    rules = settings.get(name, TOPIC_RULES) or ()
    for table in plain_tables(settings.get(name, TEXT) or ""):
        settings.note(
            name,
            f"{table!r} is for the table of this name, as in canal; for schemas, where its dot "
            f"stands for any character, write {table.replace('.', '.{1}')}, and for a schema with "
            f"a dot in its name {table.replace('.', '[.]')}",
        )
    for rule in filter(is_misread, rules):
        settings.warn(
            name,
            rf"{rule.regex!r} is compared with names of schemas, as it has no \. in it, and its "
            r"dot stands for any character; for tables, write \\. between schema and table; "
            r"example: loader.source.dynamicTopic=shop\\.orders_[0-9]+",
        )
    return rules


def _converter(settings: Settings) -> str:
    form, compat = "canalRow", "canalCompat"
    if settings.get("loader.source.oggJson", FLAG):
        form, compat = "oggJson", "porterCompat"
    if settings.get(f"loader.source.{compat}", FLAG):
        return compat
    return form


def _options(settings: Settings, given: KafkaOptions) -> dict[str, str]:
    options = given.of(Client.LIBRDKAFKA)
    # porter's name for it.
    client_id = settings.get("loader.source.group", TEXT)
    if client_id:
        return {"client.id": client_id} | options
    return options


def _partition_keys(
    settings: Settings,
) -> tuple[dict[str, tuple[str, ...]], tuple[KeyRule, ...]]:
    """The key columns by table, and the rules of patterns in the file's order."""
    keys: dict[str, tuple[str, ...]] = {}
    patterns: list[KeyRule] = []
    for table in settings.below(PARTITION_KEY):
        # Without a schema and a table it is reported as an unknown key.
        if find_key(PARTITION_KEY + table) is None:
            continue
        columns = settings.get(PARTITION_KEY + table, NAMES)
        if not columns:
            continue
        if not is_pattern(table):
            # Names of tables match in any case.
            keys[table.upper()] = columns
        elif is_regex(table):
            patterns.append(KeyRule(table, columns, setting=PARTITION_KEY + table))
        else:
            settings.reject(
                PARTITION_KEY + table,
                f"{table!r} is not a regular expression; expected SCHEMA.TABLE, or one such as "
                r"shop\\.orders_[0-9]+",
            )
    return keys, tuple(patterns)
