"""The progress that `cdcbus task status` shows: lag, delays, last hour, tables, failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from cdcbus.consumer.records.batch_report import COUNTERS
from cdcbus.ops.cli.output import print_table

if TYPE_CHECKING:
    from cdcbus.tasks.zookeeper.stat import Stat, TableCounts, TableRate
    from cdcbus.tasks.zookeeper.tasks import Failure

BLOCKS = "▁▂▃▄▅▆▇█"
TABLES_SHOWN, FAILURES_SHOWN = 20, 5


def sparkline(numbers: Sequence[int]) -> str:
    """A block for each number, its height in proportion to the largest; a dot for 0."""
    most = max(numbers, default=0)
    line = ""
    for number in numbers:
        if number <= 0:
            line += "·"
            continue
        # The largest number gets the full block, the smallest above 0 the lowest one.
        line += BLOCKS[(number * len(BLOCKS) - 1) // most]
    return line


def print_progress(stat: Stat, hour: Sequence[int]) -> None:
    """Prints a task's report. `hour`: rows in each of the last 60 minutes."""
    for line in _lines(stat):
        click.echo(f"  {line}")
    if any(hour):
        click.echo(f"  last hour: {sparkline(hour)} at most {max(hour):,} rows a minute")
    if stat.tables:
        _print_tables(stat.tables, stat.table_rates)


def _print_tables(tables: Sequence[TableCounts], rates: Sequence[TableRate]) -> None:
    # A counter that is 0 for all tables has no column.
    counters = ["rows"]
    for name in COUNTERS:
        if any(getattr(table, name) for table in tables):
            counters.append(name)
    heading = list(counters)
    if rates:
        heading.append("rows/s")
    shown = tables[:TABLES_SHOWN]
    a_second = {(each.swimlane, each.table): each.rows_per_second for each in rates}
    rows = []
    for table in shown:
        counts = [f"{getattr(table, name):,}" for name in counters]
        if rates:
            rate = a_second.get((table.swimlane, table.table), 0.0)
            counts.append(f"{rate:,.1f}")
        rows.append((f"  {table.swimlane}", *counts, table.table))
    click.echo(f"  since its start, {_of(len(shown), len(tables))}:")
    print_table(("  swimlane", *heading, "table"), rows)


def print_failures(failures: Sequence[Failure]) -> None:
    shown = failures[-FAILURES_SHOWN:]
    if shown:
        click.echo(f"  failures, {_of(len(shown), len(failures))}, the newest last:")
    for failure in shown:
        place = failure.place
        if failure.times > 1:
            place += f", {failure.times} times"
        click.echo(f"  {failure.at} UTC, {place}: {failure.sentence}")


def _lines(stat: Stat) -> Iterator[str]:
    lag = []
    if stat.lag_records is not None:
        lag.append(f"{stat.lag_records:,} records")
    if stat.lag_bytes is not None:
        lag.append(f"{stat.lag_bytes:,} bytes")
    if stat.lag_seconds is not None:
        lag.append(f"{stat.lag_seconds:.1f} s")
    yield f"lag: {', '.join(lag) or 'not known'}"
    if stat.still_seconds >= 1:
        yield f"its position has not moved for {stat.still_seconds:.0f} s, though more is waiting"
    for stage, delay in stat.delays.items():
        yield (
            f"{stage.replace('_', ' ')}: {delay.p50:.3f} s, 95 % within {delay.p95:.3f}, 99 % "
            f"within {delay.p99:.3f}"
        )
    if stat.skew_seconds is not None and abs(stat.skew_seconds) >= 0.1:
        yield f"the source's clock is off by {stat.skew_seconds:+.1f} s, which is corrected"
    if stat.stages_ms:
        stages = [f"{stage} {ms:.0f} ms" for stage, ms in stat.stages_ms.items()]
        yield f"last batch: {', '.join(stages)}"
    yield f"{stat.rows:,} rows since its start, {stat.rows_per_second:,.1f} a second"
    last_row = "at an unknown time"
    if stat.last_row:
        last_row = f"{stat.last_row} UTC"
    yield f"last row committed {last_row}; reported at {stat.at} UTC"


def _of(shown: int, known: int) -> str:
    if shown == known:
        return "all"
    return f"{shown} of {known}"
