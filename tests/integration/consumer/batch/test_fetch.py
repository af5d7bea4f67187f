"""Small batches as they come from Kafka: what is read here, without a job, is what Spark's jobs
give."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Timer
from typing import TypeVar

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.fetch import HERE_LANES, HERE_RECORDS, MOST_BYTES, Fetcher
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.start_offsets import Lane
from cdcbus.consumer.spark.session import begin_at, kafka_stream, spark_session
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from tests.support.private_broker import private_broker
from tests.support.waiting import wait_until

# PySpark leaves the socket of `toArrow` to the garbage collector.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]
T = TypeVar("T")
PATIENCE_SECONDS = 120.0
MEGABYTE = 1_000_000
VALUES = (b"{}", None, b"", b"\xff\x00", "\N{PILE OF POO}".encode(), b"x" * 10_000)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session(
        LoadTask("fetch", TopicConfig("", ()), "canalRow", "JdbcBatch", JdbcTarget("")), Event()
    ) as (session, _):
        yield session


@pytest.fixture
def in_batch(
    spark: SparkSession, tmp_path: Path
) -> Callable[[LoadTask, int, Callable[[DataFrame], T]], T]:
    """What a function gives of the first micro-batch of a task that reads so many lanes from
    their beginning, on its query's thread."""

    def in_batch(task: LoadTask, lanes: int, function: Callable[[DataFrame], T]) -> T:
        found, errors = list[T](), list[Exception]()

        def take(frame: DataFrame, _: int) -> None:
            try:
                found.append(function(frame))
            except Exception as error:
                errors.append(error)

        offsets: dict[Lane, int] = {
            (task.source.topics[0], partition): 0 for partition in range(lanes)
        }
        stream = kafka_stream(spark, task, offsets, 10_000)
        query = (
            stream.writeStream.trigger(availableNow=True)
            .foreachBatch(take)
            .option("checkpointLocation", str(tmp_path))
            .start()
        )
        try:
            wait_until(
                lambda: bool(found or errors) or not query.isActive, "a batch", PATIENCE_SECONDS
            )
        finally:
            query.stop()
        if errors:
            raise errors[0]
        [result] = found
        return result

    return in_batch


def reading(topic: str, servers: str) -> LoadTask:
    return LoadTask("7", TopicConfig(servers, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))


def learning() -> BatchSize:
    return BatchSize("7", 50_000, is_streamed=False)


def fetched(
    frame: DataFrame, count: int, size: BatchSize | None = None, ended: Event | None = None
) -> pa.Table | None:
    with (
        TemporaryDirectory() as folder,
        closing(Fetcher(size or learning(), Path(folder))) as fetcher,
    ):
        return fetcher.fetch(frame, count, ended or Event())


def jobs_of(frame: DataFrame) -> int:
    """How many its query has had."""
    context = frame.sparkSession.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id")
    assert group
    return len(context.statusTracker().getJobIdsForGroup(group))


def put(servers: str, topic: str, lanes: int, values: int) -> None:
    """So many records into each lane; also a transaction that is committed, and one that is not."""
    plain = Producer({"bootstrap.servers": servers})
    for number in range(values * lanes):
        headers: list[tuple[str, str | bytes | None]] = (
            [("h", b"%d" % number), ("n", None)] if number % 2 else []
        )
        plain.produce(
            topic, VALUES[number % len(VALUES)], partition=number % lanes, headers=headers
        )
    assert plain.flush(60) == 0
    writer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    writer.init_transactions(60)
    for is_committed in (True, False):
        writer.begin_transaction()
        writer.produce(topic, b"committed" if is_committed else b"aborted", partition=0)
        assert writer.flush(60) == 0
        (writer.commit_transaction if is_committed else writer.abort_transaction)(60)


def sorted_by_lane(records: pa.Table) -> pa.Table:
    return records.sort_by(
        [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    ).combine_chunks()


@pytest.mark.parametrize("has_headers", [False, True])
@pytest.mark.parametrize("lanes", [1, HERE_LANES, HERE_LANES + 1])
def test_records_are_read_as_a_job_reads_them_and_without_one_where_lanes_are_few(
    in_batch: Callable[..., tuple[pa.Table, pa.Table, int]],
    name: str,
    kafka: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
    lanes: int,
    has_headers: bool,
) -> None:
    put(kafka, make_topic(name, lanes), lanes, 100)
    task = reading(name, kafka)
    if has_headers:
        task = replace(task, target=PublishConfig(kafka, "", "canalRow"))

    def both(frame: DataFrame) -> tuple[pa.Table, pa.Table, int]:
        with closing(Fetcher(learning(), tmp_path)) as fetcher:
            first, second = (fetcher.fetch(frame, 100 * lanes + 4, Event()) for _ in range(2))
        jobs = jobs_of(frame)
        assert first is not None and first.equals(second)
        return first, frame.toArrow(), jobs

    here, collected, jobs = in_batch(task, lanes, both)
    here = here.select(collected.column_names)
    assert here.schema == collected.schema
    assert sorted_by_lane(here).equals(sorted_by_lane(collected))
    assert len(here) == 100 * lanes + 1
    chunks = (
        chunk for table in (here, collected) for column in table.columns for chunk in column.chunks
    )
    # else Arrow complains of each batch
    assert {buffer.address % 8 for chunk in chunks for buffer in chunk.buffers() if buffer} == {0}
    assert (jobs == 0) == (lanes <= HERE_LANES)


def test_a_checkpoint_begins_as_spark_itself_writes_it(
    in_batch: Callable[..., int],
    name: str,
    kafka: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    put(kafka, make_topic(name, 2), 2, 1)
    assert in_batch(reading(name, kafka), 2, DataFrame.count) == 3
    begin_at(tmp_path / "ours", {(name, 0): 0, (name, 1): 0})
    begin = Path("sources", "0", "0")
    assert (tmp_path / "ours" / begin).read_bytes() == (tmp_path / begin).read_bytes()


def test_a_partition_that_has_come_since_the_look_at_kafka_is_read_from_its_beginning(
    in_batch: Callable[..., int],
    name: str,
    kafka: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    put(kafka, make_topic(name, 2), 2, 1)
    begin_at(tmp_path, {(name, 0): 0})
    assert in_batch(reading(name, kafka), 1, DataFrame.count) == 3


def test_a_large_count_goes_by_a_job(
    in_batch: Callable[..., int], name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    put(kafka, make_topic(name), 1, HERE_RECORDS)

    def count(frame: DataFrame) -> int:
        records = fetched(frame, HERE_RECORDS + 4)
        assert jobs_of(frame)
        return 0 if records is None else len(records)

    assert in_batch(reading(name, kafka), 1, count) == HERE_RECORDS + 1


@pytest.mark.parametrize("count", [MOST_BYTES // MEGABYTE + 10, HERE_RECORDS + 1])
def test_records_that_need_too_much_memory_are_not_fetched_but_learned_of(
    in_batch: Callable[..., pa.Table | None],
    name: str,
    kafka: str,
    make_topic: Callable[..., str],
    count: int,
) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka, "compression.type": "lz4", "message.max.bytes": 2 * MEGABYTE}
    )
    make_topic(name)
    for _ in range(count):
        producer.produce(name, b"x" * (MOST_BYTES // count + MEGABYTE // 10), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    size = learning()
    assert in_batch(reading(name, kafka), 1, lambda frame: fetched(frame, count, size)) is None
    assert size.records < count


def test_a_task_can_end_while_kafka_does_not_answer(
    in_batch: Callable[..., pa.Table | None], name: str
) -> None:
    with private_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
        put(broker.address, name, 1, 1)
        ended = Event()

        def fetch(frame: DataFrame) -> pa.Table | None:
            broker.signal(signal.SIGSTOP)
            Timer(1, ended.set).start()
            try:
                return fetched(frame, 4, ended=ended)
            finally:
                broker.signal(signal.SIGCONT)

        assert in_batch(reading(name, broker.address), 1, fetch) is None
