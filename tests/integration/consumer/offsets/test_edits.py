"""Positions that operators set, partition by partition, and copies of them that are no edits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.history import positions_of, set_positions
from cdcbus.tasks.zookeeper.position.znodes import written_path
from tests.integration.consumer.offsets.world import (
    Process,
    World,
)

pytestmark = pytest.mark.integration


def test_an_edit_of_one_partition_leaves_the_others_where_the_target_is(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    world.client.set(world.path, world.text(p0=10, p1=4, p2=30))
    assert world.offsets() == [15, 4, 35]
    assert world.offsets() == [15, 4, 35]  # taken over, it is the target's position


def test_partitions_that_an_edit_does_not_name_keep_their_place(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.client.set(world.path, world.text(p1=4))
    assert world.offsets() == [10, 4, 30]


def test_the_same_text_set_again_is_an_edit_of_all_that_it_names(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    world.client.set(world.path, world.client.get(world.path)[0])
    assert world.offsets() == [10, 20, 30]


def test_an_edit_by_command_that_names_what_is_there_already_holds(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    before = positions_of(world.client, world.task.task_id)
    text = world.client.get(world.path)[0].decode()
    set_positions(
        world.client,
        world.task.task_id,
        {world.task.task_id: text},
        before,
        "me",
        "test",
        partitions={1},
    )
    assert world.offsets() == [15, 20, 35]


def test_a_copy_of_the_tree_is_no_edit_and_one_set_there_is(world: World, zookeeper: str) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    copy = connect(f"{zookeeper}/{world.task.task_id}-copy")
    try:
        for path in (world.path, written_path(world.task.task_id, world.task.task_id)):
            copy.create(path, world.client.get(path)[0], makepath=True)
        world.client, kept = copy, world.client
        text = copy.get(world.path)[0]
        world.processes.append(process := Process(world))
        assert [*process.find_starts().offsets.values()] == [15, 25, 35]
        copy.set(world.path, text)
        assert world.offsets() == [10, 20, 30]
    finally:
        world.client = kept
        while len(world.processes) > 1:
            world.processes.pop().end()
        copy.stop()
        copy.close()


def test_a_run_of_one_partition_leaves_the_others_where_they_are(world: World) -> None:
    world.start().apply(10, 20, 30).apply(15, 25, 35, saves=False)
    assert world.offsets(source=replace(world.task.source, partitions=(1,))) == [25]
    assert world.stored() == {0: 10, 1: 25, 2: 30}
    assert world.offsets(source=replace(world.task.source, partitions=())) == [15, 25, 35]


def test_an_old_tree_and_table_go_on_as_before_where_the_numbers_agree(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.client.delete(written_path(world.task.task_id, world.task.task_id))
    world.sql("ALTER TABLE {schema}.cdcbus_position DROP COLUMN epoch")
    world.sql("ALTER TABLE {schema}.cdcbus_position DROP COLUMN details")
    mzxid = world.client.get(world.path)[1].mzxid
    world.sql(
        f"UPDATE {{schema}}.cdcbus_position SET next_offset = next_offset + 1, mzxid = {mzxid}"
    )
    assert world.offsets() == [11, 21, 31]
    assert world.offsets() == [11, 21, 31]


def test_an_old_tree_s_edit_holds_and_no_alarm_is_raised(world: World) -> None:
    world.start().apply(10, 20, 30)
    world.client.delete(written_path(world.task.task_id, world.task.task_id))
    world.sql("UPDATE {schema}.cdcbus_position SET mzxid = 1")
    world.client.set(world.path, world.text(p0=40, p1=2))
    process = world.start()
    assert ([*process.offsets.values()], process.lost) == ([40, 2, 30], {})
