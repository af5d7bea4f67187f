"""Dead letters in a real Kafka: put, listed, replayed, dropped, by the class and by the command
line."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.config import DeadLetterConfig, LoadTask, OnError
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic, dead_letters_of
from cdcbus.plugins.errors import BusRejected, BusUnavailable, DataError
from tests.integration.consumer.records.dead_letters.letters import dead_letter, last
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics

pytestmark = pytest.mark.integration


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
        create_topics(admin, NewTopic(letters, 1, 1, config=config))
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
