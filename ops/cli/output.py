"""What commands print: tables for people, with columns of fixed width, and JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; "-" stands for an empty cell."""
    table = [list(heading)]
    for row in rows:
        table.append([cell or "-" for cell in row])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    widths[-1] = 0  # nothing follows that would have to be aligned
    for number, row in enumerate(table):
        line = "  ".join(map(str.ljust, row, widths)).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def print_json(value: Any) -> None:
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
