"""The statements for a batch: the part that all SQL databases share. Pure."""

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
    """Yields the statements in the order in which they run. `swap` takes the columns, the old row,
    and whether a new one replaces it; `insert` takes the columns of new rows."""
    if batch.truncate:
        yield Statement(truncate, 0)  # 0: all rows
    if batch.deletes:
        yield Statement(delete, len(batch.deletes))
    if batch.moves:
        for key, _ in batch.moves.rows:
            yield Statement(swap(batch.table.key, key, True), 1)
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
