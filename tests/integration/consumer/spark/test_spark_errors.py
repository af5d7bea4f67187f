"""What Spark really raises when something is wrong with Kafka, and what a task takes it for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from cdcbus.consumer.batch.bulk import stream_backlog
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.spark.kafka_stream import begin_at, kafka_stream
from cdcbus.consumer.spark.session import spark_session
from cdcbus.consumer.spark.spark_errors import query_error, spark_error
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable, CdcError, SparkUnavailable
from cdcbus.plugins.positions import TopicPartition
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SOON = {"default.api.timeout.ms": "3000", "request.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session(
        LoadTask("spark-errors", TopicConfig("", ()), "canalRow", "JdbcBatch", JdbcTarget("")),
        Event(),
    ) as (session, _):
        yield session


@pytest.fixture
def task(cut_topic: str, kafka: str) -> LoadTask:
    return LoadTask(
        "7",
        TopicConfig(kafka, (cut_topic,), kafka_options=SOON),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(""),
    )


Read = Callable[[DataFrame], object]


def ended(
    spark: SparkSession,
    task: LoadTask,
    offsets: dict[TopicPartition, int],
    folder: Path,
    read: Read,
) -> CdcError:
    """What a query that reads from there ends with; as in a task, a batch hands on no error of
    its own."""
    inside: list[Exception] = []

    def take(frame: DataFrame, _: int) -> None:
        try:
            read(frame)
        except Exception as error:
            inside.append(error)

    begin_at(folder, offsets)
    writer = (
        kafka_stream(spark, task, offsets, 1000)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder))
    )
    query = writer.start()
    try:
        wait_until(lambda: bool(inside) or not query.isActive, "the query to fail")
        return spark_error(task, inside[0]) if inside else query_error(task, query)
    finally:
        query.stop()


@pytest.mark.parametrize("offset", [2, 1000])
def test_offsets_that_are_not_there_are_looked_at_again(
    spark: SparkSession, task: LoadTask, tmp_path: Path, offset: int
) -> None:
    found = ended(
        spark, task, {TopicPartition(task.source.topics[0], 0): offset}, tmp_path, DataFrame.count
    )
    assert type(found) is BusUnavailable, found


def test_offsets_that_go_while_a_batch_is_read_are_looked_at_again(
    spark: SparkSession, task: LoadTask, tmp_path: Path
) -> None:
    def cut_and_read(frame: DataFrame) -> None:
        topic = task.source.topics[0]
        admin = AdminClient({"bootstrap.servers": task.source.servers})
        admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 9)])[
            confluent_kafka.TopicPartition(topic, 0)
        ].result(60)
        frame.count()

    found = ended(
        spark, task, {TopicPartition(task.source.topics[0], 0): 5}, tmp_path, cut_and_read
    )
    assert type(found) is BusUnavailable, found


def test_a_topic_that_is_missing_is_looked_at_again(
    spark: SparkSession, task: LoadTask, tmp_path: Path
) -> None:
    missing = replace(task, source=replace(task.source, topics=("no-such-topic",)))
    found = ended(
        spark, missing, {TopicPartition("no-such-topic", 0): 0}, tmp_path, DataFrame.count
    )
    assert type(found) is BusUnavailable, found


def test_a_broker_that_is_away_is_waited_for(
    spark: SparkSession, task: LoadTask, tmp_path: Path
) -> None:
    away = replace(task, source=replace(task.source, servers="127.0.0.1:9"))
    found = ended(
        spark, away, {TopicPartition(task.source.topics[0], 0): 5}, tmp_path, DataFrame.count
    )
    assert type(found) is BusUnavailable, found


def test_a_fault_inside_a_batch_stops_even_if_it_speaks_of_kafka(
    spark: SparkSession, task: LoadTask, tmp_path: Path
) -> None:
    found = ended(
        spark,
        task,
        {TopicPartition(task.source.topics[0], 0): 5},
        tmp_path,
        lambda frame: frame.selectExpr("raise_error('kafka')").collect(),
    )
    assert type(found) is CdcError, found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("files", [5, 7], ids=["no room for a file", "no room for a folder"])
def test_a_disk_that_is_full_as_a_query_starts_is_waited_for(
    spark: SparkSession, task: LoadTask, tmp_path: Path, files: int
) -> None:
    """The task's own files still fit."""
    reached: Any = SimpleNamespace(
        keeps_offsets=True,
        session=(spark, tmp_path),
        progress=SimpleNamespace(next_offsets={TopicPartition(task.source.topics[0], 0): 5}),
        records=100,
    )
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"nr_inodes={files}", "tmpfs", tmp_path], check=True
    )
    try:
        with pytest.raises(SparkUnavailable, match="make room there"):
            stream_backlog(task, reached, reached, reached, reached, reached, reached, Event())
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
