"""What `cdcbus task status` shows of a task's work: lag, delays, the last hour, tables,
failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.output import print_table

if TYPE_CHECKING:
    from cdcbus.tasks.zookeeper.stat import Stat
    from cdcbus.tasks.zookeeper.tasks import Failure

BLOCKS = "▁▂▃▄▅▆▇█"
TABLES_SHOWN, FAILURES_SHOWN = 20, 5
_COUNTERS = (
    "rows",
    "inserted",
    "updated",
    "deleted",
    "truncated",
    "failed",
    "missed",
    "dropped",
    "superseded",
)


def sparkline(numbers: Sequence[int]) -> str:
    """A character for each number, as high as it is beside the greatest; a dot for none."""
    most = max(numbers, default=0)
    return "".join(
        "·" if number <= 0 else BLOCKS[(number * len(BLOCKS) - 1) // most] for number in numbers
    )


def print_progress(stat: Stat, hour: Sequence[int]) -> None:
    """`hour`: rows in each minute of the last one."""
    for line in _lines(stat):
        click.echo(f"  {line}")
    if any(hour):
        click.echo(f"  last hour: {sparkline(hour)} at most {max(hour):,} rows a minute")
    if stat.tables:
        counters = [
            name
            for name in _COUNTERS
            if name == "rows" or any(getattr(table, name) for table in stat.tables)
        ]
        shown = stat.tables[:TABLES_SHOWN]
        rows = [
            (each.swimlane, *(f"{getattr(each, name):,}" for name in counters), each.table)
            for each in shown
        ]
        click.echo(f"  since its start, {_of(len(shown), len(stat.tables))}:")
        print_table(("  swimlane", *counters, "table"), [(f"  {row[0]}", *row[1:]) for row in rows])


def print_failures(failures: Sequence[Failure]) -> None:
    shown = failures[-FAILURES_SHOWN:]
    if shown:
        click.echo(f"  failures, {_of(len(shown), len(failures))}, the last one last:")
    for failure in shown:
        again = f", {failure.times} times" if failure.times > 1 else ""
        click.echo(f"  {failure.at} UTC, {failure.place}{again}: {failure.sentence}")


def _lines(stat: Stat) -> Iterator[str]:
    lag = [
        f"{stat.lag_records:,} records" if stat.lag_records is not None else "",
        f"{stat.lag_bytes:,} bytes" if stat.lag_bytes is not None else "",
        f"{stat.lag_seconds:.1f} s" if stat.lag_seconds is not None else "",
    ]
    yield f"lag: {', '.join(filter(None, lag)) or 'not known'}"
    if stat.still_seconds >= 1:
        yield f"its position has not moved for {stat.still_seconds:.0f} s, though there is more"
    for stage, delay in stat.delays.items():
        yield (
            f"{stage.replace('_', ' ')}: {delay.p50:.3f} s, 95 % within {delay.p95:.3f}, 99 % "
            f"within {delay.p99:.3f}"
        )
    if stat.skew_seconds is not None and abs(stat.skew_seconds) >= 0.1:
        yield f"the source's clock is {stat.skew_seconds:+.1f} s from this one; that is taken out"
    if stat.stages_ms:
        yield (
            "last batch: "
            f"{', '.join(f'{stage} {ms:.0f} ms' for stage, ms in stat.stages_ms.items())}"
        )
    yield f"{stat.rows:,} rows since its start, {stat.rows_per_second:,.1f} a second"
    yield (
        "last row committed "
        f"{stat.last_row + ' UTC' if stat.last_row else 'at an unknown time'}; told at "
        f"{stat.at} UTC"
    )


def _of(shown: int, known: int) -> str:
    return "all" if shown == known else f"{shown} of {known}"
