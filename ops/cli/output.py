"""What commands print: tables for people, with columns of fixed width, and JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

OWES_JSON: Final = "cdcbus.owes_json"
"""In the `meta` of a command's context: whether it is to print JSON, and has printed none yet."""

if TYPE_CHECKING:
    from cdcbus.tasks.config.diagnostics import Diagnostics


def note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    """The callback of each `--json`: an error before any other JSON is printed as JSON, too."""
    ctx.meta[OWES_JSON] = value
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON.", callback=note_json
)


def print_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; "-" stands for an empty cell."""
    table = [list(heading)]
    for row in rows:
        table.append([cell or "-" for cell in row])
    first, *lines = aligned(table)
    click.secho(first, bold=True)
    for line in lines:
        click.echo(line)


def aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line for each row, in which the cells of a column stand below each other."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def print_json(value: Any) -> None:
    """Prints a value as JSON, in UTF-8 whatever the terminal's character set is."""
    import orjson

    if ctx := click.get_current_context(silent=True):
        ctx.meta[OWES_JSON] = False
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def print_findings(diagnostics: Diagnostics, name: str, strict: bool) -> bool:
    """Prints the diagnostics of a file on standard error, errors first. Returns whether the file
    is accepted."""
    from cdcbus.tasks.config.diagnostics import Severity

    for severity in Severity:
        for diagnostic in diagnostics.of(severity):
            click.echo(f"{severity}: {diagnostic.located(name)}", err=True)
    if diagnostics.of(Severity.ERROR):
        return False
    return not strict or not diagnostics.of(Severity.WARNING)
