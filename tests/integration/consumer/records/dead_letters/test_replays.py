"""Replays that would take a row back in time, or of a topic that was created again, are refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.plugins.errors import DataError
from tests.integration.consumer.records.dead_letters.letters import dead_letter, last
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


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


@pytest.fixture
def remake(task: LoadTask, kafka: str) -> Callable[..., None]:
    """Creates the task's topic again, with these values in its first partition, all of one key."""

    def remake(*values: bytes) -> None:
        admin, topic = AdminClient({"bootstrap.servers": kafka}), task.task_id
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to go")
        create_topics(admin, NewTopic(topic, 2, 1))
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
