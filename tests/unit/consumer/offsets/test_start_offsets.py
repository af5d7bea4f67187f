"""Which partitions of a topic a task reads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.held import HeldOffsets
from cdcbus.consumer.offsets.known import Known, known_partitions
from cdcbus.consumer.offsets.start_offsets import Starts, starting_offsets
from cdcbus.consumer.offsets.topic_logs import TopicLogs, chosen_partitions
from cdcbus.plugins.contracts import AppliedOffset, Details, JdbcTarget, Landmark, Mark, Written
from cdcbus.plugins.errors import ConfigError, TopicRemade
from cdcbus.plugins.positions import KafkaPosition, TopicPartition, kafka_positions_to_json
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions


@pytest.mark.parametrize(("chosen", "read"), [((), [0, 1, 2]), ((1,), [1]), ((0, 2), [0, 2])])
def test_chosen_partitions_are_read_else_all(chosen: tuple[int, ...], read: list[int]) -> None:
    assert list(chosen_partitions(TopicConfig("k:1", ("t",), chosen), "t", [0, 1, 2])) == read


@pytest.mark.parametrize(("chosen", "missing"), [((3,), "3"), ((0, 3, 7), "3, 7")])
def test_those_that_the_topic_lacks_are_told_with_those_that_it_has(
    chosen: tuple[int, ...], missing: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        chosen_partitions(TopicConfig("k:1", ("t",), chosen), "t", [0, 1, 2])
    assert (
        str(refused.value)
        == f"consumer.source.partition: topic t has no partition {missing}, only 0 to 2"
    )


def there(next_offset: int, topic_id: str = "") -> AppliedOffset:
    return AppliedOffset("t", 0, next_offset, 1, details=Details(topic_id))


@pytest.mark.parametrize(
    ("known", "offset"),
    [
        (Known(node=10, written=10, target=there(12)), 12),
        (Known(node=10, written=10, target=there(5)), 5),
        (Known(node=4, written=10, target=there(12)), 4),
        # set by a command, or a tree of an earlier version
        (Known(node=4, written=None, target=there(12)), 4),
        (Known(node=10, written=10, target=there(12), is_set_again=True), 10),
        # a version without `written`
        (Known(node=10, written=None, target=there(12), is_noted=True), 12),
        (Known(written=10, target=there(12)), 12),
        (Known(written=10), 10),
        (Known(node=10, written=10, reached=11), 11),
        (Known(written=10, reached=11), 11),
        (Known(node=4, written=10, reached=11), 4),
        (Known(target=there(12), reached=11), 12),
    ],
)
def test_an_edit_holds_else_the_target_else_the_process_else_zookeeper(
    known: Known, offset: int
) -> None:
    assert known.offset == offset


@pytest.mark.parametrize(
    ("is_committed", "reached", "version", "offset"),
    [
        (False, 5, 1, 10),
        # Somebody has set it back meanwhile.
        (False, 12, 1, 10),
        # The tree was copied to another ensemble, where versions are lower.
        (False, 5, 7, 10),
        # ZooKeeper was restored from a copy of before offsets were committed again.
        (False, 12, 7, 12),
        (True, 5, 1, 5),
    ],
)
def test_what_the_target_has_from_before_offsets_were_not_committed_there_does_not_count(
    is_committed: bool, reached: int, version: int, offset: int
) -> None:
    node = MemoryNode()
    for _ in range(5):
        node.set(b"")
    position = kafka_positions_to_json([KafkaPosition("t", 0, 9)])
    node.write(Written(position, Mark(is_committed=is_committed)))
    store = MemoryPositions(node)
    partition = TopicPartition("t", 0)
    target = AppliedOffset("t", 0, reached, version)
    found = known_partitions("t", store.load(), store, {partition: target}, {}, {})
    assert found[partition].offset == offset


@pytest.mark.parametrize(
    ("before", "now", "offset", "is_replaced"),
    [
        ("kafka", "mysql", 5, True),
        ("mysql", "mysql", 10, False),
        # An earlier version did not say it.
        ("", "mysql", 10, False),
    ],
)
def test_what_was_written_to_a_target_of_another_kind_is_not_in_this_one(
    before: str, now: str, offset: int, is_replaced: bool
) -> None:
    node = MemoryNode()
    position = kafka_positions_to_json([KafkaPosition("t", 0, 9)])
    node.write(Written(position, Mark(is_committed=False, target=before)))
    store = MemoryPositions(node)
    partition = TopicPartition("t", 0)
    text = store.load()
    empty = known_partitions("t", text, store, {}, {}, {}, now)[partition]
    assert empty.is_replaced == is_replaced
    has_some = known_partitions("t", text, store, {partition: there(5)}, {}, {}, now)[partition]
    assert (has_some.offset, has_some.lost, has_some.is_replaced) == (offset, None, False)


@pytest.mark.parametrize(
    ("known", "lost"),
    [
        (Known(node=10, written=10, target=there(4)), (4, 10)),
        (Known(node=10, written=10, target=there(10)), None),
        # Committed since ZooKeeper was last written, as a standby that is a second late lacks it.
        (Known(node=10, written=10, target=there(10), reached=12), (10, 12)),
        (Known(node=10, written=10, target=there(12), reached=12), None),
        # An operator has set it, or another target has it.
        (Known(node=4, written=10, target=there(6), reached=12), None),
        (Known(node=10, written=10, target=there(4), reached=12, is_of_other=True), None),
    ],
)
def test_commits_are_lost_that_zookeeper_or_this_process_knows(
    known: Known, lost: tuple[int, int] | None
) -> None:
    assert known.lost == lost


KEPT = Mark(True, "a")


@pytest.mark.parametrize(
    ("known", "is_replaced"),
    [
        (Known(node=10, written=10, mark=KEPT), True),
        (Known(written=10, mark=KEPT), True),
        (Known(node=4, written=10, mark=KEPT), False),
        (Known(node=10, written=10, mark=Mark(False)), False),
        (Known(node=10, written=10, mark=KEPT, target=there(0)), False),
        (Known(node=10), False),
        # Topics before, a database now.
        (Known(node=10, written=10, mark=Mark(False), is_of_other=True), True),
        (Known(node=4, written=10, mark=Mark(False), is_of_other=True), False),
        (Known(node=10, written=10, target=there(2), is_of_other=True), False),
    ],
)
def test_a_target_that_should_know_a_partition_and_does_not_is_another_one(
    known: Known, is_replaced: bool
) -> None:
    assert known.is_replaced == is_replaced


@pytest.mark.parametrize(
    ("known", "topic_id", "is_remade"),
    [
        (Known(node=10, written=10, mark=KEPT), "b", True),
        (Known(node=10, written=10, mark=KEPT), "a", False),
        (Known(node=10, written=10, mark=KEPT), "", False),  # Kafka does not tell
        (Known(node=10, written=10), "b", False),
        (Known(target=there(10, "a")), "b", True),
        # an older state of the target
        (Known(node=10, written=10, mark=Mark(True, "b"), target=there(10, "a")), "b", True),
        # the node was set, but not for this partition
        (Known(node=10, written=10, mark=KEPT, target=there(12, "a")), "b", True),
        (Known(written=10, mark=KEPT), "b", True),
        (Known(node=0, written=10, mark=KEPT, target=there(12, "a")), "b", False),
        # a copy of ZooKeeper from before the topic was created again
        (Known(node=10, written=10, mark=KEPT, target=there(12, "b")), "b", False),
    ],
)
def test_a_topic_is_another_one_by_its_id_unless_somebody_has_set_the_partition(
    known: Known, topic_id: str, is_remade: bool
) -> None:
    assert known.is_remade(topic_id) == is_remade


A, B, C = Landmark(9, 1), Landmark(9, 2), Landmark(9, 3)


@pytest.mark.parametrize(
    ("known", "last"),
    [
        (Known(node=10, written=10, noted=A), A),
        (Known(written=10, noted=A), A),
        (Known(node=10, noted=A), None),
        (Known(node=10, written=10, noted=A, reached=11, passed=B), B),
        (
            Known(
                node=10,
                written=10,
                noted=A,
                target=replace(there(12), details=Details(last=C)),
                reached=11,
                passed=B,
            ),
            C,
        ),
        (Known(node=10, written=10, noted=A, target=there(12)), None),  # of an earlier version
        (Known(node=4, written=10, noted=A), None),
        (Known(node=10, written=10, noted=A, is_set_again=True), None),
    ],
)
def test_the_last_record_is_what_whoever_says_the_offset_knows_and_an_edit_knows_none(
    known: Known, last: Landmark | None
) -> None:
    assert known.last == last


class Logs:
    """A topic with these partitions, which hold the offsets 0 to 100; as TopicLogs."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = [*numbers]

    def partitions(self, _: str) -> list[int]:
        return self.numbers

    def bounds(self, _: TopicPartition) -> tuple[int, int]:
        return 0, 100


def resume(
    node: MemoryNode,
    logs: Logs,
    read: tuple[int, ...] = (),
    applied: Sequence[AppliedOffset] = (),
) -> Starts:
    source = TopicConfig("k:1", ("t",), read)
    task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget("jdbc:postgresql://h/d"))
    return starting_offsets(task, cast(TopicLogs, logs), {"t": MemoryPositions(node)}, applied)


def at(*next_offsets: int) -> str:
    return kafka_positions_to_json(
        KafkaPosition("t", number, each - 1) for number, each in enumerate(next_offsets)
    )


def test_partitions_that_are_not_read_are_kept_while_the_topic_has_them() -> None:
    node = MemoryNode()
    node.write(Written(at(10, 20, 30), Mark()))
    assert resume(node, Logs(0, 1, 2), read=(0,)).unread == {
        TopicPartition("t", 1): 20,
        TopicPartition("t", 2): 30,
    }
    # It was made anew with fewer, and the others are set.
    node.set(at(0, 0).encode())
    starts = resume(node, Logs(0, 1), read=(0,))
    assert (starts.unread, starts.unread_written) == (
        {TopicPartition("t", 1): 0},
        {TopicPartition("t", 1): 20},
    )


def resume_in(
    topic_id: str, node: MemoryNode, *applied: AppliedOffset
) -> dict[TopicPartition, int]:
    """A topic with two partitions."""
    source = TopicConfig("k:1", ("t",))
    task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget("jdbc:postgresql://h/d"))
    logs = cast(TopicLogs, Logs(0, 1))
    ids = {"t": topic_id}
    return starting_offsets(task, logs, {"t": MemoryPositions(node)}, applied, ids).offsets


FORMER = AppliedOffset("t", 1, 20, 1, details=Details("a"))


def test_a_partition_that_a_former_topic_had_too_is_new_in_this_one() -> None:
    node = MemoryNode()
    node.write(Written(at(10), Mark(True, "b")))
    assert resume_in("b", node, there(10, "b"), FORMER) == {
        TopicPartition("t", 0): 10,
        TopicPartition("t", 1): 0,
    }


@pytest.mark.parametrize("topic_id", ["b", "c"])
def test_a_partition_of_a_former_topic_is_not_read_where_the_task_has_read_it_since(
    topic_id: str,
) -> None:
    node = MemoryNode()
    # By the task, which has not read it in the present topic; or no partition is of that.
    node.write(Written(at(10, 20) if topic_id == "b" else at(10), Mark(True, "b")))
    with pytest.raises(TopicRemade):
        resume_in(topic_id, node, there(10, "b"), FORMER)


LOADING = AppliedOffset("t", 0, 10, 0, 1, Details(loading_from=10))


@pytest.mark.parametrize("is_known", [False, True])
def test_a_target_that_a_direct_load_has_filled_by_half_is_not_followed(is_known: bool) -> None:
    node = MemoryNode()
    if is_known:
        node.write(Written(at(10), Mark(True)))
    with pytest.raises(ConfigError, match=r"snapshot run 7 --direct; .* offset reset 7 --to PLACE"):
        resume(node, Logs(0), applied=[LOADING])
    # An operator goes without the rows.
    node.set(at(10).encode())
    assert resume(node, Logs(0), applied=[LOADING]).offsets == {TopicPartition("t", 0): 10}


def test_a_load_that_another_version_has_finished_is_over() -> None:
    node = MemoryNode()
    node.write(Written(at(12), Mark(True)))
    assert resume(node, Logs(0), applied=[replace(LOADING, next_offset=12)]).offsets == {
        TopicPartition("t", 0): 12
    }


def test_what_a_direct_load_has_noted_holds_until_the_next_take_over() -> None:
    held = HeldOffsets()
    held.set([replace(LOADING, details=replace(LOADING.details, others='{"a":1}'))])
    assert held.taken_over(LOADING).details == Details(others='{"a":1}', loading_from=10)
    assert held.taken_over(AppliedOffset("t", 0, 10, 3)).details == Details(others='{"a":1}')


def test_details_keep_what_they_do_not_know() -> None:
    text = '{"a":[1],"loadingFrom":7,"last":[41,1700000000000],"topicId":"x"}'
    details = Details.from_json(text)
    assert details.topic_id == "x"
    assert json.loads(details.to_json()) == json.loads(text)
    assert details.last == Landmark(41, 1700000000000)
    assert hash(details) == hash(
        Details.from_json('{"topicId":"x", "loadingFrom":7, "a":[1], "last":[41, 1700000000000]}')
    )
    assert [
        Details.from_json(damaged)
        for damaged in (None, "", "[]", "{", '{"topicId":7}', '{"last":[1]}')
    ] == [Details()] * 6
