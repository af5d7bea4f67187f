"""Options, confirmation and output that the commands which set positions share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.output import print_json
from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.positions import BinlogPosition, TopicPartition, kafka_positions_from_json
from cdcbus.tasks.control.commands import refuse_running
from cdcbus.tasks.control.named_task import unknown_task
from cdcbus.tasks.first_of import first_of
from cdcbus.tasks.zookeeper.status import status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.control.target_offsets import TargetOffsets

MOST_NAMES = 5
live_option = click.option(
    "--live", is_flag=True, help="Also while the task runs; it then continues from there."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be set.")
partition_option = click.option(
    "--partition", type=click.IntRange(0), help="Only this partition of several."
)


def print_change(
    texts: Mapping[str, str], before: Mapping[str, str | None], as_json: bool, why: str = ""
) -> None:
    """Prints the change that the operator has to confirm."""
    for swimlane, text in texts.items():
        old = before.get(swimlane) or "none"
        # Standard output is for the JSON alone.
        click.echo(f"{swimlane}: from {old} to {text or 'none'}{why}", err=as_json)


def refuse_unknown(client: KazooClient, task_id: str, bus: BusSettings) -> None:
    """Raises ConfigError for a task of which ZooKeeper holds nothing."""
    ids = TaskNodes(client).ids()
    if task_id not in ids:
        raise unknown_task(task_id, ids, bus.zookeeper)


def refuse_other_form(task_id: str, before: str | None, text: str) -> None:
    """Raises ConfigError for a position of a binlog in place of one of a topic, or the reverse: a
    database and a topic can have one name."""
    if before and ('"topic"' in before) != ('"topic"' in text):
        what = "topic" if '"topic"' in before else "binlog"
        raise ConfigError(f"task {task_id} has a position of a {what}, and this is none: {text}")


def without_former(before: str | None, text: str) -> str:
    """A position of a binlog without what belongs to the one before, where it is that one with
    another place; any other position as it is."""
    with suppress(PositionError):
        position = BinlogPosition.from_json(text)
        moved = position.moved_from(BinlogPosition.from_json(before or ""))
        if moved != position:
            return moved.to_json()
    return text


def is_to_be_set(client: KazooClient, task_id: str, dry_run: bool, live: bool, yes: bool) -> bool:
    """Whether the position is to be set: not in a dry run. Asks unless `yes`, and aborts on a no.
    Refuses a running task unless `live`."""
    if dry_run:
        return False
    # Before the question, so that nobody confirms in vain.
    refuse_running(client, task_id, live)
    status = status_of(TaskNodes(client), task_id)
    if status.waits:
        click.echo(
            f"task {task_id} was started, and is {status.state}: the new position starts it within "
            f"seconds; to prevent that, stop it first: cdcbus task stop {task_id}",
            err=True,
        )
    if not yes:
        click.confirm(f"Set the position of task {task_id}?", abort=True, err=True)
    return True


def chosen_partitions(partition: int | None) -> set[int] | None:
    """The partitions that count as set by an operator; the others continue where the target is.
    None: all."""
    if partition is None:
        return None
    return {partition}


def named_partitions(text: str) -> set[int] | None:
    """The partitions of a Kafka position; None for one of a binlog."""
    if '"topic"' not in text:
        return None
    return {position.partition for position in kafka_positions_from_json(text)}


def print_set(
    task_id: str,
    texts: Mapping[str, str],
    before: Mapping[str, str | None],
    is_set: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Prints what was set. Without JSON prints nothing after a dry run: the change was shown."""
    if as_json:
        rows = []
        for swimlane, text in texts.items():
            row = {"swimlane": swimlane, "position": text, "before": before.get(swimlane)}
            rows.append({**row, "is_set": is_set})
        print_json(rows)
        return
    if not is_set:
        return
    for swimlane, text in texts.items():
        old = before.get(swimlane) or "none"
        click.echo(f"task {task_id}: {swimlane} is set to {text or 'none'}; it was {old}")
        for sentence in said_by_target(task_id, bus, swimlane):
            click.echo(f"  {sentence}")


def said_by_target(task_id: str, bus: BusSettings, topic: str) -> list[str]:
    """The target's offset in each partition that it knows, in sentences; none for a task whose text
    is not in ZooKeeper, or that is not a consumer task."""
    at_target = _at_target(task_id, bus)
    if at_target is None:
        return []
    if at_target.unknown:
        return [at_target.unknown]
    sentences = []
    for partition in sorted(at_target.offsets):
        if partition.topic == topic:
            sentences.append(f"{partition}: {at_target.says(partition)}")
    return sentences


def warn_of_target_ahead(
    task_id: str, copied_to: str, texts: Mapping[str, str], bus: BusSettings
) -> None:
    """Warns where the task's target is ahead of positions that were copied to another task, by
    swimlane: it knows the place of the one task alone, and the other repeats what is between."""
    at_target = _at_target(task_id, bus)
    if at_target is None:
        return
    for swimlane, text in texts.items():
        with suppress(PositionError):
            for position in kafka_positions_from_json(text):
                partition = TopicPartition(swimlane, position.partition)
                applied = at_target.offsets.get(partition, 0)
                if applied > position.next_offset:
                    click.secho(
                        f"warning: {partition}: the target of task {task_id} is at offset "
                        f"{applied}, ahead of the copied position, which continues at "
                        f"{position.next_offset}: if task {copied_to} writes to that target, it "
                        "applies the records between again, and tables without a key get their "
                        f"rows twice. Start and stop task {task_id}, which stores its place, and "
                        "copy again",
                        fg="yellow",
                        err=True,
                    )


def warn_of_snapshots(
    client: KazooClient, task_id: str, copied_to: str, swimlanes: Collection[str]
) -> None:
    """Warns where a fetch task has sent rows by snapshots that another, which gets its position,
    would send again. They are not copied with it: they tell what the topics of the one have, and
    the other's may be new."""
    from cdcbus.tasks.snapshots.copied import sent_without

    if tables := sent_without(client, task_id, copied_to, swimlanes):
        click.secho(
            f"warning: snapshots of task {task_id} have sent the rows of "
            f"{first_of(tables, MOST_NAMES)}, and task {copied_to} does not know that: it sends "
            "them again, and if it writes to the same topics, tables without a key get their rows "
            f"twice. A copy that knows it is made by cdcbus task clone {task_id} NEW",
            fg="yellow",
            err=True,
        )


def _at_target(task_id: str, bus: BusSettings) -> TargetOffsets | None:
    """None for a task whose text is not in ZooKeeper, or that is not a consumer task."""
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
        # Without a text that can be read nothing is known of its target; the position is shown
        # anyway.
        return None
    if not isinstance(task, LoadTask):
        return None
    # Without its secrets the target is not asked: failed logins can lock a user.
    return target_offsets(task, lacking(inspection, place, target_of))


def swimlane_of(given: str | None, known: list[str], task_id: str) -> str:
    swimlanes = list(dict.fromkeys(known))
    if given is not None:
        return given
    if len(swimlanes) != 1:
        names = ", ".join(swimlanes) or "none yet"
        raise ConfigError(
            f"task {task_id} has {len(swimlanes)} swimlanes ({names}); name one with --swimlane"
        )
    return swimlanes[0]
