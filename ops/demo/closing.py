"""What is printed at the end: the verdict, and where to look further."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.table import Table

from cdcbus.ops.demo.first_copy import Verified
from cdcbus.ops.demo.fresh import TOPIC
from cdcbus.ops.demo.run import Options
from cdcbus.ops.demo.shop.schema import SCHEMA
from cdcbus.ops.demo.task_files import FETCH
from cdcbus.ops.demo.verdict import Comparisons, verdict_sentences, verdict_table
from cdcbus.ops.demo.words import command, shown
from cdcbus.tasks.zookeeper.position.znodes import position_path


def verdict(comparisons: Comparisons | Verified) -> Sequence[RenderableType]:
    """The verdict as it is printed."""
    if isinstance(comparisons, Verified):
        return comparisons.shown()
    return [verdict_table(comparisons), *verdict_sentences(comparisons)]


def print_verdict(comparisons: Comparisons | Verified, console: Console) -> None:
    for part in verdict(comparisons):
        console.print(part, highlight=False)
    console.print()


def print_closing(options: Options, console: Console, *, is_up: bool) -> None:
    """Prints where to look further; `is_up`: the servers still run."""
    home = options.home
    if options.keep:
        console.print("[bold]Everything is still running.[/] Stop it with")
        _print_commands([command("demo", "--stop", home=home)], console)
    elif not is_up:
        console.print("The servers are stopped, with all data kept. Start them again with")
        _print_commands([command("stack", "up", home=home)], console)
    console.print("Look at a position, records, rows with")
    reader = options.targets[0]
    _print_commands(
        [
            command(
                "stack", "zkcli", home=home, rest=("get", position_path(reader.task_id, TOPIC))
            ),
            command("stack", "zkcli", home=home, rest=("get", position_path(FETCH, SCHEMA))),
            command(
                "stack",
                "kafka-console-consumer",
                home=home,
                rest=("--topic", TOPIC, "--from-beginning", "--max-messages", "3"),
            ),
            command(
                "stack",
                "sql",
                home=home,
                rest=(reader.server, f"SELECT * FROM {SCHEMA}.shelf_places LIMIT 5"),
            ),
            command("stack", "status", home=home),
        ],
        console,
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("task files", f"[cyan]{shown(options.folder)}/demo-*.properties[/]")
    table.add_row("logs", f"[cyan]{shown(options.folder)}/logs/demo-*.log[/]")
    console.print(table)


def _print_commands(lines: Sequence[str], console: Console) -> None:
    for line in lines:
        console.print(f"  {line}", style="cyan", highlight=False, soft_wrap=True, markup=False)
