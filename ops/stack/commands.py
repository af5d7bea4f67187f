"""`cdcbus stack`: the embedded stack on the command line."""

import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from cdcbus.consumer.jvm.maven import JarSet, fetch
from cdcbus.ops.cli.output import note_json, print_json
from cdcbus.ops.stack import addresses, processes
from cdcbus.ops.stack.addresses import Database, Plan
from cdcbus.ops.stack.demo_tasks import leftovers, stop_leftovers
from cdcbus.ops.stack.java_servers import KAFKA_JARS, KAFKA_TOOLS, ZOOKEEPER_JARS, kafka_tool, zkcli
from cdcbus.plugins.errors import ConfigError


def _default_home() -> Path:
    from cdcbus.ops.stack.stack import default_home

    return default_home()


_home = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=_default_home,
    show_default="$CDCBUS_STACK_HOME, or a folder of this user",
    help="Folder that holds the whole stack: data, settings, logs.",
)
_arguments = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
_STATE = {True: "[green]running[/]", False: "[red]stopped[/]"}
# Options after the name of a tool are for the tool.
_pass_through = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group()
def stack() -> None:
    """Run real servers on this machine, for trials and tests.

    ZooKeeper, Kafka, a MariaDB to read from, a PostgreSQL and a MariaDB to write to: without Docker
    and without root, each its own process, on ports of 127.0.0.1 that are chosen once.
    """


@stack.command()
@_home
@click.option(
    "--spark",
    type=click.IntRange(0, 99),
    metavar="WORKERS",
    help="Also run a Spark cluster with this many workers; 0: remove it.",
)
def up(home: Path, spark: int | None) -> None:
    """Start all servers.

    Those that run already are left alone, and a Spark cluster stays once it was requested. Returns
    when every server answers. The first time it downloads the programs, about 215 MB, from Maven
    Central; they are kept for all stacks.
    """
    from rich.console import Console

    from cdcbus.ops.stack import stack as servers

    servers.up(home, Console(), spark=spark)
    click.echo(f"\nCommands to paste: {_cdcbus(home, 'status')}")


@stack.command()
@_home
@click.option("--purge", is_flag=True, help="Also remove everything that is stored.")
def down(home: Path, purge: bool) -> None:
    """Stop all servers. With --purge also the tasks of a demo, which would wait for them."""
    from rich.console import Console

    from cdcbus.ops.stack import stack as servers

    folder = home.absolute() / servers.DEMO
    if purge and (count := stop_leftovers(folder)):
        click.echo(f"stopped {count} tasks of a demo")
    servers.down(home, purge=purge, console=Console())
    if count := len(leftovers(folder)):
        command = shlex.join(["cdcbus", "demo", "--stop", "--home", str(home)])
        click.echo(f"{count} tasks of a demo wait for the servers; to end them: {command}")


@stack.command()
@_home
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print everything as JSON, passwords included.",
    callback=note_json,
)
def status(home: Path, as_json: bool) -> None:
    """Show what runs where, and commands to paste."""
    from cdcbus.ops.stack import stack as servers

    plan = addresses.load(home)
    statuses = servers.status(home)
    if as_json:
        fields: dict[str, object] = {
            "home": str(home),
            "servers": list(map(dataclasses.asdict, statuses)),
            "addresses": None,
        }
        if plan is not None:
            fields["addresses"] = dataclasses.asdict(plan.addresses())
        print_json(fields)
        return
    rows = []
    for each in statuses:
        state = _STATE[each.running]
        rows.append((each.name, each.label, state, each.address, str(each.pid or "")))
    _print_table(("name", "server", "state", "address", "pid"), rows)
    if plan is None:
        click.echo(f"\nNothing was ever started in {home}: {_cdcbus(home, 'up')}")
        return
    for title, lines in _commands_to_paste(home, plan).items():
        click.echo("\n  ".join([click.style(title, dim=True), *lines]))


@stack.command()
@_home
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the rows as a JSON list of objects.",
    callback=note_json,
)
@click.argument("database", type=click.Choice(["source", "mariadb", "postgresql"]))
@click.argument("statement")
def sql(home: Path, as_json: bool, database: str, statement: str) -> None:
    """Run one SQL statement and print its rows."""
    from cdcbus.ops.stack.sql import execute, text

    _running(home, database)
    result = execute(database, _plan(home).database(database), statement)
    if as_json:
        click.echo(result.to_json())
    elif not result.columns:
        affected = max(result.affected, 0)
        click.echo(f"{affected} {'row' if affected == 1 else 'rows'} affected")
    else:
        rows = []
        for row in result.rows:
            rows.append(tuple(map(_escaped, map(text, row))))
        _print_table(result.columns, rows)


@stack.command("zkcli", context_settings=_pass_through)
@_home
@_arguments
def zkcli_command(home: Path, arguments: tuple[str, ...]) -> None:
    """Run ZooKeeper's own client.

    Without arguments it opens a prompt; with arguments it runs a command:

    \b
    cdcbus stack zkcli ls /datas/task
    cdcbus stack zkcli -- get -s /datas/task
    """
    address = _running(home, "zookeeper")
    _replace_process(ZOOKEEPER_JARS, lambda: zkcli(address, arguments))


def _add_kafka_tool(name: str, summary: str) -> None:
    @stack.command(
        name,
        context_settings=_pass_through,
        help=f"{summary}\n\n`{name} -- --help` shows all options.",
    )
    @_home
    @_arguments
    def command(home: Path, arguments: tuple[str, ...]) -> None:
        address = _running(home, "kafka")
        _replace_process(KAFKA_JARS, lambda: kafka_tool(name, address, arguments))


# By a function, as commands made in the loop itself would all see its last name.
for _name, (_, _summary) in KAFKA_TOOLS.items():
    _add_kafka_tool(_name, _summary)


def _plan(home: Path) -> Plan:
    plan = addresses.load(home)
    if plan is None:
        raise ConfigError(f"nothing was ever started in {home}: run `{_cdcbus(home, 'up')}`")
    return plan


def _running(home: Path, name: str) -> str:
    """The address of a server. Raises ConfigError when it does not run, where a client would retry
    for a long time."""
    address = _plan(home).address(name)
    if not processes.is_running(home / name):
        raise ConfigError(f"{name} does not run: start it with `{_cdcbus(home, 'up')}`")
    return address


def _replace_process(jars: JarSet, command: Callable[[], list[str]]) -> None:
    """Becomes the Java program, which so gets this terminal's input, output and signals."""
    fetch([jars])
    line = command()
    # What is still buffered would be lost.
    sys.stdout.flush()
    os.execv(line[0], line)


def _commands_to_paste(home: Path, plan: Plan) -> dict[str, list[str]]:
    commands = {
        "cdcbus: where tasks and positions are": [
            f"export CDCBUS_ZOOKEEPER={plan.address('zookeeper')}"
        ],
        "ZooKeeper: zkCli (without a command: a prompt)": [_cdcbus(home, "zkcli", "ls", "/")],
        "Kafka: topics, the records of one": [
            _cdcbus(home, "kafka-topics", "--list"),
            _cdcbus(home, "kafka-console-consumer", "--topic", "TOPIC", "--from-beginning"),
        ],
        "MariaDB source": [_mysql(plan.database("source"))],
        "MariaDB target": [_mysql(plan.database("mariadb"))],
        "PostgreSQL target (needs psql)": [_psql(plan.database("postgresql"))],
        "Any of the three databases, one statement": [
            _cdcbus(home, "sql", "source", "SHOW DATABASES")
        ],
    }
    if plan.spark:
        commands["Spark: a line for task files"] = [f"spark.master={plan.spark}"]
    return commands


def _cdcbus(home: Path, *words: str) -> str:
    """A command line of this group; it names the home only where it has to."""
    group, *rest = words
    if home != _default_home():
        rest = ["--home", str(home), *rest]
    return shlex.join(["cdcbus", "stack", group, *rest])


def _mysql(database: Database) -> str:
    from cdcbus.ops.stack.databases import mariadb_client

    login = f"-h{database.host} -P{database.port} -u{database.user} -p{database.password}"
    return f"{mariadb_client()} --skip-ssl {login} {database.database}"


def _psql(database: Database) -> str:
    return f"psql postgresql://{database.user}:{database.password}@{database.host}:{database.port}/{database.database}"


def _print_table(columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        # Whole lines for programs that read them.
        console = Console(width=10_000)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _escaped(value: str) -> str:
    from rich.markup import escape

    return escape(value)
