"""Which of a task's secrets a command wants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.control.named_task import inspect_named
from cdcbus.tasks.control.source_of import consumer_task, feeds_of
from cdcbus.tasks.control.uses import (
    Task,
    Uses,
    kafka_of,
    lacking,
    named_task,
    nothing_of,
    source_of,
    target_of,
)

FETCH = """\
taskId=1
consumer.consumerName=CanalFetch
consumer.source.address=db:3306
consumer.source.username=${env:READ_USER}
consumer.source.password=${env:READ_PASSWORD}
consumer.source.database=shop
kafka.sasl.password=${env:KAFKA_PASSWORD}
loader.loaderName=KAFKA_SYNC
loader.source.servers=k1:9092
loader.source.topic=shop
loader.source.kafka.ssl.key.password=${env:WRITE_KAFKA}
receiver[0].email=${env:OTHER}
"""
LOAD = """\
taskId=2
consumer.consumerName=KafkaFetch
consumer.converter=canalRow
consumer.source.servers=k1:9092
consumer.source.topics=shop
consumer.source.kafka.ssl.key.password=${env:READ_KAFKA}
kafka.sasl.password=${env:KAFKA_PASSWORD}
spark.hadoop.fs.secret=${env:OTHER}
loader.loaderName=JdbcBatch
loader.source.url=jdbc:postgresql://db/shop?password=${env:WRITE_URL}
loader.source.userName=${env:WRITE_USER}
loader.source.password=${env:WRITE_PASSWORD}
"""
FORWARD = """\
taskId=3
consumer.consumerName=KafkaFetch
consumer.source.servers=k1:9092
consumer.source.topics=shop
consumer.source.kafka.ssl.key.password=${env:READ_KAFKA}
kafka.sasl.password=${env:KAFKA_PASSWORD}
loader.loaderName=KAFKA_SYNC
loader.source.servers=k2:9092
loader.source.topic=copy
loader.source.kafka.ssl.key.password=${env:WRITE_KAFKA}
"""
BUS = read_bus_settings({}, None, {}, Path("/nowhere"))


def written(tmp_path: Path, name: str, text: str) -> str:
    file = tmp_path / f"{name}.properties"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "uses", "wanted"),
    [
        (FETCH, nothing_of, ""),
        (FETCH, source_of, "READ_PASSWORD READ_USER"),
        (FETCH, kafka_of, "KAFKA_PASSWORD WRITE_KAFKA"),
        (LOAD, nothing_of, ""),
        (LOAD, source_of, "KAFKA_PASSWORD READ_KAFKA"),
        (LOAD, kafka_of, "KAFKA_PASSWORD READ_KAFKA"),
        (LOAD, target_of, "WRITE_PASSWORD WRITE_URL WRITE_USER"),
        (FORWARD, kafka_of, "KAFKA_PASSWORD READ_KAFKA"),
        (FORWARD, target_of, "KAFKA_PASSWORD READ_KAFKA WRITE_KAFKA"),
    ],
)
def test_a_command_wants_the_secrets_of_what_it_logs_in_to_and_no_other(
    tmp_path: Path, text: str, uses: Callable[[Task], Uses], wanted: str
) -> None:
    word = written(tmp_path, "task", text)
    if not wanted:
        assert named_task(word, BUS, uses).task_id
        return
    with pytest.raises(ConfigError) as refused:
        named_task(word, BUS, uses)
    lines = str(refused.value).splitlines()
    assert sorted(line.split("'")[1] for line in lines) == wanted.split()
    there = read_bus_settings({}, None, dict.fromkeys(wanted.split(), "x"), Path("/nowhere"))
    assert named_task(word, there, uses).task_id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("taskId=2", "taskId=${env:ID}"),
        ("consumer.source.topics=shop", "consumer.source.topics=${env:TOPICS}"),
        ("consumer.source.servers=k1:9092", "consumer.source.servers=${env:SERVERS}"),
    ],
)
def test_what_a_task_is_must_be_there_for_every_command(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(ConfigError, match="is not set"):
        named_task(written(tmp_path, "task", LOAD.replace(old, new)), BUS, nothing_of)


def test_other_errors_of_the_file_are_errors_whatever_is_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="maxPoolSize"):
        named_task(
            written(tmp_path, "task", f"{LOAD}loader.source.maxPoolSize=x\n"), BUS, nothing_of
        )


@pytest.mark.parametrize(
    ("text", "lacks"),
    [(LOAD, ["WRITE_PASSWORD", "WRITE_URL", "WRITE_USER"]), (FORWARD, ["WRITE_KAFKA"])],
)
def test_what_can_do_without_the_target_hears_what_is_missing_to_log_in_to_it(
    tmp_path: Path, text: str, lacks: list[str]
) -> None:
    there = dict.fromkeys(("READ_KAFKA", "KAFKA_PASSWORD"), "x")
    bus = read_bus_settings({}, None, there, Path("/nowhere"))
    inspection = inspect_named(written(tmp_path, "task", text), bus, Severity.NOTE)
    said = lacking(inspection, "the task", target_of)
    assert sorted(sentence.split("'")[1] for sentence in said.split("; the task")) == lacks
    filled = read_bus_settings({}, None, there | dict.fromkeys(lacks, "x"), Path("/nowhere"))
    again = inspect_named(written(tmp_path, "task", text), filled, Severity.NOTE)
    assert lacking(again, "the task", target_of) == ""


def test_of_the_fetch_task_beside_a_consumer_task_only_the_source_is_wanted(
    tmp_path: Path,
) -> None:
    """As by `cdcbus schema` and `cdcbus verify`; a repair sends rows to Kafka as well."""
    written(tmp_path, "fetch", FETCH)
    word = written(tmp_path, "load", LOAD)
    bus = read_bus_settings(
        {},
        None,
        dict.fromkeys(
            ("READ_USER", "READ_PASSWORD", "WRITE_URL", "WRITE_USER", "WRITE_PASSWORD"), "x"
        ),
        Path("/nowhere"),
    )
    load = consumer_task(word, bus, Uses.WRITE)
    (feed,) = feeds_of(word, load, bus, None)
    assert (feed.fetch.source.user, feed.topics) == ("x", frozenset({"shop"}))
    with pytest.raises(ConfigError) as refused:
        feeds_of(word, load, bus, None, Uses.READ | Uses.WRITE | Uses.KAFKA)
    assert "KAFKA_PASSWORD" in str(refused.value) and "WRITE_KAFKA" in str(refused.value)
    with pytest.raises(ConfigError, match="KAFKA_PASSWORD"):
        feeds_of(word, load, bus, str(tmp_path / "fetch.properties"), Uses.KAFKA)
