"""The number of records in a batch, so that it fits into memory whatever the size of its rows."""

from __future__ import annotations

import logging

LOG = logging.getLogger(__name__)
# How large a batch of the bulk gear gets, whose records are streamed: its bytes of values, its
# transactions, and its time. Between two batches the task looks around and its position advances,
# but the target idles for half a second, so each batch should be work for some seconds.
TURN_BYTES, TURN_TRANSACTIONS, TURN_SECONDS = 640 << 20, 20, 10.0
# A larger batch is worth handing to executors.
LARGE_RECORDS, LARGE_BYTES = 10_000, 8 << 20
# A backlog of this many such batches makes the task change to the bulk gear.
BACKLOG_BATCHES = 5
# After a batch whose partitions wait for each other, this many stay away from executors and have
# records of all partitions.
HELD_BATCHES = 20


class BatchSize:
    """Learns from each batch: a full one of small records makes the next ones larger, too many
    bytes make them smaller.

    `records`: the most records in a batch of the bulk gear. A query takes this number once, at its
    start, and must be restarted when it changes. `few_records`: the same for the tail gear.
    """

    def __init__(self, task_id: str, transaction_records: int) -> None:
        """`transaction_records`: the most records in one transaction."""
        self._task_id = task_id
        self.few_records = min(LARGE_RECORDS, transaction_records)
        self._most = self._steps = self.records = transaction_records * TURN_TRANSACTIONS
        self._record_bytes = 0
        self._held = 0

    def saw(self, count: int, bytes_: int) -> None:
        """Learns the size of the records that the tail gear has read last, or that come first."""
        if count:
            self._record_bytes = bytes_ // count
            self.records = min(self._most, max(1, TURN_BYTES // max(1, self._record_bytes)))
        self._held = max(0, self._held - 1)

    def is_large(self, count: int) -> bool:
        """Whether a batch of `count` offsets is worth handing to executors, judged by the size of
        former records."""
        return count > self.few_records or count * self._record_bytes > LARGE_BYTES

    def is_backlog(self, count: int) -> bool:
        """Whether the bulk gear should read `count` offsets. The bound is far above the one that
        ends the bulk gear, so that the gears do not alternate."""
        return not self._held and self.is_large(count // BACKLOG_BATCHES)

    @property
    def is_held(self) -> bool:
        """Whether partitions have waited for each other lately."""
        return self._held > 0

    def hold(self) -> None:
        """Keeps the next batches away from executors, as partitions wait for each other."""
        self._held = HELD_BATCHES

    def is_rest(self, count: int) -> bool:
        """Whether a batch of `count` offsets is all that was left, and too small for executors."""
        return not (self._is_full(count) or self.is_large(count))

    def learn(
        self, count: int, bytes_: int, is_too_large: bool = False, seconds: float = 0.0
    ) -> bool:
        """Learns from a batch, or from the part of one that was read; returns whether `records` has
        changed. `is_too_large`: it was cut. `seconds`: how long it took, where that counts; then
        the next ones are limited to what half of TURN_SECONDS allows, so that they are not cut."""
        self._record_bytes = bytes_ // max(1, count)
        fitting = min(self._most, max(1, TURN_BYTES * count // max(1, bytes_)))
        if seconds:
            fitting = min(fitting, max(1, int(count * TURN_SECONDS / 2 / seconds)))
        if is_too_large or bytes_ > 2 * TURN_BYTES:
            records = min(fitting, max(1, self.records // 2))
            # More carefully from now on, as more large ones may follow.
            self._steps = 4
        elif self._is_full(count) and (fitting >= 4 * self.records or fitting == self._most):
            records = min(fitting, self.records * self._steps)
        else:
            return False
        is_new = records != self.records
        if is_new:
            LOG.info(
                "task %s: records of %d bytes, batches of %d from now on",
                self._task_id,
                self._record_bytes,
                records,
            )
        self.records = records
        return is_new

    def _is_full(self, count: int) -> bool:
        """Whether a batch has about as many offsets as allowed: Spark divides the number among the
        partitions, rounding down."""
        return count >= 0.9 * self.records
