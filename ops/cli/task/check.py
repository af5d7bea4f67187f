"""The command `cdcbus task check`: what it finds out about tasks, and how it is printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.rows import wide_console
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.tasks.config import read_task
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.preflight.result import CheckResult, Outcome

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings

STYLES = {"error": "red", "warning": "yellow", "note": "dim", "ok": "green"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One task: the diagnostics of its text, and the results of checking its systems. `results` is
    None where the systems were not checked."""

    place: str
    diagnostics: list[Diagnostic]
    results: list[CheckResult] | None = None

    def is_good(self, strict: bool) -> bool:
        """Whether there are no errors; `strict`: no warnings either."""
        bad = {"error"}
        if strict:
            bad.add("warning")
        return bad.isdisjoint([*_severities(self.diagnostics), *_outcomes(self.results or ())])


@click.command("check")
@click.argument("words", nargs=-1, required=True, metavar="FILE|ID...")
@click.option("--offline", is_flag=True, help="Read the files only, connect to nothing.")
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@json_option
@bus_options
def check(
    words: tuple[str, ...], offline: bool, strict: bool, as_json: bool, bus: BusSettings
) -> None:
    """Report what is wrong or odd in tasks and in the systems they connect to, and where a start
    would begin.

    Each argument is a task FILE, or the ID of a task in ZooKeeper. Runs and changes nothing: no
    position, no table, no offset of a group.
    """
    checked = []
    for word in words:
        checked.append(check_word(word, bus, offline))
        if not as_json:
            print_checked(checked[-1])
    if as_json:
        print_json([as_fields(each, strict) for each in checked])
    if not all(each.is_good(strict) for each in checked):
        sys.exit(1)


def check_word(word: str, bus: BusSettings, offline: bool) -> Checked:
    """Reads the task of a file or an id, and checks its systems if it has no errors. `offline`:
    reads a file only. Otherwise a secret that is missing here is an error: logging in needs it."""
    from cdcbus.tasks.control.named_task import inspect_named, is_file, place_of

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
                "no such file, and a task's id is looked up in ZooKeeper; check the name, or "
                f"leave out --offline: {word}"
            )
    except CdcError as error:
        # The place stands above the sentence already.
        sentence = str(error).removeprefix(f"{place}: ")
        return Checked(place, [Diagnostic(Severity.ERROR, 0, "", sentence)])
    diagnostics: list[Diagnostic] = []
    for severity in Severity:  # errors first
        diagnostics += inspection.diagnostics.of(severity)
    if inspection.task is None or offline:
        return Checked(place, diagnostics)
    # Imported here: it loads the drivers, which reading a file does not need.
    from cdcbus.tasks.control.beside import refuse_others_names
    from cdcbus.tasks.preflight.check import check_task

    look_at_others = partial(refuse_others_names, inspection.task, bus)
    results = check_task(inspection.task, bus.zookeeper, bus.zookeeper_auth, look_at_others)
    return Checked(place, diagnostics, results)


def as_fields(checked: Checked, strict: bool) -> dict[str, Any]:
    """The fields for JSON. `connections` is null where the systems were not checked."""
    findings = []
    for each in checked.diagnostics:
        where = {"severity": each.severity, "line": each.line, "key": each.key}
        findings.append({**where, "sentence": each.sentence})
    connections = None
    if checked.results is not None:
        connections = list(map(_result_fields, checked.results))
    return {
        "file": checked.place,
        "ok": checked.is_good(strict),
        "findings": findings,
        "connections": connections,
    }


def _result_fields(result: CheckResult) -> dict[str, str]:
    return {
        "outcome": result.outcome,
        "subject": result.subject,
        "found": result.found,
        "cure": result.remedy,  # the name that scripts know
    }


def print_checked(checked: Checked) -> None:
    """Prints one or two tables, with colours on terminals only."""
    console = wide_console()
    counts = _counted(_severities(checked.diagnostics), Severity)
    console.print(Text(f"{checked.place}: {counts}", "bold"))
    if checked.diagnostics:
        console.print(_diagnostic_table(checked.diagnostics))
    if checked.results is not None:
        print_results("connections", checked.results)


def print_results(what: str, results: list[CheckResult]) -> None:
    """Prints how many results have each outcome, and a table of them."""
    console = wide_console()
    counts = _counted(_outcomes(results), Outcome)
    console.print(Text(f"{what}: {counts}", "bold"))
    console.print(_result_table(results))


def _severities(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [each.severity for each in diagnostics]


def _outcomes(results: Iterable[CheckResult]) -> list[str]:
    return [each.outcome for each in results]


def _counted(words: Sequence[str], all_words: Iterable[str]) -> str:
    counts = []
    for word in all_words:
        count = words.count(word)
        if count != 1 and word != "ok":
            word += "s"
        counts.append(f"{count} {word}")
    return ", ".join(counts)


def _diagnostic_table(diagnostics: Iterable[Diagnostic]) -> Table:
    table = Table("line", "", "key", "finding", box=None, pad_edge=True)
    table.columns[2].overflow = "fold"
    for diagnostic in diagnostics:
        table.add_row(
            str(diagnostic.line or "-"),
            Text(diagnostic.severity, STYLES[diagnostic.severity]),
            Text(diagnostic.key),
            Text(diagnostic.sentence),
        )
    return table


def _result_table(results: Iterable[CheckResult]) -> Table:
    """Each remedy is below what was found, so that a line fits into 100 columns."""
    table = Table("", "looked at", "found", box=None, pad_edge=True)
    table.columns[1].overflow = "fold"
    table.columns[1].max_width = 34
    for seen in results:
        found = Text(seen.found)
        if seen.remedy:
            found.append(f"\n→ {seen.remedy}", "bold")
        table.add_row(Text(seen.outcome, STYLES[seen.outcome]), Text(seen.subject), found)
    return table
