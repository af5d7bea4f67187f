"""How the topics of a task are reached, for those who look into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdcbus.plugins.kafka.topic_log import Access, access_to

if TYPE_CHECKING:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.producer.config import FetchTask


def access_of(task: FetchTask | LoadTask) -> Access:
    """How a task reaches Kafka, and how its records are read."""
    from cdcbus.consumer.config import LoadTask

    if isinstance(task, LoadTask):
        return Access(
            task.source.servers, task.source.look_up_options, task.converter, task.time_zone
        )
    return access_to(task.publish)
