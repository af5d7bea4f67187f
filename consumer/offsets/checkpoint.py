"""A consumer task's positions in ZooKeeper, a node for each topic.

While batches come they are written once in SAVE_SECONDS, not behind each batch, and on a thread of
their own: how far the target is beyond them it knows itself, and a start goes on from there. For
targets that keep no offsets the node is all there is; so nothing of a batch is written while it is
applied, nor after it has failed. Where the task begins, and where it ends, is written before it
goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cdcbus.consumer.offsets.start_offsets import NOTHING_PASSED, NOWHERE
from cdcbus.plugins.contracts import NO_MARK, Landmark, Mark, PositionStore
from cdcbus.plugins.errors import PositionConflict
from cdcbus.plugins.positions import KafkaPosition, TopicPartition, kafka_positions_to_json
from cdcbus.plugins.saved_aside import SavedAside

SAVE_SECONDS = 1.0
NO_MARKS: Mapping[str, Mark] = {}


class StoredPositions:
    """Of one task. Not thread-safe."""

    def __init__(self, stores: Mapping[str, PositionStore], *, is_dry_run: bool = False) -> None:
        """`stores`: one per topic. `is_dry_run`: nothing is ever written."""
        self._stores, self._is_dry_run = stores, is_dry_run
        self._saved: Mapping[TopicPartition, int] = {}
        self._unread: Mapping[TopicPartition, int] = {}
        self._marks: Mapping[str, Mark] = {}
        self._saved_at = 0.0
        self._aside = SavedAside(", ".join(store.path for store in stores.values()))
        self.has_begun = False
        """Whether the task goes on from where it is, and not from a start rule."""

    def position_version(self, partition: TopicPartition) -> int:
        """The version of the stored position that has the partition, as last read or written."""
        return self._stores[partition.topic].position_version

    def edit(self) -> PositionConflict | None:
        """What an operator has set since it was read or written last."""
        edited = [store.path for store in self._stores.values() if store.is_edited()]
        return (
            PositionConflict(f"{edited[0]} was set by somebody else; going on from there")
            if edited
            else None
        )

    def begin(
        self,
        next_offsets: Mapping[TopicPartition, int],
        unread: Mapping[TopicPartition, int] = NOWHERE,
        marks: Mapping[str, Mark] = NO_MARKS,
        last: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
    ) -> None:
        """Writes all of them, before reading begins. `unread`: of partitions that are not read,
        which are kept as they are; `marks`: of each topic; `last`: as in `save`, of the former,
        too. Raises as `save`."""
        self._saved, self._unread, self._marks = {}, unread, marks
        self.save(next_offsets, last)
        self.has_begun = True

    def save_if_due(
        self,
        next_offsets: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
    ) -> None:
        """The same as `save`, where SAVE_SECONDS have passed since the last time, and without
        waiting: what that meets is raised by a later call. Raises PositionConflict also where
        they have not."""
        if edit := self.edit():
            raise edit
        if time.monotonic() - self._saved_at >= SAVE_SECONDS and self._aside.is_free():
            self._saved_at = time.monotonic()
            if moved := self._moved(next_offsets, last):
                self._aside.save(partial(self._write, moved, dict(next_offsets)))

    def save(
        self,
        next_offsets: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
    ) -> None:
        """Writes those of topics that have moved since they were written. `last`: the last
        records before them, which are noted where the target knows none. Raises PositionConflict
        where an operator has set one meanwhile, PositionUnavailable, PositionError."""
        self._aside.settle()
        if moved := self._moved(next_offsets, last):
            self._write(moved, dict(next_offsets))
        self._saved_at = time.monotonic()

    def rest(self) -> None:
        """Returns once nothing is being written."""
        self._aside.rest()

    def _moved(
        self, next_offsets: Mapping[TopicPartition, int], last: Mapping[TopicPartition, Landmark]
    ) -> list[tuple[PositionStore, str, Mark]]:
        """What is to be written."""
        if self._is_dry_run or next_offsets == self._saved:
            return []
        moved = []
        for topic, store in self._stores.items():
            offsets = _of_topic(topic, next_offsets)
            if offsets != _of_topic(topic, self._saved):
                named = _of_topic(topic, self._unread) | offsets
                text = kafka_positions_to_json(
                    KafkaPosition(topic, number, offset - 1) for number, offset in named.items()
                )
                mark = self._marks.get(topic, NO_MARK)
                mark = mark if mark.is_kept else replace(mark, last=_of_topic(topic, last))
                moved.append((store, text, mark))
        return moved

    def _write(
        self,
        moved: Sequence[tuple[PositionStore, str, Mark]],
        next_offsets: Mapping[TopicPartition, int],
    ) -> None:
        for store, text, mark in moved:
            store.save(text, mark)
        self._saved = next_offsets


def _of_topic(topic: str, of_partitions: Mapping[TopicPartition, Any]) -> dict[int, Any]:
    return {
        partition.partition: each
        for partition, each in of_partitions.items()
        if partition.topic == topic
    }
