"""The verdict: source against targets, as a table, as sentences, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from cdcbus.ops.demo.first_copy import Verified
from cdcbus.ops.demo.shop.compare import Comparison, Difference
from cdcbus.ops.demo.task_files import Target

SHOWN_DIFFERENCES = 5

Comparisons = Mapping[Target, Sequence[Comparison]]


def is_equal(comparisons: Comparisons | Verified) -> bool:
    """Whether every row is the same everywhere."""
    if isinstance(comparisons, Verified):
        return comparisons.is_equal
    return all(each.is_equal for each in chain.from_iterable(comparisons.values()))


def verdict_table(comparisons: Comparisons) -> Table:
    """One line per table: rows at the source, then for each target its rows and how many rows
    differ."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("table")
    table.add_column("source rows", justify="right")
    for target in comparisons:
        table.add_column(f"{target.label} rows", justify="right")
        table.add_column("differ", justify="right")
    for of_table in zip(*comparisons.values(), strict=True):
        cells = []
        for each in of_table:
            cells += [Text(f"{each.target_rows:,}"), _count(each)]
        table.add_row(of_table[0].table.name, f"{of_table[0].source_rows:,}", *cells)
    return table


def verdict_sentences(comparisons: Comparisons) -> list[Text]:
    """For each target whether it equals the source, and where it does not, the first differing
    rows of each table."""
    sentences = []
    for target, tables in comparisons.items():
        differing = sum(len(each.differences) for each in tables)
        if not differing:
            rows = sum(each.source_rows for each in tables)
            sentence = (
                f"{target.label} is equal to the source: {rows:,} rows, {len(tables)} tables "
                "compared"
            )
            sentences.append(Text.assemble(("✓ ", "bold green"), sentence))
            continue
        sentence = f"{target.label} is not equal to the source: {differing:,} rows differ"
        sentences.append(Text.assemble(("✗ ", "bold red"), sentence))
        for each in tables:
            sentences += _first_differences(each)
    return sentences


def _first_differences(comparison: Comparison) -> Iterator[Text]:
    for one in comparison.differences[:SHOWN_DIFFERENCES]:
        yield Text(f"    {comparison.table} {_described(comparison, one)}")
    more = len(comparison.differences) - SHOWN_DIFFERENCES
    if more > 0:
        yield Text(f"    {comparison.table} … and {more:,} more")


def verdict_fields(comparisons: Comparisons | Verified) -> dict[str, Any]:
    """The verdict for programs."""
    if isinstance(comparisons, Verified):
        return comparisons.fields()
    targets = {}
    for target, tables in comparisons.items():
        targets[target.name] = list(map(_fields, tables))
    return {"equal": is_equal(comparisons), "targets": targets}


def _fields(comparison: Comparison) -> dict[str, Any]:
    shown = comparison.differences[:SHOWN_DIFFERENCES]
    return {
        "table": str(comparison.table),
        "source_rows": comparison.source_rows,
        "target_rows": comparison.target_rows,
        "differing_rows": len(comparison.differences),
        "differences": [{"key": one.key, "how": one.how} for one in shown],
    }


def _count(comparison: Comparison) -> Text:
    style = "bold red"
    if comparison.is_equal:
        style = "green"
    return Text(f"{len(comparison.differences):,}", style)


def _described(comparison: Comparison, difference: Difference) -> str:
    cells = zip(comparison.table.key, difference.key, strict=True)
    key = ", ".join(f"{name} {value}" for name, value in cells)
    match difference.how:
        case "missing":
            return f"{key}: missing"
        case "extra":
            return f"{key}: not at the source"
        case columns:
            return f"{key}: {columns}"
