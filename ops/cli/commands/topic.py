"""`cdcbus topic`: inspects Kafka topics."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from itertools import starmap
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich.console import Console

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.rows import print_rows
from cdcbus.ops.services.row_view import as_fields, is_wanted, line, utc
from cdcbus.ops.services.topic_sample import SampledTable, sample_of
from cdcbus.ops.services.topics import access_of
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.json_schema import json_schema
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.kafka.topic_log import Access, KafkaRecord, TopicLog, end_offsets
from cdcbus.plugins.positions import (
    KafkaPosition,
    kafka_positions_to_json,
)
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.plugins.start import AtTime, Edge
from cdcbus.tasks.config.diagnostics import printable

if TYPE_CHECKING:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.producer.config import FetchTask
    from cdcbus.tasks.control.bus_settings import BusSettings

_topic = click.argument("name", metavar="TOPIC")
_newest = click.option(
    "--newest",
    "count",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many records of each partition to read.",
)


def _read_time(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> int | None:
    from cdcbus.tasks.config.keys.start import KAFKA_START

    if text is None:
        return None
    try:
        start = KAFKA_START.read(text)
    except ValueError:
        start = None
    if not isinstance(start, AtTime):
        raise click.BadParameter(
            "expected an ISO time (UTC unless it says otherwise), as 2024-05-01T03:04:05+08:00"
        )
    return start.epoch_ms


def _read_from(
    context: click.Context, parameter: click.Parameter, text: str
) -> Edge | int | AtTime:
    """An edge, a time, or -N for the N newest records."""
    if text in tuple(Edge):
        return Edge(text)
    if re.fullmatch(r"-[1-9][0-9]{0,8}", text):
        return -int(text)
    return AtTime(_read_time(context, parameter, text) or 0)


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--servers` and `--task` to a command, which gets the access to Kafka as argument
    `access`."""

    @click.option("--servers", metavar="HOST:PORT[,...]", help="The Kafka brokers.")
    @click.option(
        "--task",
        "word",
        metavar="FILE|ID",
        help="A task whose brokers, login (kafka.*) and converter are used.",
    )
    @bus_options
    @wraps(command)
    def with_access(
        *args: Any, servers: str | None, word: str | None, bus: BusSettings, **kwargs: Any
    ) -> Any:
        if servers is None and word is None:
            raise click.UsageError("name the Kafka brokers with --servers, or a task with --task")
        # Without a task the format of each record is detected.
        access = Access("", {}, "auto")
        if word is not None:
            access = access_of(_task(word, bus))
        # They win: a task's brokers can have other names here.
        if servers:
            access = replace(access, servers=servers)
        return command(*args, access=access, **kwargs)

    return with_access


def _task(word: str, bus: BusSettings) -> FetchTask | LoadTask:
    from cdcbus.tasks.control.uses import kafka_of, named_task

    return named_task(word, bus, kafka_of)


@click.group()
def topic() -> None:
    """Inspect Kafka topics: tables, row changes, lag, offsets at a time.

    Changes nothing, and joins no consumer group. Brokers that do not answer are reported within
    five seconds.
    """


@topic.command("list")
@json_option
@access_options
def list_topics(as_json: bool, access: Access) -> None:
    """List the topics, except Kafka's internal ones."""
    with TopicLog(access) as log:
        topics = log.topics()
    rows = []
    for name, (count, replicas) in topics.items():
        rows.append({"topic": name, "partitions": count, "replicas": replicas})
    print_rows(rows, as_json)


@topic.command()
@_topic
@_newest
@json_option
@access_options
def describe(name: str, count: int, as_json: bool, access: Access) -> None:
    """Show partitions and offsets of TOPIC, and the tables and formats of its newest records."""
    with TopicLog(access) as log:
        bounds = log.bounds(name)
        records = log.newest(name, count)
    # Records come by partition and offset, so the time of the last one stays.
    times = {record.partition: utc(record.time_ms) for record in records}
    partitions = []
    for partition, (low, end) in bounds.items():
        row = {"partition": partition, "first": low, "end": end, "records": end - low}
        partitions.append({**row, "newest": times.get(partition)})
    sample = sample_of(records, access.converter)
    tables = list(starmap(_table_fields, sorted(sample.tables.items())))
    if as_json:
        print_json(
            {
                "topic": name,
                "partitions": partitions,
                "records_read": len(records),
                "tables": tables,
                "unreadable": sample.unreadable,
            }
        )
        return
    print_rows(partitions, False)
    click.echo(f"\nTables in the newest {len(records)} records:")
    print_rows(tables, False)
    if sample.unreadable:
        click.secho(
            f"{sample.unreadable} of them cannot be read as {access.converter}, the first: "
            f"{sample.reason}",
            fg="red",
            err=True,
        )


def _table_fields(table: TableId, known: SampledTable) -> dict[str, Any]:
    fields: dict[str, Any] = {"table": str(table)}
    fields["formats"] = sorted(known.formats)
    fields["key"] = list(known.table.key)
    for op in Op:
        fields[op.lower()] = known.ops[op]
    return fields


@topic.command()
@_topic
@click.option(
    "--from",
    "start",
    metavar="-N|TIME|earliest|latest",
    default="-10",
    show_default=True,
    callback=_read_from,
    help="The N newest records of each partition, those since a time, all, or only new ones.",
)
@click.option(
    "--to", "end_ms", metavar="TIME", callback=_read_time, help="Only records before this time."
)
@click.option("--follow", "-f", is_flag=True, help="Also show new records, until Ctrl-C.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="PATTERN",
    help="Only tables like SCHEMA.TABLE or TABLE, with * and ?, any case; repeatable.",
)
@click.option(
    "--key", metavar="TEXT", help="Only rows with this record key, or these key cells joined by _."
)
@click.option(
    "--op",
    "ops",
    multiple=True,
    type=click.Choice([op.lower() for op in Op]),
    help="Only this operation; repeatable.",
)
@click.option(
    "--format",
    "converter",
    metavar="NAME",
    help="The converter; default: the task's, then auto, which detects it for each record.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@access_options
def tail(
    name: str,
    start: Edge | int | AtTime,
    end_ms: int | None,
    follow: bool,
    tables: tuple[str, ...],
    key: str | None,
    ops: tuple[str, ...],
    converter: str | None,
    as_json: bool,
    access: Access,
) -> None:
    """Show row changes of TOPIC, decoded, with their values.

    A record that cannot be read is named on standard error, and the exit code is then 1.
    """
    reader = make_converter(converter or access.converter, access.time_zone)
    # Long lines are left to the terminal: a pipe gets them whole.
    console = Console(soft_wrap=True, highlight=False)
    has_unreadable = False
    with TopicLog(access) as log:
        bounds = log.bounds(name)
        starts = _starts(log, name, start, bounds)
        ends = None
        if not follow:
            ends = end_offsets(bounds)
        for record in log.records(name, starts, ends):
            # Not the end: other partitions have earlier records, and times within one can go back.
            if end_ms is not None and record.time_ms >= end_ms:
                continue
            changes = _changes_of(record, reader)
            if changes is None:
                has_unreadable = True
                continue
            for change in changes:
                if not is_wanted(record, change, tables, key, ops):
                    continue
                if as_json:
                    click.echo(orjson.dumps(as_fields(record, change)))
                else:
                    console.print(line(record, change))
    if has_unreadable:
        sys.exit(1)


def _changes_of(record: KafkaRecord, reader: Converter) -> Sequence[RowChange] | None:
    """The row changes of a record, of a tombstone none; None where it cannot be read, which is
    said."""
    if record.value is None:
        return ()
    try:
        return reader.from_bytes(record.value)
    except ConversionError as error:
        place = f"{record.partition}@{record.offset}"
        click.secho(f"{place} cannot be read: {printable(str(error))}", fg="red", err=True)
        return None


def _starts(
    log: TopicLog, name: str, start: Edge | int | AtTime, bounds: dict[int, tuple[int, int]]
) -> dict[int, int]:
    if isinstance(start, AtTime):
        return log.at_time(name, start.epoch_ms)
    starts = {}
    for partition, (low, end) in bounds.items():
        if start is Edge.EARLIEST:
            starts[partition] = low
        elif start is Edge.LATEST:
            starts[partition] = end
        else:
            starts[partition] = max(low, end - start)
    return starts


@topic.command()
@_topic
@click.option(
    "--time",
    "epoch_ms",
    required=True,
    metavar="TIME",
    callback=_read_time,
    help="An ISO time, UTC unless it says otherwise.",
)
@json_option
@access_options
def find(name: str, epoch_ms: int, as_json: bool, access: Access) -> None:
    """Find the first offset of each partition of TOPIC at or after a time.

    Also prints the position that starts a task there. If every record is older, that is the end.
    """
    with TopicLog(access) as log:
        found = log.at_time(name, epoch_ms)
    rows = []
    positions = []
    for partition, offset in found.items():
        rows.append({"partition": partition, "offset": offset})
        positions.append(KafkaPosition(name, partition, offset - 1))  # the last one applied
    position = kafka_positions_to_json(positions)
    if as_json:
        print_json(
            {
                "topic": name,
                "time": utc(epoch_ms),
                "offsets": rows,
                "position": orjson.loads(position),
            }
        )
        return
    print_rows(rows, False)
    click.echo(f"position: {position}")


@topic.command()
@_topic
@click.option(
    "--table",
    metavar="SCHEMA.TABLE",
    help="The table, any case; required where the topic has several.",
)
@_newest
@access_options
def schema(name: str, table: str | None, count: int, access: Access) -> None:
    """Print a JSON Schema of the records of a table in TOPIC, as its newest record describes it."""
    with TopicLog(access) as log:
        tables = sample_of(log.newest(name, count), access.converter).tables
    found = list(tables.values())
    if table is not None:
        found = [each for each in found if str(each.table.id).lower() == table.lower()]
    if len(found) != 1:
        names = ", ".join(sorted(map(str, tables))) or "no rows"
        raise ConfigError(
            f"the newest {count} records of each partition of {name} hold {names}; name one table "
            "with --table, or read more with --newest"
        )
    formats = sorted(found[0].formats)
    if len(formats) > 1:
        raise ConfigError(
            f"{found[0].table.id} is in {name} in several formats, {', '.join(formats)}; read "
            "fewer with --newest"
        )
    print_json(json_schema(found[0].table, formats[0]))


@topic.command()
@click.argument("words", nargs=-1, required=True, metavar="FILE|ID...")
@json_option
@bus_options
def lag(words: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Show the lag of consumer tasks: stored position against the end of each partition.

    Seconds count from when the first record not yet applied was written. Exits 1 when a task has no
    usable position, or one that Kafka does not hold.
    """
    rows: list[dict[str, Any]] = []
    sentences: list[str] = []
    for word in words:
        task, of_task = _lag(word, bus)
        rows += of_task
        sentences += _not_held(task, of_task)
    print_rows(rows, as_json)
    for sentence in sentences:
        click.echo(sentence, err=True)
    if any(row["records"] is None for row in rows):
        sys.exit(1)


def _not_held(task: LoadTask, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yields a sentence for each partition where Kafka does not hold the task's position."""
    for row in rows:
        if row["records"] is not None or row["next"] is None:
            continue
        what = "the task refuses to start, and says how to go on"
        if task.allow_offset_reset:
            what = (
                f"the task goes on from offset {row['first']}, as consumer.source.allowOffsetReset "
                "allows, and what came before does not come; it refuses a topic that was made anew"
            )
        yield (
            f"task {row['task']}: Kafka holds {row['topic']}[{row['partition']}] from offset "
            f"{row['first']} to {row['end']}, and the task is at {row['next']}: its records "
            "expired, or the topic was restored or made anew. Unless its target is further on, "
            f"{what}"
        )


def _lag(word: str, bus: BusSettings) -> tuple[LoadTask, list[dict[str, Any]]]:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.ops.services.topic_lag import lag_rows
    from cdcbus.tasks.zookeeper.position.znodes import stored_positions

    task = _task(word, bus)
    if not isinstance(task, LoadTask):
        raise ConfigError(
            f"task {task.task_id} reads a binlog, not a topic; `cdcbus offset show "
            f"{task.task_id}` shows where it is"
        )
    with bus_client(bus) as client:
        stored = stored_positions(client, task.task_id)
    return task, [*lag_rows(task, stored)]
