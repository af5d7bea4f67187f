"""Checks everything that a task connects to, and changes nothing there: ZooKeeper, then what its
kind of task needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import CdcError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.local.memory import MemoryPositions
from cdcbus.tasks.preflight.added import check_added
from cdcbus.tasks.preflight.fetch import check_fetch
from cdcbus.tasks.preflight.load import check_load
from cdcbus.tasks.preflight.result import CONNECT_SECONDS, CheckResult, Outcome, failure, ok, probe
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.position.znodes import position_path


def check_task(
    task: FetchTask | LoadTask,
    zookeeper: str,
    auth: str | None = None,
    look_at_others: Callable[[], None] = lambda: None,
) -> list[CheckResult]:
    """All results of a task; a failed check is a result, not an exception. Without ZooKeeper the
    task is treated as one without a position. `look_at_others` raises for a task that does not go
    with those in ZooKeeper."""
    with _quiet(), _looking(zookeeper, auth) as (client, results):
        if client is not None:
            results += probe("other tasks", lambda: _nothing(look_at_others))
        if isinstance(task, FetchTask):
            store = _store(client, task.task_id, task.swimlane, is_only=True)
            if task.source.added is not None:
                return results + check_added(task, store)
            return results + check_fetch(task, store)
        stores = {topic: _store(client, task.task_id, topic) for topic in task.source.topics}
        return results + check_load(task, stores)


def _nothing(look: Callable[[], None]) -> tuple[CheckResult, ...]:
    look()
    return ()


@contextmanager
def _looking(
    zookeeper: str, auth: str | None
) -> Iterator[tuple[KazooClient | None, list[CheckResult]]]:
    """A client that has created nothing, not even its chroot; None when ZooKeeper is unavailable.
    And the result of connecting."""
    hosts, slash, chroot = zookeeper.partition("/")
    subject = f"ZooKeeper {zookeeper}"
    try:
        # Without the chroot, which `connect` would create.
        client = connect(hosts, CONNECT_SECONDS, auth)
    except CdcError as cause:
        unseen = failure(subject, cause, Outcome.WARNING)
        yield (
            None,
            [
                CheckResult(
                    unseen.outcome,
                    subject,
                    f"{unseen.found}. Stored positions are not checked",
                    unseen.remedy,
                )
            ],
        )
        return
    try:
        if chroot:
            client.chroot = slash + chroot
        yield client, [ok(subject, "answers")]
    finally:
        client.stop()
        client.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the ZooKeeper client's own log, which repeats what the results say."""
    logger = logging.getLogger("kazoo")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _store(
    client: KazooClient | None, task_id: str, swimlane: str, *, is_only: bool = False
) -> PositionStore:
    if client is None:
        return MemoryPositions(path=position_path(task_id, swimlane))
    return ZooKeeperPositions(client, task_id, swimlane, CONNECT_SECONDS, is_only=is_only)
