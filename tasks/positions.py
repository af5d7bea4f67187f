"""Where a task's position is kept: one ZooKeeper node per swimlane, and its in-memory twin.

`/datas/task/<id>/position/<swimlane>` under the chroot of the connection string. Each write names the version it expects, so an
operator's `set` is never overwritten. A write whose answer got lost is settled by reading the node back: it was ours if the node
holds exactly our bytens one version further.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL

from cdcbus.plugins.errors import ConfigError, PositionConflict, PositionError, PositionUnavailable

ROOT = "/datas"
LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)
RETRY_SECONDS = 0.1
COME_BACK = {"max_tries": -1, "max_delay": 2.0}  # kazoo's own pauses grow to a minute and more: a server that is back would not be seen
ASK_SECONDS = 5.0  # without a limit a question asked while disconnected would wait for ever


def position_path(task_id: str, swimlane: str = "") -> str:
    """The node of a swimlane, or the directory of all of a task's."""
    directory = f"{ROOT}/task/{task_id}/position"
    return f"{directory}/{swimlane}" if swimlane else directory


def connect(connection_string: str, timeout_seconds: float = 4.0, auth: str | None = None, session_seconds: float = 10.0) -> KazooClient:
    """A started client; its chroot is made when it is missing. `auth` is `user:password` (digest): nodes then belong to that user.
    `session_seconds`: how long ZooKeeper keeps ephemeral nodes of a client that it no longer hears of.

    Raises ConfigError for text that is no address, PositionUnavailable when nothing answers in time. Give it back by `stop` and `close`.
    """
    try:
        _, chroot = collect_hosts(connection_string)
    except ValueError as error:
        raise ConfigError(f"not a ZooKeeper address: {connection_string!r}; expected host:port[,host:port][/chroot]") from error
    digest = {"auth_data": [("digest", auth)], "default_acl": CREATOR_ALL_ACL} if auth else {}
    client = KazooClient(connection_string.partition("/")[0], timeout=session_seconds, connection_retry=COME_BACK, **digest)
    try:
        _start(client, chroot, timeout_seconds)
    except LOST as error:
        sentence = f"ZooKeeper at {connection_string} did not answer within {timeout_seconds:g} s"
        raise PositionUnavailable(f"{sentence}; check the address and that the server runs") from error
    except (AuthFailedError, NoAuthError) as error:
        sentence = f"ZooKeeper at {connection_string} refuses this user"
        raise PositionError(f"{sentence}; check user, password and the ACL of its nodes") from error
    return client


def _start(client: KazooClient, chroot: str | None, timeout_seconds: float) -> None:
    try:
        client.start(timeout_seconds)
        if chroot:
            client.ensure_path(chroot)
            client.chroot = chroot
    except BaseException:
        client.stop()
        client.close()
        raise


def stored_positions(client: KazooClient, task_id: str) -> dict[str, str]:
    """The stored text of each swimlane of a task, by its path; read only."""
    directory = position_path(task_id)
    try:
        paths = sorted(f"{directory}/{lane}" for lane in client.get_children_async(directory).get(timeout=ASK_SECONDS))
        return {path: client.get_async(path).get(timeout=ASK_SECONDS)[0].decode("utf-8", "replace") for path in paths}
    except NoNodeError:
        return {}
    except NoAuthError as error:
        raise PositionError(f"ZooKeeper does not let this user read {directory}; check its ACL") from error
    except LOST as error:
        raise PositionUnavailable(f"ZooKeeper does not answer for {directory}; check that the server runs") from error


@dataclass(frozen=True, slots=True)
class Node:
    """A node as last seen. Version -1 and change number 0: there is none."""

    data: bytes = b""
    version: int = -1
    mzxid: int = 0


ABSENT = Node()


class ZooKeeperPositions:
    """The position of one swimlane in ZooKeeper. Thread-safe; lives as long as its client.

    A lost connection is waited for, about `patience_seconds`, then PositionUnavailable is raised. The call may be repeated, also a `save`:
    it first finds out what became of the write before.
    """

    def __init__(self, client: KazooClient, task_id: str, swimlane: str, patience_seconds: float = 15.0) -> None:
        self._client = client
        self._path = position_path(task_id, swimlane)
        self._patience_seconds = patience_seconds
        # Held during a save, so that the watch compares the node with what the save has made of it, never with the state before.
        self._lock = threading.Lock()
        self._node = ABSENT
        self._unanswered: bytes | None = None
        self._is_edited = False
        self._is_watching = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def mzxid(self) -> int:
        return self._node.mzxid

    def is_edited(self) -> bool:
        return self._is_edited

    def close(self) -> None:
        """Ends the watch: of edits it knows no more."""
        self._client.remove_listener(self._on_session)
        self._is_watching = False

    def load(self) -> str | None:
        with self._lock:
            if not self._is_watching:
                self._is_watching = True
                self._client.add_listener(self._on_session)
            self._node = self._read()
            self._unanswered = None
            self._is_edited = False
        try:
            return self._node.data.decode().strip() or None
        except UnicodeDecodeError as error:
            raise PositionError(f"{self._path} does not hold UTF-8 text; set it to a position again") from error

    def save(self, text: str) -> None:
        with self._lock:
            if self._unanswered is not None:
                self._compare(self._read())
            if self._is_edited:
                raise self._conflict()
            self._write(text.encode())

    def _write(self, data: bytes) -> None:
        self._unanswered = data
        while self._unanswered is not None:
            try:
                self._node = self._set(data) if self._node.version >= 0 else self._create(data)
                self._unanswered = None
            except (BadVersionError, NoNodeError, NodeExistsError) as error:
                self._is_edited = True
                raise self._conflict() from error
            except NoAuthError as error:
                raise PositionError(f"ZooKeeper does not let this user write {self._path}; check its ACL") from error
            except LOST:
                self._compare(self._read())
                if self._is_edited:
                    raise self._conflict() from None

    def _set(self, data: bytes) -> Node:
        stat = self._answer(self._client.set_async(self._path, data, self._node.version))
        return Node(data, stat.version, stat.mzxid)

    def _create(self, data: bytes) -> Node:
        self._answer(self._client.create_async(self._path, data, makepath=True))
        # Servers before 3.5 do not tell the change number of a create.
        node = self._read()
        if node.data != data or node.version != 0:
            raise NodeExistsError
        return node

    def _compare(self, node: Node) -> None:
        """Tells what the node's state means: nothing new, the late success of an unanswered write, or somebody's edit."""
        if node.mzxid == self._node.mzxid:
            return
        if node.data == self._unanswered and node.version == self._node.version + 1:
            self._node, self._unanswered = node, None
        else:
            self._is_edited = True

    def _read(self) -> Node:
        """The node, with the watch set again; asks until the connection is back or patience ends."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return self._read_once()
            except LOST as error:
                if time.monotonic() > deadline or self._client.client_state == "CLOSED":
                    raise PositionUnavailable(f"ZooKeeper does not answer for {self._path}; check that the server runs") from error
                time.sleep(RETRY_SECONDS)
            except NoAuthError as error:
                raise PositionError(f"ZooKeeper does not let this user read {self._path}; check its ACL") from error

    def _read_once(self) -> Node:
        while True:
            try:
                data, stat = self._answer(self._client.get_async(self._path, watch=self._on_change))
                return Node(data, stat.version, stat.mzxid)
            except NoNodeError:
                # Asks again when it was made between the two questions.
                if self._answer(self._client.exists_async(self._path, watch=self._on_change)) is None:
                    return ABSENT

    def _answer(self, request: Any) -> Any:
        # Without a limit a request made while disconnected would wait for the connection for ever.
        return request.get(timeout=self._patience_seconds)

    def _on_change(self, _event: object) -> None:
        self._client.handler.spawn(self._look)

    def _on_session(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._client.handler.spawn(self._look)

    def _look(self) -> None:
        with self._lock:
            if not self._is_watching:
                return
            try:
                self._compare(self._read_once())
            except (*LOST, NoAuthError):
                return  # the session listener comes back here; a withdrawn right shows at the next load or save

    def _conflict(self) -> PositionConflict:
        return PositionConflict(f"{self._path} was set by somebody else meanwhile; their position holds")


class MemoryNode:
    """What ZooKeeper is to `ZooKeeperPositions`: one node that several hands can set and delete."""

    def __init__(self) -> None:
        self.node = ABSENT
        self._changes = 0

    def set(self, data: bytes) -> None:
        self._changes += 1
        self.node = Node(data, self.node.version + 1, self._changes)

    def delete(self) -> None:
        self._changes += 1
        self.node = ABSENT


class MemoryPositions:
    """The in-memory twin of `ZooKeeperPositions`, for tests and dry runs: the same promises, gone with the process."""

    def __init__(self, node: MemoryNode | None = None, path: str = "memory") -> None:
        self._shared = node or MemoryNode()
        self._node = ABSENT
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    @property
    def mzxid(self) -> int:
        return self._node.mzxid

    def load(self) -> str | None:
        self._node = self._shared.node
        return self._node.data.decode().strip() or None

    def save(self, text: str) -> None:
        if self.is_edited():
            raise PositionConflict(f"{self._path} was set by somebody else meanwhile; their position holds")
        self._shared.set(text.encode())
        self._node = self._shared.node

    def is_edited(self) -> bool:
        return self._node != self._shared.node
