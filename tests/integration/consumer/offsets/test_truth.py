"""Whose position is true: what a start makes of what target, ZooKeeper and Kafka say, on the
real ones, without Spark."""

from __future__ import annotations

import logging
from dataclasses import replace

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from cdcbus.consumer.batch import batch_applier
from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.progress import Progress
from cdcbus.plugins.errors import (
    NoPosition,
    OffsetConflict,
    TargetReplaced,
)
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Edge
from cdcbus.tasks.zookeeper.position.history import positions_of, set_positions
from cdcbus.tasks.zookeeper.position.znodes import written_path
from tests.integration.consumer.offsets.world import (
    RECORDS,
    World,
    once,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_a_target_that_is_ahead_of_zookeeper_is_believed(world: World) -> None:
    world.start().apply(10, 20, 30).apply(11, 21, 31, saves=False)
    assert world.stored() == {0: 10, 1: 20, 2: 30}
    assert world.offsets() == [11, 21, 31]


def test_a_target_restored_to_an_older_state_gets_what_it_has_lost_and_it_is_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = world.start().apply(10, 20, 30)
    world.sql("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.cdcbus_position")
    world.sql("CREATE TABLE {schema}.kept_rows AS SELECT * FROM {schema}.seen")
    process.apply(50, 50, 50)
    for table, kept in (("cdcbus_position", "kept"), ("seen", "kept_rows")):
        world.sql(f"DELETE FROM {{schema}}.{table}")
        world.sql(f"INSERT INTO {{schema}}.{table} SELECT * FROM {{schema}}.{kept}")
    again, progress = world.start(), Progress()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):  # as a start looks twice
            progress.lose(world.task.task_id, again.lost)
    assert [*again.offsets.values()] == [10, 20, 30]
    assert again.lost == {
        (world.task.task_id, 1): (20, 50),
        TopicPartition(world.task.task_id, 0): (10, 50),
        (world.task.task_id, 2): (30, 50),
    }
    assert (
        caplog.text.count(
            f"the target has lost commits, as after a restore: it has {world.task.task_id}[0] up "
            "to offset 10"
        )
        == 1
    )
    again.apply(RECORDS, RECORDS, RECORDS)
    assert world.rows() == once(RECORDS, RECORDS, RECORDS)
    assert world.start().lost == {}


def test_commits_of_a_quiet_partition_that_the_target_of_a_running_task_loses_are_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its address leads to another server, which lacks the last commits."""
    process, quiet = world.start().apply(10, 20, 30), TopicPartition(world.task.task_id, 2)
    world.sql("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.cdcbus_position")
    process.apply(10, 20, 50)
    monkeypatch.setattr(batch_applier, "COMPARE_SECONDS", 0.0)
    progress = Progress(next_offsets=process.offsets)
    batches = BatchApplier(world.task, process.applier, process.positions, progress, lambda _: None)
    for _ in range(3):
        batches.look_around()
    world.sql("DELETE FROM {schema}.seen WHERE p = 2 AND o >= 30")
    world.sql("DELETE FROM {schema}.cdcbus_position WHERE {schema}.cdcbus_position.partition = 2")
    world.sql(
        "INSERT INTO {schema}.cdcbus_position SELECT * FROM {schema}.kept WHERE "
        "{schema}.kept.partition = 2"
    )
    process.apply(40)
    progress.next_offsets = process.offsets
    with pytest.raises(OffsetConflict, match=r"no longer holds offset 50 of .*\[2\].* but 30"):
        batches.look_around()
    batches.close()
    assert [*process.take_over().offsets.values()] == [40, 20, 30]
    assert process.lost == {quiet: (30, 50)}
    process.apply(RECORDS, RECORDS, RECORDS)
    assert world.rows() == once(RECORDS, RECORDS, RECORDS)


@pytest.mark.parametrize("is_new_process", [True, False])
def test_a_partition_that_was_added_and_is_still_empty_is_not_taken_for_a_lost_one(
    world: World, is_new_process: bool
) -> None:
    process, topic = world.start().apply(10, 20, 30), world.task.task_id
    admin = AdminClient({"bootstrap.servers": world.kafka})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    progress = Progress(next_offsets=process.offsets)
    batches = BatchApplier(world.task, process.applier, process.positions, progress, lambda _: None)
    wait_until(
        lambda: len(admin.list_topics(topic).topics[topic].partitions) == 4, "it to be there"
    )
    batches.scatter({TopicPartition(topic, 3): 0})
    batches.close()
    process.positions.save(progress.next_offsets)
    process.offsets = dict(progress.next_offsets)
    if is_new_process:
        process = world.start()
    else:
        process.take_over()
    assert [*process.offsets.values()] == [10, 20, 30, 0]
    world.sql("DELETE FROM {schema}.cdcbus_position WHERE {schema}.cdcbus_position.partition = 3")
    with pytest.raises(TargetReplaced):
        world.start()


def test_what_is_set_of_a_partition_while_it_is_not_read_counts_once_it_is(world: World) -> None:
    world.start().apply(10, 20, 30)
    some = replace(world.task.source, partitions=(0, 1))
    world.start(source=some)
    world.client.set(world.path, world.text(p0=10, p1=20, p2=25))
    world.start(source=some).apply(11, 21)
    assert world.stored() == {0: 11, 1: 21, 2: 25}
    assert world.offsets(source=replace(some, partitions=())) == [11, 21, 25]


def test_a_partition_that_an_operator_set_before_it_was_ever_read_is_read_from_there(
    world: World,
) -> None:
    some = replace(world.task.source, partitions=(0, 1))
    world.client.create(world.path, world.text(p0=10, p1=20, p2=25), makepath=True)
    world.start(source=some).apply(11, 21)
    world.start(source=some).apply(12, 22)
    assert world.offsets(source=replace(some, partitions=())) == [12, 22, 25]


@pytest.mark.parametrize("table_is_there", [True, False])
def test_a_target_replaced_by_an_empty_one_is_refused_until_a_position_is_set(
    world: World, table_is_there: bool
) -> None:
    world.start().apply(10, 20, 30)
    world.sql("DELETE FROM {schema}.seen")
    if table_is_there:
        world.sql("DELETE FROM {schema}.cdcbus_position")
    else:
        world.sql("DROP TABLE {schema}.cdcbus_position")
    with pytest.raises(
        TargetReplaced,
        match=rf"committed up to 10 there.*cdcbus offset reset {world.task.task_id} --to PLACE",
    ):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    world.start().apply(RECORDS, RECORDS, RECORDS)
    assert world.rows() == once(RECORDS, RECORDS, RECORDS)


def test_a_target_that_keeps_no_offsets_goes_on_from_zookeeper_and_so_it_does_once_it_keeps_them(
    world: World,
) -> None:
    world.start().apply(10, 20, 30)
    for mark in (b'"isKept":false', b'"isKept":true'):
        path = written_path(world.task.task_id, world.task.task_id)
        data = world.client.get(path)[0]
        if b"false" in mark:
            transaction = world.client.transaction()
            transaction.set_data(path, data.replace(b'"isKept":true', mark))
            transaction.set_data(world.path, world.client.get(world.path)[0])
            transaction.commit()
            world.sql("DELETE FROM {schema}.cdcbus_position")
        assert world.offsets() == [10, 20, 30]


def test_a_target_of_another_kind_that_has_nothing_is_refused_until_a_position_is_set(
    world: World,
) -> None:
    """As after a task from Kafka to Kafka was given a database under the same id."""
    world.start().apply(10, 20, 30)
    fields = orjson.loads(world.client.get(world.written)[0])
    kind = fields["target"]

    def as_of_topics(text: bytes) -> None:
        fields.update(position=text.decode(), isKept=False, isCommitted=False, target="kafka")
        transaction = world.client.transaction()
        transaction.set_data(world.written, orjson.dumps(fields))
        transaction.set_data(world.path, text)
        transaction.commit()

    as_of_topics(world.text(p0=40, p1=40, p2=40))
    assert world.offsets() == [10, 20, 30]  # what this one has
    as_of_topics(world.text(p0=40, p1=40, p2=40))
    world.sql("DELETE FROM {schema}.cdcbus_position")
    with pytest.raises(
        TargetReplaced,
        match=rf"of another kind \({kind}\) .* before offset 40 of .*\[0\] \(kafka, by /datas",
    ):
        world.start()
    world.client.set(world.path, world.text(p0=0, p1=0, p2=0))
    assert world.offsets() == [0, 0, 0]


@pytest.mark.parametrize("rule", [Edge.EARLIEST, Edge.LATEST])
@pytest.mark.parametrize("is_tree_lost", [True, False])
def test_a_start_rule_is_for_the_first_start_only(
    world: World, rule: Edge, is_tree_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world.start(first_consume_from=rule)
    world.client.set(world.path, world.text(p0=10, p1=20, p2=30))
    world.start()
    world.client.delete(
        f"/datas/task/{world.task.task_id}" if is_tree_lost else world.path, recursive=True
    )
    with caplog.at_level(logging.WARNING):
        assert world.offsets() == [10, 20, 30]
    assert "was deleted; the task resumes where it was" in caplog.text


def test_a_node_deleted_under_a_running_task_is_written_again(world: World) -> None:
    process = world.start().apply(10, 20, 30)
    world.client.delete(world.path)
    wait_until(lambda: process.positions.edit() is not None, "it to be noticed")
    assert [*process.take_over().offsets.values()] == [10, 20, 30]
    assert world.stored() == {0: 10, 1: 20, 2: 30}


def test_without_any_knowledge_but_that_it_has_run_a_task_refuses(world: World) -> None:
    world.start().apply(10, 20, 30)
    before = positions_of(world.client, world.task.task_id)
    topic = world.task.task_id
    set_positions(
        world.client, topic, {topic: world.text(p0=1, p1=1, p2=1).decode()}, before, "me", "test"
    )
    for path in (world.path, written_path(topic, topic)):
        world.client.delete(path)
    world.sql("DELETE FROM {schema}.cdcbus_position")
    with pytest.raises(
        NoPosition, match=rf"has run before, as /datas/task/{topic}/history/{topic} shows"
    ):
        world.start()
