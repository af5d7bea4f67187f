"""The store of a task's position: one znode per swimlane.

`/datas/task/<id>/position/<swimlane>` under the chroot of the connection string. Each write names
the version that it expects, so an operator's `set` is never overwritten. If the answer to a write
is lost, the znode is read back: the write succeeded if the znode holds exactly its bytes, one
version later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import KazooState

from cdcbus.plugins.contracts import NO_MARK, Mark, Written
from cdcbus.plugins.errors import PositionConflict, PositionError, PositionUnavailable
from cdcbus.producer.schema.history_codec import FOLLOWED, shows_a_run
from cdcbus.tasks.zookeeper.connection import (
    LOST,
    REFUSED,
    REQUEST_BYTES,
    RETRY_SECONDS,
    ROOT,
    unanswered,
)
from cdcbus.tasks.zookeeper.position.history import has_moved
from cdcbus.tasks.zookeeper.position.written import written_from_json, written_to_json
from cdcbus.tasks.zookeeper.position.znodes import position_path, written_path
from cdcbus.tasks.zookeeper.schema_history import schema_path

_Answer = TypeVar("_Answer")
# How often a pending request checks whether its lock is lost meanwhile.
LOOK_SECONDS = 0.2
# What a write sends beside its data, generously.
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Node:
    """A znode as last read. Version -1 and change number 0: it does not exist."""

    data: bytes = b""
    version: int = -1
    mzxid: int = 0


ABSENT = Node()


class _WrittenChanged(Exception):
    """Somebody created or deleted the znode of `written_path`; the write must be retried."""


def is_own(position: Node, written: Node) -> bool:
    """Whether the position is as the task wrote it: both znodes come from one transaction, or are
    fresh copies."""
    if written.version < 0:
        return False
    # ZooKeeper gives all writes of a transaction the same mzxid; any other write has another one.
    is_one_transaction = position.mzxid == written.mzxid
    # Copying the tree, as to another ensemble, creates both znodes in separate transactions.
    is_copy = position.version == written.version == 0
    return is_one_transaction or is_copy


class ZooKeeperPositions:
    """The position of one swimlane in ZooKeeper. Thread-safe; usable while its client is.

    Each save also writes a copy to the znode of `written_path`, which reveals what somebody else
    has set. Calls wait about `patience_seconds` for a lost connection, then raise
    PositionUnavailable. Every call can be repeated, even `save`, which first finds out whether the
    previous write succeeded. Once `is_lost` says that another process may have the swimlane,
    calls no longer wait. `is_only`: the task has no other swimlane, so what it wrote for another
    one shows that it has run.
    """

    def __init__(
        self,
        client: KazooClient,
        task_id: str,
        swimlane: str,
        patience_seconds: float = 15.0,
        is_lost: Callable[[], bool] = lambda: False,
        *,
        is_only: bool = False,
    ) -> None:
        self._is_lost = is_lost
        self._is_only = is_only
        self._client = client
        self._task_id, self._swimlane = task_id, swimlane
        self._path = position_path(task_id, swimlane)
        self._written_path = written_path(task_id, swimlane)
        self._patience_seconds = patience_seconds
        # Held during a save, so that the watch compares the znode with the state after the save,
        # never with the state before.
        self._lock = threading.Lock()
        # Both znodes as last read or written by this store: what the next save expects to find.
        self._node = self._written_node = ABSENT
        self._trace = ""
        # Bytes of a write whose answer was lost, and of its copy; None once it is known what became
        # of it.
        self._unanswered: tuple[bytes, bytes] | None = None
        self._is_edited = False
        self._is_watching = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def position_version(self) -> int:
        return self._node.mzxid

    @property
    def written(self) -> Written | None:
        node = self._written_node
        if node.version < 0:
            return None
        return written_from_json(node.data, self._written_path)

    @property
    def is_own(self) -> bool:
        return is_own(self._node, self._written_node)

    @property
    def trace(self) -> str:
        return self._trace

    def is_edited(self) -> bool:
        return self._is_edited

    def close(self) -> None:
        """Ends the watch; edits are no longer noticed."""
        self._client.remove_listener(self._on_session)
        self._is_watching = False

    def load(self) -> str | None:
        with self._lock:
            if not self._is_watching:
                self._is_watching = True
                # A new session has no watches, and edits during the outage raised none.
                self._client.add_listener(self._on_session)
            self._written_node = self._read_written()
            self._node = self._read()
            self._trace = "" if self._node.data.strip() else self._traced()
            self._unanswered = None
            self._is_edited = False
        try:
            return self._node.data.decode().strip() or None
        except UnicodeDecodeError as error:
            raise PositionError(
                f"{self._path} does not hold UTF-8 text; set it to a position again"
            ) from error

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        with self._lock:
            # A save without an answer: what it did decides which version this one expects.
            if self._unanswered is not None:
                self._compare(self._read())
            if self._is_edited:
                raise self._conflict()
            self._write(text.encode(), written_to_json(Written(text, mark)))

    def _write(self, data: bytes, written: bytes) -> None:
        # Set before the write, so that the watch recognises it as this task's own.
        self._unanswered = data, written
        lost = 0
        while self._unanswered is not None:
            if self._is_lost():
                raise PositionUnavailable(
                    f"{self._path} is not written: another process may have the task's lock"
                )
            try:
                self._node = self._put(data, written)
                self._unanswered = None
            # The copy was created or deleted by hand; the position itself is as expected.
            except _WrittenChanged:
                continue
            except (BadVersionError, NoNodeError, NodeExistsError) as error:
                self._is_edited = True
                raise self._conflict() from error
            except REFUSED as error:
                raise unanswered(error, self._path) from error
            # The write may have succeeded; only the znode shows whether it has.
            except LOST:
                self._compare(self._read())
                if self._is_edited:
                    raise self._conflict() from None
                lost += 1
                # Twice, as a connection can also be lost by chance.
                if lost > 1 and len(data) + len(written) > REQUEST_BYTES - _HEAD_BYTES:
                    raise self._too_large(len(data), len(written)) from None

    def _put(self, data: bytes, written: bytes) -> Node:
        """Writes both znodes in one transaction. Raises the error of the position's own write, or
        _WrittenChanged where only the other znode's write failed."""
        transaction = self._client.transaction()
        is_new = self._node.version < 0
        if is_new:
            self._answer(self._client.ensure_path_async(self._path.rpartition("/")[0]))
            transaction.create(self._path, data)
        else:
            transaction.set_data(self._path, data, self._node.version)
        if self._written_node.version < 0:
            self._answer(self._client.ensure_path_async(self._written_path.rpartition("/")[0]))
            transaction.create(self._written_path, written)
        else:
            # Without a version: the position's version alone decides whether the write is allowed.
            transaction.set_data(self._written_path, written)
        results = self._answer(transaction.commit_async())
        for result in results:
            # These only say that another write of the transaction failed.
            if isinstance(result, RolledBackError | RuntimeInconsistency):
                continue
            if isinstance(result, Exception):
                if result is results[0] or not isinstance(result, NoNodeError | NodeExistsError):
                    raise result
                self._written_node = self._read_written()
                raise _WrittenChanged
        if is_new:
            # Servers before 3.5 do not report the change number of a create, so it is read.
            node = self._read()
            if node.data != data or node.version != 0:
                raise NodeExistsError
        else:
            node = Node(data, results[0].version, results[0].mzxid)
        # Computed, not read: one transaction gave both znodes the same change number.
        self._written_node = Node(written, self._written_node.version + 1, node.mzxid)
        return node

    def _read_written(self) -> Node:
        return self._patiently(lambda: self._get(self._written_path), self._written_path)

    def _get(self, path: str) -> Node:
        try:
            data, stat = self._answer(self._client.get_async(path))
        except NoNodeError:
            return ABSENT
        return Node(data, stat.version, stat.mzxid)

    def _traced(self) -> str:
        """See `trace`."""
        # The strongest trace first: only the task itself writes this znode.
        if self._written_node.version >= 0:
            return self._written_path
        history = f"{ROOT}/task/{self._task_id}/history/{self._swimlane}"
        schema = schema_path(self._task_id, self._swimlane)
        followed = f"{schema}/{FOLLOWED}"
        if has_moved(self._patiently(lambda: self._get(history), history).data):
            return history
        node = self._patiently(lambda: self._get(followed), followed)
        if shows_a_run(node.data.decode("utf-8", "replace")):
            return schema
        # By another name of the one swimlane.
        others = self.others() if self._is_only else ()
        return written_path(self._task_id, others[0]) if others else ""

    def others(self) -> Sequence[str]:
        directory = written_path(self._task_id)

        def names() -> list[str]:
            try:
                found: list[str] = self._answer(self._client.get_children_async(directory))
            except NoNodeError:
                return []
            return sorted(name for name in found if name != self._swimlane)

        return self._patiently(names, directory)

    def _compare(self, node: Node) -> None:
        """Decides what the znode's state means: nothing new, the success of an unanswered write,
        or somebody's edit."""
        if node.mzxid == self._node.mzxid:
            return
        # Exactly one version later: with more, somebody wrote after this task.
        data, written = self._unanswered or (None, b"")
        if node.data == data and node.version == self._node.version + 1:
            self._node, self._unanswered = node, None
            # Both were written in one transaction.
            self._written_node = Node(written, self._written_node.version + 1, node.mzxid)
        else:
            self._is_edited = True

    def _read(self) -> Node:
        """The znode; sets the watch again."""
        return self._patiently(self._read_once, self._path)

    def _patiently(self, ask: Callable[[], _Answer], path: str) -> _Answer:
        """The answer to `ask`, repeated until the connection is back or patience ends. Raises
        PositionUnavailable, PositionError."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return ask()
            except LOST as error:
                # A closed client never comes back, so waiting for it is pointless.
                is_closed = self._client.client_state == "CLOSED"
                if is_closed or time.monotonic() > deadline or self._is_lost():
                    raise unanswered(error, path) from error
                time.sleep(RETRY_SECONDS)
            except REFUSED as error:
                raise unanswered(error, path) from error

    def _read_once(self) -> Node:
        while True:
            try:
                data, stat = self._answer(self._client.get_async(self._path, watch=self._on_change))
                return Node(data, stat.version, stat.mzxid)
            except NoNodeError:
                request = self._client.exists_async(self._path, watch=self._on_change)
                if self._answer(request) is None:
                    return ABSENT
                # It was created between the two requests, so its data are read again.

    def _answer(self, request: Any) -> Any:
        # Without a limit, a request sent while disconnected would wait forever.
        deadline = time.monotonic() + self._patience_seconds
        while not request.wait(LOOK_SECONDS):
            if time.monotonic() > deadline or self._is_lost():
                raise OperationTimeoutError
        return request.get()

    def _on_change(self, _event: object) -> None:
        # kazoo calls this on a thread that other callbacks need, so it must not wait for answers.
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
            except (*LOST, *REFUSED):
                # The session listener repeats this; a withdrawn right shows at the next load or
                # save.
                return

    def _too_large(self, data_bytes: int, written_bytes: int) -> PositionError:
        return PositionError(
            f"ZooKeeper ends the connection when {self._path} is written: the position has "
            f"{data_bytes:,} bytes, together with its copy {data_bytes + written_bytes:,}, more "
            "than a server takes at once; raise jute.maxbuffer of all servers "
            "(-Djute.maxbuffer=8388608), then start the task again"
        )

    def _conflict(self) -> PositionConflict:
        return PositionConflict(
            f"{self._path} was set by somebody else meanwhile; their position holds"
        )
