"""`cdcbus dlq`: records that a consumer task could not apply, or that Kafka did not accept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Column, Table

from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.tasks.process_identity import operator

if TYPE_CHECKING:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
    from cdcbus.consumer.records.dead_letters import OpenDeadLetter
    from cdcbus.ops.services.dead_letters import FetchLetter, FetchLetters
    from cdcbus.ops.services.target_rows import TargetRow
    from cdcbus.producer.config import FetchTask
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.control.dead_letters import DeadLetterQueue

# TOPIC/PARTITION/OFFSET, with a digest where several records had that offset, or of a fetch task
# TOPIC/FILE:PLACE/ROW/NUMBER/DIGEST; letters of earlier versions have no digest.
RECORD = re.compile(r"[\w.-]+/(?:[0-9]+|[^/\s]+:[0-9]+/[0-9]+)/[0-9]+(?:/[0-9a-f]{12})?")

_task = click.argument("word", metavar="FILE|ID")
_all = click.option("--all", "takes_all", is_flag=True, help="All open dead letters of the task.")


def _read_records(
    _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    for word in words:
        if not RECORD.fullmatch(word):
            raise click.BadParameter(
                "expected TOPIC/PARTITION/OFFSET, or for a fetch task "
                "TOPIC/FILE:PLACE/ROW/NUMBER/DIGEST, as `cdcbus dlq list` prints it, "
                f"not {word!r}"
            )
    return words


_records = click.argument("records", nargs=-1, metavar="[RECORD...]", callback=_read_records)


@click.group()
def dlq() -> None:
    """List, show, replay and drop dead letters.

    With loader.onError=deadletter, a consumer task turns records that it cannot read or that the
    target refuses into dead letters, a fetch task rows that are too large for Kafka. FILE is a task
    file, ID a task's id in ZooKeeper, RECORD a name as `cdcbus dlq list` prints it.
    """


@dlq.command("list")
@_task
@json_option
@bus_options
def list_letters(word: str, as_json: bool, bus: BusSettings) -> None:
    """List the open dead letters of a task: record, time, reason."""
    from cdcbus.ops.services.dead_letter_fields import fields_of

    with _topic(word, bus) as topic:
        dead_letters = topic.dead_letters()
    if as_json:
        print_json(list(map(fields_of, dead_letters)))
        return
    if not dead_letters:
        click.echo("no dead letters are open")
        return
    # Not wrapped, so that the name of a record can be copied.
    table = Table(Column("record", no_wrap=True), "time", "reason", box=None)
    for each in dead_letters:
        table.add_row(each.dead_letter.record, each.time, each.dead_letter.reason)
    Console().print(table)


@dlq.command()
@_task
@_records
@click.option(
    "--target",
    "looks_at_target",
    is_flag=True,
    help="Also show the target's current row, read by the dead letter's key; consumer tasks only.",
)
@json_option
@bus_options
def show(
    word: str, records: tuple[str, ...], looks_at_target: bool, as_json: bool, bus: BusSettings
) -> None:
    """Show whole dead letters, with the original record's key, headers and value. Without RECORD
    all are shown. Rows are printed with their cells."""
    from cdcbus.ops.services.dead_letter_fields import fields_of, original_of
    from cdcbus.tasks.control.uses import kafka_and_target_of, kafka_of, named_task

    uses = kafka_of
    # The target's login is needed only to look at the target.
    if looks_at_target:
        uses = kafka_and_target_of
    task = named_task(word, bus, uses)
    with _letters(task) as topic:
        dead_letters = _chosen(topic, records, takes_all=not records)
    fields = []
    for letter in dead_letters:
        each = {**fields_of(letter), **original_of(letter)}
        if looks_at_target:
            each["target"] = _at_target(task, letter)
        fields.append(each)
    if as_json:
        print_json(fields)
        return
    for each in fields:
        rows = each.pop("target", [])
        for name, value in each.items():
            click.echo(f"{name}: {value}")
        for row in rows:
            click.echo(_target_line(row))
        click.echo()


@dlq.command()
@_task
@_records
@_all
@yes_option
@click.option(
    "--force",
    is_flag=True,
    help="Also where a newer record of the row exists, or may have existed; this writes the older "
    "state.",
)
@json_option
@bus_options
def replay(
    word: str,
    records: tuple[str, ...],
    takes_all: bool,
    yes: bool,
    force: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Append the original records to their partitions, with unchanged key and bytes, and mark their
    dead letters resolved.

    Refused where the partition has a newer record with the same key, unless --force is given: the
    older state of its row would replace the newer one. Every task that reads the topic gets the
    records again. A header `cdcbus.replayed` holds the time. Refused for a fetch task, whose dead
    letters do not hold the records.
    """
    from cdcbus.ops.services.dead_letters import NO_REPLAY, FetchLetters
    from cdcbus.tasks.control.dead_letters import replay_letters

    with _topic(word, bus) as topic:
        if isinstance(topic, FetchLetters):
            raise ConfigError(NO_REPLAY)
        dead_letters = _chosen(topic, records, takes_all)
        if dead_letters and not yes:
            question = f"Append {len(dead_letters)} records to their partitions?"
            if force:
                question += " Newer states of their rows are overwritten"
            click.confirm(question, abort=True, err=True)
        with bus_client(bus) as client:
            replay_letters(
                client,
                topic,
                topic.task_id,
                dead_letters,
                operator(),
                force,
                partial(click.echo, err=True),
            )
    _print_resolved(dead_letters, "records replayed", as_json)


@dlq.command()
@_task
@_records
@_all
@yes_option
@json_option
@bus_options
def drop(
    word: str, records: tuple[str, ...], takes_all: bool, yes: bool, as_json: bool, bus: BusSettings
) -> None:
    """Mark dead letters resolved without applying them: the target's rows stay as they are."""
    from cdcbus.tasks.control.dead_letters import drop_letters

    with _topic(word, bus) as topic:
        dead_letters = _chosen(topic, records, takes_all)
        if dead_letters and not yes:
            question = f"Drop {len(dead_letters)} dead letters? Their changes are not applied"
            click.confirm(question, abort=True, err=True)
        with bus_client(bus) as client:
            drop_letters(client, topic, topic.task_id, dead_letters, operator())
    _print_resolved(dead_letters, "dead letters dropped", as_json)


def _print_resolved(
    dead_letters: Sequence[OpenDeadLetter | FetchLetter], done: str, as_json: bool
) -> None:
    from cdcbus.ops.services.dead_letter_fields import fields_of

    if as_json:
        print_json(list(map(fields_of, dead_letters)))
    else:
        click.echo(f"{len(dead_letters)} {done}")


def _at_target(
    task: FetchTask | LoadTask, letter: OpenDeadLetter | FetchLetter
) -> list[dict[str, Any]]:
    """The target's rows of a dead letter, each with the operation that was to change it; where they
    cannot be read, one entry with the reason."""
    from cdcbus.consumer.config import LoadTask
    from cdcbus.consumer.records.dead_letters import OpenDeadLetter
    from cdcbus.ops.services.target_rows import target_rows

    if not isinstance(task, LoadTask) or not isinstance(letter, OpenDeadLetter):
        raise ConfigError("--target is for a consumer task's dead letters: a fetch task has none")
    try:
        found = target_rows(task, letter.value)
    except CdcError as error:
        return [{"table": "", "operation": "", "row": None, "different": [], "reason": str(error)}]
    return list(map(_target_fields, found))


def _target_fields(row: TargetRow) -> dict[str, Any]:
    now = {}
    different = []
    for cell in row.cells:
        if cell.has_now:
            now[cell.name] = cell.now
        if cell.is_different:
            different.append(cell.name)
    cells = None
    if row.is_there:
        cells = now
    return {
        "table": row.table,
        "operation": row.op,
        "row": cells,
        "different": different,
        "reason": row.reason,
    }


def _target_line(row: dict[str, Any]) -> str:
    """One row as a sentence."""
    if row["reason"]:
        return f"target: unknown: {row['reason']}"
    # None: it was looked up, and does not exist.
    if row["row"] is None:
        return f"target: {row['table']} has no row with this key"
    sentence = f"target: {row['table']} {row['row']}"
    if not row["different"]:
        return sentence
    return f"{sentence}; differs from the dead letter in: {', '.join(row['different'])}"


@contextmanager
def _topic(word: str, bus: BusSettings) -> Iterator[DeadLetterTopic | FetchLetters]:
    """The dead letters of a task."""
    from cdcbus.tasks.control.uses import kafka_of, named_task

    with _letters(named_task(word, bus, kafka_of)) as topic:
        yield topic


@contextmanager
def _letters(task: FetchTask | LoadTask) -> Iterator[DeadLetterTopic | FetchLetters]:
    from cdcbus.ops.services.dead_letters import letters_of

    with letters_of(task) as topic:
        yield topic


def _chosen(topic: DeadLetterQueue[Any], records: Sequence[str], takes_all: bool) -> list[Any]:
    """The dead letters of these records, in order. Raises ConfigError for one that is not open."""
    # Exactly one of the two: no names must not stand for all.
    if bool(records) == takes_all:
        raise click.UsageError("name records as `cdcbus dlq list` prints them, or give --all")
    from cdcbus.tasks.control.dead_letters import chosen_letters

    if takes_all:
        return chosen_letters(topic, None)
    return chosen_letters(topic, records)
