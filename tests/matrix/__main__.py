"""The fault matrix: each part is killed, stopped for a while, cut off or made slow under each load,
and source and target are equal afterwards by `cdcbus verify`.

    .venv/bin/python -m tests.matrix [--minutes 30] [--seed N] [--cell "TEXT" ...]
                                     [--seconds 30] [--json FILE] [--markdown FILE]

The seed gives the order of the cells, which run until the minutes are over. Exit code 1 where one
of them does not end as promised.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cdcbus.ops.stack.stack import down
from tests.matrix.cells import Outcome, all_cells, table
from tests.matrix.run_cell import outcome
from tests.matrix.world import QUIET, World


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="Begin no cell after these.")
@click.option("--seconds", default=30.0, show_default=True, help="How long a fault lasts.")
@click.option("--seed", type=int, default=lambda: time.time_ns() % 2**32)
@click.option("--cell", "wanted", multiple=True, help="Only cells whose name has this text.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keeps outcomes there.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Writes the table there.")
def main(
    minutes: float,
    seconds: float,
    seed: int,
    wanted: tuple[str, ...],
    file: Path | None,
    markdown: Path | None,
) -> None:
    """Says how each cell has ended."""
    console = Console()
    console.print(f"seed {seed}")
    chance = random.Random(seed)
    cells = []
    for cell in all_cells():
        if all(text in str(cell) for text in wanted):
            cells.append(cell)
    chance.shuffle(cells)
    found: list[Outcome] = []
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="cdcbus-matrix-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        try:
            while cells and time.monotonic() < until:
                with ExitStack() as stack:
                    place = Path(tempfile.mkdtemp(dir=folder))
                    world = World(folder / "stack", place, seed, stack)
                    while cells and time.monotonic() < until:
                        cell = cells.pop()
                        found.append(outcome(world, cell, seconds, chance))
                        wrong = "; ".join(found[-1].wrong)
                        took = f"equal after {found[-1].seconds:.0f} s"
                        console.print(f"{cell}: {wrong or took}", highlight=False)
                        if wrong:  # the next ones begin with an intact world
                            kept = Path(tempfile.mkdtemp(prefix="cdcbus-cell-")) / "said.log"
                            kept.write_text(world.bus.said())
                            console.print(f"what nodes and tasks have said is in {kept}")
                            break
        finally:
            down(folder / "stack", purge=True, console=QUIET)
    if file is not None:
        rows = list(map(_row, found))
        file.write_text(json.dumps({"seed": seed, "cells": rows}, indent=1) + "\n")
    if markdown is not None:
        markdown.write_text(table(found), encoding="utf-8")
    failed = [each for each in found if each.wrong]
    console.print(f"{len(found)} cells, {len(failed)} of them not as promised")
    sys.exit(bool(failed))


def _row(outcome: Outcome) -> dict[str, Any]:
    cell = outcome.cell
    return {
        "victim": cell.victim,
        "fault": cell.fault,
        "load": cell.load,
        "seconds": round(outcome.seconds, 1),
        "wrong": list(outcome.wrong),
    }


if __name__ == "__main__":
    main()
