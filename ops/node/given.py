"""What operators have given a task: its text with the sources that it names, a place to start from,
and the version of cdcbus that runs it. A task that waits, for an operator or for its next start, is
started immediately when one of these changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson
from kazoo.client import KazooClient

from cdcbus import __version__
from cdcbus.tasks.config.named_sources import IN_ZOOKEEPER
from cdcbus.tasks.snapshots.store import snapshot_path
from cdcbus.tasks.zookeeper.dist_nodes import dist_path
from cdcbus.tasks.zookeeper.position.history import history_path
from cdcbus.tasks.zookeeper.position.znodes import position_path, written_path
from cdcbus.tasks.zookeeper.znode import get_children, get_node

# Instead of the change number of a znode that does not exist.
MISSING = "0"


def given(client: KazooClient, task_id: str) -> str:
    """ZooKeeper's change numbers of all that, without what the task itself has written, and the
    version of this cdcbus. Raises PositionUnavailable, PositionError."""
    return ",".join([*map(str, sorted(set(_changes(client, task_id)))), f"v{__version__}"])


def is_anew(now: str, before: str) -> bool:
    """Whether anything was given since: each change has a number of its own. An older cdcbus is no
    remedy: two versions side by side would start a task in turn, again and again."""
    changes, version = _parts(now)
    known, former = _parts(before)
    # A subset, not equality: a change number disappears when a task takes a set position over.
    # Nor is anything given by a deletion.
    return version > former or not changes - {MISSING} <= known


def _parts(text: str) -> tuple[set[str], tuple[int, ...]]:
    """The change numbers, and the version as numbers, empty where an earlier one wrote none."""
    changes, _, version = text.partition("v")
    numbers = re.match(r"[\d.]*", version)
    return {*changes.split(",")}, tuple(map(int, re.findall(r"\d+", numbers[0] if numbers else "")))


def _changes(client: KazooClient, task_id: str) -> Iterator[int]:
    for swimlane in get_children(client, dist_path(task_id)):
        yield from _of_text(client, f"{dist_path(task_id)}/{swimlane}")
    for swimlane in get_children(client, position_path(task_id)):
        # The two are written in one transaction: they share a number unless somebody set the
        # position.
        position = _change(client, position_path(task_id, swimlane))
        if position != _change(client, written_path(task_id, swimlane)):
            yield position
    for swimlane in get_children(client, history_path(task_id)):
        yield _change(client, history_path(task_id, swimlane))
    # A direct load that has finished: until then an earlier start of the task was refused.
    yield _change(client, f"{snapshot_path(task_id)}/direct")


def _of_text(client: KazooClient, path: str) -> Iterator[int]:
    node = get_node(client, path)
    if node is not None:
        yield node.mzxid
        text = orjson.dumps(node.fields).decode()
        for name in get_children(client, IN_ZOOKEEPER):
            # Also true where the name stands in another value: one start too many harms nothing.
            if f'"{name}"' in text:
                yield _change(client, f"{IN_ZOOKEEPER}/{name}")


def _change(client: KazooClient, path: str) -> int:
    node = get_node(client, path)
    if node is None:
        return int(MISSING)
    return node.mzxid
