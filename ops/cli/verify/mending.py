"""--repair and --prune: shows, asks, publishes, and compares again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from cdcbus.ops.cli.verify.lines import cells_text, counted, unheld_lines

if TYPE_CHECKING:
    from cdcbus.tasks.verify.compare import Comparison
    from cdcbus.tasks.verify.repair import Planned
    from cdcbus.tasks.verify.report import TableReport
    from cdcbus.tasks.verify.run import Opened

PLANNED_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Mending:
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
        from cdcbus.tasks.verify.repair import NotRepaired, planned, repair
        from cdcbus.tasks.verify.run import repair_refusal
        from cdcbus.tasks.verify.sendable import PRUNED, REPAIRED, repairable, unheld
        from cdcbus.tasks.zookeeper.audit import audited

        report = comparison.report
        report.not_repaired = repair_refusal(both, comparison)
        if report.not_repaired:
            return
        kinds = REPAIRED if self.is_repairing else PRUNED
        report.planned = planned(comparison, kinds)
        report.unheld = unheld(comparison, kinds)
        if self.shows:
            _print_planned(report.planned)
            # Before the question, as the rows stay different whatever is published.
            for line in unheld_lines(report):
                click.echo(line)
        if self.dry_run or not report.planned:
            return
        if not self.yes and not _is_confirmed(report):
            report.not_repaired = "declined"
            return
        option = "--repair" if self.is_repairing else "--prune"
        what = f"verify {option}: {len(report.planned)} rows of {report.target}"
        try:
            with audited(both.zookeeper, operator(), what, f"task {both.task.task_id}"):
                for sent in repair(comparison, both.lag, repairable(comparison, kinds)):
                    report.repaired += len(sent)
        except NotRepaired as error:
            # The other tables' turn comes all the same.
            report.not_repaired = str(error)
        # The report is about what is left.
        comparison.look_again()


def _print_planned(planned: Sequence[Planned]) -> None:
    for each in planned[:PLANNED_SHOWN]:
        click.echo(f"{each.op} {each.table} {cells_text(each.key)} to topic {each.topic}")
    more = len(planned) - PLANNED_SHOWN
    if more > 0:
        click.echo(f"and {more:,} more")


def _is_confirmed(report: TableReport) -> bool:
    from cdcbus.plugins.rowchange import Op

    deletes = sum(each.op is Op.DELETE for each in report.planned)
    return click.confirm(
        f"Publish {counted(len(report.planned), 'row')} of {report.target} from the source, "
        f"{deletes:,} of them as deletes?",
        err=True,
    )
