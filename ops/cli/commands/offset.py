"""`cdcbus offset set|reset|find|copy|history|undo`: changes stored positions, and notes who did
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.task_argument import complete_task_id, task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.positions import (
    BINLOG_FORM,
    KAFKA_FORM,
    BinlogPosition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.tasks.control.commands import refuse_running
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.zookeeper.position_history import (
    histories,
    merged,
    positions_of,
    set_positions,
    undone,
)
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.consumer.config import LoadTask
    from cdcbus.producer.config import FetchTask
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.control.reset import Target

_word = click.argument("word", metavar="FILE|ID", shell_complete=complete_task_id)
_live = click.option(
    "--live", is_flag=True, help="Also while the task runs, which then continues from there."
)
_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what it would set.")
_topic = click.option("--topic", help="Only this topic of several.")
_partition = click.option(
    "--partition", type=click.IntRange(0), help="Only this partition of several."
)


@click.command("set")
@task_argument()
@click.argument("text", metavar="JSON")
@click.option(
    "--swimlane",
    help="Which, where a task has several: its topic, or the database of a fetch task.",
)
@_dry_run
@_live
@_yes
@json_option
@bus_options
def set_(
    task_id: str,
    text: str,
    swimlane: str | None,
    dry_run: bool,
    live: bool,
    yes: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Set the stored position of task ID to JSON, in the form that `cdcbus offset show` prints. It
    is not compared with what source or Kafka hold."""
    with bus_client(bus) as client:
        before = positions_of(client, task_id)
        swimlane = _swimlane(swimlane, [*before, *TaskNodes(client).swimlanes(task_id)], task_id)
        _check_form(text, swimlane)
        texts = {swimlane: merged(before.get(swimlane), text.strip())}
        _print_change(texts, before, as_json)
        if is_set := _is_to_be_set(client, task_id, dry_run, live, yes):
            set_positions(client, task_id, texts, before, operator(), "offset set", _named(text))
    _print_set(task_id, texts, before, is_set, as_json, bus)


def _print_change(
    texts: Mapping[str, str], before: Mapping[str, str | None], as_json: bool, why: str = ""
) -> None:
    """What a person is asked about."""
    for swimlane, text in texts.items():
        old = before.get(swimlane) or "none"
        click.echo(f"{swimlane}: from {old} to {text or 'none'}{why}", err=as_json)


def _is_to_be_set(client: KazooClient, task_id: str, dry_run: bool, live: bool, yes: bool) -> bool:
    """Asks, unless it need not. Refuses a task that runs; aborts on a no."""
    if dry_run:
        return False
    refuse_running(client, task_id, live)
    if not yes:
        click.confirm(f"Set the position of task {task_id}?", abort=True, err=True)
    return True


def _named(text: str) -> set[int] | None:
    """The partitions of a Kafka position; None for one of a binlog."""
    if '"topic"' not in text:
        return None
    return {position.partition for position in kafka_positions_from_json(text)}


def _print_set(
    task_id: str,
    texts: Mapping[str, str],
    before: Mapping[str, str | None],
    is_set: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    if as_json:
        print_json(
            [
                {
                    "swimlane": swimlane,
                    "position": text,
                    "before": before.get(swimlane),
                    "is_set": is_set,
                }
                for swimlane, text in texts.items()
            ]
        )
    if as_json or not is_set:
        return
    for swimlane, text in texts.items():
        old = before.get(swimlane) or "none"
        click.echo(f"task {task_id}: {swimlane} is set to {text or 'none'}; it was {old}")
        for sentence in said_by_target(task_id, bus, swimlane):
            click.echo(f"  {sentence}")


def said_by_target(task_id: str, bus: BusSettings, topic: str) -> list[str]:
    """The target's offset in each partition that it knows; nothing for a task whose text is not in
    ZooKeeper, or that is no consumer task."""
    from cdcbus.consumer.config import LoadTask
    from cdcbus.plugins.errors import CdcError
    from cdcbus.tasks.config.diagnostics import Severity
    from cdcbus.tasks.control.named_task import inspect_stored
    from cdcbus.tasks.control.target_offsets import target_offsets
    from cdcbus.tasks.control.uses import lacking, nothing_of, target_of, task_of

    place = f"task {task_id}"
    try:
        inspection = inspect_stored(task_id, bus, Severity.NOTE)
        task = task_of(inspection, place, nothing_of)
    except CdcError:
        return []
    if not isinstance(task, LoadTask):
        return []
    at_target = target_offsets(task, lacking(inspection, place, target_of))
    if at_target.unknown:
        return [at_target.unknown]
    sentences = []
    for partition in sorted(at_target.offsets):
        if partition.topic == topic:
            sentences.append(f"{partition}: {at_target.says(partition)}")
    return sentences


def _swimlane(given: str | None, known: list[str], task_id: str) -> str:
    swimlanes = list(dict.fromkeys(known))
    if given is not None:
        return given
    if len(swimlanes) != 1:
        names = ", ".join(swimlanes) or "none yet"
        raise ConfigError(
            f"task {task_id} has {len(swimlanes)} swimlanes ({names}); name one by --swimlane"
        )
    return swimlanes[0]


def _check_form(text: str, swimlane: str) -> None:
    """Raises ConfigError for a text that no task could start from."""
    try:
        if '"topic"' not in text:
            BinlogPosition.from_json(text)
            return
        topics = [position.topic for position in kafka_positions_from_json(text)]
    except PositionError as error:
        raise ConfigError(
            f"{error}; expected a position, such as {BINLOG_FORM} or {KAFKA_FORM}"
        ) from error
    for topic in topics:
        if topic != swimlane:
            raise ConfigError(
                f"the position is of topic {topic}, the swimlane is {swimlane}; expected the same"
            )


@click.command()
@_word
@click.option("--to", "to", required=True, metavar="PLACE", help="See above.")
@_topic
@_partition
@_dry_run
@_live
@_yes
@json_option
@bus_options
def reset(
    word: str,
    to: str,
    topic: str | None,
    partition: int | None,
    dry_run: bool,
    live: bool,
    yes: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Set the stored position of a task to PLACE. First it says what this repeats or leaves out,
    in records or bytes, and in time.

    PLACE is earliest, latest, or a time such as 2024-05-01T03:04:05 (UTC unless it says otherwise).
    For a topic it may also be OFFSET, the last one that is done, or -N, which goes back N records
    in each partition; for a binlog FILE, FILE:POS, or a GTID set.
    """
    task, target_lacks = _task(word, bus)
    task_id = task.task_id
    with bus_client(bus) as client:
        before = positions_of(client, task_id)
        targets = _targets(task, to, before, topic, partition, target_lacks)
        if not as_json or not (dry_run or yes):
            _print_targets(targets, err=as_json)  # what a person is asked about
        if _is_to_be_set(client, task_id, dry_run, live, yes):
            texts = {swimlane: target.text for swimlane, target in targets.items()}
            set_positions(
                client,
                task_id,
                texts,
                before,
                operator(),
                f"offset reset --to {to}",
                None if partition is None else {partition},
            )
    if as_json:
        rows = _as_fields(targets)
        for row in rows:
            row.update(before=before.get(row["swimlane"]), is_set=not dry_run)
        print_json(rows)
    elif not dry_run:
        click.echo(
            f"task {task_id}: the position is set; the one before: cdcbus offset undo {task_id}"
        )


@click.command()
@_word
@click.argument("place", metavar="PLACE")
@_topic
@_partition
@json_option
@bus_options
def find(
    word: str, place: str, topic: str | None, partition: int | None, as_json: bool, bus: BusSettings
) -> None:
    """Find the position of PLACE, as `cdcbus offset reset --to PLACE` would set it. Changes
    nothing."""
    task, target_lacks = _task(word, bus)
    with bus_client(bus) as client:
        stored = positions_of(client, task.task_id)
    targets = _targets(task, place, stored, topic, partition, target_lacks)
    if as_json:
        print_json(_as_fields(targets))
    else:
        _print_targets(targets)


def _task(word: str, bus: BusSettings) -> tuple[FetchTask | LoadTask, str]:
    """The task, and what is missing here to log in to its target, in words."""
    from cdcbus.tasks.config.diagnostics import Severity
    from cdcbus.tasks.control.named_task import inspect_named, place_of
    from cdcbus.tasks.control.uses import lacking, source_of, target_of, task_of

    inspection = inspect_named(word, bus, Severity.NOTE)
    place = place_of(word)
    return task_of(inspection, place, source_of), lacking(inspection, place, target_of)


def _targets(
    task: FetchTask | LoadTask,
    word: str,
    stored: Mapping[str, str | None],
    topic: str | None,
    partition: int | None,
    target_lacks: str,
) -> dict[str, Target]:
    from cdcbus.tasks.control.reset import find_targets

    return find_targets(task, word, stored, topic, partition, target_lacks)


def _as_fields(targets: Mapping[str, Target]) -> list[dict[str, Any]]:
    return [
        {"swimlane": swimlane, "position": target.text, "means": target.means}
        for swimlane, target in targets.items()
    ]


def _print_targets(targets: Mapping[str, Target], err: bool = False) -> None:
    for target in targets.values():
        for sentence in target.means:
            click.echo(sentence, err=err)
        click.echo(f"  {target.text}", err=err)


@click.command()
@task_argument("from_id", "FROM")
@task_argument("to_id", "TO")
@_partition
@_dry_run
@_live
@_yes
@json_option
@bus_options
def copy(
    from_id: str,
    to_id: str,
    partition: int | None,
    dry_run: bool,
    live: bool,
    yes: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Give task TO the stored positions of task FROM: of the swimlanes that both have."""
    with bus_client(bus) as client:
        stored = positions_of(client, from_id)
        before = positions_of(client, to_id)
        swimlanes = set(before) | set(TaskNodes(client).swimlanes(to_id))
        chosen = None if partition is None else {partition}
        known = []
        texts = {}
        for swimlane, position in stored.items():
            text = (position or "").strip()
            if not text:
                continue
            known.append(swimlane)
            if swimlane in swimlanes and (chosen is None or chosen & (_named(text) or set())):
                texts[swimlane] = merged(before.get(swimlane), _of(text, chosen), chosen)
        if not texts:
            raise _nothing_to_copy(from_id, to_id, known, swimlanes, partition)
        _print_change(texts, before, as_json)
        if is_set := _is_to_be_set(client, to_id, dry_run, live, yes):
            how = f"offset copy {from_id}"
            set_positions(client, to_id, texts, before, operator(), how, chosen)
    _print_set(to_id, texts, before, is_set, as_json, bus)


def _nothing_to_copy(
    from_id: str, to_id: str, known: list[str], swimlanes: set[str], partition: int | None
) -> ConfigError:
    if partition is not None and swimlanes.intersection(known):
        return ConfigError(
            f"task {from_id} has no position of partition {partition}; there is nothing to copy"
        )
    mine = ", ".join(known) or "none"
    theirs = ", ".join(sorted(swimlanes)) or "none"
    return ConfigError(
        f"no swimlane is in both: task {from_id} has positions of {mine}; task {to_id} has {theirs}"
    )


def _of(text: str, chosen: set[int] | None) -> str:
    """The part of a position that is of the chosen partitions."""
    if chosen is None:
        return text
    positions = kafka_positions_from_json(text)
    return kafka_positions_to_json(each for each in positions if each.partition in chosen)


@click.command()
@task_argument()
@json_option
@bus_options
def history(task_id: str, as_json: bool, bus: BusSettings) -> None:
    """Show the positions of task ID that commands have set, the newest last: when, by whom, and
    the position before."""
    with bus_client(bus) as client:
        found = histories(client, task_id)
    if as_json:
        from dataclasses import asdict

        print_json(
            {
                swimlane: [asdict(change) for change in changes]
                for swimlane, changes in found.items()
            }
        )
        return
    for swimlane, changes in found.items():
        click.echo(swimlane)
        for change in changes:
            click.echo(f"  {change.at} UTC  {change.by}  {change.how}")
            click.echo(f"    {change.before or 'none'} -> {change.after or 'none'}")
    if not found:
        click.echo(f"no command has set a position of task {task_id}", err=True)


@click.command()
@task_argument()
@click.option("--swimlane", help="Which, where several were set.")
@_dry_run
@_live
@_yes
@json_option
@bus_options
def undo(
    task_id: str,
    swimlane: str | None,
    dry_run: bool,
    live: bool,
    yes: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Set the position of task ID to what it was before the last command set it. This can be
    undone in the same way."""
    with bus_client(bus) as client:
        changes = {
            swimlane: changes for swimlane, changes in histories(client, task_id).items() if changes
        }
        if not changes:
            raise ConfigError(
                f"no command has set a position of task {task_id}; there is nothing to undo"
            )
        swimlane = _swimlane(swimlane, list(changes), task_id)
        if swimlane not in changes:
            raise ConfigError(
                f"no command has set the position {swimlane} of task {task_id}; there is nothing "
                "to undo"
            )
        last = changes[swimlane][-1]
        before = positions_of(client, task_id)
        text, partitions = undone(last, before.get(swimlane))
        texts = {swimlane: text}
        why = f", as before {last.how} by {last.by} at {last.at} UTC"
        _print_change(texts, before, as_json, why)
        if is_set := _is_to_be_set(client, task_id, dry_run, live, yes):
            set_positions(client, task_id, texts, before, operator(), "offset undo", partitions)
    _print_set(task_id, texts, before, is_set, as_json, bus)
