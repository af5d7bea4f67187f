"""How far tasks are behind, asked of a real Kafka and of a real source."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor

from cdcbus.consumer.batch.progress import Progress as LoadProgress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import BinlogPosition, Published, TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.progress import Progress as FetchProgress
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.runtime.lag import lag_meter
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
HOUR = 3600
TABLE = Table(TableId("shop", "orders"), (Column("id", "int", 4),), ("id",))


@pytest.fixture
def load(kafka: str, name: str) -> LoadTask:
    """Of a topic that keeps its records for a day."""
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topics(admin, NewTopic(name, 2, 1, config={"retention.ms": "86400000"}))
    return LoadTask(name, TopicConfig(kafka, (name,)), "canalRow", "JdbcBatch", JdbcTarget(""))


def put(task: LoadTask, partition: int, *values: bytes, came: float = 0.0) -> None:
    """`came`: when they come into Kafka; 0: now."""
    producer = kafka_producer(task.source.servers)
    for value in values:
        topic = task.source.topics[0]
        producer.produce(topic, value, partition=partition, timestamp=int(came * 1000))
    producer.flush()


def row(committed: float) -> bytes:
    origin = Origin("bin.1", 4, commit_us=int(committed * 1_000_000))
    return make_converter("canalRow").to_bytes(
        RowChange(TABLE, Op.INSERT, None, {"id": "1"}, origin)
    )


def at(task: LoadTask, *next_offsets: int) -> LoadProgress:
    topic = task.source.topics[0]
    return LoadProgress(
        BatchReport(last_commit_ms=1),
        next_offsets={
            TopicPartition(topic, number): offset for number, offset in enumerate(next_offsets)
        },
    )


@pytest.mark.parametrize("off_hours", [0, 8, -5])
def test_a_consumer_tasks_lag_is_that_of_the_first_record_that_is_not_applied_by_kafkas_times(
    load: LoadTask, off_hours: int
) -> None:
    """Whatever the records say: a clock that is wrong, or of another zone."""
    begun = time.time()
    value = row(begun + off_hours * HOUR)
    for came in (begun - 9 * HOUR, begun - HOUR, begun):
        put(load, 0, value, came=came)
    put(load, 1, value, came=begun - 5 * HOUR)
    measure = lag_meter(load)

    def is_behind(progress: LoadProgress, records: int, seconds: float) -> bool:
        lag = measure(progress)  # less than what is known where Kafka takes long to answer
        return (
            lag.records == records
            and lag.seconds is not None
            and 0 <= lag.seconds - seconds <= time.time() - begun + 1
        )

    wait_until(
        lambda: is_behind(at(load, 1, 0), 3, 5 * HOUR), "the lag of the second partition's row"
    )
    wait_until(
        lambda: is_behind(at(load, 1, 1), 2, HOUR), "the lag of the first partition's second row"
    )
    wait_until(lambda: measure(at(load, 3, 1)).seconds == 0.0, "the end of the topic")
    wait_until(
        lambda: measure(at(load, 3, 1)).retention_seconds == 86_400.0,
        "for how long the topic is kept",
    )


def test_what_a_topic_deletes_next_is_told_where_it_keeps_so_many_bytes(
    kafka: str, name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topics(admin, NewTopic(name, 2, 1, config={"retention.bytes": "6000"}))
    task = LoadTask(name, TopicConfig(kafka, (name,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    put(task, 0, *[row(1.0)] * 100)
    put(task, 1, row(1.0))
    (deleted,) = admin.delete_records([confluent_kafka.TopicPartition(name, 0, 20)]).values()
    assert deleted.result(30).low_watermark == 20
    measure = lag_meter(task)
    wait_until(
        lambda: measure(at(task, 40, 0)).kept_unread == 0.75, "60 of 80 records to be unread"
    )
    assert measure(at(task, 40, 0)).kept_place == (
        f"topic {name}, partition 0: 60 of the 80 records that Kafka holds are still to be read, "
        "the next one is 20 after the first, "
        "and the topic keeps 6,000 bytes of a partition"
    )
    wait_until(lambda: measure(at(task, 100, 1)).kept_unread == 0.0, "the end of the topic")


def test_a_heartbeat_by_a_clock_that_is_wrong_is_no_lag_at_the_end_of_the_topics(
    load: LoadTask,
) -> None:
    put(load, 0, b"junk")
    measure = lag_meter(load)
    progress = at(load, 1, 0)
    progress.lag_seconds = 18_001.0
    wait_until(lambda: measure(progress).records == 0, "the end of the topic")
    wait_until(lambda: measure(progress).seconds == 0.0, "no lag at the end of the topic")


def test_an_open_transaction_is_a_lag_since_its_own_first_record(load: LoadTask, name: str) -> None:
    """Not since the last row, which a quiet topic had hours ago; what is aborted is none."""
    put(load, 0, b"junk")
    producer = kafka_producer(load.source.servers, {"transactional.id": name})
    producer.init_transactions(30)
    measure = lag_meter(load)
    progress = at(load, 1, 0)
    progress.total.last_kafka_ms = int((time.time() - 3 * HOUR) * 1000)
    producer.begin_transaction()
    came_ms = int((time.time() - HOUR) * 1000)
    producer.produce(name, b"open", partition=0, timestamp=came_ms)
    producer.flush(30)
    wait_until(lambda: measure(progress).records == 1, "the record of the open transaction")
    wait_until(
        lambda: HOUR <= (measure(progress).seconds or 0) < 2 * HOUR, "the time of that record"
    )
    producer.abort_transaction(30)
    wait_until(lambda: measure(progress).seconds == 0.0, "no lag before what was aborted")


def test_a_fetch_tasks_lag_in_bytes_is_what_the_source_has_written_since(
    source: Database, source_cursor: Cursor, end_of_binlog: Callable[[], BinlogPosition]
) -> None:
    config = SourceConfig(((source.host, source.port),), source.user, source.password)
    measure = lag_meter(
        FetchTask(
            "7", "shop", config, FilterConfig(), PublishConfig("127.0.0.1:1", "t", "canalRow")
        )
    )
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    start = end_of_binlog()
    source_cursor.execute("INSERT INTO t VALUES (1)")
    after = end_of_binlog()
    behind = measure(FetchProgress(position=start))
    assert behind.bytes is not None and behind.bytes >= after.pos - start.pos > 0
    assert behind.seconds is not None and 9 <= behind.seconds < HOUR
    assert behind.skew_seconds is not None and abs(behind.skew_seconds) < 60
    assert behind.is_behind

    def is_read() -> bool:
        """As while an XA transaction is prepared, before which reading would resume."""
        end = end_of_binlog()
        beyond = replace(start, published=Published(end.file, end.pos))
        lag = measure(FetchProgress(position=beyond))
        return (lag.seconds, lag.bytes) == (0.0, 0)

    wait_until(is_read, "the end to be where it is published")
    source_cursor.execute("FLUSH BINARY LOGS")
    longer = measure(FetchProgress(position=start))
    assert longer.bytes is not None and longer.bytes > behind.bytes
    there = measure(FetchProgress(position=end_of_binlog()))
    assert there.bytes is not None and there.bytes < longer.bytes


@pytest.fixture
def end_of_binlog(source: Database) -> Callable[[], BinlogPosition]:
    config = SourceConfig(((source.host, source.port),), source.user, source.password)

    def end() -> BinlogPosition:
        with servers.connect(config) as connection:
            return replace(
                servers.latest_position(connection), timestamp_ms=int(time.time() * 1000) - 10_000
            )

    return end
