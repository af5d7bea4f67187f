"""Topics that were deleted and created again: what was known of them counts no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from cdcbus.consumer.offsets import topic_identity
from cdcbus.consumer.offsets.topic_identity import TopicIdentity
from cdcbus.plugins.errors import TopicRemade
from cdcbus.tasks.control.reset import find_targets, set_numbers
from cdcbus.tasks.zookeeper.position.history import positions_of, set_positions
from tests.integration.consumer.offsets.world import World
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


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


def test_a_topic_made_anew_of_which_nothing_was_read_may_have_had_records(world: World) -> None:
    assert world.offsets() == [0, 0, 0]
    world.remake_topic()
    with pytest.raises(TopicRemade, match=r"up to offset 0 of .* not read are lost"):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    assert world.offsets() == [0, 0, 0]


def test_a_topic_made_anew_with_fewer_partitions_is_refused(world: World) -> None:
    world.start().apply(0, 20, 0)
    world.remake_topic(partitions=1)
    with pytest.raises(TopicRemade, match="was deleted and created again"):
        world.start()


def reset(world: World, word: str) -> None:
    """As `cdcbus offset reset` does."""
    task_id = world.task.task_id
    before = positions_of(world.client, task_id)
    targets = find_targets(world.task, word, before)
    texts = {topic: target.text for topic, target in targets.items()}
    numbers = set_numbers(target.numbers for target in targets.values())
    set_positions(world.client, task_id, texts, before, "me", "test", numbers)


def test_after_a_reset_a_topic_made_anew_with_fewer_partitions_is_read(world: World) -> None:
    world.start().apply(0, 20, 0)
    world.remake_topic(partitions=1)
    reset(world, "earliest")
    assert world.stored() == {0: 0}
    assert world.offsets() == [0]
    # What the task itself had written of the others is gone as well.
    assert world.stored() == {0: 0}
    assert world.offsets() == [0]


def test_partitions_that_are_added_again_to_a_topic_made_anew_are_read_from_their_beginning(
    world: World,
) -> None:
    world.start().apply(0, 20, 0)
    world.remake_topic(partitions=1)
    reset(world, "earliest")
    world.start().apply(0)
    topic, admin = world.task.task_id, AdminClient({"bootstrap.servers": world.kafka})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    wait_until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3,
        "the partitions",
    )
    assert world.offsets() == [0, 0, 0]
    assert world.offsets() == [0, 0, 0]


def test_a_reset_leaves_partitions_that_the_task_does_not_read_to_the_target(
    world: World,
) -> None:
    everything = world.task.source
    process = world.start().apply(10, 20, 30)
    world.task = replace(world.task, source=replace(everything, partitions=(0,)))
    # Further than its copy in ZooKeeper.
    process.apply(10, 25, 30, saves=False)
    reset(world, "earliest")
    assert world.offsets() == [0]
    assert world.offsets(source=everything) == [0, 25, 30]


def test_a_topic_made_anew_under_a_running_task_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_identity, "LOOK_SECONDS", 0.0)
    world.start().apply(10, 20, 30)
    identity = TopicIdentity(world.task, topic_identity.topic_ids(world.task.source))
    assert identity.look() is None
    world.remake_topic()
    assert "was deleted and created again under the running task" in str(identity.look())
