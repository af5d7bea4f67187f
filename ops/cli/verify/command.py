"""`cdcbus verify`: checks whether source and target are equal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.options import EXIT_CODE, bus_options, feed_option, tables_option
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.verify.last import FAILED, keep, show_last
from cdcbus.ops.cli.verify.mending import Mending
from cdcbus.ops.cli.verify.progress import Progress
from cdcbus.plugins.errors import CdcError

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.verify.compare import Comparison
    from cdcbus.tasks.verify.report import TableReport
    from cdcbus.tasks.verify.run import Opened


class Share(click.ParamType[float]):
    """A percentage as a share of one."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        # The default is a share already.
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).removesuffix("%")) / 100
        except ValueError:
            # Refused below, with the same sentence as a share that is out of range.
            share = 0.0
        if not 0 < share <= 1 or not str(value).endswith("%"):
            self.fail(f"{value}; expected a percentage; example: 5%", param, ctx)
        return share


class Verify(click.Command):
    """Exits with FAILED after any error, also one of its settings, or an unexpected one."""

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[EXIT_CODE] = FAILED
        return super().invoke(ctx)


@click.command("verify", cls=Verify)
@click.argument("word", metavar="FILE|ID")
@feed_option
@tables_option
@click.option(
    "--sample",
    type=Share(),
    default=1.0,
    metavar="PERCENT",
    help="Only about this share of the chunks, chosen at random; example: 5%.",
)
@click.option(
    "--where",
    default="",
    metavar="SQL",
    help="Only these rows, by columns of the source; example: \"id > 1000 AND state = 'new'\".",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to recheck rows that differ, so that changes have time to arrive.",
)
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="ROWS",
    help="Read at most this many rows of the source per second.",
)
@click.option(
    "--show-values", "shows_values", is_flag=True, help="Also show the cells that differ."
)
@click.option(
    "--repair",
    "is_repairing",
    is_flag=True,
    help="Publish the rows that differ again from the source, through their topic.",
)
@click.option(
    "--prune",
    "is_pruning",
    is_flag=True,
    help="Only the deletes of --repair: rows that the source no longer has, as after a snapshot.",
)
@click.option(
    "--dry-run", is_flag=True, help="With --repair, --prune: only show what would be published."
)
@click.option("--yes", is_flag=True, help="With --repair, --prune: do not ask.")
@click.option(
    "--target-at-rest",
    "is_at_rest",
    is_flag=True,
    help="For servers that are copied into each other: nobody writes at the target, and the source "
    "has all changes that were made there, which verify cannot always find out.",
)
@click.option(
    "--last",
    "is_last",
    is_flag=True,
    help="Only show the result of the task's last verify, by verify.schedule or by hand; compares "
    "nothing.",
)
@json_option
@bus_options
def verify(
    word: str,
    source: str | None,
    tables: tuple[str, ...],
    sample: float,
    where: str,
    patience: float,
    throttle: int | None,
    shows_values: bool,
    is_repairing: bool,
    is_pruning: bool,
    dry_run: bool,
    yes: bool,
    is_at_rest: bool,
    is_last: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Prove that the target tables of a consumer task equal the source tables.

    Both databases hash the mapped columns, chunk by chunk, if they can produce the same texts.
    Otherwise, and where hashes differ, rows are read from both and compared as the task would write
    them. A row that differs is rechecked once the changes up to then have arrived, so tables can
    change meanwhile. Changes nothing except with --repair or --prune. The result for all tables of
    a task that is named by its ID is kept for --last and the console. Exits 0 when all rows are
    equal, 1 when some differ, 2 when it could not find out.
    """
    if is_last:
        show_last(word, bus, as_json=as_json)
    mending = Mending(is_repairing, is_pruning, dry_run, yes, shows=not as_json)
    mending.check_usage()
    from cdcbus.tasks.control.named_task import is_file
    from cdcbus.tasks.verify.compare import Options
    from cdcbus.tasks.verify.report import exit_code
    from cdcbus.tasks.verify.run import opened
    from cdcbus.tasks.verify.run import verify as verify_tables
    from cdcbus.tasks.zookeeper.znode import now

    options = Options(sample, patience, throttle or 0, shows_values)
    reports: list[TableReport] = []
    begun = now()
    try:
        with (
            Progress(not as_json) as progress,
            opened(
                word,
                bus,
                source,
                is_repairing=mending.is_sending,
                is_sending=mending.is_sending and not dry_run,
                is_at_rest=is_at_rest,
            ) as both,
        ):
            found = verify_tables(both, options, tables, where, progress)
            _mend(found, both, mending, progress, reports)
            # Only a verify of all rows describes the task as a whole.
            is_whole = not tables and not where and sample == 1
            if is_whole and not is_file(word):
                keep(both, reports, begun)
    except CdcError as error:
        if as_json:
            _print_reports(reports, str(error))
        click.secho(str(error), fg="red", err=True)
        sys.exit(FAILED)
    if as_json:
        _print_reports(reports)
    sys.exit(exit_code(reports))


def _mend(
    found: Iterable[tuple[TableReport, Comparison | None]],
    both: Opened,
    mending: Mending,
    progress: Progress,
    reports: list[TableReport],
) -> None:
    """Adds each report to `reports`, also the one of a table whose repair fails."""
    for report, comparison in found:
        reports.append(report)
        if mending.is_sending and comparison is not None and comparison.different:
            with progress.paused():
                mending.repair(both, comparison)
        if mending.shows:
            progress.print(report)


def _print_reports(reports: list[TableReport], error: str = "") -> None:
    print_json({"error": error, "tables": [each.to_fields() for each in reports]})
