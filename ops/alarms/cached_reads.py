"""Reads of ZooKeeper that are asked for once, and again after a change: for whoever looks at the
same nodes every few seconds."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.tasks.zookeeper.znode import Watch


class CachedReads:
    """A client whose reads without a watch are kept until ZooKeeper reports a change of the node,
    or the connection is lost. All else is the client's own. For one thread.

    What it gives may be older than what the same client has just written.
    """

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._kept: dict[tuple[str, str], _Answer] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_async(self, path: str, watch: Watch | None = None) -> Any:
        return self._asked("get_async", path, watch)

    def get_children_async(self, path: str, watch: Watch | None = None) -> Any:
        return self._asked("get_children_async", path, watch)

    def _asked(self, question: str, path: str, watch: Watch | None) -> Any:
        if watch is not None:
            return getattr(self._client, question)(path, watch=watch)
        kept = self._kept.get((question, path))
        if kept is None:
            kept = _Answer(self._client, question, path)
            self._kept[question, path] = kept
        if not kept.is_asked:
            kept.ask()
        return kept


class _Answer:
    """To one question; `get` waits for it, as that of kazoo does."""

    def __init__(self, client: KazooClient, question: str, path: str) -> None:
        self._client, self._question, self._path = client, question, path
        self._existence: Any = None
        self.is_asked = False

    def ask(self) -> None:
        """Asks anew."""
        self.is_asked = True  # first: the change may come before the answer
        self._existence = None
        self._request = getattr(self._client, self._question)(self._path, watch=self._forget)

    def get(self, timeout: float) -> Any:
        """Raises what the question does, but for NoNodeError as long as there is no node: the same
        each time."""
        try:
            return self._request.get(timeout=timeout)
        except NoNodeError:
            # there is nothing to be watched but its existence
            if self._existence is None:
                self._existence = self._client.exists_async(self._path, watch=self._forget)
            if self._exists(timeout):  # since a moment ago
                self.ask()
                return self._request.get(timeout=timeout)
            raise
        except BaseException:
            self.is_asked = False
            raise

    def _exists(self, timeout: float) -> bool:
        try:
            return self._existence.get(timeout=timeout) is not None
        except BaseException:
            self.is_asked = False
            raise

    def _forget(self, _event: object) -> None:
        """Called on the ZooKeeper client's thread, also when the connection is lost."""
        self.is_asked = False
