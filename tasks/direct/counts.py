"""What the readers of a direct load have committed is counted at the target, in the transactions
of the rows, and noted in ZooKeeper with the progress.

A target that was restored to an earlier state, or a standby in its place that lacks commits, has
lower counts than were noted. Rows are missing there then, and no change of the source would ever
bring them.
"""

from __future__ import annotations

from cdcbus.plugins.loaders import offset_table
from cdcbus.tasks.direct.opened import Opened

OFFSET_TABLE = f"table {offset_table.TABLE}"
Counts = dict[int, int]
"""Number of a reader -> its transactions."""


def committed(opened: Opened) -> Counts:
    """What the target has. Call it after the target's offsets were taken over, so that no earlier
    process commits any more. Empty where the target keeps no offsets."""
    if not opened.applier.keeps_offsets:
        return {}
    database = opened.database
    with database.reported(OFFSET_TABLE):
        table = offset_table.find_table(database)
    if table is None:
        return {}
    with database.connected(OFFSET_TABLE) as connection:
        found = offset_table.counts(connection, opened.load.task_id, table)
    return {reader: each.next_offset for reader, each in found.items()}


def forget_counts(opened: Opened) -> None:
    """Deletes the counts at the target, once the load is done."""
    if opened.applier.keeps_offsets:
        with opened.database.begun(OFFSET_TABLE) as connection:
            offset_table.forget_counts(connection, opened.load.task_id)
