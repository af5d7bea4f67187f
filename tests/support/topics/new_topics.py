"""Makes Kafka topics."""

from functools import partial

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.waiting import wait_until


def create_topics(admin: AdminClient, *topics: NewTopic) -> None:
    """Returns when brokers know them: a moment after it has made a topic, a broker that has much to
    do says that there is none."""
    for made in admin.create_topics([*topics]).values():
        made.result(60)
    for topic in topics:
        wait_until(partial(_is_known, admin, topic.topic), f"topic {topic.topic}")


def _is_known(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(timeout=30).topics.get(topic)
    if found is None or found.error is not None:
        return False
    return all(each.leader >= 0 for each in found.partitions.values())
