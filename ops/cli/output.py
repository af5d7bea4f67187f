"""What commands print: tables for people, whose columns any program can cut out as well, and
JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The last column is as long as it is."""
    table = [tuple(heading), *(tuple(cell or "-" for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading) - 1)]
    for number, row in enumerate(table):
        line = "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def print_json(value: Any) -> None:
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
