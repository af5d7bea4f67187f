"""An event processor that leaves out test orders, and also writes each closed order to a table of
closed orders.

    consumer.eventProcessor.className=shop_rules:change

This file must be on Python's path where the task runs, and where its executors run; installed as a
package, by `pip install ./examples/event_processor`, it is also called `shopRules`.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdcbus import Column, Op, RowChange, Table, TableId

# Created once: cdcbus caches plans by the table's object.
CLOSED = Table(TableId("shop", "closed_orders"), (Column("id"),), ("id",))


def change(row: RowChange) -> Iterator[RowChange]:
    """Yields the row changes to apply in place of `row`, whose cells are text or None, and
    read-only."""
    if row.after and row.after.get("test") == "1":
        return
    yield row
    if row.after and row.after.get("state") == "closed":
        yield RowChange(CLOSED, Op.INSERT, None, {"id": row.after["id"]}, row.origin)
