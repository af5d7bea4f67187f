"""`cdcbus init` on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command()
@click.option(
    "--source",
    metavar="mysql://USER@HOST:PORT/SCHEMA",
    help="The MySQL or MariaDB to read, and the schema to copy. Its password: $SOURCE_PASSWORD, or "
    "USER:PASSWORD (others can see command lines).",
)
@click.option(
    "--target",
    metavar="postgresql://USER@HOST:PORT/DATABASE",
    help="The database to write to; also mysql://. Its password: $TARGET_PASSWORD, or as above.",
)
@click.option("--kafka", metavar="HOST:PORT[,...]", help="Brokers; default: 127.0.0.1:9092.")
@click.option(
    "--tables", metavar="SCHEMA.TABLE[,...]", help="Only these; default: all tables of the schema."
)
@click.option("--name", help="Prefix of files, tasks and topic; default: the schema.")
@click.option("--topic", help="Kafka topic; default: the name.")
@click.option(
    "--target-schema",
    help="Schema of the target tables; default: public in PostgreSQL, the database in MySQL.",
)
@click.option(
    "--partitions", type=click.IntRange(1), default=1, show_default=True, help="Of a new topic."
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where the files go; default: the current folder.",
)
@click.option("--yes", is_flag=True, help="Do not ask; use defaults for what no option gives.")
@click.option("--force", is_flag=True, help="Overwrite task files that differ.")
@click.option(
    "--existing",
    is_flag=True,
    help="Also copy into target tables that have rows, and a topic that has records; for a key "
    "that both have, the source's row wins.",
)
@click.option("--no-run", is_flag=True, help="Create files, topic and tables; start nothing.")
@click.option(
    "--stay/--leave",
    "stays",
    default=None,
    help="Whether the tasks keep running until Ctrl-C once all is equal; default: ask, or with "
    "--yes end them.",
)
@click.option(
    "--patience",
    type=click.FloatRange(1),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait without any progress.",
)
@json_option
@bus_options
def init(bus: BusSettings, **given: Any) -> None:
    """Copy tables of a MySQL or MariaDB into another database, and keep them equal: from nothing to
    running tasks.

    Asks for source and target, and checks that they can be reached and are set up correctly. Then
    creates what is missing: two task files (source to Kafka, Kafka to target), the topic, the
    target tables; starts both tasks, which copy the existing rows and follow all changes; and
    compares source and target. Passwords go into NAME.passwords, which only its owner can read,
    except those that the environment has.

    Existing files, topics and tables stay as they are: run again, also after Ctrl-C, it continues.
    Exits 0 when all is equal (with --no-run: all is created), 1 when something fails or differs.
    """
    if given["as_json"] and not given["yes"]:
        raise click.UsageError("--json cannot ask: add --yes")
    if not given["yes"] and not sys.stdin.isatty():
        raise click.UsageError(
            "nobody can answer, as this is not a terminal: add --yes, with --source and --target"
        )
    if given["no_run"] and given["stays"]:
        raise click.UsageError("--no-run starts nothing that could --stay")
    from cdcbus.ops.init.answers import Wishes
    from cdcbus.ops.init.course import take_course

    context = click.get_current_context()
    # The question about ZooKeeper is left out where the command line names it.
    is_addressed = context.params.get("zookeeper") is not None
    sys.exit(take_course(Wishes(**given, asks_zookeeper=not is_addressed), bus))
