"""The command `cdcbus task run`: one task in this process."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command("run")
@click.argument("word", metavar="FILE|ID")
@click.option(
    "--until",
    metavar="now|TIME|PLACE",
    help="End with exit code 0 once everything before it is delivered. A fetch task takes an ISO "
    "time, file:position or a GTID set; a consumer task a time by Kafka's clock, or the last "
    "offset to apply. now: everything that exists at the start.",
)
@click.option(
    "--positions",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep positions, and everything else the task stores, in this file instead of ZooKeeper. "
    "One process at a time; nodes, console, alarms and other commands do not see the task.",
)
@bus_options
def run(word: str, until: str | None, positions: Path | None, bus: BusSettings) -> None:
    """Run the task in FILE, or task ID in ZooKeeper, in this process until Ctrl-C or SIGTERM, or
    until it has reached --until.

    A word that contains / or ends in .properties is a file; so is any other that names an existing
    file.
    """
    if positions is not None and click.get_current_context().params["zookeeper"] is not None:
        raise click.UsageError("give --zookeeper or --positions: each says where positions are")
    from cdcbus.ops.node.task_end import reported_to_node
    from cdcbus.tasks.config.diagnostics import Severity
    from cdcbus.tasks.control.named_task import (
        inspect_named,
        inspect_without_zookeeper,
        ready_task,
    )
    from cdcbus.tasks.control.until import bounded_by
    from cdcbus.tasks.process_identity import end_with_node, patiently

    # other packages log from WARNING up
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("cdcbus").setLevel(logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    # Before anything that takes time, so that the process never outlives its node.
    end_with_node()
    with reported_to_node(word):
        if positions is not None:
            inspection = inspect_without_zookeeper(word, bus, Severity.ERROR)
        else:
            inspection = patiently(lambda: inspect_named(word, bus, Severity.ERROR))
        task = ready_task(word, bus, inspection)
        if until is not None:
            task = bounded_by(task, until)
        if positions is not None:
            from cdcbus.tasks.runtime.without_zookeeper import run_with_file

            is_over = run_with_file(task, positions)
        else:
            from cdcbus.tasks.control.beside import refuse_others_names
            from cdcbus.tasks.runtime.runner import run_task

            patiently(lambda: refuse_others_names(task, bus))
            is_over = run_task(task, bus.zookeeper, bus.zookeeper_auth, bus.lock_times)
    if task.until is not None and not is_over:
        # Exit code 130: it was stopped before it had reached --until.
        raise click.Abort
