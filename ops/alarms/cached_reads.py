"""Reads of ZooKeeper that are sent once, and again only after a change: for code that looks at the
same znodes every few seconds."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.tasks.zookeeper.znode import Watch


class CachedReads:
    """A client that caches reads without a watch until ZooKeeper reports a change of the znode, or
    the connection is lost. Everything else goes to the client itself. For one thread.

    An answer can be older than what the same client has just written.
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
            # A watch needs a read of its own.
            return getattr(self._client, question)(path, watch=watch)
        kept = self._kept.get((question, path))
        if kept is None:
            kept = _Answer(self._client, question, path)
            self._kept[question, path] = kept
        if not kept.is_asked:
            kept.ask()
        return kept


class _Answer:
    """The answer to one read; `get` waits for it, as that of kazoo does."""

    def __init__(self, client: KazooClient, question: str, path: str) -> None:
        self._client, self._question, self._path = client, question, path
        self._existence: Any = None
        self.is_asked = False

    def ask(self) -> None:
        """Sends the read."""
        self.is_asked = True  # first: a change can arrive before the answer
        self._existence = None
        self._request = getattr(self._client, self._question)(self._path, watch=self._forget)

    def get(self, timeout: float) -> Any:
        """Raises what the read does; NoNodeError again each time, without another read, until the
        znode is created."""
        try:
            return self._request.get(timeout=timeout)
        except NoNodeError:
            # a missing znode can only be watched for its creation
            if self._existence is None:
                self._existence = self._client.exists_async(self._path, watch=self._forget)
            if self._exists(timeout):  # it was created in the meantime
                self.ask()
                return self._request.get(timeout=timeout)
            raise
        except BaseException:
            # An error is not kept: the next look reads again.
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
