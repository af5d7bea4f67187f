"""Stores a consumer task's positions in ZooKeeper, in one node for each topic.

While batches come, positions are written once in SAVE_SECONDS instead of after each batch, on a
thread of their own: the target knows how far beyond them it is, and a start resumes from there. A
target that keeps no offsets depends on the node; so nothing is written while a batch is applied,
nor after it has failed. The positions at which the task begins and ends are written before anything
else happens.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from cdcbus.consumer.offsets.known import NOTHING_PASSED, NOWHERE, of_topic
from cdcbus.plugins.contracts import NO_MARK, Landmark, Mark, PositionStore
from cdcbus.plugins.errors import PositionConflict
from cdcbus.plugins.positions import KafkaPosition, TopicPartition, kafka_positions_to_json
from cdcbus.plugins.saved_aside import SavedAside

SAVE_SECONDS = 1.0
NO_MARKS: Mapping[str, Mark] = {}


class StoredPositions:
    """The stored positions of one task. Not thread-safe."""

    def __init__(self, stores: Mapping[str, PositionStore], *, is_dry_run: bool = False) -> None:
        """`stores`: one per topic. `is_dry_run`: nothing is ever written."""
        self._stores = stores
        self._is_dry_run = is_dry_run
        self._saved: Mapping[TopicPartition, int] = {}
        self._unread: Mapping[TopicPartition, int] = {}
        self._marks: Mapping[str, Mark] = {}
        self._saved_at = 0.0
        self._aside = SavedAside(", ".join(store.path for store in stores.values()))
        self.has_begun = False
        """Whether `begin` has stored where the task is, so that no start rule applies any more."""

    def position_version(self, partition: TopicPartition) -> int:
        """The version of the stored position that holds the partition, as last read or written."""
        return self._stores[partition.topic].position_version

    def rules(self) -> dict[str, Mapping[str, str]]:
        """The digests of the rules by which the task has written each topic's position."""
        found = {}
        for topic, store in self._stores.items():
            if store.written is not None:
                found[topic] = store.written.mark.rules
        return found

    def other_topics(self) -> list[str]:
        """The topics that the task has read, and does not read now. Raises PositionUnavailable."""
        # Each store knows all the others.
        others = next((store.others() for store in self._stores.values()), ())
        return [topic for topic in others if topic not in self._stores]

    def edit(self) -> PositionConflict | None:
        """Returns the conflict where somebody else has set a position since it was last read or
        written."""
        for store in self._stores.values():
            if store.is_edited():
                return PositionConflict(
                    f"{store.path} was set by somebody else; going on from there"
                )
        return None

    def begin(
        self,
        next_offsets: Mapping[TopicPartition, int],
        unread: Mapping[TopicPartition, int] = NOWHERE,
        marks: Mapping[str, Mark] = NO_MARKS,
        last: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
    ) -> None:
        """Writes all positions before reading begins. `unread`: positions of partitions that the
        task does not read, which are kept as they are; `marks`: one for each topic; `last`: as in
        `save`, including partitions that are not read. Raises what `save` raises."""
        self._saved = {}
        self._unread = unread
        self._marks = marks
        self.save(next_offsets, last)
        self.has_begun = True

    def save_if_due(
        self,
        next_offsets: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
    ) -> None:
        """Saves once SAVE_SECONDS have passed since the last save, without waiting: an error of the
        write is raised by a later call. Any call can raise PositionConflict."""
        edit = self.edit()
        if edit:
            raise edit
        is_due = time.monotonic() - self._saved_at >= SAVE_SECONDS
        if not is_due or not self._aside.is_free():
            return
        self._saved_at = time.monotonic()
        moved = self._moved(next_offsets, last)
        if moved:
            self._aside.save(partial(self._write, moved, dict(next_offsets)))

    def save(
        self,
        next_offsets: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
    ) -> None:
        """Writes the positions of topics that have moved since they were last written. `last`: the
        last records before them, which are noted where the target keeps none. Raises
        PositionConflict where somebody else has set one meanwhile, PositionUnavailable,
        PositionError."""
        self._aside.settle()
        moved = self._moved(next_offsets, last)
        if moved:
            self._write(moved, dict(next_offsets))
        self._saved_at = time.monotonic()

    def rest(self) -> None:
        """Returns once nothing is being written."""
        self._aside.rest()

    def _moved(
        self, next_offsets: Mapping[TopicPartition, int], last: Mapping[TopicPartition, Landmark]
    ) -> list[tuple[PositionStore, str, Mark]]:
        """The stores to write, each with its text and mark."""
        if self._is_dry_run or next_offsets == self._saved:
            return []
        moved = []
        for topic, store in self._stores.items():
            offsets = of_topic(topic, next_offsets)
            if offsets == of_topic(topic, self._saved):
                continue
            named = of_topic(topic, self._unread) | offsets
            # As in porter, the stored offset is that of the last record applied.
            text = kafka_positions_to_json(
                KafkaPosition(topic, number, offset - 1) for number, offset in named.items()
            )
            mark = self._marks.get(topic, NO_MARK)
            if not mark.is_kept:
                mark = replace(mark, last=of_topic(topic, last))
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
