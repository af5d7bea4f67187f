"""How many records a batch has, so that it fits into memory whatever the size of its rows."""

from __future__ import annotations

import logging

LOG = logging.getLogger(__name__)
# Of values of a batch whose records only pass by; then the task looks around, and its position
# gets on. Between two of them the target waits for half a second, so each has work for some
# seconds.
TURN_BYTES, TURN_TRANSACTIONS, TURN_SECONDS = 640 << 20, 20, 10.0
# from here on it is worth while to start an executor's work for a batch
LARGE_RECORDS, LARGE_BYTES = 10_000, 8 << 20
BACKLOG_BATCHES = 5  # so many that are worth while for executors make the gear change
HELD_BATCHES = 20
"""After one whose partitions wait for each other, so many are not for executors, and have records
of all partitions."""


class BatchSize:
    """Learned from the batches as they come: a full one of small records makes the next ones
    larger, too many bytes make them smaller.

    `records`: so many a batch of the bulk gear has at most. A query is told once, at its start: it
    is to be started again when this changes. `few_records`: so many one of the tail gear has.
    """

    def __init__(self, task_id: str, transaction_records: int) -> None:
        """`transaction_records`: so many at most belong into one transaction."""
        self._task_id = task_id
        self.few_records = min(LARGE_RECORDS, transaction_records)
        self._most = self._steps = self.records = transaction_records * TURN_TRANSACTIONS
        self._record_bytes = 0
        self._held = 0

    def saw(self, count: int, bytes_: int) -> None:
        """So many records, of so many bytes, are the newest that the tail gear has read, or the
        first that are ahead."""
        if count:
            self._record_bytes = bytes_ // count
            self.records = min(self._most, max(1, TURN_BYTES // max(1, self._record_bytes)))
        self._held = max(0, self._held - 1)

    def is_large(self, count: int) -> bool:
        """Whether a batch of so many offsets is worth while for executors, as far as the records
        before tell."""
        return count > self.few_records or count * self._record_bytes > LARGE_BYTES

    def is_backlog(self, count: int) -> bool:
        """Whether the bulk gear is to read so many offsets: far more than those at which it gives
        way to the tail gear, so that the gears do not change back and forth."""
        return not self._held and self.is_large(count // BACKLOG_BATCHES)

    @property
    def is_held(self) -> bool:
        """Whether partitions have waited for each other lately."""
        return self._held > 0

    def hold(self) -> None:
        """The next batches are not for executors, as partitions wait for each other."""
        self._held = HELD_BATCHES

    def is_rest(self, count: int) -> bool:
        """Whether a batch of so many offsets is all that was left, and not worth while for
        executors."""
        return not (self._is_full(count) or self.is_large(count))

    def learn(
        self, count: int, bytes_: int, is_too_large: bool = False, seconds: float = 0.0
    ) -> bool:
        """Whether `records` has changed after a batch of so many offsets and bytes, or after one
        of which as much was looked at. `seconds`: what it took, where that counts; then no more
        fit than are done in half a turn, so that the next ones are not cut as well."""
        self._record_bytes = bytes_ // max(1, count)
        fitting = min(self._most, max(1, TURN_BYTES * count // max(1, bytes_)))
        if seconds:
            fitting = min(fitting, max(1, int(count * TURN_SECONDS / 2 / seconds)))
        if is_too_large or bytes_ > 2 * TURN_BYTES:
            records = min(fitting, max(1, self.records // 2))
            self._steps = 4  # more large ones may follow soon
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
        """Spark gives each partition a part, rounded down."""
        return count >= 0.9 * self.records
