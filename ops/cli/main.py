"""The command line `cdcbus`. Commands import what they need when they are called, so that help
answers immediately."""

from __future__ import annotations

import difflib
import io
import logging
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cdcbus import __version__
from cdcbus.ops.cli.interrupts import INTERRUPTED, is_interrupted
from cdcbus.ops.cli.options import EXIT_CODE, bus_options
from cdcbus.ops.cli.output import OWES_JSON, json_option, print_json
from cdcbus.plugins.error_policy import NO_THREADS, policy_of
from cdcbus.plugins.errors import NO_ROOM, CdcError

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings

# How standard streams treat a character that they lack; the second one in the locale C.
NOT_ESCAPED = ("strict", "surrogateescape")


class LazyGroup(click.Group):
    """A group that imports some of its commands only when they are called. `lazy` maps a name to
    (module:object, short help)."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.lazy])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lazy:
            # a placeholder for the list of commands; resolve_command imports the real one
            return click.Command(cmd_name, short_help=self.lazy[cmd_name][1])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            # click suggests only what is imported already
            near = difflib.get_close_matches(args[0], self.list_commands(ctx))
            if not near:
                raise
            suggested = " or ".join(f"'{each}'" for each in near)
            raise click.UsageError(
                f"No such command '{args[0]}'. Did you mean {suggested}?", ctx
            ) from error
        if name is not None and name in self.lazy:
            module, _, attribute = self.lazy[name][0].partition(":")
            command = getattr(import_module(module), attribute)
        return name, command, rest


class Cli(LazyGroup):
    """The outermost group: turns errors into one sentence and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # A closed standard input reads as an empty one: nobody can answer.
        if sys.stdin is None:
            sys.stdin = io.StringIO()
        # Where a terminal's character set lacks one, the character is escaped: no command ends by
        # what it prints.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors in NOT_ESCAPED:
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Help is printed before a command is invoked.
            click.echo(_sentence_of(error), err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)
        except CdcError as error:
            if is_interrupted(error):
                sys.exit(INTERRUPTED)
            _fail(ctx, str(error))
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            # click prints these itself, and ends quietly where the reader of a pipe has gone.
            raise
        except Exception as error:
            if is_interrupted(error):
                sys.exit(INTERRUPTED)
            _fail(ctx, _sentence_of(error))


def _sentence_of(error: Exception) -> str:
    """What to say about an error that nothing else has handled."""
    # A disk that is full or read-only: nothing in any text is at fault. No secret is in a path.
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        name = click.format_filename(error.filename)
        return f"{name}: {error.strerror}; check its name, its rights and the room on its disk"
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"{error.strerror}: make room on the disk, and run the command again"
    if policy_of(error) is NO_THREADS:
        return f"{error}: raise the limit of threads of this process (ulimit -u, pids), or end some"
    return (
        f"unexpected {type(error).__name__}; please report it with the output of `cdcbus "
        "--debug ...`"
    )


def _fail(ctx: click.Context, sentence: str) -> None:
    if ctx.params["debug"]:
        traceback.print_exc()
    if ctx.meta.get(OWES_JSON):
        print_json({"error": sentence})
    click.secho(sentence, fg="red", err=True)
    sys.exit(ctx.meta.get(EXIT_CODE, 1))


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


@task.command("run")
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
    from cdcbus.ops.node.task_end import told_to_node
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
    with told_to_node(word):
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
            from cdcbus.tasks.runtime.runner import run_task

            is_over = run_task(task, bus.zookeeper, bus.zookeeper_auth, bus.lock_times)
    if task.until is not None and not is_over:
        # Exit code 130: it was stopped before it had reached --until.
        raise click.Abort


@task.command("check")
@click.argument("words", nargs=-1, required=True, metavar="FILE|ID...")
@click.option("--offline", is_flag=True, help="Read the files only, connect to nothing.")
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@json_option
@bus_options
def check(
    words: tuple[str, ...], offline: bool, strict: bool, as_json: bool, bus: BusSettings
) -> None:
    """Report what is wrong or odd in tasks and in the systems they connect to, and where a start
    would begin.

    Each argument is a task FILE, or the ID of a task in ZooKeeper. Runs and changes nothing: no
    position, no table, no offset of a group.
    """
    from cdcbus.ops.cli.task.check import as_fields, check_word, print_checked

    checked = []
    for word in words:
        checked.append(check_word(word, bus, offline))
        if not as_json:
            print_checked(checked[-1])
    if as_json:
        print_json([as_fields(each, strict) for each in checked])
    if not all(each.is_good(strict) for each in checked):
        sys.exit(1)


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
