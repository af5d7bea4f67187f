"""`cdcbus dlq`: records that a consumer task could not apply."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from cdcbus.ops.bus_options import bus_options
from cdcbus.plugins.errors import ConfigError

if TYPE_CHECKING:
    from cdcbus.consumer.dead_letters import DeadLetterTopic, OpenLetter
    from cdcbus.tasks.bus_settings import BusSettings

RECORD = re.compile(r"[\w.-]+/[0-9]+/[0-9]+")

_task = click.argument("word", metavar="FILE|ID")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_all = click.option("--all", "takes_all", is_flag=True, help="All open letters of the task.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def _read_records(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not RECORD.fullmatch(word):
            raise click.BadParameter(f"expected TOPIC/PARTITION/OFFSET as `cdcbus dlq list` prints it, not {word!r}")
    return words


_records = click.argument("records", nargs=-1, metavar="[TOPIC/PARTITION/OFFSET...]", callback=_read_records)


@click.group()
def dlq() -> None:
    """Look at dead letters, replay or drop them.

    A consumer task with loader.onError=deadletter puts there what it cannot read or what the target refuses. FILE is its task file, ID its
    id in ZooKeeper.
    """


@dlq.command("list")
@_task
@_json
@bus_options
def list_letters(word: str, as_json: bool, bus: BusSettings) -> None:
    """List the open letters of a task: record, time, reason."""
    with _topic(word, bus) as topic:
        letters = topic.letters()
    if as_json:
        _print_json([_fields(each) for each in letters])
        return
    if not letters:
        click.echo("no dead letters are open")
        return
    table = Table("record", "time", "reason", box=None)
    for each in letters:
        table.add_row(each.letter.record, each.time, each.letter.reason)
    Console().print(table)


@dlq.command()
@_task
@_records
@_json
@bus_options
def show(word: str, records: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Show letters whole, with the original record's key, headers and value; all without a record. Rows are printed as they are."""
    with _topic(word, bus) as topic:
        letters = _chosen(topic, records, takes_all=not records)
    fields = [{**_fields(each), **_original(each)} for each in letters]
    if as_json:
        _print_json(fields)
        return
    for each in fields:
        click.echo("\n".join(f"{name}: {value}" for name, value in each.items()) + "\n")


@dlq.command()
@_task
@_records
@_all
@_yes
@bus_options
def replay(word: str, records: tuple[str, ...], takes_all: bool, yes: bool, bus: BusSettings) -> None:
    """Put the original records to the ends of their partitions, key and bytes as they were, and settle their letters.

    They come after all that has come since: of a row that has changed meanwhile the older state is written. Every task that reads the topic
    gets them once more. A header `cdcbus.replayed` says when.
    """
    with _topic(word, bus) as topic:
        letters = _chosen(topic, records, takes_all)
        if letters and not yes:
            click.confirm(
                f"Put {len(letters)} records to the ends of their partitions? Newer states of their rows are overwritten", abort=True
            )
        topic.replay(letters)
    click.echo(f"{len(letters)} records replayed")


@dlq.command()
@_task
@_records
@_all
@_yes
@bus_options
def drop(word: str, records: tuple[str, ...], takes_all: bool, yes: bool, bus: BusSettings) -> None:
    """Settle letters without applying them: their rows stay as they are at the target."""
    with _topic(word, bus) as topic:
        letters = _chosen(topic, records, takes_all)
        if letters and not yes:
            click.confirm(f"Drop {len(letters)} dead letters? Their changes are not applied", abort=True)
        topic.drop(letters)
    click.echo(f"{len(letters)} dead letters dropped")


@contextmanager
def _topic(word: str, bus: BusSettings) -> Iterator[DeadLetterTopic]:
    """The dead letters of a task. Raises ConfigError when it is no consumer task."""
    from cdcbus.consumer.dead_letters import DeadLetterTopic
    from cdcbus.consumer.task import LoadTask
    from cdcbus.tasks.findings import Severity
    from cdcbus.tasks.named_task import inspect_named, place_of

    task = inspect_named(word, bus, Severity.ERROR).ready(place_of(word)).task
    if not isinstance(task, LoadTask):
        raise ConfigError(f"{place_of(word)} is a fetch task; `cdcbus dlq` is about consumer tasks (KafkaFetch)")
    with DeadLetterTopic(task) as topic:
        yield topic


def _chosen(topic: DeadLetterTopic, records: Sequence[str], takes_all: bool) -> list[OpenLetter]:
    """The letters of these records, in order. Raises ConfigError for one that is not open."""
    if bool(records) == takes_all:
        raise click.UsageError("name records as `cdcbus dlq list` prints them, or give --all")
    letters = topic.letters()
    if takes_all:
        return letters
    unknown = set(records) - {each.letter.record for each in letters}
    if unknown:
        raise ConfigError(f"no open dead letter: {', '.join(sorted(unknown))}; `cdcbus dlq list` prints those that are")
    return [each for each in letters if each.letter.record in records]


def _fields(each: OpenLetter) -> dict[str, Any]:
    letter = each.letter
    return {
        "record": letter.record,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "time": each.time,
        "reason": letter.reason,
    }


def _original(each: OpenLetter) -> dict[str, Any]:
    return {"key": _text(each.key), "headers": {name: _text(value) for name, value in each.headers}, "value": _text(each.value)}


def _text(value: bytes | None) -> str | None:
    """As text where it is text, else `base64:...`."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"


def _print_json(value: Any) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
