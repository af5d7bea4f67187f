"""The audit: the newest KEPT actions of operators, one znode each: `/datas/audit/<number>` holds
`{"at","by","what","on","failed"}`.

An action is recorded before it is done, so that none goes unrecorded; if it then fails, its record
says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

import orjson
from kazoo.client import KazooClient

from cdcbus.plugins.errors import CdcError
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import (
    answer,
    drop_node,
    get_children,
    get_node,
    now,
    put_node,
    reported,
)

AUDIT = f"{ROOT}/audit"
KEPT = 1000
# Commands by which a task runs, and that which removes it.
STARTED, REMOVED = ("task start", "task restart"), "task rm"


@dataclass(frozen=True, slots=True)
class Action:
    """When (UTC), who and from where, what was done, and on what: `task shop`. `failed`: why the
    action failed. A znode that was damaged by hand is an action of nobody, whose `failed` says
    so."""

    at: str
    by: str
    what: str
    on: str
    failed: str = ""


@contextmanager
def audited(client: KazooClient, by: str, what: str, on: str) -> Iterator[None]:
    """Records what is done inside the block, and an error that the block raises. Raises
    PositionUnavailable and PositionError, before anything is done, when it cannot be recorded."""
    action = Action(now(), by, what, on)
    with reported(AUDIT):
        path: str = answer(
            # ZooKeeper numbers the znodes, so that their names sort by time across processes.
            client.create_async(
                f"{AUDIT}/", orjson.dumps(asdict(action)), sequence=True, makepath=True
            )
        )
    # Concurrent writers may delete the same ones, which `drop_node` allows.
    for name in get_children(client, AUDIT)[:-KEPT]:
        drop_node(client, f"{AUDIT}/{name}")
    try:
        yield
    except BaseException as error:
        # Only this package's errors are known to hold no cell values and no secrets.
        why = f"unexpected {type(error).__name__}"
        if isinstance(error, CdcError):
            why = str(error)
        # The first error is the one to report.
        with suppress(CdcError):
            put_node(client, path, asdict(replace(action, failed=why)))
        raise


def actions(client: KazooClient, newest: int = KEPT) -> list[Action]:
    """The newest `newest` actions, oldest first."""
    found = []
    for name in get_children(client, AUDIT)[-newest:]:
        action = _read(client, f"{AUDIT}/{name}")
        # Otherwise it was deleted between the two requests.
        if action is not None:
            found.append(action)
    return found


def removed_tasks(done: Iterable[Action]) -> set[str]:
    """The tasks that were removed, and not started since, by actions with the oldest first: by
    their order, as operators' clocks can differ."""
    removed = set()
    for action in done:
        task_id = action.on.removeprefix("task ")
        if action.failed:
            continue
        if action.what == REMOVED:
            removed.add(task_id)
        elif action.what.startswith(STARTED):
            removed.discard(task_id)
    return removed


def _read(client: KazooClient, path: str) -> Action | None:
    node = get_node(client, path)
    if node is None:
        return None
    return Action(
        node.text("at"),
        node.text("by"),
        node.text("what"),
        node.text("on"),
        node.damage or node.text("failed"),
    )
