"""Dead letters of a task, and the records in its topic."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, TopicPartition

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letters import DeadLetter


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
