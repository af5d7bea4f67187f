"""What a verify prints while it runs: a line of progress, and each table's report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.verify.lines import lines_of

if TYPE_CHECKING:
    from cdcbus.tasks.verify.report import TableReport


class Progress:
    """A line of progress on a terminal, below the reports."""

    def __init__(self, is_wanted: bool) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = None
        if is_wanted:
            self._status = self._console.status("")

    def __enter__(self) -> Progress:
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
