"""A consumer task's positions in ZooKeeper, a node for each topic.

While batches come they are written once in SAVE_SECONDS, not behind each batch: how far the target is beyond them it knows itself, as it
keeps with each batch the change number (mzxid) that the node had, and a start goes on from there where the node still has it. So a node
must not change while a batch is applied, nor after one that has failed: a part of it may be in the target, under the number as it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from cdcbus.consumer.offsets import Lane
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import PositionConflict
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json

SAVE_SECONDS = 1.0


class StoredPositions:
    """Of one task. Not thread-safe."""

    def __init__(self, stores: Mapping[str, PositionStore], *, is_dry_run: bool = False) -> None:
        """`stores`: one per topic. `is_dry_run`: nothing is ever written."""
        self._stores, self._is_dry_run = stores, is_dry_run
        self._saved: Mapping[Lane, int] = {}
        self._saved_at = 0.0

    def mzxid(self, lane: Lane) -> int:
        """The change number of the node that has the lane's position, as last read or written."""
        return self._stores[lane[0]].mzxid

    def edit(self) -> PositionConflict | None:
        """What an operator has set since it was read or written last."""
        edited = [store.path for store in self._stores.values() if store.is_edited()]
        return PositionConflict(f"{edited[0]} was set by somebody else; going on from there") if edited else None

    def begin(self, next_offsets: Mapping[Lane, int]) -> None:
        """Writes all of them, before reading begins. Raises as `save`."""
        self._saved = {}
        self.save(next_offsets)

    def save_if_due(self, next_offsets: Mapping[Lane, int]) -> None:
        """The same as `save`, where SAVE_SECONDS have passed since the last time. Raises PositionConflict also where they have not."""
        if edit := self.edit():
            raise edit
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self.save(next_offsets)

    def save(self, next_offsets: Mapping[Lane, int]) -> None:
        """Writes those of topics that have moved since they were written. Raises PositionConflict where an operator has set one meanwhile,
        PositionUnavailable, PositionError."""
        if self._is_dry_run or next_offsets == self._saved:
            return
        for topic, store in self._stores.items():
            offsets = _of_topic(topic, next_offsets)
            if offsets != _of_topic(topic, self._saved):
                store.save(kafka_positions_to_json(KafkaPosition(topic, partition, offset - 1) for partition, offset in offsets.items()))
        self._saved, self._saved_at = dict(next_offsets), time.monotonic()


def _of_topic(topic: str, next_offsets: Mapping[Lane, int]) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in next_offsets.items() if name == topic}
