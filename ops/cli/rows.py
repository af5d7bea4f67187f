"""Rows of any kind as a table for people or as JSON. Apart from `output`, since it imports rich."""

from __future__ import annotations

import sys
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from cdcbus.ops.cli.output import print_json
from cdcbus.tasks.config.diagnostics import printable

WIDTH: Final = 160  # of tables where no terminal gives one


def wide_console(**options: Any) -> Console:
    """A console as wide as the terminal; without one, wide enough that no table is folded."""
    if not sys.stdout.isatty():
        options["width"] = WIDTH
    return Console(**options)


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Prints a table with the keys as its heading, or JSON."""
    if as_json:
        print_json(rows)
        return
    console = wide_console(highlight=False, markup=False)
    if not rows:
        console.print("none")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        is_number = isinstance(value, int | float)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_shown, row.values()))
    console.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return printable(str(value))
