"""The statements that a batch comes to: what all SQL databases have in common. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cdcbus.plugins.contracts import TableBatch, Writes
from cdcbus.plugins.loaders.dialect import Cells, Statement


def previewed(
    batch: TableBatch,
    *,
    truncate: str,
    delete: str,
    written: Callable[[Writes], Iterator[Statement]],
    swap: Callable[[Sequence[str], Cells, bool], str],
    insert: Callable[[Sequence[str]], str],
) -> Iterator[Statement]:
    """In the order in which they run. `swap` takes the columns, the row that goes, and whether
    another one comes for it; `insert` takes the columns of rows that only come."""
    if batch.truncate:
        yield Statement(truncate, 0)
    if batch.deletes:
        yield Statement(delete, len(batch.deletes))
    for writes in batch.writes:
        yield from written(writes)
    for swaps in batch.swaps:
        inserts = 0
        for old, new in swaps.rows:
            if old is None:
                inserts += 1
            else:
                yield Statement(swap(swaps.columns, old, new is not None), 1)
        if inserts:
            yield Statement(insert(swaps.columns), inserts)
