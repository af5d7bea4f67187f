"""Fetch tasks that write in Kafka transactions: a reader of committed records sees each row
change exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import replace
from threading import Event

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import NO_MARK, Mark, PositionStore
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import BusRejected, BusUnavailable, PositionError
from cdcbus.plugins.kafka import producer as writers
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask
from cdcbus.producer.publish import delivery
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.contract.position_store import eventually
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.running import SECONDS, Running, messages
from tests.support.servers.private_broker import private_broker
from tests.support.topics.committed import committed, committed_canal
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

Store = Callable[[str], None]


@pytest.fixture
def task(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> FetchTask:
    """With a table `t` without a key, and the position at the end."""
    make_topic(name, 3)
    source_cursor.execute("CREATE TABLE t (id INT)")
    positions.save(position(source_cursor).to_json())
    task = fetch_task(source, name, servers=kafka)
    return replace(task, publish=replace(task.publish, transactional_id=f"cdcbus-{name}"))


class Broken:
    """A store that takes no position any more, as if the process had died before it wrote one."""

    def __init__(self, positions: PositionStore, saves: int) -> None:
        self._positions, self._left = positions, saves

    def __getattr__(self, name: str) -> object:
        return getattr(self._positions, name)

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        self._left -= 1
        if self._left < 0:
            raise PositionError("the process dies")
        self._positions.save(text, mark)


def ids(kafka: str, topic: str) -> list[int]:
    return [int(record["data"][0]["id"]) for record in committed_canal(kafka, topic)]


def insert(cursor: Cursor, *numbers: int) -> BinlogPosition:
    """One transaction."""
    cursor.execute(f"INSERT INTO t VALUES {', '.join(f'({number})' for number in numbers)}")
    return position(cursor)


def test_rows_of_a_table_without_a_key_are_in_one_partition_in_order(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, positions: PositionStore
) -> None:
    with Running(task, positions) as running:
        for number in range(50):
            insert(source_cursor, 2 * number, 2 * number + 1)
        running.until_stored(position(source_cursor))
        # a commit is visible a moment after it is acknowledged
        running.until(lambda: ids(kafka, name) == list(range(100)))
    assert len({message.partition() for message in committed(kafka, name)}) == 1
    assert {message.key() for message in committed(kafka, name)} == {b""}


def died_after_a_commit(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, positions: PositionStore
) -> BinlogPosition:
    """Rows 1 to 4 are committed, and ZooKeeper's position is still before row 3; the end of the
    binlog."""
    with (
        pytest.raises(PositionError, match="the process dies"),
        Running(task, Broken(positions, 2)) as running,  # type: ignore[arg-type]
    ):
        # the saves are that of the start and this one
        running.until_stored(insert(source_cursor, 1, 2))
        end = insert(source_cursor, 3, 4)
        running.until(lambda: ids(kafka, name) == [1, 2, 3, 4])
    return end


def test_a_task_that_dies_after_a_commit_repeats_nothing(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
) -> None:
    end = died_after_a_commit(task, source_cursor, kafka, name, positions)
    again = ZooKeeperPositions(zookeeper_client, name, name)
    assert BinlogPosition.from_json(again.load() or "").pos < end.pos
    with Running(task, again) as running:
        running.until_stored(insert(source_cursor, 5))
    wait_until(lambda: ids(kafka, name) == [1, 2, 3, 4, 5], "what was committed to be visible")


@pytest.mark.parametrize("is_transactional", [True, False])
def test_a_start_by_other_rules_than_before_is_warned_of_once(
    task: FetchTask,
    source_cursor: Cursor,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
    caplog: pytest.LogCaptureFixture,
    is_transactional: bool,
) -> None:
    if not is_transactional:
        task = replace(task, publish=replace(task.publish, transactional_id=""))
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1))
    excludes = frozenset({f"{name}.OTHER".upper()})
    other = replace(task, tables=replace(task.tables, excludes=excludes))
    counts = []
    for number in (2, 3):
        caplog.clear()
        with Running(other, ZooKeeperPositions(zookeeper_client, name, name)) as running:
            running.until_stored(insert(source_cursor, number))
        counts.append(sum("another value of consumer.excludes" in each for each in caplog.messages))
    assert counts == [1, 0]


@pytest.mark.parametrize("rule", [Edge.EARLIEST, Edge.LATEST])
def test_a_position_that_is_gone_is_the_one_that_kafka_has(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
    rule: Edge,
) -> None:
    died_after_a_commit(task, source_cursor, kafka, name, positions)
    insert(source_cursor, 5)
    zookeeper_client.delete(f"/datas/task/{name}", recursive=True)
    with Running(
        replace(task, start=rule), ZooKeeperPositions(zookeeper_client, name, name)
    ) as running:
        running.until_stored(insert(source_cursor, 6))
    wait_until(lambda: ids(kafka, name) == [1, 2, 3, 4, 5, 6], "what was committed to be visible")


def test_a_position_set_by_hand_after_that_holds(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
    store: Store,
) -> None:
    died_after_a_commit(task, source_cursor, kafka, name, positions)
    again = ZooKeeperPositions(zookeeper_client, name, name)
    store(again.load() or "")
    with Running(task, again) as running:
        running.until_stored(insert(source_cursor, 5))
    wait_until(
        lambda: ids(kafka, name) == [1, 2, 3, 4, 3, 4, 5], "what was committed to be visible"
    )


def put_back_the_clock(cursor: Cursor, is_mariadb: bool) -> None:
    """For what the session commits from now on."""
    if is_mariadb:
        cursor.execute("SET timestamp = 1577836800")
    else:
        cursor.execute("SET original_commit_timestamp = 1577836800000000")


def ran_on_after_a_copy(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, between: Callable[[], None]
) -> tuple[MemoryNode, MemoryNode]:
    """Rows 1 and 2 are committed, then 3 and 4; the node, and its copy from in between, as a
    restored ZooKeeper has it: with change numbers of then. `between` is called then, too."""
    node = MemoryNode()
    MemoryPositions(node).save(position(source_cursor).to_json())
    with Running(task, MemoryPositions(node)) as running:
        running.until_stored(insert(source_cursor, 1, 2))
    old = copy(node)
    for _ in range(10):  # the numbers of a night
        assert node.written
        node.write(node.written)
    between()
    with Running(task, MemoryPositions(node)) as running:
        running.until_stored(insert(source_cursor, 3, 4))
    wait_until(lambda: ids(kafka, name) == [1, 2, 3, 4], "what was committed to be visible")
    return node, old


@pytest.mark.parametrize("is_put_back", [False, True])
def test_a_zookeeper_restored_from_an_older_copy_repeats_nothing(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    caplog: pytest.LogCaptureFixture,
    is_mariadb: bool,
    is_put_back: bool,
) -> None:
    def between() -> None:
        if is_put_back:
            put_back_the_clock(source_cursor, is_mariadb)

    node, old = ran_on_after_a_copy(task, source_cursor, kafka, name, between)
    end = BinlogPosition.from_json(node.node.data)
    with Running(task, MemoryPositions(old)) as running:
        running.until_stored(insert(source_cursor, 5))
    wait_until(lambda: 5 in ids(kafka, name), "what was committed to be visible")
    assert ids(kafka, name) == [1, 2, 3, 4, 5]
    (warning,) = [each.getMessage() for each in caplog.records if "older copy" in each.msg]
    assert f"resuming at {end}, " in warning


@pytest.mark.parametrize("is_new", [False, True])
def test_a_position_set_in_a_restored_zookeeper_holds(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    is_new: bool,
) -> None:
    """Also if the task dies before it commits, having only written the position again."""
    _, old = ran_on_after_a_copy(task, source_cursor, kafka, name, lambda: None)
    wish = old.node.data
    if is_new:
        old.delete()
    old.set(wish)

    def die(*_: object) -> None:
        raise PositionError("the process dies")

    with (
        monkeypatch.context() as patched,
        pytest.raises(PositionError, match="the process dies"),
        Running(task, MemoryPositions(old)) as running,
    ):
        patched.setattr(delivery.Transactions, "reached", die)
        running.ends()
    assert MemoryPositions(old).load() == wish.decode()
    with Running(task, MemoryPositions(old)) as running:
        running.until_stored(insert(source_cursor, 5))
    wait_until(lambda: 5 in ids(kafka, name), "what was committed to be visible")
    assert ids(kafka, name) == [1, 2, 3, 4, 3, 4, 5]


def test_what_was_sent_without_transactions_in_another_zookeeper_is_not_sent_again(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, is_mariadb: bool
) -> None:
    node, _ = ran_on_after_a_copy(task, source_cursor, kafka, name, lambda: None)
    other = MemoryNode()  # with lower numbers
    MemoryPositions(other).save(node.node.data.decode())
    put_back_the_clock(source_cursor, is_mariadb)
    plain = replace(task, publish=replace(task.publish, transactional_id=""))
    with Running(plain, MemoryPositions(other)) as running:
        running.until_stored(insert(source_cursor, 5))
    with Running(task, MemoryPositions(other)) as running:
        running.until_stored(insert(source_cursor, 6))
    wait_until(lambda: 6 in ids(kafka, name), "what was committed to be visible")
    assert ids(kafka, name) == [1, 2, 3, 4, 5, 6]


def test_a_position_set_back_while_the_task_runs_is_taken_over(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    store: Store,
) -> None:
    start = positions.load()
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1, 2))
        store(start or "")
        running.until(lambda: ids(kafka, name) == [1, 2, 1, 2])
        running.until_stored(insert(source_cursor, 3))
    wait_until(lambda: ids(kafka, name) == [1, 2, 1, 2, 3], "what was committed to be visible")


def test_an_open_xa_transaction_holds_up_nobody_and_a_kill_beside_it_repeats_nothing(
    task: FetchTask,
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
) -> None:
    with connect(source) as connection, connection.cursor() as other:
        other.execute(f"USE {name}")
        for sql in (
            f"XA START '{name}'",
            "INSERT INTO t VALUES (10)",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        ):
            other.execute(sql)
        try:
            with (
                pytest.raises(PositionError, match="the process dies"),
                Running(task, Broken(positions, 2)) as running,  # type: ignore[arg-type]
            ):
                insert(source_cursor, 1, 2)
                running.until(lambda: running.progress.stored > 0 and ids(kafka, name) == [1, 2])
                insert(source_cursor, 3, 4)
                running.until(lambda: ids(kafka, name) == [1, 2, 3, 4])
            with Running(task, ZooKeeperPositions(zookeeper_client, name, name)) as running:
                insert(source_cursor, 5)
                running.until(lambda: ids(kafka, name) == [1, 2, 3, 4, 5])
                running.until(lambda: running.progress.open_xa is not None)
                other.execute(f"XA COMMIT '{name}'")
                running.until_stored(insert(source_cursor, 6))
                running.until(lambda: running.progress.open_xa is None)
        except BaseException:
            other.execute(f"XA ROLLBACK '{name}'")
            raise
    wait_until(
        lambda: ids(kafka, name) == [1, 2, 3, 4, 5, 10, 6], "what was committed to be visible"
    )


def test_of_two_processes_that_run_a_task_the_older_one_stops(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
) -> None:
    fenced = pytest.raises(
        BusRejected, match=f"another process has taken over the Kafka transactions cdcbus-{name} at"
    )
    second = replace(task, source=replace(task.source, server_id=77_078))
    with ExitStack() as open_tasks:
        younger = Running(second, ZooKeeperPositions(zookeeper_client, name, name))
        with fenced, Running(task, positions) as older:
            older.until_stored(insert(source_cursor, 1, 2))
            open_tasks.enter_context(younger)
            younger.until(lambda: younger.progress.position is not None)
            insert(source_cursor, 3, 4)
            older.ends()
        younger.until_stored(insert(source_cursor, 5, 6))
    wait_until(lambda: ids(kafka, name) == [1, 2, 3, 4, 5, 6], "what was committed to be visible")


def test_rows_of_a_transaction_that_is_not_whole_are_not_seen(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    zookeeper_client: KazooClient,
) -> None:
    """A large transaction is sent in pieces; the task stops in the midst of it, and begins it
    anew."""
    source_cursor.execute("ALTER TABLE t ADD COLUMN v TEXT")
    with Running(task, positions) as running:
        running.until_stored(insert_wide(source_cursor, range(2)))
        done = running.progress.done
        end = insert_wide(source_cursor, range(2, 20_002))
        running.until(lambda: running.progress.done > done)
    # what others write behind it can be read
    assert eventually(lambda: is_aborted(kafka, name), SECONDS)
    seen = ids(kafka, name)
    assert seen in ([0, 1], list(range(20_002)))
    with Running(task, ZooKeeperPositions(zookeeper_client, name, name)) as running:
        running.until_stored(end)
    wait_until(lambda: ids(kafka, name) == list(range(20_002)), "what was committed to be visible")


def insert_wide(cursor: Cursor, numbers: range) -> BinlogPosition:
    cursor.execute(
        f"INSERT INTO t SELECT seq, REPEAT('x', 500) FROM seq_{numbers.start}_to_{numbers.stop - 1}"
    )
    return position(cursor)


def test_a_record_that_is_too_large_leaves_a_letter_and_all_others_come_once(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(f"{name}-letters")
    options = {"compression.type": "none", "batch.size": "100000"}
    task = replace(
        task,
        publish=replace(task.publish, dead_letter_topic=f"{name}-letters", kafka_options=options),
    )
    limit_topic(kafka, name, 200_000)
    source_cursor.execute("ALTER TABLE t ADD COLUMN v LONGTEXT")
    with Running(task, positions) as running:
        source_cursor.execute(
            "INSERT INTO t VALUES (1, 'a'), (2, REPEAT('b', 300000)), (3, REPEAT('c', 150000))"
        )
        source_cursor.execute("INSERT INTO t VALUES (4, 'd')")
        running.until_stored(position(source_cursor))
    wait_until(lambda: ids(kafka, name) == [1, 3, 4], "what was committed to be visible")
    (dead_letter,) = committed(kafka, f"{name}-letters")
    headers = dict(dead_letter.headers() or [])
    assert headers["cdcbus.table"] == f"{name}.t".encode()
    assert headers["cdcbus.row"] == b"1"


def test_a_transaction_that_takes_too_long_is_begun_anew(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The broker looks for such transactions every ten seconds."""
    monkeypatch.setattr(delivery.Transactions, "settle", lambda *_: None)
    monkeypatch.setattr(delivery, "LONGEST_COMMIT_SECONDS", 3600.0)
    monkeypatch.setattr(delivery, "COMMIT_SECONDS", 3600.0)
    monkeypatch.setattr(delivery, "BUSY_RECORDS", 0)
    options = {"transaction.timeout.ms": "1000"}
    slow = replace(
        task, position_interval_seconds=3600.0, publish=replace(task.publish, kafka_options=options)
    )
    with Running(slow, positions) as running:
        insert(source_cursor, 1, 2)
        running.until(lambda: ids(kafka, name) == [1, 2])  # the first commit is not held back
        before = sum(ends(kafka, name, "read_uncommitted"))
        insert(source_cursor, 3, 4)
        running.until(lambda: sum(ends(kafka, name, "read_uncommitted")) >= before + 2)
        running.until(lambda: is_aborted(kafka, name))
        monkeypatch.setattr(delivery, "BUSY_RECORDS", 500)
        insert(source_cursor, 5, 6)
        running.until(lambda: ids(kafka, name) == [1, 2, 3, 4, 5, 6])
    assert "took longer than transaction.timeout.ms (1 s)" in caplog.text


def test_transactions_that_kafka_would_not_keep_open_so_long_are_refused(
    task: FetchTask, positions: PositionStore
) -> None:
    options = {"transaction.timeout.ms": "3600000"}
    task = replace(task, publish=replace(task.publish, kafka_options=options))
    with (
        pytest.raises(BusRejected, match=r"refuses transactions cdcbus-.*transaction\.timeout\.ms"),
        Running(task, positions) as running,
    ):
        running.ends()


def limit_topic(kafka: str, topic: str, most_bytes: int) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry(
        "max.message.bytes", str(most_bytes), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.incremental_alter_configs([resource])[resource].result(30)


def is_aborted(kafka: str, topic: str) -> bool:
    """Whether the brokers have ended the open transaction: what follows it can be read."""
    return ends(kafka, topic, "read_committed") == ends(kafka, topic, "read_uncommitted")


def ends(kafka: str, topic: str, isolation: str) -> list[int]:
    """Of each partition, as a reader with that isolation sees it."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "look", "isolation.level": isolation}
    )
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in range(3)
        ]
    finally:
        consumer.close()


def test_wide_rows_of_a_backlog_are_not_committed_a_read_at_a_time(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A read brings fewer than 130 of them; commits come by time, and the last one as soon as
    nothing more is there."""
    rows = 3000
    source_cursor.execute("ALTER TABLE t ADD v VARCHAR(2000)")
    positions.save(position(source_cursor).to_json())
    source_cursor.executemany(
        "INSERT INTO t SELECT %s, REPEAT('x', 2000)", [(number,) for number in range(rows)]
    )
    commits: list[float] = []
    commit = Transaction.commit

    def counted(self: Transaction, offset: int, text: str) -> None:
        commit(self, offset, text)
        commits.append(time.monotonic())

    monkeypatch.setattr(Transaction, "commit", counted)
    end = position(source_cursor)
    with Running(task, positions) as running:
        running.until_stored(end)
    assert sorted(ids(kafka, name)) == list(range(rows))
    by_time = (commits[-1] - commits[0]) * (
        1 / delivery.COMMIT_SECONDS + 1 / task.position_interval_seconds
    )
    assert len(commits) <= by_time + 8, commits


def test_a_commit_in_progress_does_not_count_as_none(
    kafka: str, name: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the task would resume from ZooKeeper, behind what the commit makes visible."""
    topic = make_topic(name, 1)
    other = kafka_producer(kafka, {"transactional.id": f"{name}-other"})
    other.init_transactions(60)
    other.begin_transaction()
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": name})) as group:
        place = TopicPartition(topic, 0, 5, "a place")
        other.send_offsets_to_transaction([place], group.consumer_group_metadata(), 60)
    config = PublishConfig(kafka, topic, "canalRow", transactional_id=name)
    with KafkaPublisher(config, CanalRow(), Event()) as publisher:
        transaction = Transaction(publisher, config, name, topic, 0)
        monkeypatch.setattr(writers, "CONNECT_SECONDS", 1.0)
        with pytest.raises(BusUnavailable, match="does not say what was committed"):
            transaction.committed()
        monkeypatch.undo()
        other.commit_transaction(60)
        assert transaction.committed() == (5, "a place")


@pytest.fixture(scope="module")
def forgetful() -> Iterator[str]:
    """A broker that forgets transactional ids after seconds, not after seven days."""
    settings = {
        "transactional.id.expiration.ms": 3000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
        "producer.id.expiration.ms": 3000,
        "producer.id.expiration.check.interval.ms": 200,
    }
    with private_broker(settings) as broker:
        yield broker.address


def is_forgotten(kafka: str, transactional_id: str) -> bool:
    """Whether the brokers have removed what they know of the transactional id."""
    # The id is in one partition, whose records come in order.
    values = [
        message.value()
        for message in messages(kafka, "__transaction_state")
        if transactional_id.encode() in (message.key() or b"")
    ]
    return values[-1:] == [None]


@pytest.mark.parametrize("has_reconnected", [False, True])
def test_a_task_that_was_idle_until_kafka_forgot_its_name_goes_on(
    task: FetchTask,
    source_cursor: Cursor,
    forgetful: str,
    name: str,
    positions: PositionStore,
    has_reconnected: bool,
) -> None:
    admin = AdminClient({"bootstrap.servers": forgetful})
    create_topics(admin, NewTopic(name, 1, 1))
    task = replace(task, publish=replace(task.publish, servers=forgetful))
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1))
        wait_until(
            lambda: is_forgotten(forgetful, task.publish.transactional_id), "it to be forgotten"
        )
        if has_reconnected:
            source_cursor.execute("SHOW PROCESSLIST")
            for row in source_cursor.fetchall():
                if str(row[4]).startswith("Binlog Dump"):
                    source_cursor.execute(f"KILL {row[0]}")
        running.until_stored(insert(source_cursor, 2))
        running.until_stored(insert(source_cursor, 3))
    assert ids(forgetful, name) == [1, 2, 3]
