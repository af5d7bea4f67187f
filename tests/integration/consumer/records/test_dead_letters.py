"""Dead letters in a real Kafka: put, listed, replayed, dropped, by the class and by the command
line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.config import DeadLetterConfig, LoadTask, OnError, TopicConfig
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic, dead_letters_of
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusRejected, BusUnavailable, ConfigError, DataError
from cdcbus.tasks.control.dead_letters import replay_letters
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.znode import take_node
from tests.support.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def task(name: str, kafka: str, make_topic: Callable[..., str]) -> LoadTask:
    """Reads a topic of two partitions with three records: two in the first one, one of them with
    headers and bytes that are no text."""
    make_topic(name, 2)
    producer = kafka_producer(kafka)
    producer.produce(name, b"first", b"k_", partition=0)
    producer.produce(name, b"\xff\x00", b"\xfe", partition=0, headers=[("from", b"outside")])
    producer.produce(name, b"other", partition=1)
    assert producer.flush(30) == 0
    config = DeadLetterConfig(f"{name}-dead", limit=2)
    return LoadTask(
        name,
        TopicConfig(kafka, (name,)),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(""),
        on_error=OnError.DEADLETTER,
        dead_letters=config,
    )


@pytest.fixture
def topic(task: LoadTask) -> Iterator[DeadLetterTopic]:
    with DeadLetterTopic(task) as topic:
        topic.open()
        yield topic


def dead_letter(task: LoadTask, partition: int, offset: int) -> DeadLetter:
    return DeadLetter(task.task_id, partition, offset, "no JSON")


def last(task: LoadTask, partition: int) -> Message:
    """The newest record of a partition of the task's topic."""
    consumer = Consumer({"bootstrap.servers": task.source.servers, "group.id": "test"})
    try:
        at = TopicPartition(task.task_id, partition)
        _, end = consumer.get_watermark_offsets(at, timeout=30)
        consumer.assign([TopicPartition(task.task_id, partition, end - 1)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def test_a_letter_holds_the_original_record_and_says_where_it_comes_from(
    task: LoadTask, topic: DeadLetterTopic
) -> None:
    topic.put([dead_letter(task, 0, 1), dead_letter(task, 1, 0)])
    binary, other = topic.dead_letters()
    assert (binary.dead_letter, other.dead_letter) == (
        dead_letter(task, 0, 1),
        dead_letter(task, 1, 0),
    )
    assert (binary.key, binary.value, binary.headers) == (
        b"\xfe",
        b"\xff\x00",
        [("from", b"outside")],
    )
    assert (other.key, other.value, other.headers) == (None, b"other", [])
    assert binary.time.endswith("+00:00")


def test_a_letter_that_is_put_twice_is_one(task: LoadTask, topic: DeadLetterTopic) -> None:
    for _ in range(2):
        topic.put([dead_letter(task, 0, 0)])
    assert [each.dead_letter.offset for each in topic.dead_letters()] == [0]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Where Kafka is asked to read from, partition and offset."""
    asked: list[tuple[int, int]] = []

    class Noting(Consumer):
        def assign(self, partitions: list[TopicPartition]) -> None:
            asked.extend((each.partition, each.offset) for each in partitions)
            super().assign(partitions)

    monkeypatch.setattr("cdcbus.consumer.records.record_reader.Consumer", Noting)
    return asked


@pytest.mark.parametrize("is_far", [False, True])
def test_records_that_are_near_each_other_are_read_at_once(
    task: LoadTask,
    kafka: str,
    places: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    is_far: bool,
) -> None:
    if is_far:
        monkeypatch.setattr("cdcbus.consumer.records.record_reader.NEAR_BYTES", 0)
    producer = kafka_producer(kafka)
    for number in range(100):
        producer.produce(task.task_id, b"%d" % number, partition=1)
    assert producer.flush(30) == 0
    task = replace(task, dead_letters=replace(task.dead_letters, limit=100))
    wanted = [dead_letter(task, 1, offset) for offset in (100, 3, 99, 50, 3)]
    with DeadLetterTopic(task) as topic:
        topic.open()
        places.clear()
        topic.put([*wanted, dead_letter(task, 0, 1)])
        assert places == [(0, 1), (1, 3), *([(1, 50), (1, 99)] if is_far else [])]
        found = {each.dead_letter[1:3]: each.value for each in topic.dead_letters()}
    assert found == {
        (0, 1): b"\xff\x00",
        (1, 3): b"2",
        (1, 50): b"49",
        (1, 99): b"98",
        (1, 100): b"99",
    }


@pytest.mark.parametrize("others", [[], [0]])
def test_a_record_that_is_gone_is_told_and_no_letter_is_put(
    task: LoadTask, name: str, kafka: str, others: list[int]
) -> None:
    writer = kafka_producer(kafka, {"transactional.id": name})
    writer.init_transactions(60)
    for is_committed in (False, True, False):  # at 1, 3, 5 with a marker behind each
        writer.begin_transaction()
        writer.produce(name, b"written", partition=1)
        assert writer.flush(60) == 0
        (writer.commit_transaction if is_committed else writer.abort_transaction)(60)
    task = replace(task, dead_letters=replace(task.dead_letters, limit=100))
    with DeadLetterTopic(task) as topic:
        topic.open()
        for gone in (1, 2, 4, 5, 6, 7):
            with pytest.raises(
                BusUnavailable,
                match=rf"record {name}/1/\d+, a dead letter, cannot be read once more",
            ):
                topic.put(
                    [dead_letter(task, 1, gone), *(dead_letter(task, 1, other) for other in others)]
                )
        assert topic.dead_letters() == []
        topic.put([dead_letter(task, 1, 3), dead_letter(task, 1, 0)])
        assert [each.value for each in topic.dead_letters()] == [b"other", b"written"]


def test_letters_of_other_tasks_are_not_seen(task: LoadTask, topic: DeadLetterTopic) -> None:
    topic.put([dead_letter(task, 0, 0)])
    with DeadLetterTopic(replace(task, task_id="other")) as other:
        assert other.dead_letters() == []


def test_more_open_letters_than_the_limit_stop_the_task_until_some_are_resolved(
    task: LoadTask, topic: DeadLetterTopic
) -> None:
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    with dead_letters_of(task) as again:
        assert again is not None
        again.open()
        with pytest.raises(
            DataError,
            match=r"3 dead letters would be open, loader\.deadletterLimit is 2; the last is "
            r"record .*/1/0: no JSON",
        ):
            again.put([dead_letter(task, 1, 0)])
        assert len(topic.dead_letters()) == 2
        topic.drop(topic.dead_letters()[:1])
        again.put([dead_letter(task, 1, 0)])
    assert [each.dead_letter[1:3] for each in topic.dead_letters()] == [(0, 1), (1, 0)]


def test_a_task_that_stops_on_errors_needs_no_topic(task: LoadTask) -> None:
    with dead_letters_of(replace(task, on_error=OnError.STOP)) as topic:
        assert topic is None


def test_the_topic_is_compacted_so_that_letters_do_not_expire(
    task: LoadTask, topic: DeadLetterTopic
) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, task.dead_letters.topic)
    admin = AdminClient({"bootstrap.servers": task.source.servers})
    assert (
        admin.describe_configs([resource])[resource].result(30)["cleanup.policy"].value == "compact"
    )


def test_a_topic_in_which_letters_expire_is_warned_of(
    task: LoadTask, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AdminClient({"bootstrap.servers": task.source.servers})
    kinds = {
        "aged": {"retention.ms": "60000"},
        "both": {"cleanup.policy": "compact,delete", "retention.bytes": "1000000"},
        "kept": {"retention.ms": "-1"},
        "compacted": {"cleanup.policy": "compact"},
    }
    for name, config in kinds.items():
        letters = f"{task.task_id}-{name}"
        admin.create_topics([NewTopic(letters, 1, 1, config=config)])[letters].result(30)
        caplog.clear()
        with DeadLetterTopic(replace(task, dead_letters=DeadLetterConfig(letters))) as topic:
            topic.open()
        is_warned = f"topic {letters} deletes its records by age or size" in caplog.text
        assert is_warned == (name in ("aged", "both")), name


def test_kafka_away_is_told_and_nothing_counts_as_put(
    task: LoadTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("dead_letter_topic", "record_reader"):
        monkeypatch.setattr(f"cdcbus.consumer.records.{module}.WAIT_SECONDS", 1.0)
    with DeadLetterTopic(
        replace(task, source=replace(task.source, servers="127.0.0.1:9"))
    ) as topic:
        with pytest.raises(BusUnavailable, match=r"127\.0\.0\.1:9"):
            topic.open()
        with pytest.raises(BusUnavailable, match=r"127\.0\.0\.1:9"):
            topic.put([dead_letter(task, 0, 0)])


LARGE = 3_000_000


@pytest.fixture
def large(task: LoadTask, kafka: str) -> bytes:
    """The value of the newest record of partition 1, larger than Kafka's clients take by default,
    in a topic that takes it."""
    limit(task, task.task_id, 2 * LARGE)
    value = os.urandom(LARGE)
    producer = kafka_producer(kafka, {"message.max.bytes": 2 * LARGE})
    producer.produce(task.task_id, value, b"k_large", partition=1)
    assert producer.flush(30) == 0
    return value


def limit(task: LoadTask, topic: str, most: int) -> None:
    """Sets a topic's max.message.bytes."""
    change = ConfigEntry(
        "max.message.bytes", str(most), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": task.source.servers})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_large_record_becomes_a_dead_letter_and_is_replayed(
    task: LoadTask, topic: DeadLetterTopic, large: bytes
) -> None:
    topic.put([dead_letter(task, 1, 1)])
    [letter] = topic.dead_letters()
    assert letter.value == large
    topic.replay([letter])
    assert last(task, 1).value() == large
    assert topic.dead_letters() == []


@pytest.mark.parametrize("most", [LARGE // 2, 10_000])
def test_a_record_too_large_for_the_dead_letters_stops_the_task_with_the_limit_to_raise(
    task: LoadTask, topic: DeadLetterTopic, large: bytes, most: int
) -> None:
    limit(task, task.dead_letters.topic, most)
    with pytest.raises(
        BusRejected, match=rf"{task.dead_letters.topic} .* record of 3000\d\d\d bytes.* raise"
    ):
        topic.put([dead_letter(task, 1, 1)])


def test_letters_whose_end_was_not_acknowledged_can_be_dropped_again_at_once(
    task: LoadTask, topic: DeadLetterTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the client drops after an error must not take along what is sent next."""
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 1, 0)])
    letters = topic.dead_letters()
    errors = []
    for _ in range(20):
        with monkeypatch.context() as hasty:
            hasty.setattr("cdcbus.plugins.kafka.dead_letter_sender.WAIT_SECONDS", 0.0)
            try:
                topic.drop(letters)
            except BusUnavailable as error:
                errors.append(str(error))
        topic.drop(letters)
    assert any("has not acknowledged dead letters within 0 s" in error for error in errors)
    assert topic.dead_letters() == []


def test_more_letters_than_the_kafka_client_queues_are_dropped_at_once(
    task: LoadTask, topic: DeadLetterTopic
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    [letter] = topic.dead_letters()
    topic.drop([letter] * 100_001)
    assert topic.dead_letters() == []


# Commands


@pytest.fixture
def run(task: LoadTask, tmp_path: Path, zookeeper: str) -> Callable[..., Result]:
    """Runs `cdcbus dlq COMMAND FILE ...`."""
    file = tmp_path / "task.properties"
    lines = {
        "taskId": task.task_id, "consumer.consumerName": "KafkaFetch", "consumer.source.servers": task.source.servers,
        "consumer.source.topics": task.task_id, "loader.loaderName": "JdbcBatch", "loader.source.url": "jdbc:postgresql://db/shop",
        "loader.onError": "deadletter", "loader.deadletterTopic": task.dead_letters.topic,
    }  # fmt: skip
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    runner = CliRunner(env={"CDCBUS_ZOOKEEPER": zookeeper})
    return lambda command, *words, **options: runner.invoke(
        main, ["dlq", command, str(file), *words], **options
    )


def test_list_and_show_print_letters(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result]
) -> None:
    assert run("list").output == "no dead letters are open\n"
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    listed = run("list")
    assert f"{task.task_id}/0/1" in listed.output
    assert "first" not in listed.output  # rows are shown on demand only
    [one, other] = json.loads(run("list", "--json").output)
    assert (one["record"], other["offset"], one["reason"]) == (f"{task.task_id}/0/0", 1, "no JSON")
    [shown] = json.loads(run("show", f"{task.task_id}/0/1", "--json").output)
    assert (shown["key"], shown["headers"], shown["value"]) == (
        "base64:/g==",
        {"from": "outside"},
        "base64:/wA=",
    )
    assert "value: first" in run("show").output


def test_replay_puts_the_record_to_the_end_of_its_partition_and_resolves_the_letter(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result]
) -> None:
    topic.put([dead_letter(task, 0, 1), dead_letter(task, 1, 0)])
    assert run("replay", f"{task.task_id}/0/1", "--yes").output == "1 records replayed\n"
    record = last(task, 0)
    headers = dict(record.headers() or [])
    assert (record.offset(), record.key(), record.value()) == (2, b"\xfe", b"\xff\x00")
    assert (headers["from"], headers["cdcbus.replayed.offset"]) == (b"outside", b"1")
    assert "cdcbus.replayed" in headers
    assert [each.dead_letter.partition for each in topic.dead_letters()] == [1]
    topic.put([dead_letter(task, 0, 2)])  # refused again
    assert [each.headers for each in topic.dead_letters()] == [[("from", b"outside")], []]


def test_drop_resolves_letters_after_a_question(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result]
) -> None:
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    assert run("drop", "--all", input="n\n").exit_code != 0
    assert len(topic.dead_letters()) == 2
    assert [
        each["record"] for each in json.loads(run("drop", "--all", "--yes", "--json").stdout)
    ] == [
        f"{task.task_id}/0/0",
        f"{task.task_id}/0/1",
    ]
    assert topic.dead_letters() == []
    assert last(task, 0).offset() == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["shop/0/77"], "no open dead letter: shop/0/77"),
        ([], "or give --all"),
        (["shop-0-1"], "expected TOPIC/PARTITION/OFFSET"),
    ],
)
def test_records_that_are_not_there_are_refused(
    run: Callable[..., Result], words: list[str], sentence: str
) -> None:
    refused = run("drop", *words, "--yes")
    assert refused.exit_code != 0
    assert sentence in refused.output


def test_a_letter_that_somebody_resolves_during_the_question_is_not_replayed(
    task: LoadTask,
    topic: DeadLetterTopic,
    run: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 1, 0)])

    def confirm(*_: object, **__: object) -> bool:
        topic.drop(topic.dead_letters()[:1])
        return True

    monkeypatch.setattr("click.confirm", confirm)
    refused = run("replay", "--all", "--force")
    assert refused.exit_code == 1
    assert f"{task.task_id}/0/0 is no longer open" in refused.output
    assert [last(task, number).offset() for number in (0, 1)] == [1, 0]  # nothing is done
    assert [each.dead_letter.partition for each in topic.dead_letters()] == [1]


@pytest.mark.parametrize("force", [False, True])
def test_two_replays_of_one_letter_at_once_append_its_record_once(
    task: LoadTask, topic: DeadLetterTopic, zookeeper: str, force: bool
) -> None:
    """As a second click does. A record of a table without a key would become two rows."""
    topic.put([dead_letter(task, 0, 0)])
    letters = topic.dead_letters()
    client = connect(zookeeper)

    def replay() -> str:
        try:
            with DeadLetterTopic(task) as own:
                replay_letters(client, own, task.task_id, letters, "ada", force)
        except ConfigError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        told = sorted(pool.map(lambda _: replay(), range(2)))
    client.stop()
    client.close()
    assert (last(task, 0).offset(), told[0]) == (2, "")
    assert f"{task.task_id}/0/0 is no longer open" in told[1]


def test_another_process_that_replays_is_named_and_nothing_is_replayed_beside_it(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], zookeeper: str
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    other = connect(zookeeper)
    path = f"/datas/task/{task.task_id}/replaying"
    assert take_node(other, path, {"by": "ada@far"})
    refused = run("replay", "--all", "--yes", "--force")
    assert refused.exit_code == 1
    assert f"are being replayed by somebody else, as {path} says" in refused.output
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (1, 1)
    # as when it was killed
    other.stop()
    other.close()
    assert run("replay", "--all", "--yes").exit_code == 0
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (2, 0)


def test_a_replay_that_was_killed_before_its_letters_were_resolved_is_not_repeated(
    task: LoadTask,
    topic: DeadLetterTopic,
    run: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    monkeypatch.setattr(DeadLetterTopic, "drop", lambda *_: None)
    assert run("replay", "--all", "--yes").exit_code == 0
    monkeypatch.undo()
    refused = run("replay", "--all", "--yes")
    assert refused.exit_code == 1
    assert f"was replayed already, as record {task.task_id}/0/2" in refused.output
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (2, 1)
    assert run("drop", "--all", "--yes").exit_code == 0


# Replays that would take a row back in time


@pytest.fixture
def add(task: LoadTask, kafka: str) -> Callable[..., None]:
    """Puts records with this key behind the others of the first partition."""

    def add(key: bytes, count: int = 1) -> None:
        producer = kafka_producer(kafka)
        for _ in range(count):
            producer.produce(task.task_id, b"newer", key, partition=0)
        assert producer.flush(30) == 0

    return add


def test_a_replay_over_a_newer_record_of_the_row_is_refused_unless_forced(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], add: Callable[..., None]
) -> None:
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    add(b"k_", 2)
    refused = run("replay", "--all", "--yes")
    assert refused.exit_code == 1
    assert (
        f"{task.task_id}/0/0 (record {task.task_id}/0/3 with the same key is newer)"
        in refused.output
    )
    assert "--force" in refused.output
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (3, 2)  # nothing is done
    # the row has no newer record
    assert run("replay", f"{task.task_id}/0/1", "--yes").exit_code == 0
    assert run("replay", f"{task.task_id}/0/0", "--yes", "--force").exit_code == 0
    assert (last(task, 0).value(), topic.dead_letters()) == (b"first", [])


def test_letters_are_listed_by_key_those_of_one_row_in_their_order(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], add: Callable[..., None]
) -> None:
    add(b"k_")  # the others are k_ and 0xfe
    topic.put([dead_letter(task, 0, 1), dead_letter(task, 0, 2)])
    assert [each.dead_letter.offset for each in topic.dead_letters()] == [2, 1]
    listed = json.loads(run("list", "--json").stdout)
    assert [each["offset"] for each in listed] == [2, 1]
    topic.drop([each for each in topic.dead_letters() if each.dead_letter.offset == 1])
    topic.put([dead_letter(task, 0, 0)])
    assert [each.dead_letter.offset for each in topic.dead_letters()] == [0, 2]


def test_letters_of_one_row_are_replayed_together_in_order(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], add: Callable[..., None]
) -> None:
    add(b"k_")
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 2)])
    assert (
        f"{task.task_id}/0/2 with the same key is newer"
        in run("replay", f"{task.task_id}/0/0", "--yes").output
    )
    assert run("replay", "--all", "--yes").exit_code == 0
    assert (last(task, 0).offset(), last(task, 0).value()) == (4, b"newer")


def test_a_replayed_record_is_as_old_as_it_was(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], add: Callable[..., None]
) -> None:
    add(b"k_")
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 2)])
    assert run("replay", f"{task.task_id}/0/0", "--yes", "--force").exit_code == 0  # at 3
    # is newer than that, though it came before; at 4
    assert run("replay", f"{task.task_id}/0/2", "--yes").exit_code == 0
    topic.put([dead_letter(task, 0, 3)])
    assert (
        f"{task.task_id}/0/4 with the same key is newer" in run("replay", "--all", "--yes").output
    )
    topic.put([dead_letter(task, 0, 4)])
    assert [each.origin for each in topic.dead_letters()] == [0, 2]
    assert run("replay", "--all", "--yes").exit_code == 0


def test_a_replay_is_refused_where_newer_records_may_be_gone(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], add: Callable[..., None]
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    add(b"other", 2)
    admin = AdminClient({"bootstrap.servers": task.source.servers})
    [done] = admin.delete_records([TopicPartition(task.task_id, 0, 3)]).values()
    assert done.result(30).low_watermark == 3
    assert f"{task.task_id}[0] begins at 3 by now" in run("replay", "--all", "--yes").output
    assert len(topic.dead_letters()) == 1


# A topic that was created again


@pytest.fixture
def remake(task: LoadTask, kafka: str) -> Callable[..., None]:
    """Creates the task's topic again, with these values in its first partition, all of one key."""

    def remake(*values: bytes) -> None:
        admin, topic = AdminClient({"bootstrap.servers": kafka}), task.task_id
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to go")
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
        producer = kafka_producer(kafka)
        for value in values:
            producer.produce(topic, value, b"k_", partition=0)
        assert producer.flush(30) == 0

    return remake


def test_a_letter_does_not_replace_one_of_another_record_with_the_same_offset(
    task: LoadTask,
    topic: DeadLetterTopic,
    run: Callable[..., Result],
    remake: Callable[..., None],
    add: Callable[..., None],
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    remake(b"other log")
    add(b"other")
    topic.put([dead_letter(task, 0, 0)])
    with DeadLetterTopic(task) as restarted:  # as after a kill
        restarted.open()
        restarted.put([dead_letter(task, 0, 0)])
    old, new = topic.dead_letters()
    assert (old.value, new.value) == (b"first", b"other log")
    assert old.dead_letter.record == f"{task.task_id}/0/0"
    assert new.dead_letter.record == f"{task.task_id}/0/0/{new.digest}"
    refused = run("replay", "--all", "--yes").output
    assert f"{task.task_id}[0] has another record at 0, so it is another log" in refused
    # Both count towards the limit.
    with pytest.raises(DataError, match="3 dead letters would be open"):
        topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    assert run("drop", old.dead_letter.record, "--yes").exit_code == 0
    with DeadLetterTopic(task) as restarted:
        restarted.open()
        restarted.put([dead_letter(task, 0, 0)])
    assert [each.dead_letter.record for each in topic.dead_letters()] == [new.dead_letter.record]
    assert run("show", new.dead_letter.record).output.count("other log") == 1
    assert run("replay", new.dead_letter.record, "--yes").exit_code == 0
    assert topic.dead_letters() == []


def test_a_letter_of_a_topic_that_was_created_again_is_replayed_by_force_only(
    task: LoadTask,
    topic: DeadLetterTopic,
    run: Callable[..., Result],
    remake: Callable[..., None],
) -> None:
    topic.put([dead_letter(task, 0, 1)])
    remake(b"newest", b"newest")
    refused = run("replay", "--all", "--yes")
    assert refused.exit_code == 1
    assert f"{task.task_id}[0] has another record at 1, so it is another log" in refused.output
    assert "--force" in refused.output
    assert len(topic.dead_letters()) == 1
    assert run("replay", "--all", "--yes", "--force").exit_code == 0
    assert last(task, 0).offset() == 2
