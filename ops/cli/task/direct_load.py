"""`cdcbus snapshot run --direct`: a large first copy, past Kafka."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.interrupts import INTERRUPTED
from cdcbus.ops.cli.options import bus_options, feed_option, tables_option
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.producer.snapshot.progress import TableProgress, TableState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from cdcbus.plugins.rowchange import TableId
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command("run")
@click.argument("word", metavar="FILE|ID")
@click.option("--direct", is_flag=True, help="Straight from the source into the target.")
@feed_option
@click.option(
    "--readers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="How many connections read the source at the same time, at most.",
)
@tables_option
@click.option(
    "--anew", is_flag=True, help="Start over after an interrupted load; the tables must be empty."
)
@click.option(
    "--others-later",
    is_flag=True,
    help="Load also if Kafka has records of tables that --table leaves out: they get all their "
    "rows by a snapshot that you start after the load.",
)
@json_option
@bus_options
def run(
    word: str,
    direct: bool,
    source: str | None,
    readers: int,
    tables: tuple[str, ...],
    anew: bool,
    others_later: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Load the empty target tables of a consumer task from its source, past Kafka.

    The fetch task that feeds it must run: changes made meanwhile go to Kafka, and the consumer
    task, started afterwards, follows them from before the load and so catches up with the source.
    Spark reads and writes, on a cluster if the task's spark.* keys name one. After an interruption
    (Ctrl-C, a kill) the same command resumes with what is left. Exits 0 when everything is loaded,
    1 on an error, 130 when it was interrupted.
    """
    from cdcbus.tasks.direct.opened import Interrupted
    from cdcbus.tasks.direct.run import run_direct

    if not direct:
        raise ConfigError(
            "cdcbus snapshot run needs --direct; through Kafka the fetch task itself takes the "
            "snapshot: cdcbus snapshot start ID"
        )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("cdcbus").setLevel(logging.INFO)
    try:
        with _Bars(is_wanted=not as_json) as bars:
            found = run_direct(
                word,
                bus,
                source=source,
                readers=readers,
                tables=tables,
                is_anew=anew,
                others_later=others_later,
                on_progress=bars,
            )
    except CdcError as error:
        if as_json:
            print_json({"error": str(error), "tables": []})
        click.secho(str(error), fg="red", err=True)
        code = INTERRUPTED if isinstance(error, Interrupted) else 1
        sys.exit(code)
    _print_loaded(found, as_json)


def _print_loaded(found: Mapping[TableId, TableProgress], as_json: bool) -> None:
    if as_json:
        print_json({"error": "", "tables": list(starmap(_fields, found.items()))})
        return
    for table, each in found.items():
        click.echo(
            f"{table}: {each.rows:,} rows, {each.bytes / 1e6:,.1f} MB, {_seconds(each):.1f} s"
        )
    click.echo("all is loaded: start the consumer task, which resumes from before the load")


def _fields(table: TableId, progress: TableProgress) -> dict[str, Any]:
    return {
        "schema": table.schema,
        "table": table.table,
        **progress.to_fields(),
        "rowsPerSecond": round(_rows_per_second(progress), 1),
    }


def _rows_per_second(progress: TableProgress) -> float:
    seconds = _seconds(progress)
    if not seconds:
        return 0.0
    return progress.rows / seconds


def _seconds(progress: TableProgress) -> float:
    return max(0, progress.updated_ms - progress.started_ms) / 1000


class _Bars:
    """A bar for each table, on a terminal."""

    def __init__(self, *, is_wanted: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress: Progress | None = None
        self._bars: dict[TableId, TaskID] = {}
        if is_wanted and console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn(
                    "{task.completed:,.0f} rows  {task.fields[size]:,.1f} MB  "
                    "{task.fields[rate]:,.0f} rows/s"
                ),
                TimeRemainingColumn(),
                console=console,
            )

    def __enter__(self) -> _Bars:
        if self._progress:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress:
            self._progress.stop()

    def __call__(self, tables: Mapping[TableId, TableProgress]) -> None:
        if not self._progress:
            return
        for table, each in tables.items():
            if table not in self._bars:
                self._bars[table] = self._progress.add_task(str(table), size=0.0, rate=0.0)
            # The estimate can be too small: a bar is full only once its table is done.
            total = max(each.estimated_rows, each.rows + 1)
            if each.state is TableState.DONE:
                total = each.rows
            self._progress.update(
                self._bars[table],
                total=total,
                completed=each.rows,
                size=each.bytes / 1e6,
                rate=_rows_per_second(each),
            )
