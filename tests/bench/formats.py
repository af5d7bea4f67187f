"""How fast records become columns, beside pyarrow's own reader of JSON: in one process, on one
thread, as ratios.

    .venv/bin/python -m tests.bench.formats [--records 10000] [--rounds 30]

Inserts, half as many updates, a tenth as many deletes of a ten-column table. Processor time, the
best of all rounds.

A ratio cancels the machine out only where both sides use it alike. Beside `orjson.loads` it moved by
a third between runs of the same code: dicts by the thousand are the work of the memory allocator and
of the garbage collector, Arrow's columns are not. pyarrow's reader makes the same kind of columns
from the same bytes. Collections of garbage are off, as they cost more the more modules are loaded.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import click
import pyarrow as pa
import pyarrow.json
from rich.console import Console
from rich.table import Table as Grid

from cdcbus.plugins.converters.columnar import read_columns
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.bench.figures import tell

TYPES = {
    "id": "bigint",
    "customer_id": "int",
    "product_id": "int unsigned",
    "state": "varchar(20)",
    "amount": "decimal(12,2)",
    "quantity": "smallint",
    "note": "varchar(200)",
    "address": "varchar(200)",
    "created": "datetime(3)",
    "updated": "timestamp",
}
TABLE = Table(
    TableId("bench", "orders"),
    tuple(Column(name, mysql_type) for name, mysql_type in TYPES.items()),
    ("id",),
)


# Of each 16 rows.
OPS = [Op.INSERT] * 10 + [Op.UPDATE] * 5 + [Op.DELETE]


def row(i: int, state: str) -> dict[str, str | None]:
    """An order."""
    return {
        "id": str(i),
        "customer_id": str(i * 7919 % 50_000),
        "product_id": str(i * 104_729 % 9_000),
        "state": state,
        "amount": f"{i * 31 % 100_000 / 100:.2f}",
        "quantity": str(1 + i % 9),
        "note": None if i % 5 == 0 else f"please ring twice, order {i}",
        "address": f"{i % 200} Long Street, Überlingen {i % 90_000}",
        "created": "2024-02-29 23:59:59.123",
        "updated": "2024-02-29 23:59:59",
    }


def changes(count: int) -> Iterator[RowChange]:
    """Row changes in transactions of 500."""
    for i in range(count):
        origin = Origin(
            "mysql-bin.000003", 4 + i * 100, f"0-1-{i // 500}", 1, 1_700_000_000_000_000 + i * 1000
        )
        op = OPS[i % 16]
        before = None if op is Op.INSERT else row(i, "new")
        after = None if op is Op.DELETE else row(i, "sent")
        yield RowChange(TABLE, op, before, after, origin, i % 500, i % 500 == 499)


def seconds(rounds: int, *works: Callable[[], object]) -> list[float]:
    """The least processor time that each work took. They take turns, so that a moment in which the
    machine is slow hits all of them."""
    least = [inf] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            start = time.process_time()
            made = work()
            least[place] = min(least[place], time.process_time() - start)
            del made
    return least


def _each(read: Callable[[bytes], object], values: list[bytes]) -> list[object]:
    return [read(value) for value in values]


def _read_json(lines: bytes) -> pa.Table:
    options = pyarrow.json.ReadOptions(use_threads=False)
    return pyarrow.json.read_json(pa.BufferReader(lines), read_options=options)


@click.command()
@click.option("--records", default=10_000, show_default=True)
@click.option("--rounds", default=30, show_default=True)
def main(records: int, rounds: int) -> None:
    """Prints records per second, and ratios to pyarrow's reader of JSON."""
    grid = Grid("format", "bytes a record", "read_json/s", "columns/s", "ratio", "from_bytes/s")
    gc.collect()
    gc.disable()
    for name in ("canalRow", "oggJson"):
        converter = make_converter(name)
        values = [converter.to_bytes(change) for change in changes(records)]
        batch = pa.array(values, pa.binary())
        # the last rows of transactions are few, and so left
        if len(read_columns(batch, converter).rest) > records / 100:
            raise click.ClickException(f"{name}: not all records fit into columns")
        lines = b"\n".join(values)
        read_json = partial(_read_json, lines)
        base, columns = seconds(rounds, read_json, partial(read_columns, batch, converter))
        [plain] = seconds(1, partial(_each, converter.from_bytes, values))
        tell(f"{name} to columns, beside pyarrow's reader", base / columns)
        size = sum(map(len, values)) / records
        grid.add_row(
            name,
            f"{size:.0f}",
            f"{records / base:,.0f}",
            f"{records / columns:,.0f}",
            f"{base / columns:.2f}",
            f"{records / plain:,.0f}",
        )
    Console().print(grid)


if __name__ == "__main__":
    main()
