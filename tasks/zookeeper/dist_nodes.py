"""The tasks in ZooKeeper, in porter's dist znodes: `/datas/task/<id>/dist/<swimlane>`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.tasks.porter.dist_json import parse_dist
from cdcbus.tasks.zookeeper.connection import LOST, REQUEST_BYTES, ROOT, connected
from cdcbus.tasks.zookeeper.task_configs import Dist, merged
from cdcbus.tasks.zookeeper.znode import answer, reported

# What a request has for each operation besides path and data, at most.
_HEAD_BYTES = 64

TASKS = f"{ROOT}/task"


def dist_path(task_id: str, swimlane: str = "") -> str:
    """The znode of a swimlane, or the parent of all znodes of a task."""
    directory = f"{TASKS}/{task_id}/dist"
    return f"{directory}/{swimlane}" if swimlane else directory


class DistNodes:
    """The tasks in ZooKeeper. Usable while its client is. All calls raise PositionUnavailable or
    PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def get(self, task_id: str) -> Dist | None:
        """The task, or None. Raises ConfigError when its znodes do not hold a valid one."""
        directory = dist_path(task_id)
        with reported(directory):
            nodes = _below(self.client, directory)
        if not nodes:
            return None
        try:
            return merged(list(map(_parsed, nodes.keys(), nodes.values())))
        except ConfigError as error:
            raise ConfigError(f"{directory}: {error}") from error

    def ids(self) -> list[str]:
        """The tasks of which ZooKeeper holds something, also those without a text."""
        with reported(TASKS):
            return _children(self.client, TASKS)

    def refuse_existing(self, task_ids: Iterable[str]) -> None:
        """Raises ConfigError when one of the tasks exists. For use before anything is stored."""
        with reported(TASKS):
            for task_id in task_ids:
                if _children(self.client, dist_path(task_id)):
                    raise _exists(task_id)

    def put(
        self,
        tasks: Mapping[str, Mapping[str, Dist]],
        is_replacing: bool,
        also: Callable[[Any], None] = lambda _: None,
    ) -> None:
        """Stores the znodes of tasks, by id and swimlane, all or none, and removes those that a
        task no longer has. `also`: adds writes to the transaction.

        Raises ConfigError when a task exists and `is_replacing` is not set, or all is too large for
        ZooKeeper, PositionConflict when somebody else writes one at the same time.
        """
        with reported(TASKS):
            transaction = self.client.transaction()
            for task_id, dists in tasks.items():
                answer(self.client.ensure_path_async(dist_path(task_id)))
                # A znode that appears or vanishes after this fails the transaction.
                before = set(_children(self.client, dist_path(task_id)))
                if before and not is_replacing:
                    raise _exists(task_id)
                # Topics that the task no longer has: their texts would still be merged into it.
                for swimlane in before - dists.keys():
                    transaction.delete(dist_path(task_id, swimlane))
                for swimlane, dist in dists.items():
                    write = transaction.set_data if swimlane in before else transaction.create
                    write(dist_path(task_id, swimlane), orjson.dumps(dist))
            # Versions of the texts join this transaction: never one without the other.
            also(transaction)
            size = 0
            for each in transaction.operations:
                size += len(getattr(each, "data", b"")) + len(each.path) + _HEAD_BYTES
            try:
                results = answer(transaction.commit_async())
            except LOST as error:
                if size < REQUEST_BYTES:
                    raise
                raise ConfigError(
                    f"the texts of task {', '.join(tasks)} have {size:,} bytes together, as each "
                    "topic has one, and ZooKeeper ends the connection, as it takes 1 MB at once; "
                    "raise jute.maxbuffer of all its servers (-Djute.maxbuffer=8388608), or have "
                    "several tasks read the topics"
                ) from error
        reason = _failure(results)
        if isinstance(reason, NodeExistsError | NoNodeError | BadVersionError):
            raise PositionConflict(
                f"one of the tasks below {TASKS} was written by somebody else at the same time; "
                "check it and try again"
            )
        if reason is not None:
            with reported(TASKS):
                raise reason


def _exists(task_id: str) -> ConfigError:
    return ConfigError(
        f"task {task_id} is in ZooKeeper already, at {dist_path(task_id)}; --force overwrites it"
    )


def _failure(results: Sequence[object]) -> Exception | None:
    """Why a transaction failed; None where it did not."""
    for result in results:
        # These only say that another part of the transaction failed.
        if isinstance(result, RolledBackError | RuntimeInconsistency):
            continue
        if isinstance(result, Exception):
            return result
    return None


@contextmanager
def dist_nodes(address: str, auth: str | None) -> Iterator[DistNodes]:
    """A connection to the tasks in ZooKeeper."""
    with connected(address, auth=auth) as client:
        yield DistNodes(client)


def stored_dists(client: KazooClient) -> dict[str, str]:
    """The text of each dist znode of all tasks, by path; changes nothing."""
    with reported(TASKS):
        texts = {}
        for task_id in _children(client, TASKS):
            for path, data in _below(client, dist_path(task_id)).items():
                texts[path] = data.decode("utf-8", "replace")
        return texts


def _below(client: KazooClient, folder: str) -> dict[str, bytes]:
    found = {}
    for name in _children(client, folder):
        path = f"{folder}/{name}"
        try:
            found[path], _ = answer(client.get_async(path))
        # Without this part it would be another task.
        except NoNodeError as error:
            raise PositionConflict(f"{path} was deleted while it was read; try again") from error
    return found


def _children(client: KazooClient, path: str) -> list[str]:
    try:
        return sorted(answer(client.get_children_async(path)))
    except NoNodeError:
        return []


def _parsed(path: str, data: bytes) -> Dist:
    swimlane = path.rpartition("/")[2]
    try:
        return parse_dist(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{swimlane}: not UTF-8 text; expected the content of a dist znode of porter"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{swimlane}: {error}") from error
