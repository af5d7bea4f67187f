"""The tree of the commands of `cdcbus`. Each is imported when it is called, so that help answers
immediately."""

from __future__ import annotations

import logging

import click

from cdcbus import __version__
from cdcbus.ops.cli.groups import Cli, LazyGroup


@click.group(
    "cdcbus",
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"]},
    lazy={
        "stack": (
            "cdcbus.ops.stack.commands:stack",
            "Start and stop real servers on this machine, for trials and tests.",
        ),
        "init": (
            "cdcbus.ops.init.commands:init",
            "Copy tables into another database and keep them equal: from nothing to running.",
        ),
        "config": (
            "cdcbus.ops.cli.commands.config:config",
            "Show the settings that all tasks and commands share.",
        ),
        "source": (
            "cdcbus.ops.cli.commands.source:source",
            "Add, list, show and test named sources.",
        ),
        "dlq": ("cdcbus.ops.cli.commands.dlq:dlq", "List, show, replay and drop dead letters."),
        "demo": (
            "cdcbus.ops.demo.commands:demo",
            "Run the whole pipeline, from a changing database to equal copies.",
        ),
        "node": ("cdcbus.ops.cli.commands.node:node", "Run, list and drain nodes."),
        "snapshot": (
            "cdcbus.ops.cli.commands.snapshot:snapshot",
            "Send the rows that tables already have, and show the progress.",
        ),
        "topic": (
            "cdcbus.ops.cli.commands.topic:topic",
            "Inspect Kafka topics: tables, row changes, lag, offsets at a time.",
        ),
        "doctor": (
            "cdcbus.ops.cli.commands.doctor:doctor",
            "Check each part of this installation: what is wrong, and what to do.",
        ),
        "prepare": (
            "cdcbus.ops.cli.commands.prepare:prepare",
            "Fetch and archive what Spark needs to start fast.",
        ),
        "plugin": (
            "cdcbus.ops.cli.plugin:plugin",
            "List what other packages add: sources, formats, loaders and others.",
        ),
        "audit": ("cdcbus.ops.cli.commands.audit:list_actions", "List what operators did."),
        "alarm": (
            "cdcbus.ops.cli.commands.alarm:alarm",
            "List and silence alarms, and test their channels.",
        ),
        "schema": (
            "cdcbus.ops.cli.commands.schema:schema",
            "Create the target tables of a consumer task from its source tables.",
        ),
        "verify": (
            "cdcbus.ops.cli.verify.command:verify",
            "Prove that source tables and target tables are equal.",
        ),
        "lineage": (
            "cdcbus.ops.cli.commands.lineage:lineage",
            "Show which source table goes where: topic, task, target table.",
        ),
    },
)
@click.version_option(__version__, message="cdcbus %(version)s")
@click.option("--debug", is_flag=True, help="Print the stack trace of an error as well.")
def main(debug: bool) -> None:
    """Change data capture: MySQL or MariaDB binlog to Kafka, Kafka to PostgreSQL, MySQL or Oracle.

    A task is one .properties file; ZooKeeper keeps its position. Exit codes: 0 done, 1 an error, 2
    wrong usage, 130 interrupted.
    """
    # Its errors become one sentence of ours.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


@main.group(
    cls=LazyGroup,
    lazy={
        "export": (
            "cdcbus.ops.cli.task.export:export_task",
            "Write a task in ZooKeeper to a task file.",
        ),
        "import": (
            "cdcbus.ops.cli.task.import_:import_task",
            "Put tasks into ZooKeeper, from task files or porter's JSON.",
        ),
        "new": ("cdcbus.ops.cli.task.new:new", "Write a task file; asks for what it needs."),
        "run": (
            "cdcbus.ops.cli.task.run:run",
            "Run a task in this process, until it is stopped or has reached --until.",
        ),
        "check": (
            "cdcbus.ops.cli.task.check:check",
            "Report what is wrong or odd in tasks and in the systems they connect to.",
        ),
        "start": ("cdcbus.ops.cli.task.state:start", "Start tasks on nodes."),
        "stop": ("cdcbus.ops.cli.task.state:stop", "Stop tasks."),
        "restart": ("cdcbus.ops.cli.task.state:restart", "Stop tasks and start them again."),
        "list": (
            "cdcbus.ops.cli.task.list:list_tasks",
            "List the tasks in ZooKeeper with their state and lag.",
        ),
        "status": ("cdcbus.ops.cli.task.list:status", "Show a task's state and progress."),
        "logs": ("cdcbus.ops.cli.task.list:logs", "Print the end of a task's log."),
        "clone": ("cdcbus.ops.cli.task.copy:clone", "Copy a task with its positions."),
        "rm": ("cdcbus.ops.cli.task.copy:rm", "Remove a task and its positions."),
    },
)
def task() -> None:
    """Create, check and run tasks, from files or in ZooKeeper."""


@main.group(
    cls=LazyGroup,
    lazy={
        "show": (
            "cdcbus.ops.cli.offset.show:show",
            "Show the stored position of each swimlane of task ID.",
        ),
        "set": ("cdcbus.ops.cli.offset.set:set_", "Set the stored position of a task."),
        "reset": (
            "cdcbus.ops.cli.offset.place:reset",
            "Set it to a time, an offset or a place; first shows what that means.",
        ),
        "find": ("cdcbus.ops.cli.offset.place:find", "Find the position of a time or place."),
        "copy": ("cdcbus.ops.cli.offset.set:copy", "Copy the positions of another task."),
        "history": (
            "cdcbus.ops.cli.offset.history:history",
            "Show the positions that commands have set, and by whom.",
        ),
        "undo": (
            "cdcbus.ops.cli.offset.history:undo",
            "Restore the position before the last change.",
        ),
    },
)
def offset() -> None:
    """Show and change stored positions."""
