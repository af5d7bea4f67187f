"""A ZooKeeper in memory, for tests of what is stored in it and of nothing else: sessions, watches
and silence are for those with a server."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

SESSION = 77


@dataclass
class _Stat:
    version: int
    mzxid: int
    ephemeralOwner: int


class _Answer:
    """What a client's request gives."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self._value, self._error = value, error

    def ready(self) -> bool:
        return True

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class MemoryZooKeeper:
    """Of one client, whose session is SESSION."""

    client_id = (SESSION, b"")

    def __init__(self) -> None:
        self._numbers = count(1)
        self._nodes: dict[str, tuple[bytes, _Stat]] = {}

    def texts(self) -> dict[str, str]:
        """All that is stored, by path."""
        return {path: data.decode() for path, (data, _) in self._nodes.items() if data}

    def put(self, path: str, text: str) -> None:
        """As an operator does with zkCli."""
        self._make(path, text.encode(), is_ephemeral=False)

    def get_async(self, path: str, watch: object = None) -> _Answer:
        found = self._nodes.get(path)
        return _Answer(error=NoNodeError()) if found is None else _Answer(found)

    def exists_async(self, path: str, watch: object = None) -> _Answer:
        found = self._nodes.get(path)
        return _Answer(None if found is None else found[1])

    def get_children_async(self, path: str, watch: object = None) -> _Answer:
        if path not in self._nodes:
            return _Answer(error=NoNodeError())
        below = [
            name.removeprefix(f"{path}/") for name in self._nodes if name.startswith(f"{path}/")
        ]
        return _Answer([name for name in below if "/" not in name])

    def set_async(self, path: str, data: bytes, version: int = -1) -> _Answer:
        found = self._nodes.get(path)
        if found is None:
            return _Answer(error=NoNodeError())
        if version not in (-1, found[1].version):
            return _Answer(error=BadVersionError())
        stat = _Stat(found[1].version + 1, next(self._numbers), found[1].ephemeralOwner)
        self._nodes[path] = data, stat
        return _Answer(stat)

    def create_async(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> _Answer:
        if sequence:
            path = f"{path}{next(self._numbers):010d}"
        if path in self._nodes:
            return _Answer(error=NodeExistsError())
        self._make(path, data, is_ephemeral=ephemeral)
        return _Answer(path)

    def delete_async(self, path: str, version: int = -1) -> _Answer:
        if path not in self._nodes:
            return _Answer(error=NoNodeError())
        if any(name.startswith(f"{path}/") for name in self._nodes):
            return _Answer(error=NotEmptyError())
        del self._nodes[path]
        return _Answer()

    def _make(self, path: str, data: bytes, *, is_ephemeral: bool) -> None:
        parts = path.split("/")
        for end in range(2, len(parts)):
            self._nodes.setdefault("/".join(parts[:end]), (b"", _Stat(0, 0, 0)))
        owner = SESSION if is_ephemeral else 0
        self._nodes[path] = data, _Stat(0, next(self._numbers), owner)
