"""A ZooKeeper in memory, as far as what is reported to each other needs one: a stand-in of a kazoo
client, whose requests are answered when they are made, or, while it is silent, not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

Watch = Callable[[object], None]


@dataclass(slots=True)
class Stat:
    """What of a znode's stat is read."""

    version: int = 0
    mzxid: int = 0
    ephemeralOwner: int = 0


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


class MemoryZooKeeper:
    """`nodes`: the bytes by path; folders are not listed. `asked`: each request, in order.
    `refusal`: what all answers raise."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.watches: dict[str, list[Watch]] = {}
        self.is_silent = False
        self.refusal: Exception | None = None
        self.waiting: list[Request] = []
        self._number = 0

    def put(self, path: str, fields: object) -> None:
        """As another client does."""
        self.nodes[path] = fields if isinstance(fields, bytes) else orjson.dumps(fields)
        self.changed(path)

    def changed(self, path: str) -> None:
        """Tells who watches the node or its parent, once."""
        for each in (path, path.rpartition("/")[0]):
            for watch in self.watches.pop(each, []):
                watch(None)

    def speak(self) -> None:
        """All that waits is answered."""
        self.is_silent = False
        for request in self.waiting:
            request.is_ready = True
        self.waiting = []

    def fields(self, path: str) -> Any:
        return orjson.loads(self.nodes[path])

    def names(self, path: str) -> list[str]:
        """The children."""
        below = [
            each.removeprefix(f"{path}/") for each in self.nodes if each.startswith(f"{path}/")
        ]
        return list(dict.fromkeys(each.partition("/")[0] for each in below))

    def exists(self, path: str) -> bool:
        return path in self.nodes or bool(self.names(path))

    # As a kazoo client

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _request(self, what: str, path: str, answer: Callable[[], Any]) -> Any:
        """The request is done when it is made, if there is anybody to do it."""
        self.asked.append(f"{what} {path}")
        if self.is_silent:
            self.waiting.append(Request(answer, is_ready=False))
            return self.waiting[-1]
        try:
            if self.refusal is not None:
                raise self.refusal
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
            return self.nodes.get(path, b""), Stat()

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
            return Stat() if self.exists(path) else None

        return self._request("exists", path, answer)

    def set_async(self, path: str, data: bytes) -> Any:
        def answer() -> Stat:
            if not self.exists(path):
                raise NoNodeError
            self.put(path, data)
            return Stat()

        return self._request("set", path, answer)

    def create_async(
        self, path: str, data: bytes, *, sequence: bool = False, makepath: bool = False
    ) -> Any:
        assert makepath

        def answer() -> str:
            made = path
            if sequence:
                made = f"{path}{self._number:010}"
                self._number += 1
            if made in self.nodes:
                raise NodeExistsError
            self.put(made, data)
            return made

        return self._request("create", path, answer)

    def delete_async(self, path: str) -> Any:
        def answer() -> None:
            if not self.exists(path):
                raise NoNodeError
            self.nodes.pop(path, None)
            self.changed(path)

        return self._request("delete", path, answer)


def _raise(error: Exception) -> None:
    raise error
