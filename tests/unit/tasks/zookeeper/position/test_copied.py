"""What a copy of a task is taken to have written itself."""

from __future__ import annotations

import pytest

from cdcbus.consumer.offsets.known import Known, known_partitions
from cdcbus.plugins.contracts import Landmark, Mark, Written
from cdcbus.plugins.positions import (
    BinlogPosition,
    KafkaPosition,
    kafka_positions_to_json,
)
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from cdcbus.tasks.zookeeper.position.copied import written_by_copy

LAST = Landmark(9, 1)
MARK = Mark(True, "a", {0: LAST}, is_committed=False, target="mysql", rules={"k": "d"})


def at(**next_offsets: int) -> str:
    """By `pN`."""
    return kafka_positions_to_json(
        KafkaPosition("t", int(name[1:]), each - 1) for name, each in next_offsets.items()
    )


def copied(node: MemoryNode) -> tuple[Written, dict[int, Known]]:
    """What the copy has written, and what is known of it at its start."""
    store = MemoryPositions(node)
    text = store.load()
    assert text is not None
    own = written_by_copy("t", text, store)
    copy = MemoryNode()
    copy.write(Written(text))
    # Both are made in one transaction.
    copy.written = own
    store = MemoryPositions(copy)
    known = known_partitions("t", store.load(), store, {}, {}, {}, "postgresql")
    return own, {partition.partition: each for partition, each in known.items()}


def written(position: str, mark: Mark = MARK) -> MemoryNode:
    node = MemoryNode()
    node.write(Written(position, mark))
    return node


def test_a_copy_knows_of_which_topic_its_position_is_and_no_target_that_has_it() -> None:
    own, known = copied(written(at(p0=10, p1=20)))
    assert own.mark == Mark(topic_id="a", last={0: LAST}, rules={"k": "d"})
    assert [known[0].offset, known[1].offset, known[0].last] == [10, 20, LAST]
    for each in known.values():
        assert (each.is_remade("a"), each.is_remade("b"), each.is_replaced) == (False, True, False)


@pytest.mark.parametrize(
    ("text", "edited"), [(at(p0=3, p1=20), {0}), (at(p0=10, p1=20), {0, 1}), (at(p1=20), {1})]
)
def test_what_somebody_has_set_is_set_for_the_copy(text: str, edited: set[int]) -> None:
    node = written(at(p0=10, p1=20))
    node.set(text.encode())
    _, known = copied(node)
    assert {number for number, each in known.items() if each.is_edited} == edited


def test_partitions_that_are_not_read_stay_whose_they_are() -> None:
    node = written(at(p0=10, p1=20, p2=30), Mark(topic_id="a", unread={1: None, 2: 30}))
    _, known = copied(node)
    assert {number: each.is_edited for number, each in known.items()} == {
        0: False,
        1: True,
        2: False,
    }


def test_a_task_of_an_earlier_version_is_copied_as_if_it_had_written_its_position() -> None:
    node = MemoryNode()
    node.set(at(p0=10).encode())
    own, known = copied(node)
    assert (own.position, known[0].is_edited) == (at(p0=10), False)


def test_a_copy_of_a_binlogs_position_keeps_what_the_task_wrote_itself() -> None:
    before, now = BinlogPosition("bin.1", 4).to_json(), BinlogPosition("bin.2", 4).to_json()
    node = written(before, Mark(rules={"k": "d"}))
    node.set(now.encode())
    store = MemoryPositions(node)
    text = store.load()
    assert text is not None
    assert written_by_copy("lane", text, store) == Written(before, Mark(rules={"k": "d"}))


def test_a_position_that_is_of_no_topic_any_more_is_left_to_the_start() -> None:
    node = written(at(p0=10))
    node.set(b"junk")
    store = MemoryPositions(node)
    assert written_by_copy("t", store.load() or "", store).position == at(p0=10)
