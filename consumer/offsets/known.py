"""Collects what is known about where each partition resumes, and decides which of it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from cdcbus.plugins.contracts import NO_MARK, AppliedOffset, Landmark, Mark, PositionStore
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import TopicPartition, kafka_positions_from_json

Each = TypeVar("Each")
NOWHERE: Mapping[TopicPartition, int] = {}
NOTHING_PASSED: Mapping[TopicPartition, Landmark] = {}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about where a partition resumes: next offsets, None where unknown."""

    # From the position in ZooKeeper as it is now.
    node: int | None = None
    # From what the task itself last wrote to ZooKeeper.
    written: int | None = None
    # From the target.
    target: AppliedOffset | None = None
    # How far this process has read.
    reached: int | None = None
    # What the task noted along with `written`.
    mark: Mark = NO_MARK
    # The last record before `reached`.
    passed: Landmark | None = None
    # The last record before `written`.
    noted: Landmark | None = None
    # The target's offset was committed under the version that the node still has.
    is_noted: bool = False
    # Somebody has set the node to the text that it already had.
    is_set_again: bool = False
    # `written` is of a target of another kind.
    is_of_other: bool = False

    @property
    def is_edited(self) -> bool:
        """Whether somebody has set the node, and no batch has been applied from that offset yet. A
        command removes from `written` what it sets, so the two differ then."""
        if self.node is None or self.is_noted:
            return False
        return self.node != self.written or self.is_set_again

    @property
    def offset(self) -> int | None:
        """The next offset: of an edit, else of the target, else of this process, else of
        ZooKeeper."""
        if self.is_edited:
            return self.node
        if self.target is not None:
            return self.target.next_offset
        if self.reached is not None:
            return self.reached
        return self.in_zookeeper

    @property
    def last(self) -> Landmark | None:
        """The last record before `offset`, if the origin of the offset knows it. An edit has none:
        an operator who sets a position accepts the log as it is."""
        if self.is_edited:
            return None
        if self.target is not None:
            return self.target.details.last
        if self.reached is not None:
            return self.passed
        if self.in_zookeeper == self.written:
            return self.noted
        return None

    @property
    def in_zookeeper(self) -> int | None:
        """The node's offset; where the node was deleted, the one that the task had written."""
        return self.written if self.node is None else self.node

    @property
    def lost(self) -> tuple[int, int] | None:
        """The target's offset, and the one that it had by ZooKeeper or by this process, which knows
        a second more, where the target has lost commits that the task has made; otherwise None."""
        had = max((each for each in (self.written, self.reached) if each is not None), default=0)
        if self.target is None or self.is_edited or self.is_of_other:
            return None
        if self.target.next_offset >= had:
            return None
        return self.target.next_offset, had

    @property
    def is_replaced(self) -> bool:
        """Whether the target keeps offsets and has lost this partition's, or the task has written
        to a target of another kind: then the target, or its table, has been replaced."""
        if self.is_edited or self.target is not None:
            return False
        return (self.mark.is_kept or self.is_of_other) and self.written is not None

    def is_remade(self, topic_id: str) -> bool:
        """Whether the offset belongs to a topic with another id. An operator who sets the partition
        is taken to know the topic as it is now."""
        if not topic_id or self.is_edited:
            return False
        known_id = ""
        # Of the place that `offset` comes from: a restored ZooKeeper can name a former topic.
        if self.target is not None:
            known_id = self.target.details.topic_id
        if not known_id and self.written is not None:
            known_id = self.mark.topic_id
        return known_id not in ("", topic_id)

    def is_at_target_of(self, topic_id: str) -> bool:
        """Whether the target's offset belongs to the topic with this id."""
        if self.target is None or not topic_id:
            return False
        return self.target.details.topic_id == topic_id


def known_partitions(
    topic: str,
    text: str | None,
    store: PositionStore,
    targets: Mapping[TopicPartition, AppliedOffset],
    reached: Mapping[TopicPartition, int],
    passed: Mapping[TopicPartition, Landmark],
    target_kind: str = "",
) -> dict[TopicPartition, Known]:
    """Collects what node, task, target and process know about the topic's partitions. `text`: as
    loaded from the store; `target_kind`: as in Mark. Raises PositionError."""
    node = _stored(topic, text, store.path)
    mark = NO_MARK
    before: dict[int, int] = {}
    is_set_again = False
    if store.written is not None:
        mark = store.written.mark
        before = _stored(topic, store.written.position, store.path)
        # Only where all partitions agree; otherwise the differences show which were edited.
        is_same_text = node.items() <= before.items()
        is_set_again = is_same_text and not store.is_own
        # Of partitions that it did not read, the task has kept what an operator has set. Those that
        # a command has set since are not named any more.
        for number in before.keys() & mark.unread.keys():
            own = mark.unread[number]
            if own is None:
                del before[number]
            else:
                before[number] = own

    is_of_other = bool(mark.target and target_kind) and mark.target != target_kind
    numbers = {*node, *before, *of_topic(topic, targets), *of_topic(topic, reached)}
    known: dict[TopicPartition, Known] = {}
    for number in numbers:
        partition = TopicPartition(topic, number)
        target = targets.get(partition)
        may_be_outrun = not (mark.is_committed or is_of_other)
        if target and may_be_outrun and _is_outrun(target, before.get(number), store):
            target = None
        known[partition] = Known(
            node=node.get(number),
            written=before.get(number),
            target=target,
            reached=reached.get(partition),
            mark=mark,
            passed=passed.get(partition),
            noted=mark.last.get(number),
            is_noted=target is not None and target.position_version == store.position_version,
            is_set_again=is_set_again,
            is_of_other=is_of_other,
        )
    return known


def without_former(
    known: Mapping[TopicPartition, Known], topic_id: str
) -> dict[TopicPartition, Known]:
    """What is known of a topic's partitions, without those of which only the target still has the
    offset in a former topic, while it has others in this one: the topic was made anew with fewer
    partitions, and these were added since."""
    if not any(each.is_at_target_of(topic_id) for each in known.values()):
        return dict(known)
    rest: dict[TopicPartition, Known] = {}
    for partition, each in known.items():
        is_elsewhere = each.in_zookeeper is not None or each.reached is not None
        if is_elsewhere or not each.is_remade(topic_id):
            rest[partition] = each
    return rest


def _is_outrun(target: AppliedOffset, written: int | None, store: PositionStore) -> bool:
    """Whether the target's offset is from before the task went on without committing any there. It
    is not if ZooKeeper was restored from an older copy: then it is further, by a later position."""
    if written is None:
        return False
    return target.next_offset < written or target.position_version < store.position_version


def _stored(topic: str, text: str | None, path: str) -> dict[int, int]:
    """The next offsets in a stored position, by partition number. Raises PositionError."""
    if text is None or text == "[]":
        return {}
    found: dict[int, int] = {}
    try:
        for position in kafka_positions_from_json(text):
            if position.topic != topic:
                raise PositionError(f"it names topic {position.topic}, the task reads {topic}")
            found[position.partition] = position.next_offset
    except PositionError as error:
        raise PositionError(f"{path} holds no usable position: {error}") from error
    return found


def of_topic(topic: str, of_partitions: Mapping[TopicPartition, Each]) -> dict[int, Each]:
    """What belongs to a topic's partitions, by partition number."""
    return {
        partition.partition: each
        for partition, each in of_partitions.items()
        if partition.topic == topic
    }
