"""The fault matrix: each part is killed, stopped for a while, cut off or made slow under each load,
and source and target are equal afterwards by `cdcbus verify`.

    .venv/bin/python -m tests.matrix [--minutes 30] [--seed N] [--cell "TEXT" ...]
                                     [--seconds 30] [--json FILE] [--markdown FILE]

The seed gives the order of the cells, which run until the minutes are over. Exit code 1 where one
of them does not end as promised.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from cdcbus.ops.stack.stack import down
from tests.matrix.cells import Cell, all_cells
from tests.matrix.clusters import world_of
from tests.matrix.outcomes import Outcome, from_json, left_out, table, to_json
from tests.matrix.run_cell import outcome
from tests.matrix.world import QUIET


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="Begin no cell after these.")
@click.option("--seconds", default=30.0, show_default=True, help="How long a fault lasts.")
@click.option("--seed", type=int, default=lambda: time.time_ns() % 2**32)
@click.option("--cell", "wanted", multiple=True, help="Only cells whose name has this text.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path),
    help="Keeps outcomes there, with those of earlier runs: cells that were good come last.",
)
@click.option("--markdown", type=click.Path(path_type=Path), help="Writes the tables there.")
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
    found: dict[Cell, Outcome] = {}
    if file is not None and file.exists():
        found = {each.cell: each for each in from_json(file.read_text(encoding="utf-8"))}
    cells = _in_order(wanted, found, chance)
    failed, done = 0, 0
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="cdcbus-matrix-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        try:
            while cells and time.monotonic() < until:
                with ExitStack() as stack:
                    place = Path(tempfile.mkdtemp(dir=folder))
                    kind = world_of(cells[0])
                    world = kind(folder / "stack", place, seed, stack)
                    while cells and world_of(cells[0]) is kind and time.monotonic() < until:
                        cell = cells.pop(0)
                        ended = found[cell] = outcome(world, cell, seconds, chance)
                        done += 1
                        if file is not None:
                            file.write_text(to_json(found.values()), encoding="utf-8")
                        wrong = "; ".join(ended.wrong)
                        took = f"equal after {ended.seconds:.0f} s"
                        console.print(f"{cell}: {wrong or took}", highlight=False)
                        if wrong:  # the next ones begin with an intact world
                            failed += 1
                            kept = Path(tempfile.mkdtemp(prefix="cdcbus-cell-")) / "said.log"
                            kept.write_text(world.bus.said())
                            console.print(f"what nodes and tasks have said is in {kept}")
                            break
        finally:
            down(folder / "stack", purge=True, console=QUIET)
    if markdown is not None:
        markdown.write_text(f"{table(found.values())}\n{left_out()}", encoding="utf-8")
    console.print(f"{done} cells, {failed} of them not as promised")
    sys.exit(bool(failed))


def _in_order(
    wanted: tuple[str, ...], found: dict[Cell, Outcome], chance: random.Random
) -> list[Cell]:
    """At random, but those that never ran first, and those that were good before last; of each,
    those of one kind of world in a row."""
    cells = []
    for cell in all_cells():
        if all(text in str(cell) for text in wanted):
            cells.append(cell)
    chance.shuffle(cells)
    worlds = list(dict.fromkeys(map(world_of, cells)))

    def place(cell: Cell) -> tuple[bool, bool, int]:
        last = found.get(cell)
        is_good = last is not None and last.by_states and not last.wrong
        return last is not None, is_good, worlds.index(world_of(cell))

    return sorted(cells, key=place)


if __name__ == "__main__":
    main()
