"""What `cdcbus task check` finds out about task files, and how it is printed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.tasks.config import read_task
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.preflight.result import CheckResult, Outcome

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings

WIDTH = 160  # of tables where there is no terminal to ask
STYLES = {"error": "red", "warning": "yellow", "note": "dim", "ok": "green"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One task: what stands in it, and what was seen of its systems; `results` None where those
    were not looked at."""

    place: str
    diagnostics: list[Diagnostic]
    results: list[CheckResult] | None = None

    def is_good(self, strict: bool) -> bool:
        """Whether there are no errors; `strict`: no warnings either."""
        bad = {"error", "warning"} if strict else {"error"}
        return not bad & {
            *(f.severity for f in self.diagnostics),
            *(o.outcome for o in self.results or ()),
        }


def check_word(word: str, bus: BusSettings, offline: bool) -> Checked:
    """Reads the task of a file or an id, and looks at its systems if it has no errors; `offline`:
    reads a file only.

    To look at them takes the secrets, so one that cannot be had is an error then.
    """
    from cdcbus.tasks.control.named_task import inspect_named, is_file, place_of

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what goes wrong is told in one sentence
    place = place_of(word)
    try:
        if not offline:
            inspection = inspect_named(word, bus, Severity.ERROR)
        elif is_file(word):
            inspection = read_task.inspect_task(
                Path(word), bus.filling, sources=bus.local_source_lookup(Path(word))
            )
        else:
            raise ConfigError(
                "no such file, and a task's id is looked for in ZooKeeper; check the name, or "
                f"leave out --offline: {word}"
            )
    except CdcError as error:
        return Checked(
            place, [Diagnostic(Severity.ERROR, 0, "", str(error).removeprefix(f"{place}: "))]
        )
    diagnostics = [
        diagnostic for severity in Severity for diagnostic in inspection.diagnostics.of(severity)
    ]
    if inspection.task is None or offline:
        return Checked(place, diagnostics)
    # brings the drivers, which reading alone does not need
    from cdcbus.tasks.preflight.check import check_task

    return Checked(
        place, diagnostics, check_task(inspection.task, bus.zookeeper, bus.zookeeper_auth)
    )


def as_fields(checked: Checked, strict: bool) -> dict[str, Any]:
    """For JSON. `connections` is null where they were not looked at."""
    diagnostics = [
        {"severity": f.severity, "line": f.line, "key": f.key, "sentence": f.sentence}
        for f in checked.diagnostics
    ]
    connections = None
    if checked.results is not None:
        connections = [
            {"outcome": o.outcome, "subject": o.subject, "found": o.found, "cure": o.remedy}
            for o in checked.results
        ]
    return {
        "file": checked.place,
        "ok": checked.is_good(strict),
        "findings": diagnostics,
        "connections": connections,
    }


def print_checked(checked: Checked) -> None:
    """One or two tables, with colours on terminals only."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(
        Text(
            f"{checked.place}: {_counted((f.severity for f in checked.diagnostics), Severity)}",
            "bold",
        )
    )
    if checked.diagnostics:
        console.print(_finding_table(checked.diagnostics))
    if checked.results is not None:
        print_observations("connections", checked.results)


def print_observations(what: str, results: list[CheckResult]) -> None:
    """How many there are of each outcome, and a table of them."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(Text(f"{what}: {_counted((o.outcome for o in results), Outcome)}", "bold"))
    console.print(_observation_table(results))


def _counted(words: Iterable[str], all_words: Iterable[str]) -> str:
    found = list(words)
    counts = {word: found.count(word) for word in all_words}
    return ", ".join(
        f"{count} {word}{'s'[: word != 'ok' and count != 1]}" for word, count in counts.items()
    )


def _finding_table(diagnostics: Iterable[Diagnostic]) -> Table:
    table = Table("line", "", "key", "finding", box=None, pad_edge=True)
    table.columns[2].overflow = "fold"
    for diagnostic in diagnostics:
        line = str(diagnostic.line) if diagnostic.line else "-"
        table.add_row(
            line,
            Text(diagnostic.severity, STYLES[diagnostic.severity]),
            Text(diagnostic.key),
            Text(diagnostic.sentence),
        )
    return table


def _observation_table(results: Iterable[CheckResult]) -> Table:
    """What to do stands below what was found, so that a line has room in 100 columns."""
    table = Table("", "looked at", "found", box=None, pad_edge=True)
    table.columns[1].overflow = "fold"
    table.columns[1].max_width = 34
    for seen in results:
        found = Text(seen.found)
        if seen.remedy:
            found.append(f"\n→ {seen.remedy}", "bold")
        table.add_row(Text(seen.outcome, STYLES[seen.outcome]), Text(seen.subject), found)
    return table
