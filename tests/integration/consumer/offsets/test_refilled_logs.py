"""A log that was cut off at its end and filled again: other records at the offsets that were
read, on a real broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import confluent_kafka
import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from cdcbus.consumer.batch import topic_watch
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.topic_watch import LogWatch
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import landmarks
from cdcbus.consumer.offsets.landmarks import Refilled
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.records import Records
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import LogRefilled
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.start import Edge
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.history import positions_of, set_positions
from tests.contract.target_server import TargetServer
from tests.integration.consumer.offsets.world import Process, World
from tests.support.servers.private_broker import PrivateBroker, private_broker
from tests.support.topics.forward import Forward, open_forward
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
CANAL = CanalRow()
T = Table(TableId("shop", "seen"), (Column("p", "int"), Column("o", "int")), ())


@pytest.fixture(scope="module")
def broker() -> Iterator[PrivateBroker]:
    with private_broker() as broker:
        yield broker


@dataclass
class Log:
    """A topic of two partitions at a broker of its own, and a task that reads it."""

    world: World
    broker: PrivateBroker

    @property
    def topic(self) -> str:
        return self.world.task.task_id

    def fill(self, count: int, partition: int = 1, producer: Producer | None = None) -> None:
        """Each record in a batch of its own."""
        producer = producer or kafka_producer(self.broker.address)
        for _ in range(count):
            producer.produce(self.topic, b"", partition=partition)
            assert producer.flush(30) == 0

    def fill_in_transaction(self, count: int, is_committed: bool = True) -> None:
        producer = kafka_producer(self.broker.address, {"transactional.id": self.topic})
        producer.init_transactions(30)
        producer.begin_transaction()
        self.fill(count, producer=producer)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)

    def lose_end(self, offset: int, partition: int = 1) -> None:
        self.broker.cut(self.topic, partition, offset)
        self.broker.start()

    def read(self, partition: TopicPartition, begin: int, end: int) -> Records:
        """As they are in Kafka, but for their values."""
        with TopicLogs(self.world.task) as logs:
            found = [
                landmark for _, landmark in logs.landmarks({partition: begin}, {partition: end})
            ]
        offsets, times = (
            [landmark.offset for landmark in found],
            [landmark.came_ms for landmark in found],
        )
        values = [
            CANAL.to_bytes(
                RowChange(T, Op.INSERT, None, {"p": str(partition.partition), "o": str(offset)})
            )
            for offset in offsets
        ]
        return Records(
            pa.array(offsets, pa.int64()),
            pa.array(values, pa.binary()),
            times=pa.array(times, pa.int64()),
        )

    def apply(self, process: Process, *ends: int) -> list[Landmark | None]:
        """Of each partition what comes before its end; the last record of each."""
        last = []
        for number, end in enumerate(ends):
            partition = TopicPartition(self.topic, number)
            records = self.read(partition, process.offsets[partition], end)
            process.applier.apply(
                partition, records, end, process.positions.position_version(partition)
            )
            process.offsets[partition] = end
            last.append(records.last_before(end))
        process.positions.save(process.offsets)
        return last


@pytest.fixture
def log(server: TargetServer, name: str, broker: PrivateBroker, zookeeper: str) -> Iterator[Log]:
    admin = AdminClient({"bootstrap.servers": broker.address})
    create_topics(admin, NewTopic(name, 2, 1))
    rules = (MapperRule(schema=("shop", server.schema)),)
    task = LoadTask(
        name,
        TopicConfig(broker.address, (name,)),
        "canalRow",
        "JdbcBatch",
        server.target(),
        rules=rules,
    )
    client = connect(f"{zookeeper}/{name}")
    log = Log(
        World(replace(task, first_consume_from=Edge.EARLIEST), server, client, broker.address),
        broker,
    )
    log.fill(10, partition=0)
    try:
        yield log
    finally:
        for process in log.world.processes:
            process.end()
        client.stop()
        client.close()


def test_a_log_cut_off_before_the_position_and_filled_again_is_refused_until_that_partition_is_set(
    log: Log,
) -> None:
    log.fill(60)
    _, last = log.apply(log.world.start(), 10, 60)
    assert last is not None
    log.lose_end(50)
    log.fill(30)
    with pytest.raises(LogRefilled) as refused:
        log.world.start()
    now = log.read(TopicPartition(log.topic, 1), 59, 60).last_before(60)
    assert now is not None
    then_and_now = (
        f"came into Kafka at {landmarks._at(last)}, and there is one of {landmarks._at(now)} now"
    )
    assert str(refused.value) == (
        f"task {log.topic}: partition 1 of topic {log.topic} was read to before offset 60, and "
        "its log was cut off before that and filled "
        f"again, as after an unclean leader election: the record at offset 59 {then_and_now}; "
        "what came between was never read. Say where "
        f"to begin: cdcbus offset reset {log.topic} --to PLACE --topic {log.topic} --partition 1"
    )
    log.world.client.set(log.world.path, log.world.text(p0=10, p1=50))
    assert log.world.offsets() == [10, 50]
    log.apply(log.world.start(), 10, 80)
    assert log.world.offsets() == [10, 80]


def test_the_same_place_set_anew_is_an_answer(log: Log) -> None:
    log.fill(6)
    log.apply(log.world.start(), 10, 6)
    log.lose_end(3)
    log.fill(5)
    with pytest.raises(LogRefilled):
        log.world.start()
    text = log.world.text(p0=10, p1=6).decode()
    set_positions(
        log.world.client,
        log.topic,
        {log.topic: text},
        positions_of(log.world.client, log.topic),
        "me",
        "offset set",
        {0},
    )
    with pytest.raises(LogRefilled):  # the other partition's place was
        log.world.start()
    set_positions(
        log.world.client,
        log.topic,
        {log.topic: text},
        positions_of(log.world.client, log.topic),
        "me",
        "offset set",
        {1},
    )
    assert log.world.offsets() == [10, 6]
    assert log.world.offsets() == [10, 6]


def test_a_log_cut_off_behind_the_position_goes_on(log: Log) -> None:
    log.fill(6)
    log.apply(log.world.start(), 10, 4)
    log.lose_end(4)
    log.fill(5)
    assert log.world.offsets() == [10, 4]


def test_a_broker_that_was_only_restarted_goes_on(log: Log) -> None:
    log.fill(6)
    log.apply(log.world.start(), 10, 6)
    log.lose_end(6)
    log.fill(5)
    assert log.world.offsets() == [10, 6]


def test_records_that_are_held_no_more_tell_nothing(log: Log) -> None:
    log.fill(6)
    log.apply(log.world.start(), 10, 6)
    admin = AdminClient({"bootstrap.servers": log.broker.address})
    [deleted] = admin.delete_records([confluent_kafka.TopicPartition(log.topic, 1, 6)]).values()
    deleted.result(30)
    assert log.world.offsets() == [10, 6]
    log.fill(2)
    assert log.world.offsets() == [10, 6]


@pytest.mark.parametrize("is_cut", [True, False])
def test_behind_a_transaction_that_was_undone_there_is_no_record_unless_the_log_is_another_one(
    log: Log, is_cut: bool
) -> None:
    log.fill_in_transaction(5)
    log.fill_in_transaction(4, is_committed=False)
    (_, last) = log.apply(log.world.start(), 10, 11)  # two markers
    assert last is not None
    assert last.offset == 4
    if is_cut:
        log.lose_end(6)
        log.fill(7)
        with pytest.raises(
            LogRefilled,
            match=r"the last record before it was at offset 4, of .* and now there is one at "
            r"offset 6, of ",
        ):
            log.world.start()
    else:
        assert log.world.offsets() == [10, 11]


# Under a running task


def looked(watch: LogWatch) -> Refilled | None:
    """Once the broker has told which leaders there are."""
    found: list[Refilled | None] = []
    wait_until(lambda: found.append(watch.look()) or not watch._new, "the leaders' epochs")  # type: ignore[func-returns-value]
    return found[-1]


def moved(
    progress: Progress, partition: TopicPartition, last: Sequence[Landmark | None], end: int
) -> None:
    progress.move([(partition, end, last[partition.partition])])


def test_a_log_cut_off_and_filled_again_under_a_running_task_is_noticed_though_it_went_on(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_watch, "LOG_LOOK_SECONDS", 0.0)
    log.fill(6)
    process, partition, progress = (
        log.world.start(),
        TopicPartition(log.topic, 1),
        Progress(next_offsets={TopicPartition(log.topic, 0): 0, TopicPartition(log.topic, 1): 0}),
    )
    watch = LogWatch(log.world.task, progress, Event())
    moved(progress, partition, log.apply(process, 10, 6), 6)
    assert looked(watch) is None
    log.lose_end(6)  # a new leader, and nothing is lost
    log.fill(2)
    moved(progress, partition, log.apply(process, 10, 8), 8)
    assert looked(watch) is None
    log.lose_end(7)
    log.fill(5)
    assert looked(watch) is None  # nothing was read since
    moved(progress, partition, log.apply(process, 10, 12), 12)
    found = looked(watch)
    assert found is not None
    assert (found.partition, found.last.offset, found.end) == (partition, 7, 8)


def test_a_batch_under_way_while_the_leader_changes_is_compared_too(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_watch, "LOG_LOOK_SECONDS", 0.0)
    log.fill(6)
    process, partition, progress = (
        log.world.start(),
        TopicPartition(log.topic, 1),
        Progress(next_offsets={TopicPartition(log.topic, 0): 0, TopicPartition(log.topic, 1): 0}),
    )
    watch = LogWatch(log.world.task, progress, Event())
    under_way = log.read(partition, 0, 6).last_before(6)
    log.lose_end(5)
    log.fill(5)
    moved(progress, partition, log.apply(process, 10, 3), 3)
    assert looked(watch) is None
    progress.move([(partition, 6, under_way)])
    assert looked(watch) is not None


@pytest.fixture
def forward(name: str, broker: PrivateBroker, zookeeper: str, tmp_path: Path) -> Iterator[Forward]:
    admin = AdminClient({"bootstrap.servers": broker.address})
    create_topics(admin, NewTopic(name, 1, 1), NewTopic(f"{name}-out", 1, 1))
    with open_forward(name, broker.address, zookeeper, tmp_path) as forward:
        yield forward


@pytest.mark.parametrize("target", ["postgresql", "Kafka", "Kafka, in transactions"])
def test_a_running_task_stops_and_so_does_the_next_start(
    forward: Forward, broker: PrivateBroker, postgresql: Database, target: str
) -> None:
    """The start of one that knows from its target, one that knows from ZooKeeper, and one that
    knows from its transactions."""
    if target == "postgresql":
        jdbc = f"jdbc:postgresql://{postgresql.host}:{postgresql.port}/{postgresql.database}"
        database = {
            "loader.source.userName": postgresql.user,
            "loader.source.password": postgresql.password,
        }
        with psycopg.connect(
            host=postgresql.host,
            port=postgresql.port,
            user=postgresql.user,
            password=postgresql.password,
            dbname=postgresql.database,
        ) as connection:
            connection.execute(f"CREATE SCHEMA {forward.name}".encode())
            connection.execute(
                f"CREATE TABLE {forward.name}.orders (id INT PRIMARY KEY, customer TEXT, note "
                "TEXT)".encode()
            )
        to = {
            "mapper[0].schema": f"shop,{forward.name}",
            "loader.loaderName": "JdbcBatch",
            "loader.source.url": jdbc,
            **database,
        }
    else:
        to = {"loader.source.transaction": str(target != "Kafka").lower()}
    task = forward.task(**to)
    task.start()
    for number in range(6):
        forward.put(range(number, number + 1))
    wait_until(lambda: forward.is_at_end(task), "the first records to be applied")
    os.killpg(task.pid, signal.SIGSTOP)
    broker.cut(forward.name, 0, 4)
    broker.start()
    for number in range(10, 20):
        forward.put(range(number, number + 1))
    os.killpg(task.pid, signal.SIGCONT)
    for starts in (1, 2):
        wait_until(lambda starts=starts: refusals(task) == starts, f"refusal {starts}")  # type: ignore[misc]
        task.await_stop()
        task.start()


def refusals(task: TaskProcess) -> int:
    return task.log.read_text().replace("\n", " ").count("was cut off before that and filled again")
