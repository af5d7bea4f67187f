"""Tables for people: columns as wide as their text, so that any program can cut them out as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


def print_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The last column is as long as it is."""
    table = [tuple(heading), *(tuple(cell or "-" for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading) - 1)]
    for number, row in enumerate(table):
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def print_json(value: Any) -> None:
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
