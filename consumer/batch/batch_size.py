"""How many records a batch has, so that it fits into memory whatever the size of its rows."""

from __future__ import annotations

import logging

LOG = logging.getLogger(__name__)
# of values; on their way to the target each is held several times, by Spark and by Python
BATCH_BYTES = 32 << 20
# Of a batch whose records only pass by; then the task looks around, and its position gets on.
# Between two of them the target waits for half a second, so each has work for some seconds.
TURN_BYTES, TURN_TRANSACTIONS, TURN_SECONDS = 640 << 20, 20, 10.0
# from here on it is worth while to start an executor's work for a batch
LARGE_RECORDS, LARGE_BYTES = 10_000, 8 << 20
FIRST_RECORDS = 1_000
HELD_BATCHES = 20  # small ones, after one whose lanes wait for each other


class BatchSize:
    """Learned from the batches as they come: a full one of small records makes the next ones
    larger, too many bytes make them smaller.

    `records`: so many a batch has at most. A query is told once, at its start: it is to be started
    again when this changes.
    """

    def __init__(self, task_id: str, transaction_records: int, *, is_streamed: bool) -> None:
        """`transaction_records`: so many at most belong into one transaction. `is_streamed`:
        large batches are never in memory as a whole, and have several transactions; else each
        batch is one."""
        self._task_id, self._large = task_id, min(LARGE_RECORDS, transaction_records)
        self._most = transaction_records * (TURN_TRANSACTIONS if is_streamed else 1)
        self._batch_bytes = TURN_BYTES if is_streamed else BATCH_BYTES
        self.records, self._steps, self._record_bytes = (
            min(self._most, FIRST_RECORDS),
            self._most,
            0,
        )
        self._held = 0

    def expect(self, count: int, record_bytes: int) -> None:
        """Before a query starts: so many records are ahead, and the first are of this size, 0
        where nobody knows."""
        if count >= self.records and record_bytes:
            self.learn(self.records, self.records * record_bytes)

    def is_large(self, count: int) -> bool:
        """Whether a batch of so many offsets is to be streamed, as far as the records before
        tell."""
        return count > self._large or count * self._record_bytes > LARGE_BYTES

    def hold(self) -> bool:
        """The next batches are not streamed. Whether `records` has changed, or they were not
        held before."""
        is_new, self._held = self._held == 0, HELD_BATCHES
        self.records = min(
            self.records, self._large, max(1, LARGE_BYTES // max(1, self._record_bytes))
        )
        return is_new

    def learn(
        self, count: int, bytes_: int, is_too_large: bool = False, seconds: float = 0.0
    ) -> bool:
        """Whether `records` has changed after a batch of so many offsets and bytes, or after one
        of which as much was looked at. `seconds`: what it took, where that counts; then no more
        fit than are done in half a turn, so that the next ones are not cut as well."""
        self._record_bytes = bytes_ // max(1, count)
        fitting = min(self._most, max(1, self._batch_bytes * count // max(1, bytes_)))
        if seconds:
            fitting = min(fitting, max(1, int(count * TURN_SECONDS / 2 / seconds)))
        is_full = count >= 0.9 * self.records  # Spark gives each lane a part, rounded down
        if is_too_large or bytes_ > 2 * self._batch_bytes:
            records = min(fitting, max(1, self.records // 2))
            self._steps = 4  # more large ones may follow soon
        elif self._held:
            self._held -= 1
            return False
        elif is_full and (fitting >= 4 * self.records or fitting == self._most):
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
