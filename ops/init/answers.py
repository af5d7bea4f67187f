"""From options and answers to a copy: each answer is tried before the next question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from cdcbus.ops.init.look import CHECK, Tasks, read_tasks, replicas_at, tables_at, try_target
from cdcbus.ops.init.questions import (
    Questions,
    ask_server,
    default_server,
    given_server,
    with_password,
)
from cdcbus.ops.init.server import EXAMPLES, Server
from cdcbus.ops.init.task_files import (
    SOURCE_VARIABLE,
    TARGET_VARIABLE,
    Copy,
    Files,
    in_environment,
    kept_passwords,
    texts,
)
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.control.bus_settings import BusSettings

KAFKA = "127.0.0.1:9092"
KINDS = ("postgresql", "mysql")


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of the command, as they were given."""

    source: str | None
    target: str | None
    kafka: str | None
    tables: str | None
    name: str | None
    topic: str | None
    target_schema: str | None
    partitions: int
    folder: Path
    yes: bool
    force: bool
    existing: bool
    no_run: bool
    stays: bool | None
    patience: float
    as_json: bool
    asks_zookeeper: bool


def draft_tasks(copy: Copy, bus: BusSettings, files: Files | None = None) -> Tasks:
    """Both tasks as they would be read from their files, which do not exist yet. Raises ConfigError
    for a name that they cannot hold."""
    files = files or Files(Path(), copy.name, copy.target.kind)
    try:
        filled = texts(copy, files, in_environment())
    except click.BadParameter as error:
        # named as by `cdcbus task new`
        what = str(error.param_hint).lstrip("-").replace("-", " ")
        raise ConfigError(f"{what}: {error.message}") from None
    return read_tasks(filled, bus, copy.passwords())


def answered(wishes: Wishes, asked: Questions, bus: BusSettings) -> Copy:
    """Collects all answers, and checks that source, Kafka and target let us in. Raises UsageError
    for a missing answer where nobody is asked, BadParameter and CdcError for a wrong one."""
    source, tables_by_schema = _source(wishes, asked, bus)
    tables = _tables(wishes, asked, source, tables_by_schema)
    schemas = sorted({each.partition(".")[0] for each in tables})
    kafka, replicas = asked.until_good(lambda: _kafka(wishes, asked))
    name = _name(wishes, schemas[0])
    copy = replace(
        _draft(source, bus),
        name=name,
        kafka=kafka,
        topic=wishes.topic or name,
        tables=",".join(tables),
        schema=schemas[0],
        partitions=wishes.partitions,
        replicas=replicas,
    )
    copy = _target(wishes, asked, bus, copy)
    schema = _target_schema(wishes, asked, copy, schemas)
    # Rows that the copy writes would come back through the binlog, without end.
    if copy.target.address == source.address and schema in ("", copy.schema):
        raise ConfigError(
            f"source and target are the same tables, {copy.schema} at {source.address}: name "
            "another server or another database with --target"
        )
    return replace(copy, target_schema=schema, variables=frozenset(asked.variables))


def _name(wishes: Wishes, schema: str) -> str:
    """The name of files, tasks and topic, in characters that all of them can have."""
    if wishes.name is None:
        return re.sub(r"[^A-Za-z0-9_-]+", "-", schema).strip("-") or "copy"
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", wishes.name):
        raise click.BadParameter("expected letters, digits, _ and -", param_hint="--name")
    return wishes.name


def _draft(source: Server, bus: BusSettings) -> Copy:
    # Only the source is known yet: the rest is valid, and used by no check of the source.
    target = replace(default_server("postgresql"), database="x", password="")
    return Copy("x", source, target, KAFKA, "x", "", "x", "x")


def _kept(wishes: Wishes, name: str) -> Mapping[str, str]:
    own = wishes.name or name
    if not own:
        return {}
    return kept_passwords(Files(wishes.folder, own, ""))


def _source(
    wishes: Wishes, asked: Questions, bus: BusSettings
) -> tuple[Server, dict[str, list[str]]]:
    given = given_server(wishes.source, "source")
    if given is None and not asked.is_asking:
        raise click.UsageError(
            f"--source is missing: the server to read; example: --source {EXAMPLES['source']}"
        )
    before, is_again = given or default_server("mysql"), False

    def once() -> tuple[Server, dict[str, list[str]]]:
        nonlocal before, is_again
        # What was refused is asked again, with the refused answer as default.
        if given is None or is_again:
            before = ask_server(asked, "source", before)
        if not before.user:
            before = replace(before, user=_user(asked, "source"))
        server = with_password(
            asked, before, SOURCE_VARIABLE, _kept(wishes, before.database), is_again=is_again
        )
        # Before the attempt: if that raises, the next round asks.
        is_again = True
        found = tables_at(draft_tasks(_draft(server, bus), bus).fetch)
        click.echo(f"{CHECK} source {server.address} lets {server.user} in", err=True)
        return server, found

    return asked.until_good(once)


def _user(asked: Questions, side: str) -> str:
    if not asked.is_asking:
        raise click.UsageError(f"--{side} names no user; example: --{side} {EXAMPLES[side]}")
    return asked.text("User there", "cdc")


def _tables(
    wishes: Wishes, asked: Questions, source: Server, found: Mapping[str, list[str]]
) -> list[str]:
    """The tables as SCHEMA.TABLE or SCHEMA.*, each of which exists."""
    if not found:
        raise ConfigError(
            f"source {source.address} shows user {source.user} no table: GRANT SELECT on those to "
            "be copied, or log in as another user"
        )

    def once() -> list[str]:
        schema = source.database
        if not schema and not wishes.tables:
            if not asked.is_asking and len(found) > 1:
                raise click.UsageError(
                    f"--source names no schema, and there are {', '.join(found)}: write one behind "
                    "the address, or give --tables"
                )
            schema = asked.text(f"Schema to copy ({', '.join(found)})", next(iter(found)))
        if schema and schema not in found:
            raise ConfigError(
                f"source {source.address} shows user {source.user} no table of schema {schema}; "
                f"those with tables: {', '.join(found)}"
            )
        default = wishes.tables or f"{schema}.*"
        text = default
        if wishes.tables is None:
            count = len(found.get(schema, ()))
            text = asked.text(
                f"Tables, separated by commas (all {count} of {schema}: {default})", default
            )
        return _existing(split_list(text), schema, source, found)

    # Options are not asked again: a wrong one ends the command.
    if wishes.tables or source.database:
        return once()
    return asked.until_good(once)


def _existing(
    words: Iterable[str], schema: str, source: Server, found: Mapping[str, list[str]]
) -> list[str]:
    """The tables with their schemas, by default `schema`. Raises ConfigError for one that the
    source does not show."""
    tables = []
    for word in words:
        if "." not in word:
            word = f"{schema}.{word}"
        tables.append(word)
        of, _, table = word.partition(".")
        if of not in found or table not in (*found[of], "*"):
            there = ", ".join(found.get(of, ())) or "none of that schema"
            raise ConfigError(
                f"source {source.address} shows user {source.user} no table {word}; there are: "
                f"{there}"
            )
    return tables


def _kafka(wishes: Wishes, asked: Questions) -> tuple[str, int]:
    servers = wishes.kafka or asked.text("Kafka brokers, HOST:PORT[,...]", KAFKA)
    replicas = replicas_at(servers)
    click.echo(f"{CHECK} Kafka {servers} answers", err=True)
    return servers, replicas


def _target(wishes: Wishes, asked: Questions, bus: BusSettings, copy: Copy) -> Copy:
    given = given_server(wishes.target, "target")
    if given is None and not asked.is_asking:
        raise click.UsageError(
            f"--target is missing: the server to write to; example: --target {EXAMPLES['target']}"
        )
    before, is_again = given, False

    def once() -> Copy:
        nonlocal before, is_again
        if before is None:
            kind = asked.text("Write to", KINDS[0], KINDS)
            before = default_server(kind)
        # What was refused is asked again, with the refused answer as default.
        if given is None or is_again:
            before = ask_server(asked, "target", before)
        if not before.user:
            before = replace(before, user=_user(asked, "target"))
        if not before.database or is_again:
            before = replace(before, database=_database(asked, before, copy))
        server = with_password(
            asked, before, TARGET_VARIABLE, _kept(wishes, copy.name), is_again=is_again
        )
        is_again = True
        made = replace(copy, target=server)
        try_target(draft_tasks(made, bus).load)
        click.echo(f"{CHECK} target {server.address} lets {server.user} in", err=True)
        return made

    return asked.until_good(once)


def _database(asked: Questions, server: Server, copy: Copy) -> str:
    # In MySQL the source's schema can be the database; in PostgreSQL a database is something else.
    if not asked.is_asking and server.kind != "mysql":
        raise click.UsageError(
            f"--target names no database; example: --target {EXAMPLES['target']}"
        )
    return asked.text("Database there", server.database or copy.schema)


def _target_schema(wishes: Wishes, asked: Questions, copy: Copy, schemas: list[str]) -> str:
    if len(schemas) > 1:
        if wishes.target_schema:
            raise click.UsageError(
                f"--target-schema is for tables of one schema; --tables names "
                f"{', '.join(schemas)}, and each keeps its name"
            )
        return ""
    if wishes.target_schema:
        return wishes.target_schema
    # In MySQL the database is the schema, and is known already.
    if copy.target.kind == "mysql":
        return copy.target.database
    default = copy.target.database
    if copy.target.kind == "postgresql":
        default = "public"
    return asked.text("Schema of the tables there", default)
