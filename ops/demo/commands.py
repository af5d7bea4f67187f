"""`cdcbus demo` on the command line."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.output import note_json, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cdcbus.ops.demo.run import Options


def _default_home() -> Path:
    from cdcbus.ops.stack.stack import default_home

    return default_home()


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=30,
    show_default=True,
    metavar="N",
    help="How long rows change.",
)
@click.option(
    "--target",
    type=click.Choice(["postgresql", "mysql", "both"]),
    default="both",
    show_default=True,
    help="Where rows go.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of the random changes.",
)
@click.option(
    "--snapshot",
    is_flag=True,
    help="Begin with tables that have rows: `schema apply` creates the target tables, a snapshot "
    "copies the rows, `verify` compares at the end.",
)
@click.option("--keep", is_flag=True, help="Leave servers and tasks running at the end.")
@click.option(
    "--stop", "only_stop", is_flag=True, help="Only stop what an earlier --keep has left running."
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=_default_home,
    show_default="$CDCBUS_STACK_HOME, or a folder of this user",
    help="Folder that holds the servers' data, task files and logs.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the verdict as JSON; everything else goes to standard error.",
    callback=note_json,
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save what was shown as an SVG file.",
)
def demo(
    seconds: float,
    target: str,
    seed: int,
    snapshot: bool,
    keep: bool,
    only_stop: bool,
    home: Path,
    as_json: bool,
    picture: Path | None,
) -> None:
    """Run the whole pipeline on real servers: rows change in a MariaDB and arrive in a PostgreSQL
    and another MariaDB.

    Starts the servers, creates a small shop in the source, runs one task from its binlog to Kafka
    and one from Kafka to each target, and changes rows. Meanwhile it kills each task once with
    SIGKILL and restarts it. At the end it compares source and targets row by row: exit code 0 says
    that all rows are equal. Ctrl-C stops everything.
    """
    from rich.console import Console

    from cdcbus.ops.demo.run import Options
    from cdcbus.ops.demo.task_files import TARGETS

    # Standard output is for the JSON alone.
    console = Console(stderr=as_json)
    chosen = [each for each in TARGETS if target in (each.name, "both")]
    options = Options(home.absolute(), seconds, chosen, seed, keep, snapshot)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is not signal.SIG_IGN:  # as under nohup
            # as Ctrl-C, so that nothing is left running
            signal.signal(ending, signal.default_int_handler)
    if only_stop:
        _stop(options, console)
    elif not _show(options, console, as_json, picture):
        sys.exit(1)


def _show(options: Options, console: Console, as_json: bool, picture: Path | None) -> bool:
    """Runs the demo. Returns whether all rows were equal."""
    from cdcbus.ops.demo.closing import print_closing, print_verdict, verdict
    from cdcbus.ops.demo.picture import save_picture
    from cdcbus.ops.demo.run import alone, run, servers
    from cdcbus.ops.demo.verdict import is_equal, verdict_fields
    from cdcbus.ops.stack import stack

    with alone(options), servers(options, console) as addresses:
        outcome = run(options, addresses, console)
        print_verdict(outcome.comparisons, console)
    # After the block, as it says whether the servers still run.
    print_closing(options, console, is_up=stack.has_running(options.home))
    if picture:
        save_picture(picture, outcome.scene, verdict(outcome.comparisons))
    if as_json:
        print_json(verdict_fields(outcome.comparisons))
    return is_equal(outcome.comparisons)


def _stop(options: Options, console: Console) -> None:
    from cdcbus.ops.stack import stack
    from cdcbus.ops.stack.demo_tasks import stop_leftovers

    console.print(f"stopped {stop_leftovers(options.folder)} tasks", highlight=False)
    stack.down(options.home, purge=False, console=console)
