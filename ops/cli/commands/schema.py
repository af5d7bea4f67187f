"""`cdcbus schema`: creates the target tables of a consumer task from its source tables."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.output import json_option, print_json

if TYPE_CHECKING:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.schema.plan import SchemaPlan, TablePlan

NO_TABLE = (
    "no source table goes to this task: compare consumer.source.filter of the fetch task, "
    "consumer.includes and the rights of the fetch task's user"
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that `plan` and `apply` share."""
    for option in (
        json_option,
        click.argument("task", metavar="FILE|ID"),
        click.option(
            "--source",
            metavar="FILE|ID",
            help="The fetch task that feeds TASK; default: the one beside TASK, in its folder or "
            "in ZooKeeper, that writes to its topics.",
        ),
        click.option("--schemas", is_flag=True, help="Also create missing schemas."),
        click.option(
            "--indexes",
            is_flag=True,
            help="Also create the source's other indexes, on existing tables too.",
        ),
    ):
        command = option(command)
    return bus_options(command)


@click.group()
def schema() -> None:
    """Create the target tables of a consumer task from its source tables.

    The source is that of the fetch task which writes the task's topics. Tables go through the
    filters and the mapper of both tasks, and get the target's types, keys, defaults and comments.
    """


@schema.command()
@plan_options
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 1 where a table is missing, or would lose or refuse rows.",
)
def plan(
    task: str,
    source: str | None,
    schemas: bool,
    indexes: bool,
    check: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Print the SQL that creates the missing tables, and how the others differ. Changes nothing.

    The SQL goes to standard output, to be reviewed, kept, and run by hand or by `apply`; everything
    else is in its comments.
    """
    _, found = _planned(task, source, bus, schemas=schemas, indexes=indexes)
    if as_json:
        print_json(_fields(found))
    else:
        _print(found)
    loses = any(table.loses for table in found.tables)
    if check and (found.unseen or not found.tables or loses):
        sys.exit(1)


@schema.command()
@plan_options
@yes_option
def apply(
    task: str,
    source: str | None,
    schemas: bool,
    indexes: bool,
    yes: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Create the missing tables. Prints the SQL and asks first; existing tables are left alone,
    except for missing indexes with --indexes.

    Stops at the first statement that fails; run it again once the cause is fixed.
    """
    from cdcbus.tasks.schema.plan import apply_plan, refuse_impossible

    load, found = _planned(task, source, bus, schemas=schemas, indexes=indexes)
    # Before anything is shown or asked.
    refuse_impossible(found)
    if as_json:
        print_json(_fields(found))
    else:
        _print(found)
    count = len(found.statements)
    if not count:
        said = NO_TABLE
        if found.tables:
            said = "all tables exist"
        click.echo(f"nothing to do: {said}", err=True)
        return
    if not yes:
        click.confirm(f"Run {count} statement{'s' * (count > 1)}?", abort=True, err=True)
    for sql in apply_plan(load, found):
        # The first line names the table.
        click.echo(f"done: {sql.splitlines()[0].rstrip(' (')}", err=True)


def _planned(
    task: str, source: str | None, bus: BusSettings, *, schemas: bool, indexes: bool
) -> tuple[LoadTask, SchemaPlan]:
    from cdcbus.tasks.control.source_of import consumer_task, feeds_of
    from cdcbus.tasks.control.uses import Uses
    from cdcbus.tasks.schema.plan import make_plan

    load = consumer_task(task, bus, Uses.WRITE)
    feeds = feeds_of(task, load, bus, source)
    return load, make_plan(load, feeds, with_indexes=indexes, with_schemas=schemas)


def _print(found: SchemaPlan) -> None:
    for name in found.unseen:
        why = (
            f"source table {name} belongs to the task, and the fetch task's user may not read it, "
            "or the source shows no such table, or the fetch task's filter leaves it out"
        )
        click.echo(f"-- {found.unopened.get(name, why)}")
    if not found.tables:
        click.echo(f"-- {NO_TABLE}")
    for name in found.missing_schemas:
        if not found.schemas:
            click.echo(f"-- schema {name} is missing: --schemas creates it")
    for sql in found.head:
        click.echo(f"{sql};\n")
    for table in found.tables:
        for line in _remarks(table):
            click.echo(f"-- {line}")
        for sql in table.statements:
            click.echo(f"{sql};")
        click.echo()


def _remarks(table: TablePlan) -> list[str]:
    """What an operator should know about a table, one line each."""
    wanted = table.definition
    state = {True: "exists", False: "is missing", None: "is not checked"}[table.is_there]
    lines = [f"{wanted.id}, from {', '.join(map(str, wanted.sources))}: {state}"]
    if not table.is_there:
        for problem in wanted.problems:
            lines.append(f"cannot be made: {problem}")
        return lines + list(wanted.notes)
    remedies: dict[str, None] = {}
    for each in table.differences:
        what = each.what
        if each.column:
            what = f"column {each.column} {each.what}"
        effect = "LOSES" if each.is_lost else "differs"
        lines.append(f"{effect}: {what}")
        if each.remedy:
            remedies[each.remedy] = None  # several columns may have one remedy
    for remedy in remedies:
        lines.append(f"  {remedy};")
    if not table.differences:
        lines.append("has all that the source has")
    return lines


def _fields(found: SchemaPlan) -> dict[str, Any]:
    tables = []
    for table in found.tables:
        wanted = table.definition
        tables.append(
            {
                "target": str(wanted.id),
                "sources": list(map(str, wanted.sources)),
                "exists": table.is_there,
                "loses": table.loses,
                "statements": list(table.statements),
                "notes": list(wanted.notes),
                "problems": list(wanted.problems),
                "differences": list(map(dataclasses.asdict, table.differences)),
            }
        )
    return {
        "dialect": found.dialect,
        "missingSchemas": list(found.missing_schemas),
        "unseen": list(found.unseen),
        "statements": found.statements,
        "tables": tables,
    }
