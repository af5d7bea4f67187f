"""The positions that `cdcbus task import --porter` brings: they replace no position that has moved
here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import click
from kazoo.client import KazooClient

from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.tasks.local.state_file import StateFile
from cdcbus.tasks.local.stores import FilePositions, FileSnapshots, set_position
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.zookeeper.lock import left_lock, live
from cdcbus.tasks.zookeeper.position.history import (
    Change,
    histories,
    positions_of,
    set_positions,
)
from cdcbus.tasks.zookeeper.tasks import TaskNodes

HOW = "task import"


def set_imported(client: KazooClient, task_id: str, texts: Mapping[str, str]) -> None:
    """Sets positions of a task by swimlane. A task that runs here, and a position that is not the
    one of an earlier import, keep what they have; what is replaced and what stays is printed."""
    before = positions_of(client, task_id)
    changes = histories(client, task_id)
    locks = TaskNodes(client).locks(task_id)
    holder = "the task is running" if live(locks) else left_lock(task_id, locks)
    chosen = {}
    for swimlane, text in texts.items():
        old = before.get(swimlane)
        if old == text:
            continue
        if holder:
            _print_kept(task_id, swimlane, old, text, holder)
        elif _is_moved(old, changes.get(swimlane, [])):
            _print_kept(task_id, swimlane, old, text, "it was set or moved here")
        else:
            chosen[swimlane] = text
    if not chosen:
        return
    for swimlane in filter(lambda each: _is_of_binlog(chosen[each]), chosen):
        # porter has sent rows of its tables, which a snapshot would add once more where they have
        # no key. First, as a task can start as soon as it has a position.
        ZooKeeperSnapshots(client, task_id, swimlane).note_live(True)
    set_positions(client, task_id, chosen, before, operator(), HOW)
    for swimlane, text in chosen.items():
        _print_replaced(task_id, swimlane, before.get(swimlane), text)


def set_imported_in_file(state: StateFile, task_id: str, texts: Mapping[str, str]) -> None:
    """The same in a file of positions, which does not say who has edited it: there only a task
    that has run keeps its positions."""
    for swimlane, text in texts.items():
        store = FilePositions(state, swimlane)
        old = store.load()
        if old == text:
            continue
        if old and store.written is not None:
            _print_kept(task_id, swimlane, old, text, "the task has run here")
            continue
        if _is_of_binlog(text):
            FileSnapshots(state, swimlane).note_live(True)
        set_position(state, swimlane, text)
        _print_replaced(task_id, swimlane, old, text)


def _is_of_binlog(text: str) -> bool:
    with suppress(PositionError):
        BinlogPosition.from_json(text)
        return True
    return False


def _is_moved(text: str | None, changes: list[Change]) -> bool:
    """Whether a stored position is neither missing nor the one that an import set last."""
    if not (text or "").strip():
        return False
    return not changes or (changes[-1].how, changes[-1].after) != (HOW, text)


def _print_kept(task_id: str, swimlane: str, old: str | None, text: str, why: str) -> None:
    click.echo(
        f"task {task_id}: {swimlane} keeps its position {old or 'none'}, as {why}; porter's is "
        f"{text}: to take that one, stop the task and set it",
        err=True,
    )


def _print_replaced(task_id: str, swimlane: str, old: str | None, text: str) -> None:
    if old:
        click.echo(f"task {task_id}: {swimlane} is set to {text}; it was {old}", err=True)
