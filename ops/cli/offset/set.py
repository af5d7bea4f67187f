"""`cdcbus offset set|copy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.offset.change import (
    chosen_partitions,
    dry_run_option,
    is_to_be_set,
    live_option,
    named_partitions,
    partition_option,
    print_change,
    print_set,
    refuse_other_form,
    refuse_unknown,
    swimlane_of,
    warn_of_snapshots,
    warn_of_target_ahead,
    without_former,
)
from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.output import json_option
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import (
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.tasks.control.commands import check_position
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.zookeeper.position.history import (
    merged,
    positions_of,
    set_positions,
)
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command("set")
@task_argument()
@click.argument("text", metavar="JSON")
@click.option(
    "--swimlane",
    help="Which one, if the task has several: a topic, or the database of a fetch task.",
)
@dry_run_option
@live_option
@yes_option
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
    """Set the stored position of task ID to JSON, in the form that `cdcbus offset show` prints. The
    position is not checked against the source or Kafka."""
    with bus_client(bus) as client:
        before = positions_of(client, task_id)
        # A task that runs from a file has no text here, one that has not run no position.
        if not before and swimlane is None:
            refuse_unknown(client, task_id, bus)
        named = TaskNodes(client).swimlanes(task_id)
        known = [*before, *named]
        # A task that runs from a file may be about to read it.
        if named and swimlane is not None and swimlane not in known:
            raise ConfigError(
                f"task {task_id} has no swimlane {swimlane}, so it would never read that position; "
                f"it has {', '.join(dict.fromkeys(known))}"
            )
        swimlane = swimlane_of(swimlane, known, task_id)
        check_position(text, swimlane)
        refuse_other_form(task_id, before.get(swimlane), text)
        # Partitions that the JSON does not name keep their positions.
        whole = merged(before.get(swimlane), text.strip())
        texts = {swimlane: without_former(before.get(swimlane), whole)}
        left_out = ""
        if texts[swimlane] != whole:
            left_out = " (without gtid and timestamp, which are of the former place)"
        print_change(texts, before, as_json, left_out)
        is_set = is_to_be_set(client, task_id, dry_run, live, yes)
        if is_set:
            # Only the partitions that are named count as set by an operator.
            numbers = named_partitions(text)
            set_positions(client, task_id, texts, before, operator(), "offset set", numbers)
    print_set(task_id, texts, before, is_set, as_json, bus)


@click.command()
@task_argument("from_id", "FROM")
@task_argument("to_id", "TO")
@partition_option
@dry_run_option
@live_option
@yes_option
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
    """Copy the stored positions of task FROM to task TO, for the swimlanes that both have."""
    with bus_client(bus) as client:
        stored = positions_of(client, from_id)
        before = positions_of(client, to_id)
        swimlanes = set(before) | set(TaskNodes(client).swimlanes(to_id))
        chosen = chosen_partitions(partition)
        known = []
        texts, copied = {}, {}
        for swimlane, position in stored.items():
            text = (position or "").strip()
            if not text:
                continue
            known.append(swimlane)
            if swimlane not in swimlanes:
                continue
            refuse_other_form(to_id, before.get(swimlane), text)
            if chosen is None or chosen.intersection(named_partitions(text) or ()):
                copied[swimlane] = _of(text, chosen)
                texts[swimlane] = merged(before.get(swimlane), copied[swimlane], chosen)
        if not texts:
            refuse_unknown(client, from_id, bus)
            refuse_unknown(client, to_id, bus)
            raise _nothing_to_copy(from_id, to_id, known, swimlanes, partition)
        print_change(texts, before, as_json)
        # Before the question.
        warn_of_target_ahead(from_id, to_id, copied, bus)
        warn_of_snapshots(client, from_id, to_id, texts)
        is_set = is_to_be_set(client, to_id, dry_run, live, yes)
        if is_set:
            how = f"offset copy {from_id}"
            set_positions(client, to_id, texts, before, operator(), how, chosen)
    print_set(to_id, texts, before, is_set, as_json, bus)


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
    """The part of a position that belongs to the chosen partitions."""
    if chosen is None:
        return text
    positions = kafka_positions_from_json(text)
    return kafka_positions_to_json(each for each in positions if each.partition in chosen)
