"""A ZooKeeper in memory, as far as reports need one: a stand-in for a kazoo client, whose requests
are answered immediately, or, while it is silent, not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import orjson
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError

SESSION = 77
Watch = Callable[[object], None]


@dataclass(slots=True)
class Stat:
    """The part of a znode's stat that is read."""

    version: int = 0
    mzxid: int = 0
    ephemeralOwner: int = 0
    czxid: int = 0


@dataclass(slots=True)
class Request:
    """A request that is answered, or refused, or waits: `answer` is asked once it is ready."""

    answer: Callable[[], Any]
    is_ready: bool = True

    def ready(self) -> bool:
        return self.is_ready

    def get(self, *, block: bool = True, timeout: float | None = None) -> Any:
        if not self.is_ready:
            raise KazooTimeoutError("silent")
        return self.answer()


class Transaction:
    """As of kazoo: all of it is done, or nothing."""

    def __init__(self, zookeeper: MemoryZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._operations: list[Callable[[], Any]] = []

    def set_data(self, path: str, data: bytes, version: int = -1) -> None:
        self._operations.append(lambda: self._zookeeper.set_async(path, data, version).get())

    def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        self._operations.append(
            lambda: self._zookeeper.create_async(path, data, ephemeral=ephemeral).get()
        )

    def delete(self, path: str) -> None:
        self._operations.append(lambda: self._zookeeper.delete_async(path).get())

    def commit_async(self) -> Any:
        return self._zookeeper.commit_async(self._operations)


class MemoryZooKeeper:
    """Of one client, whose session is SESSION. `nodes`: the bytes by path; folders are not listed.
    `asked`: each request, in order. `refusal`: what all answers raise. `refused`: the paths to
    which this client has no right."""

    client_id = (SESSION, b"")

    def __init__(self) -> None:
        self.nodes: dict[str, bytes] = {}
        self._stats: dict[str, Stat] = {}
        self.asked: list[str] = []
        self.watches: dict[str, list[Watch]] = {}
        self.is_silent = False
        self.refusal: Exception | None = None
        self.refused: set[str] = set()
        self.waiting: list[Request] = []
        # Of a real one no change has the number 0.
        self._numbers = count(1)

    def put(self, path: str, fields: object, owner: int = 0) -> None:
        """Writes as another client does; a text as it is. `owner`: its session, for an ephemeral
        znode."""
        if isinstance(fields, str):
            data = fields.encode()
        elif isinstance(fields, bytes):
            data = fields
        else:
            data = orjson.dumps(fields)
        self._make(path, data, owner)

    def _make(self, path: str, data: bytes, owner: int = 0) -> None:
        self.nodes[path] = data
        number = next(self._numbers)
        made = self._stats[path].czxid if path in self._stats else number
        self._stats[path] = Stat(0, number, owner, made)
        self.changed(path)

    def changed(self, path: str) -> None:
        """Notifies the watchers of the node or its parent, once."""
        for each in (path, path.rpartition("/")[0]):
            for watch in self.watches.pop(each, []):
                watch(None)

    def speak(self) -> None:
        """Answers all waiting requests."""
        self.is_silent = False
        for request in self.waiting:
            request.is_ready = True
        self.waiting = []

    def texts(self) -> dict[str, str]:
        """All stored texts, by path."""
        return {path: data.decode() for path, data in self.nodes.items()}

    def fields(self, path: str) -> Any:
        return orjson.loads(self.nodes[path])

    def names(self, path: str) -> list[str]:
        """The children."""
        names: dict[str, None] = {}
        for each in self.nodes:
            if each.startswith(f"{path}/"):
                name, _, _ = each.removeprefix(f"{path}/").partition("/")
                names[name] = None
        return list(names)

    def exists(self, path: str) -> bool:
        return path in self.nodes or bool(self.names(path))

    # As a kazoo client

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _request(self, what: str, path: str, answer: Callable[[], Any]) -> Any:
        """Answers the request immediately, unless it is silent."""
        self.asked.append(f"{what} {path}")
        if self.is_silent:
            self.waiting.append(Request(answer, is_ready=False))
            return self.waiting[-1]
        try:
            if self.refusal is not None:
                raise self.refusal
            if path in self.refused:
                raise NoAuthError
            found = answer()
        except Exception as error:
            return Request(partial(_raise, error))
        return Request(lambda: found)

    def _watch(self, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self.watches.setdefault(path, []).append(watch)

    def get_async(self, path: str, watch: Watch | None = None) -> Any:
        def answer() -> tuple[bytes, Stat]:
            if not self.exists(path):
                raise NoNodeError
            self._watch(path, watch)
            return self.nodes.get(path, b""), self._stats.get(path, Stat())

        return self._request("get", path, answer)

    def get_children_async(self, path: str, watch: Watch | None = None) -> Any:
        def answer() -> list[str]:
            if not self.exists(path):
                raise NoNodeError
            self._watch(path, watch)
            return self.names(path)

        return self._request("children", path, answer)

    def exists_async(self, path: str, watch: Watch | None = None) -> Any:
        def answer() -> Stat | None:
            self._watch(path, watch)
            return self._stats.get(path, Stat()) if self.exists(path) else None

        return self._request("exists", path, answer)

    def set_async(self, path: str, data: bytes, version: int = -1) -> Any:
        def answer() -> Stat:
            if not self.exists(path):
                raise NoNodeError
            known = self._stats.get(path, Stat())
            if version not in (-1, known.version):
                raise BadVersionError
            self._make(path, data, known.ephemeralOwner)
            self._stats[path].version = known.version + 1
            return self._stats[path]

        return self._request("set", path, answer)

    def create_async(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> Any:
        def answer() -> str:
            if not makepath and not self.exists(path.rpartition("/")[0]):
                raise NoNodeError
            made = f"{path}{next(self._numbers):010}" if sequence else path
            if made in self.nodes:
                raise NodeExistsError
            self._make(made, data, self.client_id[0] if ephemeral else 0)
            return made

        return self._request("create", path, answer)

    def ensure_path_async(self, path: str) -> Any:
        def answer() -> None:
            if not self.exists(path):
                self._make(path, b"")

        return self._request("ensure", path, answer)

    def transaction(self) -> Transaction:
        return Transaction(self)

    def commit_async(self, operations: list[Callable[[], Any]]) -> Any:
        def answer() -> list[Any]:
            before = dict(self.nodes), {path: replace(each) for path, each in self._stats.items()}
            results: list[Any] = []
            for number, operation in enumerate(operations):
                try:
                    results.append(operation())
                except KazooException as error:
                    self.nodes, self._stats = before
                    rest = len(operations) - number - 1
                    return [RolledBackError()] * number + [error] + [RuntimeInconsistency()] * rest
            return results

        return self._request("commit", "", answer)

    def delete_async(self, path: str) -> Any:
        def answer() -> None:
            if not self.exists(path):
                raise NoNodeError
            if self.names(path):
                raise NotEmptyError
            del self.nodes[path], self._stats[path]
            self.changed(path)

        return self._request("delete", path, answer)


def _raise(error: Exception) -> None:
    raise error
