"""The position of a task in memory: the twin of `tasks/zookeeper/position/store.py`."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from cdcbus.plugins.contracts import NO_MARK, Mark, Written
from cdcbus.plugins.errors import PositionConflict
from cdcbus.tasks.zookeeper.position.store import ABSENT, Node, is_own


class MemoryNode:
    """The shared state behind `MemoryPositions`, as ZooKeeper is behind `ZooKeeperPositions`: one
    znode that others can set and delete, and what the task has written."""

    def __init__(self) -> None:
        self.node = self.written_node = ABSENT
        self.written: Written | None = None
        self._changes = 0

    def set(self, data: bytes) -> None:
        self._changes += 1
        self.node = Node(data, self.node.version + 1, self._changes)

    def write(self, written: Written) -> None:
        """Sets the position on behalf of the task itself."""
        self.set(written.position.encode())
        self.written = written
        # The same change number as the position, as one transaction of ZooKeeper gives both.
        self.written_node = Node(b"", self.written_node.version + 1, self._changes)

    def delete(self) -> None:
        self._changes += 1
        self.node = ABSENT


class MemoryPositions:
    """The in-memory twin of `ZooKeeperPositions`, for tests and checks without ZooKeeper: the same
    promises, for the lifetime of the process."""

    def __init__(self, node: MemoryNode | None = None, path: str = "memory") -> None:
        self._shared = node or MemoryNode()
        self._node = self._written_node = ABSENT
        self._written: Written | None = None
        self._path = path
        # A half-finished save would look like an edit.
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        return self._path

    @property
    def position_version(self) -> int:
        return self._node.mzxid

    def load(self) -> str | None:
        self._note()
        return self._node.data.decode().strip() or None

    @property
    def written(self) -> Written | None:
        return self._written

    @property
    def is_own(self) -> bool:
        return is_own(self._node, self._written_node)

    @property
    def trace(self) -> str:
        if self._written is None or self._node.data.strip():
            return ""
        return "memory"

    def others(self) -> Sequence[str]:
        return ()

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        with self._lock:
            if self._node != self._shared.node:
                raise PositionConflict(
                    f"{self._path} was set by somebody else meanwhile; their position holds"
                )
            self._shared.write(Written(text, mark))
            self._note()

    def _note(self) -> None:
        """Records the stored state as the one that was read last."""
        self._node = self._shared.node
        self._written_node = self._shared.written_node
        self._written = self._shared.written

    def is_edited(self) -> bool:
        with self._lock:
            return self._node != self._shared.node
