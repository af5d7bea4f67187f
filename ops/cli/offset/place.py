"""`cdcbus offset reset|find`: positions by time or place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.offset.change import (
    dry_run_option,
    is_to_be_set,
    live_option,
    partition_option,
)
from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.task_argument import complete_task_id
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.zookeeper.position.history import (
    positions_of,
    set_positions,
)

if TYPE_CHECKING:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.producer.config import FetchTask
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.control.reset import Target

_word = click.argument("word", metavar="FILE|ID", shell_complete=complete_task_id)
_topic = click.option("--topic", help="Only this topic of several.")


@click.command()
@_word
@click.option("--to", "to", required=True, metavar="PLACE", help="See above.")
@_topic
@partition_option
@dry_run_option
@live_option
@yes_option
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
    """Set the stored position of a task to PLACE. First shows what this repeats or skips, in
    records or bytes, and in time.

    PLACE is earliest, latest, or a time such as 2024-05-01T03:04:05 (UTC unless it says otherwise).
    For a topic it can also be OFFSET, the last one applied, or -N, which goes back N records in
    each partition; for a binlog FILE, FILE:POS, or a GTID set.
    """
    task, target_lacks = _task(word, bus)
    task_id = task.task_id
    with bus_client(bus) as client:
        before = positions_of(client, task_id)
        targets = _targets(task, to, before, topic, partition, target_lacks)
        # With --json the change is shown only where a question follows.
        is_asked = not dry_run and not yes
        if is_asked or not as_json:
            # What the operator has to confirm.
            _print_targets(targets, err=as_json)
        if is_to_be_set(client, task_id, dry_run, live, yes):
            texts = {swimlane: target.text for swimlane, target in targets.items()}
            how = f"offset reset --to {to}"
            numbers = _numbers(targets)
            set_positions(client, task_id, texts, before, operator(), how, numbers)
    if as_json:
        rows = _as_fields(targets)
        for row in rows:
            row.update(before=before.get(row["swimlane"]), is_set=not dry_run)
        print_json(rows)
    elif not dry_run:
        click.echo(
            f"task {task_id}: the position is set; to restore the one before: cdcbus offset undo "
            f"{task_id}"
        )


@click.command()
@_word
@click.argument("place", metavar="PLACE")
@_topic
@partition_option
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


def _numbers(targets: Mapping[str, Target]) -> frozenset[int] | None:
    from cdcbus.tasks.control.reset import set_numbers

    return set_numbers(target.numbers for target in targets.values())


def _as_fields(targets: Mapping[str, Target]) -> list[dict[str, Any]]:
    rows = []
    for swimlane, target in targets.items():
        rows.append({"swimlane": swimlane, "position": target.text, "means": target.means})
    return rows


def _print_targets(targets: Mapping[str, Target], err: bool = False) -> None:
    for target in targets.values():
        for sentence in target.means:
            click.echo(sentence, err=err)
        click.echo(f"  {target.text}", err=err)
