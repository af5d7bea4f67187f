"""Rows of several tables in several topics, and topics that are missing, made, or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import BusError, BusRejected, ConfigError, RecordsLost
from cdcbus.plugins.kafka.config import NewTopics, PublishConfig, TopicRule
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.keys.topics import KEY_RULES, NEW_TOPICS
from tests.contract.position_store import eventually
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal, high_watermark, ids, messages
from tests.support.servers.private_broker import private_broker
from tests.support.topics.committed import committed_canal
from tests.support.topics.new_topics import create_topics

pytestmark = pytest.mark.integration


@pytest.fixture
def task(source: Database, kafka: str, name: str) -> FetchTask:
    return fetch_task(source, name, servers=kafka)


@pytest.fixture
def start(source_cursor: Cursor, positions: PositionStore) -> None:
    for table in ("orders", "stock", "`odd name`"):
        source_cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())


@pytest.fixture
def admin(kafka: str) -> Iterator[AdminClient]:
    yield AdminClient({"bootstrap.servers": kafka})


def publishing(task: FetchTask, **changes: object) -> FetchTask:
    publish: PublishConfig = replace(task.publish, **changes)  # type: ignore[arg-type]
    return replace(task, publish=publish)


@pytest.mark.usefixtures("start")
def test_each_table_s_rows_are_in_its_own_topic_in_order(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, positions: PositionStore
) -> None:
    rules = (
        TopicRule(rf"{name}\.orders", True, f"{name}-named"),
        TopicRule(rf"{name}\.s.*", True),
        TopicRule(f"{name}x", False),
    )
    for number in range(20):
        source_cursor.execute(f"INSERT INTO orders VALUES ({number})")
        source_cursor.execute(f"INSERT INTO stock VALUES ({number + 100})")
        source_cursor.execute(f"INSERT INTO `odd name` VALUES ({number + 200})")
    with Running(
        publishing(task, topic_rules=rules, new_topics=NewTopics(1, 1)), positions
    ) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, f"{name}-named") == list(range(20))
    assert ids(kafka, f"{name}_stock") == list(range(100, 120))
    assert ids(kafka, name) == list(range(200, 220))
    assert {record["table"] for record in canal(kafka, name)} == {"odd name"}


@pytest.mark.usefixtures("start")
def test_missing_topics_are_made_as_the_task_file_says(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    admin: AdminClient,
) -> None:
    source_cursor.execute("INSERT INTO stock VALUES (1)")
    task = publishing(
        task, topic_rules=(TopicRule(rf"{name}\.stock", True),), new_topics=NewTopics(3, 1)
    )
    with Running(task, positions) as running:
        running.until_stored(position(source_cursor))
    topics = admin.list_topics(timeout=10).topics
    assert [len(topics[topic].partitions) for topic in (name, f"{name}_stock")] == [3, 3]


@pytest.fixture
def of_its_own(
    task: FetchTask, source_cursor: Cursor, name: str, positions: PositionStore
) -> FetchTask:
    """A task that has sent a row of `stock` to a topic named after the table."""
    task = publishing(
        task, topic_rules=(TopicRule(rf"{name}\.stock", True),), new_topics=NewTopics(1, 1)
    )
    source_cursor.execute("INSERT INTO stock VALUES (1)")
    with Running(task, positions) as running:
        running.until_stored(position(source_cursor))
    return task


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result()
    assert eventually(lambda: topic not in admin.list_topics(timeout=10).topics)


@pytest.mark.parametrize("is_drop_read", [True, False])
@pytest.mark.parametrize("is_made_by_another", [True, False])
@pytest.mark.usefixtures("start")
def test_a_table_that_was_dropped_with_its_topic_can_come_again(
    of_its_own: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    admin: AdminClient,
    is_drop_read: bool,
    is_made_by_another: bool,
) -> None:
    """Whoever makes the topic again, and whenever the task reads of the drop."""
    topic = f"{name}_stock"
    if is_drop_read:
        source_cursor.execute("INSERT INTO stock VALUES (9)")
    source_cursor.execute("DROP TABLE stock")
    if is_drop_read:
        with Running(of_its_own, positions) as running:
            running.until_stored(position(source_cursor))
    delete(admin, topic)
    if is_made_by_another:
        create_topics(admin, NewTopic(topic, 1, 1))
    source_cursor.execute("CREATE TABLE stock (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO stock VALUES (2)")
    for number in (2, 3):
        with Running(of_its_own, positions) as running:
            running.until_stored(position(source_cursor))
        assert ids(kafka, topic) == list(range(2, number + 1))
        source_cursor.execute("INSERT INTO stock VALUES (3)" if number == 2 else "FLUSH TABLES")


@pytest.mark.parametrize("is_made_by_another", [True, False])
@pytest.mark.usefixtures("start")
def test_a_topic_that_is_gone_stops_the_task_at_the_next_row_of_its_table(
    of_its_own: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    admin: AdminClient,
    caplog: pytest.LogCaptureFixture,
    is_made_by_another: bool,
) -> None:
    topic = f"{name}_stock"
    delete(admin, topic)
    if is_made_by_another:
        create_topics(admin, NewTopic(topic, 1, 1))
    source_cursor.execute("INSERT INTO orders VALUES (1)")
    with Running(of_its_own, positions) as running:
        running.until_stored(position(source_cursor))
    assert f"lacks 1 records of topic {topic} that it had acknowledged" in caplog.text
    source_cursor.execute("INSERT INTO stock VALUES (2)")
    for reason in ("the topic was deleted and created again", "which this task noted"):
        lost = pytest.raises(RecordsLost, match=rf"records of topic {topic} .*\({reason}")
        with lost, Running(of_its_own, positions) as running:
            running.ends()
    # As an operator who goes on without what was in the former topic.
    positions.save(positions.load() or "")
    with Running(of_its_own, positions) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, topic) == [2]


@pytest.mark.usefixtures("start")
def test_the_topic_of_dead_letters_is_made_compacted_and_one_that_expires_is_warned_of(
    task: FetchTask,
    source_cursor: Cursor,
    name: str,
    positions: PositionStore,
    admin: AdminClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    letters = f"{name}-letters"
    task = publishing(task, dead_letter_topic=letters, new_topics=NewTopics(1, 1))
    for number, policy in enumerate(("compact", "delete")):
        source_cursor.execute(f"INSERT INTO stock VALUES ({number})")
        with Running(task, positions) as running:
            running.until_stored(position(source_cursor))
        assert (f"topic {letters} deletes" in caplog.text) == (policy == "delete")
        resource = ConfigResource(ConfigResource.Type.TOPIC, letters)
        found = admin.describe_configs([resource])[resource].result(30)
        assert found["cleanup.policy"].value == policy
        resource.add_incremental_config(
            ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        )
        admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.parametrize("transactional_id", ["", "shop"])
@pytest.mark.usefixtures("start")
def test_records_whose_time_a_topic_does_not_take_are_sent_again_until_it_does(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    admin: AdminClient,
    transactional_id: str,
) -> None:
    """As where the clock of this machine is far from the broker's."""
    limit = "message.timestamp.before.max.ms"
    create_topics(admin, NewTopic(name, 1, 1, config={limit: "0"}))
    transactional_id = transactional_id and f"{transactional_id}-{name}"
    # So large that they take the broker longer than a millisecond.
    source_cursor.execute("ALTER TABLE stock ADD COLUMN v LONGTEXT")
    row = "REPEAT(SHA2(RAND(), 256), 1500)"
    source_cursor.execute(
        f"INSERT INTO stock VALUES {', '.join(f'({each}, {row})' for each in range(20))}"
    )
    with Running(publishing(task, transactional_id=transactional_id), positions) as running:
        told = f"topic {name} at {kafka} does not take a record: its time is further"
        running.until(lambda: told in running.status.now[1])
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        resource.add_incremental_config(
            ConfigEntry(limit, "86400000", incremental_operation=AlterConfigOpType.SET)
        )
        admin.incremental_alter_configs([resource])[resource].result(30)
        running.until_stored(position(source_cursor))
    found = [each["data"][0]["id"] for each in committed_canal(kafka, name)]
    # Outside of transactions what the topic has taken comes twice.
    assert list(map(int, dict.fromkeys(found))) == list(range(20))
    assert not transactional_id or len(found) == 20


@pytest.mark.usefixtures("start")
def test_a_topic_that_cannot_be_made_stops_the_task_with_the_broker_s_reason(
    task: FetchTask, positions: PositionStore
) -> None:
    reason = pytest.raises(
        BusError,  # brokers that are too few now may be more later
        match=r"does not make topic .* \(loader\.source\.createTopic\): .*[Rr]eplication",
    )
    with reason, Running(publishing(task, new_topics=NewTopics(1, 7)), positions) as running:
        running.ends()


@pytest.mark.usefixtures("start")
def test_a_topic_that_is_missing_at_its_first_row_stops_the_task_with_the_command_that_makes_it(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute("INSERT INTO orders VALUES (1)")
    before = position(source_cursor)
    task = publishing(task, topic_rules=(TopicRule(rf"{name}\.stock", True),))
    with (
        pytest.raises(
            BusRejected,
            match=f"Kafka topic {name}_stock at .* kafka-topics --create --topic {name}_stock",
        ),
        Running(task, positions) as running,
    ):
        running.until_stored(before)
        source_cursor.execute("INSERT INTO stock VALUES (2)")
        after = position(source_cursor)
        running.ends()
    assert before.pos <= BinlogPosition.from_json(positions.load() or "").pos < after.pos
    make_topic(f"{name}_stock")
    with Running(task, positions) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, f"{name}_stock") == [2]


@pytest.mark.usefixtures("start")
def test_a_named_topic_that_is_missing_stops_the_task_at_its_start(
    task: FetchTask, name: str, make_topic: Callable[..., str], positions: PositionStore
) -> None:
    make_topic(name)
    with (
        pytest.raises(BusRejected, match=f"Kafka topic {name}-letters at"),
        Running(publishing(task, dead_letter_topic=f"{name}-letters"), positions) as running,
    ):
        running.ends()


@pytest.mark.usefixtures("start")
def test_a_table_whose_name_is_none_for_a_topic_stops_the_task(
    task: FetchTask,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute("INSERT INTO `odd name` VALUES (1)")
    stops = pytest.raises(
        ConfigError,
        match=r"dynamicTopic: .*odd name would go to a topic of its own name.*TOPIC:REGEX",
    )
    with (
        stops,
        Running(publishing(task, topic_rules=(TopicRule(r".*\..*", True),)), positions) as running,
    ):
        running.ends()


@pytest.mark.usefixtures("start")
def test_a_topic_deleted_under_the_task_stops_it_and_no_row_is_missing_in_the_new_one(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
    admin: AdminClient,
) -> None:
    make_topic(name)
    options = {
        "topic.metadata.refresh.interval.ms": "500",
        "topic.metadata.propagation.max.ms": "1000",
    }
    task = publishing(task, kafka_options=options)
    with (
        pytest.raises(BusRejected, match=f"Kafka topic {name} at .* kafka-topics --create"),
        Running(task, positions) as running,
    ):
        source_cursor.execute("INSERT INTO orders VALUES (1), (2), (3)")
        running.until_stored(position(source_cursor))
        running.until(lambda: high_watermark(kafka, name) == 3)
        admin.delete_topics([name])[name].result(timeout=30)
        assert eventually(lambda: name not in admin.list_topics(timeout=10).topics, 30.0)
        source_cursor.execute("INSERT INTO orders VALUES (4), (5), (6)")
        after = position(source_cursor)
        running.ends()
    assert BinlogPosition.from_json(positions.load() or "").pos < after.pos
    make_topic(name)
    lost = pytest.raises(RecordsLost, match=f"topic {name} .*deleted and created again")
    with lost, Running(task, positions) as running:
        running.ends()
    # As an operator who goes on without what was in the former topic.
    positions.save(positions.load() or "")
    with Running(task, positions) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, name) == [4, 5, 6]


@pytest.mark.usefixtures("start")
def test_a_topic_deleted_and_created_again_under_the_task_stops_it(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
    admin: AdminClient,
) -> None:
    """The client would send to the new one without a word."""
    make_topic(name)
    with (
        pytest.raises(RecordsLost, match=f"lacks records of topic {name} .* offset reset"),
        Running(task, positions) as running,
    ):
        source_cursor.execute("INSERT INTO orders VALUES (1), (2), (3)")
        running.until_stored(position(source_cursor))
        running.until(lambda: high_watermark(kafka, name) == 3)
        admin.delete_topics([name])[name].result(timeout=30)
        assert eventually(lambda: name not in admin.list_topics(timeout=10).topics, 30.0)
        make_topic(name)
        source_cursor.execute("INSERT INTO orders VALUES (4), (5), (6), (7)")
        running.ends()


@pytest.mark.usefixtures("start")
def test_a_task_that_writes_to_another_cluster_is_warned_of_once(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the cluster's id: addresses change."""
    make_topic(name)
    counts = []
    with private_broker() as broker:
        topics = AdminClient({"bootstrap.servers": broker.address})
        create_topics(topics, NewTopic(name, 1, 1))
        by_name = kafka.replace("127.0.0.1", "localhost")
        assert by_name != kafka
        for number, servers in enumerate((kafka, by_name, broker.address, broker.address)):
            caplog.clear()
            task = fetch_task(source, name, servers=servers)
            with Running(task, positions) as running:
                source_cursor.execute(f"INSERT INTO stock VALUES ({number})")
                running.until_stored(position(source_cursor))
            told = "another value of loader.source.servers than"
            counts.append(sum(told in each for each in caplog.messages))
    assert counts == [0, 0, 1, 0]


@pytest.mark.parametrize("converter", ["canalRow", "oggJson"])
def test_keys_go_by_canal_s_line_and_topics_get_their_own_numbers_of_partitions(
    converter: str,
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    admin: AdminClient,
) -> None:
    positions.save(position(source_cursor).to_json())
    for table in ("tb_1", "tb_2", "stock", "log"):
        source_cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(9))")
        source_cursor.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, NULL)")
    source_cursor.execute("UPDATE log SET id = 3 WHERE id = 2")
    line = f"{name}.tb_[0-9]+:name^id,{name}.stock:$pk$,{name}.log"
    task = publishing(
        fetch_task(source, name, servers=kafka, converter=converter),
        topic_rules=(TopicRule(rf"{name}\..*log", True, f"{name}-log"),),
        key_rules=KEY_RULES.read(line),
        new_topics=NEW_TOPICS.read("2:1,.*-log:5:1"),
    )
    try:
        with Running(task, positions) as running:
            running.until_stored(position(source_cursor))
        keys = [message.key() or b"" for message in messages(kafka, name)]
        assert sorted(keys) == [b"1_", b"1_a_", b"1_a_", b"2_", b"2_null_", b"2_null_"]
        log = messages(kafka, f"{name}-log")
        assert [message.key() for message in log] == [b"log"] * 4
        assert len({message.partition() for message in log}) == 1
        topics = admin.list_topics().topics
        assert [len(topics[each].partitions) for each in (name, f"{name}-log")] == [2, 5]
    finally:
        for made in admin.delete_topics([name, f"{name}-log"]).values():
            made.result()
