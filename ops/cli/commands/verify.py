"""`cdcbus verify`: checks whether source and target are equal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cdcbus.ops.cli.options import EXIT_CODE, bus_options
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.plugins.errors import CdcError

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.verify.compare import Comparison
    from cdcbus.tasks.verify.repair import Planned
    from cdcbus.tasks.verify.report import Example, TableReport
    from cdcbus.tasks.verify.run import Opened

# The exit code where it could not find out; 1 stands for differences.
FAILED = 2
PLANNED_SHOWN = 100


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
@click.option(
    "--source",
    metavar="FILE|ID",
    help="The fetch task that feeds the topics; default: the one found beside the task.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Only this table, by its name at the source or the target; repeatable.",
)
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
    is_last: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Prove that the target tables of a consumer task equal the source tables.

    Both databases sum up checksums of the mapped columns, chunk by chunk; where they differ, rows
    are read from both and compared as the task would write them. A row that differs is rechecked
    once the changes up to then have arrived, so tables can change meanwhile. Changes nothing except
    with --repair or --prune. The result for all tables of a task that is named by its ID is kept
    for --last and the console. Exits 0 when all rows are equal, 1 when some differ, 2 when it could
    not find out.
    """
    if is_last:
        _show_last(word, bus, as_json=as_json)
    mending = _Mending(is_repairing, is_pruning, dry_run, yes, shows=not as_json)
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
            _Progress(not as_json) as progress,
            opened(
                word,
                bus,
                source,
                is_repairing=mending.is_sending,
                is_sending=mending.is_sending and not dry_run,
            ) as both,
        ):
            found = verify_tables(both, options, tables, where, progress)
            _mend(found, both, mending, progress, reports)
            # Only a verify of all rows describes the task as a whole.
            is_whole = not tables and not where and sample == 1
            if is_whole and not is_file(word):
                _keep(both, reports, begun)
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
    mending: _Mending,
    progress: _Progress,
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


def _keep(both: Opened, reports: list[TableReport], begun: str) -> None:
    """Stores the result for --last. A failure to do so is a warning: the result stands."""
    from cdcbus.tasks.process_identity import operator
    from cdcbus.tasks.verify.last import VerifyNodes, last_verify
    from cdcbus.tasks.verify.run import may_belong
    from cdcbus.tasks.zookeeper.znode import now

    nodes, task_id = VerifyNodes(both.zookeeper), both.task.task_id
    try:
        last = last_verify(
            reports, nodes.last(task_id), begun, now(), operator(), partial(may_belong, both)
        )
        nodes.put_last(task_id, last)
    except CdcError as error:
        click.secho(f"the result is not kept for --last: {error}", fg="yellow", err=True)


def _show_last(word: str, bus: BusSettings, *, as_json: bool) -> NoReturn:
    """Prints the last result, and exits as that verify did."""
    from cdcbus.ops.services.zookeeper_client import bus_client
    from cdcbus.tasks.control.source_of import consumer_task
    from cdcbus.tasks.control.uses import Uses
    from cdcbus.tasks.verify.last import VerifyNodes, line_of

    task_id = consumer_task(word, bus, Uses.NOTHING).task_id
    with bus_client(bus) as client:
        last = VerifyNodes(client).last(task_id)
    if last is None:
        if as_json:
            print_json(None)
        else:
            click.echo(f"task {task_id} has not been verified yet", err=True)
        sys.exit(FAILED)
    if as_json:
        print_json(last.to_fields())
    else:
        click.echo(line_of(last))
        for each in last.tables:
            line = f"  {each.table}: {each.result}, {each.differences:,} rows"
            if each.since:
                line += f", since {each.since} UTC"
            if each.error:
                line += f": {each.error}"
            click.echo(line)
    # Any other result, such as an error, counts as one that could not find out.
    codes = {"equal": 0, "different": 1, "behind": 1}
    sys.exit(codes.get(last.word, FAILED))


@dataclass(frozen=True, slots=True)
class _Mending:
    """What --repair and --prune do with the rows of a table that differ."""

    is_repairing: bool
    is_pruning: bool
    dry_run: bool
    yes: bool
    shows: bool

    @property
    def is_sending(self) -> bool:
        return self.is_repairing or self.is_pruning

    def check_usage(self) -> None:
        """Raises UsageError for options that do not go together."""
        is_asking = not self.dry_run and not self.yes
        if not self.is_sending:
            if not is_asking:
                raise click.UsageError("--dry-run and --yes go with --repair or --prune")
        elif is_asking and not self.shows:
            raise click.UsageError("--json cannot ask: add --dry-run or --yes")

    def repair(self, both: Opened, comparison: Comparison) -> None:
        """Shows what would be published. Publishes it and compares again unless this is a dry run
        or the operator declines."""
        from cdcbus.tasks.process_identity import operator
        from cdcbus.tasks.verify.repair import (
            PRUNED,
            REPAIRED,
            planned,
            refusal,
            repair,
            repairable,
        )
        from cdcbus.tasks.zookeeper.audit import audited

        report = comparison.report
        report.not_repaired = refusal(comparison)
        if report.not_repaired:
            return
        kinds = REPAIRED if self.is_repairing else PRUNED
        report.planned = planned(comparison, kinds)
        if self.shows:
            _print_planned(report.planned)
        if self.dry_run or not report.planned:
            return
        if not self.yes and not _is_confirmed(report):
            report.not_repaired = "declined"
            return
        option = "--repair" if self.is_repairing else "--prune"
        what = f"verify {option}: {len(report.planned)} rows of {report.target}"
        with audited(both.zookeeper, operator(), what, f"task {both.task.task_id}"):
            for sent in repair(comparison, both.lag, repairable(comparison, kinds)):
                report.repaired += len(sent)
        # The report is about what is left.
        comparison.look_again()


def _print_planned(planned: Sequence[Planned]) -> None:
    for each in planned[:PLANNED_SHOWN]:
        click.echo(f"{each.op} {each.table} {_key(each.key)} to topic {each.topic}")
    more = len(planned) - PLANNED_SHOWN
    if more > 0:
        click.echo(f"and {more:,} more")


def _is_confirmed(report: TableReport) -> bool:
    from cdcbus.plugins.rowchange import Op

    deletes = sum(each.op is Op.DELETE for each in report.planned)
    return click.confirm(
        f"Publish {_counted(len(report.planned), 'row')} of {report.target} from the source, "
        f"{deletes:,} of them as deletes?",
        err=True,
    )


class _Progress:
    """A line of progress on a terminal, below the reports."""

    def __init__(self, is_wanted: bool) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = None
        if is_wanted:
            self._status = self._console.status("")

    def __enter__(self) -> _Progress:
        if self._status and self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hides the line while a question is asked."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def __call__(self, table: str, rows: int, of: int) -> None:
        if self._status:
            # The number is a server's estimate, and can be too small.
            share = f" of about {of:,}" if of > rows else ""
            self._status.update(f"{table}: {rows:,}{share} rows compared")

    def print(self, report: TableReport) -> None:
        for line in lines_of(report):
            click.echo(line)


def lines_of(report: TableReport) -> list[str]:
    """The lines that are printed for a table."""
    heading = f"{report.target}: {report.result}"
    if report.error:
        return [heading, f"  {report.error}"]
    lines = [
        f"{heading}, {_counted(report.source_rows, 'row')} at the source, "
        f"{report.target_rows:,} at the target, {_counted(report.chunks, 'chunk')}, "
        f"{report.seconds:.1f} s"
    ]
    if report.chunks_skipped:
        lines.append(f"  {_counted(report.chunks_skipped, 'chunk')} skipped (--sample)")
    counts = []
    for kind, count in report.counts.items():
        if count:
            counts.append(f"{count:,} {kind}")
    if counts:
        lines.append(f"  {', '.join(counts)}")
    if report.is_cut:
        lines.append("  so many rows differ that the rest of the table was not read")
    if report.changing:
        be = "is" if report.changing == 1 else "are"
        lines.append(
            f"  {_counted(report.changing, 'row')} kept changing and {be} not known to be equal"
        )
    if report.behind:
        differ = "differs" if report.behind == 1 else "differ"
        reason = (
            "the changes up to now have not arrived: start the tasks, or wait longer with "
            "--patience"
        )
        if report.is_partial:
            reason = (
                "the task reads only some partitions (consumer.source.partition), and whether "
                "changes of the others have arrived is not known: run it again"
            )
        lines.append(f"  {_counted(report.behind, 'row')} {differ}, but {reason}")
    if report.of_others:
        be = "is" if report.of_others == 1 else "are"
        lines.append(
            f"  {_counted(report.of_others, 'row')} that only the target has {be} not counted: "
            f"rows of other tasks ({', '.join(report.others)}) go to this table, too"
        )
    if report.repaired:
        lines.append(f"  {_counted(report.repaired, 'row')} published; this is the result after it")
    if report.not_repaired:
        lines.append(f"  not repaired: {report.not_repaired}")
    if report.left_out:
        lines.append(
            f"  columns that are not compared, because of their types or because not all source "
            f"tables have them: {', '.join(report.left_out)}"
        )
    for example in report.examples:
        lines.append(f"  {_shown(example)}")
    return lines


def _shown(example: Example) -> str:
    text = f"{example.kind} {_key(example.key) or 'row ' + example.digest}"
    source, target = example.source, example.target
    if source is None and target is None:  # without --show-values
        if not example.columns:
            return text
        return f"{text}: {', '.join(example.columns)}"
    if source is None or target is None:
        rest = dict(source or target or {})
        for name in example.key:
            rest.pop(name, None)
        if not rest:
            return text
        return f"{text}: {_key(rest)}"
    cells = []
    for name in source:
        at_source, at_target = _cell(source[name]), _cell(target[name])
        cells.append(f"{name}: {at_source} at the source, {at_target} at the target")
    return f"{text}: {'; '.join(cells)}"


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def _key(cells: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={_cell(cell)}" for name, cell in cells.items())


def _cell(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    return repr(cell)
