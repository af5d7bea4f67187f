"""A broker that has lost records which it had acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event, current_thread
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import NO_MARK, Mark, PositionStore
from cdcbus.plugins.errors import BusRejected, PositionUnavailable, RecordsLost
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.config import DdlConfig
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish import log_watch
from cdcbus.producer.publish.delivery import Acknowledgements
from cdcbus.producer.publish.publisher import KafkaPublisher
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, high_watermark
from tests.support.servers.private_broker import private_broker
from tests.support.topics.committed import committed_canal
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("partitions", "transactional_id"), [(1, ""), (2, ""), (1, "cdcbus-lost-records")]
)
def test_a_task_stops_where_kafka_lacks_what_it_had_acknowledged(
    source: Database,
    source_cursor: Cursor,
    name: str,
    positions: PositionStore,
    partitions: int,
    transactional_id: str,
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    before = position(source_cursor)
    positions.save(before.to_json())
    with private_broker() as broker:
        topics = AdminClient({"bootstrap.servers": broker.address})
        create_topics(topics, NewTopic(name, partitions, 1))
        task = fetch_task(source, name, servers=broker.address)
        task = replace(task, publish=replace(task.publish, transactional_id=transactional_id))
        with (
            pytest.raises(BusRejected, match=f"lacks records of topic {name} .* offset reset"),
            Running(task, positions) as running,
        ):
            for number in range(1, 7):
                source_cursor.execute(f"INSERT INTO t VALUES ({number})")
                running.until_stored(position(source_cursor))
            # Behind the mark that ends the first transaction.
            broker.cut(name, 0, 2 if transactional_id else 1)
            broker.start()
            for number in range(7, 20):
                source_cursor.execute(f"INSERT INTO t VALUES ({number})")
            after = position(source_cursor)
            running.ends()
        assert BinlogPosition.from_json(positions.load() or "").pos < after.pos
        # What the message names sends them again.
        positions.save(before.to_json())
        with Running(task, positions) as running:
            running.until_stored(after)
        found = [record["data"][0]["id"] for record in committed_canal(broker.address, name)]
        assert set(map(int, found)) == set(range(1, 20))


@pytest.mark.parametrize(
    ("transactional_id", "others"),
    [
        ("", ()),
        ("cdcbus-lost-all", ()),
        ("cdcbus-lost-all", ("__transaction_state", "__consumer_offsets")),
    ],
)
def test_a_task_stops_where_kafka_has_lost_all_that_it_had_acknowledged(
    source: Database,
    source_cursor: Cursor,
    name: str,
    positions: PositionStore,
    transactional_id: str,
    others: Sequence[str],
) -> None:
    """Brokers do not notice it: they compare the numbers of records only with what they have."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    before = position(source_cursor)
    positions.save(before.to_json())
    lacks = pytest.raises(RecordsLost, match=f"lacks records of topic {name} .* offset reset")
    with private_broker() as broker:
        topics = AdminClient({"bootstrap.servers": broker.address})
        create_topics(topics, NewTopic(name, 1, 1))
        task = fetch_task(source, name, servers=broker.address)
        task = replace(task, publish=replace(task.publish, transactional_id=transactional_id))
        with lacks, Running(task, positions) as running:
            for number in range(1, 4):
                source_cursor.execute(f"INSERT INTO t VALUES ({number})")
                running.until_stored(position(source_cursor))
            broker.cut(name, 0, 0)
            for other in others:
                broker.empty(other)
            broker.start()
            # More than are lost.
            for number in range(4, 20):
                source_cursor.execute(f"INSERT INTO t VALUES ({number})")
            running.ends()
        # Only a person can say whether they are to be sent again.
        with lacks, Running(task, positions) as running:
            running.ends()
        positions.save(before.to_json())
        with Running(task, positions) as running:
            running.until_stored(position(source_cursor))
        found = [record["data"][0]["id"] for record in committed_canal(broker.address, name)]
        assert set(map(int, found)) == set(range(1, 20))


def test_a_task_notices_at_its_start_what_kafka_has_lost_meanwhile(
    source: Database, source_cursor: Cursor, name: str, positions: PositionStore
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    with private_broker() as broker:
        topics = AdminClient({"bootstrap.servers": broker.address})
        create_topics(topics, NewTopic(name, 1, 1))
        task = fetch_task(source, name, servers=broker.address)
        with Running(task, positions) as running:
            source_cursor.execute("INSERT INTO t VALUES (1)")
            running.until_stored(position(source_cursor))
        broker.cut(name, 0, 0)
        broker.start()
        source_cursor.execute("INSERT INTO t VALUES (2)")
        with (
            pytest.raises(RecordsLost, match=f"topic {name} .*0 instead of at least 1"),
            Running(task, positions) as running,
        ):
            running.ends()
        assert not committed_canal(broker.address, name)


def test_what_the_client_has_to_say_does_not_hide_that_all_is_acknowledged(
    kafka: str, make_topic: Callable[..., str], name: str
) -> None:
    """Its statistics, which come each second, wait while there is nothing to send."""
    config = PublishConfig(kafka, make_topic(name), "canalRow")
    converter, queued = make_converter("canalRow"), Progress().queued
    with KafkaPublisher(config, converter, Event(), on_queued=queued) as publisher:
        publisher.logs.begin({})
        delivered = Acknowledgements(publisher)
        publisher._produce(name, [Record(key=b"1", value=b"{}")])
        delivered.reached(BinlogPosition("f", 4), lambda: False)
        assert delivered.published()
        wait_until(lambda: len(publisher.client) > 0, "statistics")
        assert delivered.acknowledged() == 1
        publisher.logs.look()
        assert publisher.logs.noted()[name].records == 1


def test_records_in_partitions_that_were_added_meanwhile_are_not_missed(
    source: Database,
    source_cursor: Cursor,
    name: str,
    positions: PositionStore,
    kafka: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task learns of them when it sends DDL to each, before it looks at their ends."""
    monkeypatch.setattr(log_watch, "LOOK_SECONDS", 0.0)
    topics = AdminClient({"bootstrap.servers": kafka})
    create_topics(topics, NewTopic(name, 1, 1))
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    task = replace(fetch_task(source, name, servers=kafka), ddl=DdlConfig(definitions=True))
    with Running(task, positions) as running:
        for number in range(1, 4):
            source_cursor.execute(f"INSERT INTO t VALUES ({number})")
            running.until_stored(position(source_cursor))
        topics.create_partitions([NewPartitions(name, 8)])[name].result(30)
        source_cursor.execute("ALTER TABLE t COMMENT 'a'")
        for number in range(4, 10):
            source_cursor.execute(f"INSERT INTO t VALUES ({number})")
            running.until_stored(position(source_cursor))
    written = positions.written
    assert written is not None
    ends = sum(high_watermark(kafka, name, number) for number in range(8))
    assert written.mark.sent[name].records == ends > 9


def test_a_task_that_has_stopped_for_a_loss_does_not_start_though_others_fill_the_topic(
    source: Database, source_cursor: Cursor, name: str, positions: PositionStore
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    lacks = pytest.raises(RecordsLost, match=f"lacks records of topic {name} .* offset reset")
    with private_broker() as broker:
        topics = AdminClient({"bootstrap.servers": broker.address})
        create_topics(topics, NewTopic(name, 1, 1))
        task = fetch_task(source, name, servers=broker.address)
        with lacks, Running(task, positions) as running:
            for number in range(1, 4):
                source_cursor.execute(f"INSERT INTO t VALUES ({number})")
                running.until_stored(position(source_cursor))
            broker.cut(name, 0, 0)
            broker.start()
            source_cursor.execute("INSERT INTO t VALUES (4)")
            running.ends()
        other = Producer({"bootstrap.servers": broker.address})
        for _ in range(100):
            other.produce(name, b"{}")
        assert other.flush(60) == 0
        for _ in range(2):
            with lacks, Running(task, positions) as running:
                running.ends()
        positions.save(positions.load() or "")
        with Running(task, positions) as running:
            source_cursor.execute("INSERT INTO t VALUES (5)")
            running.until_stored(position(source_cursor))


class Behind:
    """A store that keeps no position beside the rows."""

    def __init__(self, positions: PositionStore) -> None:
        self._positions = positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._positions, name)

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        if current_thread().name == "saved-aside":
            raise PositionUnavailable("no ZooKeeper for now")
        self._positions.save(text, mark)


def test_a_task_in_transactions_that_goes_on_after_a_loss_sends_no_row_twice(
    source: Database,
    source_cursor: Cursor,
    name: str,
    positions: PositionStore,
    kafka: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the place that is stored then, though it was behind Kafka's."""
    for seconds in ("LOOK_SECONDS", "ALL_SECONDS"):
        monkeypatch.setattr(log_watch, seconds, 0.0)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    topics = AdminClient({"bootstrap.servers": kafka})
    create_topics(topics, NewTopic(name, 1, 1))
    task = fetch_task(source, name, servers=kafka)
    task = replace(task, publish=replace(task.publish, transactional_id=name))

    def found() -> list[int]:
        return [int(record["data"][0]["id"]) for record in committed_canal(kafka, name)]

    with (
        pytest.raises(RecordsLost, match=f"lacks records of topic {name} "),
        Running(task, Behind(positions)) as running,
    ):
        for number in range(1, 4):
            source_cursor.execute(f"INSERT INTO t VALUES ({number})")
            running.until(lambda: found() == [*range(1, number + 1)])
        topics.delete_topics([name])[name].result(30)
        create_topics(topics, NewTopic(name, 1, 1))
        running.ends()
    stored = BinlogPosition.from_json(positions.load() or "")
    assert stored.pos == position(source_cursor).pos
    positions.save(stored.to_json())
    with Running(task, positions) as running:
        source_cursor.execute("INSERT INTO t VALUES (4)")
        running.until_stored(position(source_cursor))
    assert found() == [4]
