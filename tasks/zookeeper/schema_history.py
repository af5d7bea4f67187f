"""The store of a fetch task's schema history: one znode per table below
`/datas/task/<id>/schema/<swimlane>`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from cdcbus.producer.schema.history_codec import FOLLOWED
from cdcbus.tasks.zookeeper.connection import (
    LOST,
    REFUSED,
    RETRY_SECONDS,
    ROOT,
    unanswered,
)
from cdcbus.tasks.zookeeper.znode import get_children, get_node, get_nodes, groups, put_nodes

_T = TypeVar("_T")


def schema_path(task_id: str, swimlane: str) -> str:
    """The parent znode of a swimlane's tables."""
    return f"{ROOT}/task/{task_id}/schema/{swimlane}"


class ZooKeeperSchemas:
    """The schema history of one swimlane in ZooKeeper. Usable while its client is.

    Calls wait about `patience_seconds` for a lost connection, then raise PositionUnavailable. They
    can be repeated.
    """

    def __init__(
        self, client: KazooClient, task_id: str, swimlane: str, patience_seconds: float = 15.0
    ) -> None:
        self._client = client
        self._path = schema_path(task_id, swimlane)
        self._patience_seconds = patience_seconds

    @property
    def path(self) -> str:
        return self._path

    def load(self) -> dict[str, str]:
        try:
            names = self._patiently(
                lambda: self._answer(self._client.get_children_async(self._path))
            )
        except NoNodeError:
            return {}
        entries: dict[str, str] = {}
        for group in groups(names):
            entries |= self._patiently(partial(self._read, group))
        return entries

    def _read(self, names: Sequence[str]) -> dict[str, str]:
        # All requests are sent before the first wait.
        requests = {name: self._client.get_async(f"{self._path}/{name}") for name in names}
        texts = {}
        for name, request in requests.items():
            data, _ = self._answer(request)
            texts[name] = data.decode("utf-8", "replace")
        return texts

    def save(self, entries: Mapping[str, str | None]) -> None:
        for group in groups(entries):
            self._patiently(partial(self._write, {name: entries[name] for name in group}))

    def _write(self, entries: Mapping[str, str | None]) -> None:
        # Writes first, as most tables exist at a DDL; creates only for those that are missing.
        requests: dict[str, Any] = {}
        for name, text in entries.items():
            path = f"{self._path}/{name}"
            if text is None:
                requests[name] = self._client.delete_async(path)
            else:
                requests[name] = self._client.set_async(path, text.encode())
        missing = []
        for name, request in requests.items():
            try:
                self._answer(request)
            except NoNodeError:
                missing.append(name)
        creates = []
        for name in missing:
            text = entries[name]
            # A missing znode need not be deleted.
            if text is not None:
                path = f"{self._path}/{name}"
                creates.append(self._client.create_async(path, text.encode(), makepath=True))
        for request in creates:
            # It exists if an earlier attempt succeeded and its answer was lost.
            with suppress(NodeExistsError):
                self._answer(request)

    def _answer(self, request: Any) -> Any:
        return request.get(timeout=self._patience_seconds)

    def _patiently(self, ask: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return ask()
            except LOST as error:
                if time.monotonic() > deadline or self._client.client_state == "CLOSED":
                    raise unanswered(error, self._path) from error
                time.sleep(RETRY_SECONDS)
            except REFUSED as error:
                raise unanswered(error, self._path) from error


def copy_schemas(client: KazooClient, task_id: str, new_id: str, swimlane: str) -> None:
    """Copies a swimlane's history to a task that has none, for a position that was read before.
    Copies nothing of a task that has not followed DDL yet, or that goes to another server
    meanwhile: the copy then reads its tables as at a first start. Raises PositionUnavailable,
    PositionError."""
    path, copy = schema_path(task_id, swimlane), schema_path(new_id, swimlane)
    # First: the copy searches the binlog from there on for what the tables get meanwhile.
    followed = get_node(client, f"{path}/{FOLLOWED}")
    tables = get_nodes(client, [f"{path}/{name}" for name in get_children(client, path)])
    after = tables.pop(f"{path}/{FOLLOWED}", None)
    if followed is None or after is None or followed.text("server") != after.text("server"):
        return
    nodes = {node.path: node.fields for node in (*tables.values(), followed)}
    put_nodes(client, {copy + each.removeprefix(path): nodes[each] for each in nodes})
