"""`cdcbus offset show`: the stored positions of a task, and what they mean."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.offset.change import said_by_target
from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.tasks.zookeeper.connection import connected
from cdcbus.tasks.zookeeper.position.znodes import position_path, stored_positions

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command()
@task_argument()
@json_option
@bus_options
def show(task_id: str, as_json: bool, bus: BusSettings) -> None:
    """Show the stored position of each swimlane of task ID."""
    with connected(bus.zookeeper, auth=bus.zookeeper_auth) as client:
        stored = stored_positions(client, task_id)
    if not stored:
        where = f"{position_path(task_id)} at {bus.zookeeper}"
        raise PositionError(
            f"task {task_id} has no stored position: nothing is below {where}; check the id and "
            "the address"
        )
    rows = []
    is_usable = True
    for path, text in stored.items():
        means, is_good = _described(text)
        is_usable = is_usable and is_good
        at_target: list[str] = []
        # ZooKeeper has a copy only: what the target itself has applied counts.
        if '"topic"' in text or not text.strip():
            at_target = said_by_target(task_id, bus, path.rpartition("/")[2])
        rows.append({"path": path, "stored": text, "means": means, "target": at_target})
        if not as_json:
            lines = [path, text.strip(), means, *at_target]
            click.echo("\n  ".join(filter(None, lines)))
    if as_json:
        print_json(rows)
    if not is_usable:
        sys.exit(1)


def _described(text: str) -> tuple[str, bool]:
    """What a stored position means, and whether a task could start from it."""
    if not text.strip():
        return (
            "blank, as if deleted: only a first start goes by the task file; a task that has run "
            "goes on where its target or Kafka says, or refuses to start. To set a place: cdcbus "
            "offset reset"
        ), True
    try:
        if '"topic"' in text:
            words = []
            for each in kafka_positions_from_json(text):
                partition = f"{each.topic}[{each.partition}]"
                words.append(f"{partition} done up to {each.offset}, next {each.next_offset}")
            return "; ".join(words), True
        position = BinlogPosition.from_json(text)
    except PositionError as error:
        return f"unusable: {error}", False
    parts = [f"reading continues at byte {position.pos} of {position.file}"]
    if position.timestamp_ms:
        parts.append(f"committed {_utc(position.timestamp_ms)}")
    if position.gtid:
        parts.append(f"GTID {position.gtid}")
    return ", ".join(parts), True


def _utc(epoch_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        # A damaged position can hold any number.
        return f"at an invalid time: {epoch_ms} ms"
