"""What the readers of a direct load have committed is counted at the target, in the transactions
of the rows, and noted in ZooKeeper with the progress.

A target that was restored to an earlier state, or a standby in its place that lacks commits, has
lower counts than were noted. Rows are missing there then, and no change of the source would ever
bring them.
"""

from __future__ import annotations

from cdcbus.plugins.loaders import offset_table
from cdcbus.plugins.loaders.sqlalchemy_loader import OFFSET_TABLE, JdbcBatch
from cdcbus.tasks.direct.opened import Opened

Counts = dict[int, int]
"""Number of a reader -> its transactions."""


def committed(opened: Opened) -> Counts:
    """What the target has. Call it after the target's offsets were taken over, so that no earlier
    process commits any more. Empty where the target keeps no offsets."""
    if not opened.applier.keeps_offsets:
        return {}
    # Not the load's own one, which has another task id.
    found = JdbcBatch(opened.database, opened.load.task_id).counts()
    return {reader: each.next_offset for reader, each in found.items()}


def forget_counts(opened: Opened) -> None:
    """Deletes the counts at the target, once the load is done."""
    if opened.applier.keeps_offsets:
        with opened.database.begun(OFFSET_TABLE) as connection:
            offset_table.forget_counts(connection, opened.load.task_id)
