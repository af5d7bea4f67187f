"""Whose position is true: what a start makes of what target, ZooKeeper and Kafka say, on the
real ones, without Spark."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from kazoo.client import KazooClient

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.batch import batch_applier
from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_identity
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.known import NOWHERE
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.offsets.topic_identity import TopicIdentity
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.take_over import find_starts, take_over
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import (
    NoPosition,
    OffsetConflict,
    TargetReplaced,
    TargetUnavailable,
    TopicRemade,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.positions import (
    KafkaPosition,
    TopicPartition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.start import Edge
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.history import positions_of, set_positions
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.position.znodes import position_path, written_path
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.records import records_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
CANAL = CanalRow()
RECORDS = 60
SEEN = Table(TableId("shop", "seen"), (Column("p", "int"), Column("o", "int")), ())


def record(partition: TopicPartition, offset: int) -> bytes:
    return CANAL.to_bytes(
        RowChange(SEEN, Op.INSERT, None, {"p": str(partition.partition), "o": str(offset)})
    )


@dataclass
class Process:
    """One that has taken the task over, as `cdcbus.consumer.run` does, and applies what it is
    told to."""

    world: World
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world = self.world
        self.loader = make_loader(
            world.task.loader, world.server.target(task_id=world.task.task_id)
        )
        self.applier = PartitionApplier(world.task, CANAL, self.loader)
        self.stores = {
            topic: ZooKeeperPositions(world.client, world.task.task_id, topic)
            for topic in world.task.source.topics
        }
        self.positions = StoredPositions(self.stores)

    def take_over(self) -> Process:
        starts = self.find_starts(self.offsets if self.positions.has_begun else NOWHERE)
        take_over(self.applier, self.positions, starts)
        self.offsets, self.lost = dict(starts.offsets), starts.lost
        return self

    def find_starts(self, reached: Mapping[TopicPartition, int] = NOWHERE) -> Starts:
        with TopicLogs(self.world.task) as logs:
            return find_starts(self.world.task, logs, self.applier, self.stores, reached)

    def apply(self, *ends: int, saves: bool = True) -> Process:
        """Of each partition what comes before its end."""
        for number, end in enumerate(ends):
            partition = TopicPartition(self.world.task.task_id, number)
            offsets = range(self.offsets[partition], end)
            records = records_of([(offset, record(partition, offset)) for offset in offsets])
            self.applier.apply(partition, records, end, self.positions.position_version(partition))
            self.offsets[partition] = end
        if saves:
            self.positions.save(self.offsets)
        return self

    def end(self) -> None:
        for store in self.stores.values():
            store.close()
        self.loader.close()


@dataclass
class World:
    """A topic of three partitions with RECORDS in each, a table that shows which of them have
    come, how often, and a ZooKeeper."""

    task: LoadTask
    server: TargetServer
    client: KazooClient
    kafka: str
    processes: list[Process] = field(default_factory=list)

    @property
    def path(self) -> str:
        return position_path(self.task.task_id, self.task.task_id)

    @property
    def written(self) -> str:
        return written_path(self.task.task_id, self.task.task_id)

    def start(self, **keys: Any) -> Process:
        self.task = replace(self.task, **keys)
        self.processes.append(process := Process(self))
        return process.take_over()

    def offsets(self, **keys: Any) -> list[int]:
        """Where a start goes on."""
        return [*self.start(**keys).offsets.values()]

    def stored(self) -> dict[int, int]:
        return {
            p.partition: p.next_offset
            for p in kafka_positions_from_json(self.client.get(self.path)[0])
        }

    def text(self, **next_offsets: int) -> bytes:
        topic = self.task.task_id
        return kafka_positions_to_json(
            KafkaPosition(topic, int(name[1:]), end - 1) for name, end in next_offsets.items()
        ).encode()

    def rows(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.server.rows("SELECT p, o FROM {schema}.seen"))

    def sql(self, statement: str) -> None:
        self.server.execute(statement)

    def produce(self, partitions: int = 3, records: int = RECORDS) -> None:
        producer = kafka_producer(self.kafka)
        for partition in range(partitions):
            for _ in range(records):
                producer.produce(self.task.task_id, b"not read here", partition=partition)
        assert producer.flush(30) == 0

    def remake_topic(self) -> None:
        admin, topic = AdminClient({"bootstrap.servers": self.kafka}), self.task.task_id
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to go")
        admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
        self.produce()


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    server.execute("CREATE TABLE {schema}.seen (p INT, o INT)")
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


@pytest.fixture
def world(
    server: TargetServer, name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str]
) -> Iterator[World]:
    make_topic(name, 3)
    rules = (MapperRule(schema=("shop", server.schema)),)
    task = LoadTask(
        name, TopicConfig(kafka, (name,)), "canalRow", "JdbcBatch", server.target(), rules=rules
    )
    task = replace(task, first_consume_from=Edge.EARLIEST)
    with ExitStack() as stack:
        client = connect(f"{zookeeper}/{name}")
        stack.callback(client.close)
        stack.callback(client.stop)
        world = World(task, server, client, kafka)
        world.produce()
        try:
            yield world
        finally:
            for process in world.processes:
                process.end()


def once(*ends: int) -> Counter[tuple[Any, ...]]:
    return Counter(
        (partition, offset) for partition, end in enumerate(ends) for offset in range(end)
    )


# The target is the truth


def test_a_target_that_is_ahead_of_zookeeper_is_believed(world: World) -> None:
    world.start().apply(10, 20, 30).apply(11, 21, 31, saves=False)
    assert world.stored() == {0: 10, 1: 20, 2: 30}
    assert world.offsets() == [11, 21, 31]


def test_a_target_restored_to_an_older_state_gets_what_it_has_lost_and_it_is_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = world.start().apply(10, 20, 30)
    world.sql("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.cdcbus_position")
    world.sql("CREATE TABLE {schema}.kept_rows AS SELECT * FROM {schema}.seen")
    process.apply(50, 50, 50)
    for table, kept in (("cdcbus_position", "kept"), ("seen", "kept_rows")):
        world.sql(f"DELETE FROM {{schema}}.{table}")
        world.sql(f"INSERT INTO {{schema}}.{table} SELECT * FROM {{schema}}.{kept}")
    again, progress = world.start(), Progress()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):  # as a start looks twice
            progress.begin(world.task.task_id, Starts(again.offsets, lost=again.lost))
    assert [*again.offsets.values()] == [10, 20, 30]
    assert again.lost == {
        (world.task.task_id, 1): (20, 50),
        TopicPartition(world.task.task_id, 0): (10, 50),
        (world.task.task_id, 2): (30, 50),
    }
    assert (
        caplog.text.count(
            f"the target has lost commits, as after a restore: it has {world.task.task_id}[0] up "
            "to offset 10"
        )
        == 1
    )
    again.apply(RECORDS, RECORDS, RECORDS)
    assert world.rows() == once(RECORDS, RECORDS, RECORDS)
    assert world.start().lost == {}


def test_commits_of_a_quiet_partition_that_the_target_of_a_running_task_loses_are_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its address leads to another server, which lacks the last commits."""
    process, quiet = world.start().apply(10, 20, 30), TopicPartition(world.task.task_id, 2)
    world.sql("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.cdcbus_position")
    process.apply(10, 20, 50)
    monkeypatch.setattr(batch_applier, "COMPARE_SECONDS", 0.0)
    progress = Progress(next_offsets=process.offsets)
    batches = BatchApplier(world.task, process.applier, process.positions, progress, lambda _: None)
    for _ in range(3):
        batches.look_around()
    world.sql("DELETE FROM {schema}.seen WHERE p = 2 AND o >= 30")
    world.sql("DELETE FROM {schema}.cdcbus_position WHERE {schema}.cdcbus_position.partition = 2")
    world.sql(
        "INSERT INTO {schema}.cdcbus_position SELECT * FROM {schema}.kept WHERE "
        "{schema}.kept.partition = 2"
    )
    process.apply(40)
    progress.next_offsets = process.offsets
    with pytest.raises(OffsetConflict, match=r"no longer holds offset 50 of .*\[2\].* but 30"):
        batches.look_around()
    batches.close()
    assert [*process.take_over().offsets.values()] == [40, 20, 30]
    assert process.lost == {quiet: (30, 50)}
    process.apply(RECORDS, RECORDS, RECORDS)
    assert world.rows() == once(RECORDS, RECORDS, RECORDS)


@pytest.mark.parametrize("is_new_process", [True, False])
def test_a_partition_that_was_added_and_is_still_empty_is_not_taken_for_a_lost_one(
    world: World, is_new_process: bool
) -> None:
    process, topic = world.start().apply(10, 20, 30), world.task.task_id
    admin = AdminClient({"bootstrap.servers": world.kafka})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    progress = Progress(next_offsets=process.offsets)
    batches = BatchApplier(world.task, process.applier, process.positions, progress, lambda _: None)
    wait_until(
        lambda: len(admin.list_topics(topic).topics[topic].partitions) == 4, "it to be there"
    )
    batches.scatter({TopicPartition(topic, 3): 0})
    batches.close()
    process.positions.save(progress.next_offsets)
    process.offsets = dict(progress.next_offsets)
    if is_new_process:
        process = world.start()
    else:
        process.take_over()
    assert [*process.offsets.values()] == [10, 20, 30, 0]
    world.sql("DELETE FROM {schema}.cdcbus_position WHERE {schema}.cdcbus_position.partition = 3")
    with pytest.raises(TargetReplaced):
        world.start()


def test_what_is_set_of_a_partition_while_it_is_not_read_counts_once_it_is(world: World) -> None:
    world.start().apply(10, 20, 30)
    some = replace(world.task.source, partitions=(0, 1))
    world.start(source=some)
    world.client.set(world.path, world.text(p0=10, p1=20, p2=25))
    world.start(source=some).apply(11, 21)
    assert world.stored() == {0: 11, 1: 21, 2: 25}
    assert world.offsets(source=replace(some, partitions=())) == [11, 21, 25]


def test_a_partition_that_an_operator_set_before_it_was_ever_read_is_read_from_there(
    world: World,
) -> None:
    some = replace(world.task.source, partitions=(0, 1))
    world.client.create(world.path, world.text(p0=10, p1=20, p2=25), makepath=True)
    world.start(source=some).apply(11, 21)
    world.start(source=some).apply(12, 22)
    assert world.offsets(source=replace(some, partitions=())) == [12, 22, 25]


@pytest.mark.parametrize("table_is_there", [True, False])
def test_a_target_replaced_by_an_empty_one_is_refused_until_a_position_is_set(
    world: World, table_is_there: bool
) -> None:
    world.start().apply(10, 20, 30)
    world.sql("DELETE FROM {schema}.seen")
    if table_is_there:
        world.sql("DELETE FROM {schema}.cdcbus_position")
    else:
        world.sql("DROP TABLE {schema}.cdcbus_position")
    with pytest.raises(
        TargetReplaced,
        match=rf"committed up to 10 there.*cdcbus offset reset {world.task.task_id} --to PLACE",
    ):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    world.start().apply(RECORDS, RECORDS, RECORDS)
    assert world.rows() == once(RECORDS, RECORDS, RECORDS)


def test_a_target_that_keeps_no_offsets_goes_on_from_zookeeper_and_so_it_does_once_it_keeps_them(
    world: World,
) -> None:
    world.start().apply(10, 20, 30)
    for mark in (b'"isKept":false', b'"isKept":true'):
        path = written_path(world.task.task_id, world.task.task_id)
        data = world.client.get(path)[0]
        if b"false" in mark:
            transaction = world.client.transaction()
            transaction.set_data(path, data.replace(b'"isKept":true', mark))
            transaction.set_data(world.path, world.client.get(world.path)[0])
            transaction.commit()
            world.sql("DELETE FROM {schema}.cdcbus_position")
        assert world.offsets() == [10, 20, 30]


def test_a_target_of_another_kind_that_has_nothing_is_refused_until_a_position_is_set(
    world: World,
) -> None:
    """As after a task from Kafka to Kafka was given a database under the same id."""
    world.start().apply(10, 20, 30)
    fields = orjson.loads(world.client.get(world.written)[0])
    kind = fields["target"]

    def as_of_topics(text: bytes) -> None:
        fields.update(position=text.decode(), isKept=False, isCommitted=False, target="kafka")
        transaction = world.client.transaction()
        transaction.set_data(world.written, orjson.dumps(fields))
        transaction.set_data(world.path, text)
        transaction.commit()

    as_of_topics(world.text(p0=40, p1=40, p2=40))
    assert world.offsets() == [10, 20, 30]  # what this one has
    as_of_topics(world.text(p0=40, p1=40, p2=40))
    world.sql("DELETE FROM {schema}.cdcbus_position")
    with pytest.raises(
        TargetReplaced,
        match=rf"of another kind \({kind}\) .* before offset 40 of .*\[0\] \(kafka, by /datas",
    ):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    assert world.offsets() == [0, 0, 0]


# Edits, partition by partition


def test_an_edit_of_one_partition_leaves_the_others_where_the_target_is(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    world.client.set(world.path, world.text(p0=10, p1=4, p2=30))
    assert world.offsets() == [15, 4, 35]
    assert world.offsets() == [15, 4, 35]  # taken over, it is the target's position


def test_partitions_that_an_edit_does_not_name_keep_their_place(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.client.set(world.path, world.text(p1=4))
    assert world.offsets() == [10, 4, 30]


def test_the_same_text_set_again_is_an_edit_of_all_that_it_names(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    world.client.set(world.path, world.client.get(world.path)[0])
    assert world.offsets() == [10, 20, 30]


def test_an_edit_by_command_that_names_what_is_there_already_holds(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    before = positions_of(world.client, world.task.task_id)
    text = world.client.get(world.path)[0].decode()
    set_positions(
        world.client,
        world.task.task_id,
        {world.task.task_id: text},
        before,
        "me",
        "test",
        partitions={1},
    )
    assert world.offsets() == [15, 20, 35]


def test_a_copy_of_the_tree_is_no_edit_and_one_set_there_is(world: World, zookeeper: str) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    copy = connect(f"{zookeeper}/{world.task.task_id}-copy")
    try:
        for path in (world.path, written_path(world.task.task_id, world.task.task_id)):
            copy.create(path, world.client.get(path)[0], makepath=True)
        world.client, kept = copy, world.client
        text = copy.get(world.path)[0]
        world.processes.append(process := Process(world))
        assert [*process.find_starts().offsets.values()] == [15, 25, 35]
        copy.set(world.path, text)
        assert world.offsets() == [10, 20, 30]
    finally:
        world.client = kept
        while len(world.processes) > 1:
            world.processes.pop().end()
        copy.stop()
        copy.close()


def test_a_run_of_one_partition_leaves_the_others_where_they_are(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    assert world.offsets(source=replace(world.task.source, partitions=(1,))) == [25]
    assert world.stored() == {0: 10, 1: 25, 2: 30}
    assert world.offsets(source=replace(world.task.source, partitions=())) == [15, 25, 35]


def test_an_old_tree_and_table_go_on_as_before_where_the_numbers_agree(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.client.delete(written_path(world.task.task_id, world.task.task_id))
    world.sql("ALTER TABLE {schema}.cdcbus_position DROP COLUMN epoch")
    world.sql("ALTER TABLE {schema}.cdcbus_position DROP COLUMN details")
    mzxid = world.client.get(world.path)[1].mzxid
    world.sql(
        f"UPDATE {{schema}}.cdcbus_position SET next_offset = next_offset + 1, mzxid = {mzxid}"
    )
    assert world.offsets() == [11, 21, 31]
    assert world.offsets() == [11, 21, 31]


def test_an_old_tree_s_edit_holds_and_no_alarm_is_raised(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.client.delete(written_path(world.task.task_id, world.task.task_id))
    world.sql("UPDATE {schema}.cdcbus_position SET mzxid = 1")
    world.client.set(world.path, world.text(p0=40, p1=2))
    process = world.start()
    assert ([*process.offsets.values()], process.lost) == ([40, 2, 30], {})


# Taking over


@pytest.mark.parametrize(
    "are_known", [False, True], ids=["it waits", "it ends the other's session"]
)
def test_a_take_over_meets_a_commit_under_way_and_keyless_rows_come_once(
    world: World, monkeypatch: pytest.MonkeyPatch, are_known: bool
) -> None:
    """Sessions of another process cannot be told behind a pooler: there the commit is waited
    for."""
    if not are_known:
        monkeypatch.setattr(JdbcBatch, "end_other_sessions", lambda _: None)
    old = world.start()
    partition = TopicPartition(world.task.task_id, 0)
    written, go_on, failed = Event(), Event(), list[Exception]()
    store = old.loader.transaction

    def slow_transaction() -> Any:
        manager = store()

        class Slow:
            def __enter__(self) -> Any:
                return manager.__enter__()

            def __exit__(self, *error: Any) -> Any:
                written.set()
                go_on.wait(30)
                return manager.__exit__(*error)

        return Slow()

    old.loader.transaction = slow_transaction  # type: ignore[method-assign]

    def commit() -> None:
        try:
            old.apply(10, saves=False)
        except Exception as error:
            failed.append(error)

    committing = Thread(target=commit)
    committing.start()
    assert written.wait(30)
    found = list[Process]()
    taking = Thread(target=lambda: found.append(world.start()))
    taking.start()
    wait_until(lambda: len(world.processes) == 2, "the other one to begin")
    if are_known:
        taking.join(30)
    else:
        taking.join(0.5)
        assert taking.is_alive(), "it has not waited"
    go_on.set()
    committing.join(30)
    taking.join(30)
    if are_known:
        assert [type(error) for error in failed] == [TargetUnavailable]
        assert found[0].offsets[partition] == 0
    else:
        assert (failed, found[0].offsets[partition]) == ([], 10)
    found[0].apply(20)
    assert {row: times for row, times in world.rows().items() if row[0] == 0} == once(20)


def test_one_that_commits_again_and_again_is_fenced_at_once(world: World) -> None:
    """Ten rounds, as in each it may be lucky."""
    partition, records = TopicPartition(world.task.task_id, 0), 20_000
    world.produce(1, records)
    for _ in range(10):
        zombie, over = world.start(), Event()

        def commit(zombie: Process = zombie, over: Event = over) -> None:
            with suppress(OffsetConflict, TargetUnavailable):
                while not over.is_set():
                    zombie.apply(min(zombie.offsets[partition] + 1, records), saves=False)
            over.set()

        committing = Thread(target=commit)
        committing.start()
        begun = zombie.offsets[partition]
        wait_until(
            lambda begun=begun, zombie=zombie: zombie.offsets[partition] > begun,  # type: ignore[misc]
            "it to commit",
        )
        world.start()
        assert over.wait(10), "it still commits"
        committing.join(10)
    assert max(world.rows().values()) == 1


def test_an_executor_of_an_earlier_epoch_commits_nothing(world: World) -> None:
    late = world.start()
    world.start()
    with pytest.raises(OffsetConflict):
        late.apply(5, saves=False)
    assert world.rows() == Counter()


# The topic


def test_a_topic_made_anew_while_the_task_is_stopped_is_refused_until_a_position_is_set(
    world: World,
) -> None:
    world.start().apply(10, 20, 30)
    world.remake_topic()
    with pytest.raises(
        TopicRemade,
        match="was deleted and created again .* "
        rf"cdcbus offset reset {world.task.task_id} --to PLACE",
    ):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    assert world.offsets() == [0, 0, 0]
    assert world.offsets() == [0, 0, 0]


def test_in_a_topic_made_anew_only_the_partitions_that_are_set_are_known(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.remake_topic()
    # By zkCli, which writes all of the node: nobody has said where the others begin.
    world.client.set(world.path, world.text(p0=0, p1=20, p2=30))
    with pytest.raises(TopicRemade, match="up to offset 20 of partition 1"):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    assert world.offsets() == [0, 0, 0]


def test_a_zookeeper_restored_from_before_a_topic_was_made_anew_leaves_the_target_right(
    world: World,
) -> None:
    world.start().apply(10, 20, 30)
    copies = {path: world.client.get(path)[0] for path in (world.path, world.written)}
    world.remake_topic()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    world.start().apply(7, 7, 7)
    transaction = world.client.transaction()
    for path, data in copies.items():
        transaction.set_data(path, data)
    transaction.commit()
    assert world.offsets() == [7, 7, 7]


def test_a_topic_made_anew_of_which_nothing_was_read_is_read_from_its_beginning(
    world: World,
) -> None:
    assert world.offsets() == [0, 0, 0]
    world.remake_topic()
    assert world.offsets() == [0, 0, 0]
    world.start().apply(10, 20, 30)
    world.remake_topic()
    with pytest.raises(TopicRemade):
        world.start()


def test_a_topic_made_anew_under_a_running_task_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_identity, "LOOK_SECONDS", 0.0)
    world.start().apply(10, 20, 30)
    identity = TopicIdentity(world.task, topic_identity.topic_ids(world.task.source))
    assert identity.look() is None
    world.remake_topic()
    assert "was deleted and created again under the running task" in str(identity.look())


# Start rules


@pytest.mark.parametrize("rule", [Edge.EARLIEST, Edge.LATEST])
@pytest.mark.parametrize("is_tree_lost", [True, False])
def test_a_start_rule_is_for_the_first_start_only(
    world: World, rule: Edge, is_tree_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world.start(first_consume_from=rule)
    world.client.set(world.path, world.text(p0=10, p1=20, p2=30))
    world.start()
    world.client.delete(
        f"/datas/task/{world.task.task_id}" if is_tree_lost else world.path, recursive=True
    )
    with caplog.at_level(logging.WARNING):
        assert world.offsets() == [10, 20, 30]
    assert "was deleted; the task resumes where it was" in caplog.text


def test_a_node_deleted_under_a_running_task_is_written_again(world: World) -> None:
    process = world.start().apply(10, 20, 30)
    world.client.delete(world.path)
    wait_until(lambda: process.positions.edit() is not None, "it to be noticed")
    assert [*process.take_over().offsets.values()] == [10, 20, 30]
    assert world.stored() == {0: 10, 1: 20, 2: 30}


def test_without_any_knowledge_but_that_it_has_run_a_task_refuses(world: World) -> None:
    world.start().apply(10, 20, 30)
    before = positions_of(world.client, world.task.task_id)
    topic = world.task.task_id
    set_positions(
        world.client, topic, {topic: world.text(p0=1, p1=1, p2=1).decode()}, before, "me", "test"
    )
    for path in (world.path, written_path(topic, topic)):
        world.client.delete(path)
    world.sql("DELETE FROM {schema}.cdcbus_position")
    with pytest.raises(
        NoPosition, match=rf"has run before, as /datas/task/{topic}/history/{topic} shows"
    ):
        world.start()
