"""The offset that the target is known to hold for each partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdcbus.plugins.contracts import AppliedOffset, Landmark
from cdcbus.plugins.positions import TopicPartition


def by_partition(offsets: Iterable[AppliedOffset]) -> dict[TopicPartition, AppliedOffset]:
    return {offset.topic_partition: offset for offset in offsets}


class HeldOffsets:
    """The offsets in the target, as far as they are known. A transaction that finds another offset
    of its partition in the target is undone."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, AppliedOffset] = {}
        self._at_last_look: dict[TopicPartition, AppliedOffset] = {}

    def set(self, offsets: Iterable[AppliedOffset]) -> None:
        """Replaces all offsets: the target holds these, and no others."""
        # A new dict, not a cleared one, as threads of other partitions read it meanwhile.
        self.by_partition = by_partition(offsets)

    def get(self, partition: TopicPartition) -> AppliedOffset | None:
        """The partition's offset; None: the target holds none."""
        return self.by_partition.get(partition)

    def next_offsets(self) -> list[tuple[TopicPartition, int]]:
        """The next offset of each partition, as a copy: threads of other partitions can change the
        offsets meanwhile."""
        copied = list(self.by_partition.items())
        return [(partition, held.next_offset) for partition, held in copied]

    def quiet(self) -> dict[TopicPartition, AppliedOffset]:
        """The offsets that are the same as at the last call. Not while partitions are applied."""
        before = self._at_last_look
        self._at_last_look = dict(self.by_partition)
        return {
            partition: held
            for partition, held in self.by_partition.items()
            if held == before.get(partition)
        }

    def after(
        self,
        partition: TopicPartition,
        end_offset: int,
        position_version: int,
        last: Landmark | None,
    ) -> AppliedOffset:
        """The offset to store for a partition that has been applied up to `end_offset`, in its
        present epoch. `last`: the last record before `end_offset`, None where none was read."""
        held = self.get(partition) or AppliedOffset(*partition, 0, 0)
        details = replace(held.details, last=last or held.details.last)
        return replace(
            held, next_offset=end_offset, position_version=position_version, details=details
        )

    def taken_over(self, offset: AppliedOffset) -> AppliedOffset:
        """The offset to store for a partition that is taken over at `offset`."""
        held = self.get(offset.topic_partition)
        if held is None:
            return replace(offset, epoch=1)
        topic_id = offset.details.topic_id or held.details.topic_id
        return replace(
            offset,
            epoch=held.epoch,
            details=replace(
                held.details,
                topic_id=topic_id,
                last=offset.details.last,
                loading_from=offset.details.loading_from,
            ),
        )
