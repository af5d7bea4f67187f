"""Leaves out records that come too late: a process sent them after it had lost its fetch task's
lock, so they follow records of the lock's present holder.

They are recognized by their epochs (`plugins/epoch.py`) and by the offset where each epoch began in
the partition, which is the same however often the partition is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.epoch import epochs
from cdcbus.plugins.positions import TopicPartition

LOG = logging.getLogger(__name__)
# The number of a fetch task's epochs that are kept per partition of those that began before what is
# applied next, the highest ones. From there on the highest decides; a look ahead can be behind.
KEPT: Final = 16
# The number of offsets before a start that are searched for epochs.
LOOK_BACK: Final = 100

Begun = dict[str, dict[str, int]]
"""Fetch task -> epoch -> the first offset of a partition where it was seen."""


class KnownEpochs:
    """Where epochs began in a task's partitions, as far as known. Thread-safe.

    A partition that is followed has shown all of them up to where it is applied, from LOOK_BACK
    offsets before its first start in this process on. Another one may have shown more since what
    is known of it."""

    def __init__(self) -> None:
        self._begun: dict[TopicPartition, Begun] = {}
        self._topic_ids: Mapping[str, str] = {}
        self._followed: set[TopicPartition] = set()
        self._lock = Lock()

    def begin(
        self,
        begun: Mapping[TopicPartition, Begun],
        followed: Iterable[TopicPartition],
        topic_ids: Mapping[str, str],
    ) -> None:
        """Adds what partitions have shown before the offsets where a task begins to read. What is
        known already stays, as a retry looks back less far, except that of topics made anew."""
        with self._lock:
            for partition in [*self._begun]:
                topic = partition.topic
                if topic_ids.get(topic) != self._topic_ids.get(topic):
                    del self._begun[partition]
            self._topic_ids = {**topic_ids}
            self._followed = set(followed)
        for partition, of_partition in begun.items():
            self.add(partition, of_partition)

    def follow(self, partition: TopicPartition, begun: Begun, offset: int) -> None:
        """Adds what a partition has shown; follows it from now on. Forgets old epochs by where it
        is applied next."""
        self.add(partition, begun)
        with self._lock:
            known = self._begun[partition]
            for task, of_task in known.items():
                known[task] = _without_old(of_task, offset)
        self._followed.add(partition)

    def leave(self, partition: TopicPartition) -> None:
        """No longer follows a partition, as others apply it from now on."""
        self._followed.discard(partition)

    def is_followed(self, partition: TopicPartition) -> bool:
        return partition in self._followed

    def add(self, partition: TopicPartition, begun: Begun) -> None:
        """Adds what a partition has shown."""
        with self._lock:
            known = self._begun.setdefault(partition, {})
            for task, of_task in begun.items():
                for epoch, offset in of_task.items():
                    _add(known, task, epoch, offset)

    def learn(
        self, partition: TopicPartition, offset: int, value: bytes | None, converter: str
    ) -> bool:
        """Adds what one record shows; returns whether it comes too late."""
        with self._lock:
            return is_late(self._begun.setdefault(partition, {}), offset, value, converter)

    def of(self, partition: TopicPartition) -> Begun:
        """What is known of a partition, as a copy."""
        with self._lock:
            begun = self._begun.get(partition, {})
            return {task: dict(known) for task, known in begun.items()}


def without_late(
    partition: TopicPartition, records: Records, converter: str, begun: Begun
) -> tuple[Records, pa.Array]:
    """Returns the records that count, and the offsets of those that came too late. Adds to `begun`
    what the records show. Where that does not go back far enough, a late record can pass; a record
    that counts is never left out."""
    found = epochs(records.values, converter)
    if found is None:
        return records, records.offsets[:0]
    kinds = _learn_all(begun, records, found)
    late = None
    for kind in kinds:
        mask = _late(records, found, kind, begun)
        if mask is not None:
            late = mask if late is None else pc.or_(late, mask)
    if late is None:
        return records, records.offsets[:0]
    # A record without an epoch is null here, and counts.
    late = pc.fill_null(late, False)
    offsets = records.offsets.filter(late)
    if len(offsets):
        LOG.warning(
            "%s: %d records from offset %d on are left out: they were sent late, by a process "
            "that had lost its fetch task's lock, and "
            "the rows are in earlier records of the one that has it now",
            partition,
            len(offsets),
            offsets[0].as_py(),
        )
    return records.take(pc.indices_nonzero(pc.invert(late)).to_pylist()), offsets


def learn(records: Records, converter: str, begun: Begun) -> None:
    """Adds to `begun` what records show that are not applied here."""
    found = epochs(records.values, converter)
    if found is not None:
        _learn_all(begun, records, found)


def begun_before(
    logs: TopicLogs, offsets: Mapping[TopicPartition, int], converter: str, *, is_start: bool
) -> tuple[dict[TopicPartition, Begun], list[TopicPartition]]:
    """Where epochs began, according to the LOOK_BACK records before these offsets; and the
    partitions of which some of these did not arrive in time. `is_start`: of a task that begins
    there; large ones are waited for then, and the log names these partitions. Raises BusError."""
    begun: dict[TopicPartition, Begun] = {}
    records, missing = logs.before(offsets, LOOK_BACK, is_patient=is_start)
    for partition in missing if is_start else ():
        LOG.warning(
            "Kafka does not show in time all that %s holds before offset %d, as large records or "
            "many aborted ones: if a fetch task that had lost its lock has sent records late, some "
            "may be applied, though they are older than those before. If a fetch task of this "
            "topic has been taken over just now, compare the target by cdcbus verify",
            partition,
            offsets[partition],
        )
    for record in records:
        found = epochs(pa.array([record.value], pa.binary()), converter)
        if found is not None:
            _learn(begun.setdefault(record.partition, {}), found[0].as_py(), record.offset)
    return begun, missing


def is_late(begun: Begun, offset: int, value: bytes | None, converter: str) -> bool:
    """Whether a record comes too late, where records are read one by one. Adds to `begun` what the
    record shows."""
    found = epochs(pa.array([value], pa.binary()), converter)
    if found is None:
        return False
    kind = found[0].as_py()
    _learn(begun, kind, offset)
    later_began = _later_began(begun, kind)
    return later_began is not None and later_began < offset


def _learn_all(begun: Begun, records: Records, found: pa.BinaryArray) -> list[bytes]:
    """Adds the records' epochs, given each record's; returns them."""
    kinds: list[bytes] = pc.unique(found.drop_null()).to_pylist()
    for kind in kinds:
        _learn(begun, kind, records.offsets[pc.index(found, kind).as_py()].as_py())
    return kinds


def _learn(begun: Begun, kind: bytes, offset: int) -> None:
    epoch, _, task = kind.decode().partition("-")
    _add(begun, task, epoch, offset)


def _add(begun: Begun, task: str, epoch: str, offset: int) -> None:
    known = begun.setdefault(task, {})
    known[epoch] = min(offset, known.get(epoch, offset))


def _without_old(known: Mapping[str, int], offset: int) -> dict[str, int]:
    old = sorted(epoch for epoch, first in known.items() if first < offset)[:-KEPT]
    return {epoch: first for epoch, first in known.items() if epoch not in old}


def _late(
    records: Records, found: pa.BinaryArray, kind: bytes, begun: Begun
) -> pa.BooleanArray | None:
    """Whether each record is of this epoch and follows the beginning of a later one; None where no
    later epoch has begun."""
    later_began = _later_began(begun, kind)
    if later_began is None:
        return None
    return pc.and_(pc.equal(found, kind), pc.greater(records.offsets, later_began))


def _later_began(begun: Begun, kind: bytes) -> int | None:
    """The first offset of a later epoch of the same fetch task; None where none has begun."""
    epoch, _, task = kind.decode().partition("-")
    later = [first for other, first in begun[task].items() if other > epoch]
    return min(later, default=None)
