"""`/datas/task/<id>/snapshot/<swimlane>/tables/<table>`, which the running task writes once a
second, `.../known/<table>`, which tells that there was such a znode, and `.../wishes/`, a znode for
each wish of an operator, which the task deletes once it has fulfilled it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.plugins.errors import PositionError, PositionUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import entry_name, entry_table
from cdcbus.producer.snapshot.progress import (
    TableProgress,
    TableState,
    Wish,
    WishKind,
    start_command,
)
from cdcbus.tasks.first_of import first_of
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import LOST, REFUSED, ROOT, unanswered
from cdcbus.tasks.zookeeper.znode import (
    answer,
    drop_node,
    get_children,
    get_node,
    get_nodes,
    put_nodes,
    reported,
)

LOG = logging.getLogger(__name__)
# Between two requests after one that failed.
LOOK_SECONDS = 1.0
BEGUN, KNOWN = "begun", "known"
MOST_NAMES = 5


def snapshot_path(task_id: str, swimlane: str = "") -> str:
    """The parent znode of a swimlane's snapshots, or of all of a task."""
    path = f"{ROOT}/task/{task_id}/snapshot"
    return f"{path}/{swimlane}" if swimlane else path


class ZooKeeperSnapshots:
    """The snapshots of one swimlane, for its running task. Usable while its client is. `is_lost`:
    whether another process may have the task's lock; nothing is written then."""

    def __init__(
        self,
        client: KazooClient,
        task_id: str,
        swimlane: str,
        is_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client, self._is_lost = client, is_lost
        self._path = snapshot_path(task_id, swimlane)
        self._wishes_path = f"{self._path}/wishes"
        # Znodes of wishes that the task has been given, and that `heeded` deletes.
        self._seen: list[str] = []
        # The last request for wishes; None after one that failed. The ZooKeeper client's thread
        # replaces it at each change, so that the answer is there when the task looks.
        self._asked: Any = None
        # Held while it is replaced: a watch can fire before the request that set it is noted here,
        # and the older request would then hide the newer one.
        self._asking = Lock()
        # The request whose answer was taken.
        self._read: Any = None
        self._look_at = 0.0
        # The tables that have had progress, as is noted, by their znodes; None: nobody has asked
        # whether some are lost. Of these, the ones that the log names.
        self._known: set[str] | None = None
        self._reported: set[str] = set()

    def load(self) -> dict[TableId, TableProgress]:
        """The progress of each table. Wishes that are not heeded yet are returned again by
        `wishes`. Raises PositionUnavailable, and PositionError for a znode that ZooKeeper does not
        let this user read, and for a state that only another version of cdcbus knows."""
        # A new attempt knows nothing of the wishes of the last one, so they must come again.
        self._seen, self._look_at = [], 0.0
        self._asked = self._read = None
        return tables_of(self._client, self._path)

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        if self._is_lost():
            raise PositionUnavailable(
                f"{self._path} is not written: another process may have the task's lock"
            )
        nodes = {}
        for table, progress in tables.items():
            path = f"{self._path}/tables/{entry_name(table)}"
            names = {"schema": table.schema, "table": table.table}
            nodes[path] = {**names, **progress.to_fields()}
        put_nodes(self._client, nodes)
        if self._known is not None:
            self._note_known(map(entry_name, tables))

    def note_live(self, is_live: bool) -> None:
        """Raises PositionUnavailable, PositionError."""
        path = f"{self._path}/{BEGUN}"
        put_nodes(self._client, {path: {**self._begun(), "live": is_live}})

    def is_live(self) -> bool | None:
        """Raises as `load`."""
        noted = self._begun().get("live")
        return None if noted is None else noted is True

    def lost(self) -> set[TableId]:
        """Raises as `load`."""
        self._known = set(get_children(self._client, f"{self._path}/{KNOWN}"))
        self._note_known(get_children(self._client, f"{self._path}/tables"))
        lost = self._known - set(map(entry_name, tables_of(self._client, self._path)))
        if lost - self._reported:
            self._reported |= lost
            LOG.warning(
                "%s/tables: the progress of %d tables is gone, or cannot be read: %s. One without "
                "a key may have been sent, and is not read until an operator says so; if a table "
                "is to be forgotten, delete its znode in %s/%s, too",
                self._path,
                len(lost),
                first_of(sorted(lost), MOST_NAMES),
                self._path,
                KNOWN,
            )
        return set(filter(None, map(entry_table, lost)))

    def _note_known(self, names: Iterable[str]) -> None:
        assert self._known is not None
        new = set(names) - self._known
        put_nodes(self._client, {f"{self._path}/{KNOWN}/{name}": {} for name in sorted(new)})
        self._known |= new

    def _begun(self) -> dict[str, Any]:
        node = get_node(self._client, f"{self._path}/{BEGUN}")
        return {} if node is None else dict(node.fields)

    def start_order(self, task_id: str, table: TableId, *, is_confirmed: bool) -> str:
        return start_command(task_id, table, is_confirmed=is_confirmed)

    def has_wishes(self) -> bool:
        return bool(self._seen) or self._unread() is not None

    def wishes(self) -> list[Wish]:
        """The new wishes. Waits for a silent ZooKeeper only if there are some."""
        asked = self._unread()
        if asked is None:
            return []
        wishes = []
        for name, wish in wishes_of(self._client, self._path).items():
            if name not in self._seen:
                self._seen.append(name)
                wishes.append(wish)
        # Only now, so that wishes that could not be read are read again. Not the newest request:
        # its answer may name wishes that came after these were read.
        self._read = asked
        return wishes

    def _unread(self) -> Any:
        """The request whose answer names wishes that `wishes` has not returned yet; None without
        one. Never waits."""
        if self._asked is None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._ask()
        asked = self._asked
        if asked is None or asked is self._read or not asked.ready():
            return None
        try:
            found = asked.get(block=False)
        except NoNodeError:
            with self._asking:
                self._asked = self._client.exists_async(self._wishes_path, watch=self._ask)
            return None
        except LOST:
            self._asked = None
            return None
        except REFUSED as error:
            raise unanswered(error, self._wishes_path) from error
        if found is not None and not isinstance(found, list):
            # The znode has just been created.
            self._ask()
            return None
        if found:
            return asked
        # No wishes: nothing is left to read until the watch fires.
        self._read = asked
        return None

    def _ask(self, _event: object = None) -> None:
        """Asks for the wishes, without waiting. Called also on the ZooKeeper client's thread, at a
        change, and when the connection is lost."""
        with self._asking:
            self._asked = self._client.get_children_async(self._wishes_path, watch=self._ask)

    def heeded(self, but_last: int = 0) -> None:
        while len(self._seen) > but_last:
            drop_node(self._client, f"{self._wishes_path}/{self._seen[0]}")
            # After the delete: if that fails, the next call deletes the same znode again.
            del self._seen[0]


def tables_of(client: KazooClient, path: str) -> dict[TableId, TableProgress]:
    """The progress of a swimlane's tables, in the order of their znodes. One that cannot be read
    counts as not begun, with a line in the log; to `lost` it is lost. Raises PositionError for
    a state that is not known: a newer cdcbus has gone on from it, which this one would undo."""
    names = get_children(client, f"{path}/tables")
    found = {}
    for where, node in get_nodes(client, [f"{path}/tables/{name}" for name in names]).items():
        state = node.text("state")
        if state and state not in [*TableState]:
            raise PositionError(
                f"{where} has a state that this cdcbus does not know; it may be of a newer cdcbus: "
                "run that one. Otherwise delete it with zkCli: the table's snapshot then counts as "
                "lost, and begins again, unless the table has no key"
            )
        try:
            progress = TableProgress.from_fields(node.fields)
        except ValueError as error:
            LOG.warning("%s: %s; the table's snapshot counts as not begun", where, error)
            continue
        found[TableId(node.text("schema"), node.text("table"))] = progress
    return found


def wishes_of(client: KazooClient, path: str) -> dict[str, Wish]:
    """The wishes that the task has not fulfilled yet, in order, by the names of their znodes. One
    that cannot be read is dropped, with a line in the log; one of an unknown kind stays, for a
    newer cdcbus."""
    found = {}
    for name in get_children(client, f"{path}/wishes"):
        node = get_node(client, f"{path}/wishes/{name}")
        if node is None:
            continue
        kind = node.text("kind")
        if kind and kind not in [*WishKind]:
            LOG.warning(
                "%s/wishes/%s asks for something that this cdcbus does not know, and waits for a "
                "newer one that does; to take it back, delete it with zkCli",
                path,
                name,
            )
            continue
        try:
            found[name] = Wish.from_fields(node.fields)
        except ValueError as error:
            LOG.warning("%s/wishes/%s is dropped: %s", path, name, error)
            drop_node(client, f"{path}/wishes/{name}")
    return found


def wish(client: KazooClient, task_id: str, swimlane: str, what: Wish, by: str) -> None:
    """Asks something of a task, which sees it within seconds, or when it starts; recorded in the
    audit."""
    path = f"{snapshot_path(task_id, swimlane)}/wishes/"
    with audited(client, by, f"snapshot {what.kind}", f"task {task_id}"), reported(path):
        answer(
            # Numbered by ZooKeeper, so that wishes keep their order.
            client.create_async(path, orjson.dumps(what.to_fields()), sequence=True, makepath=True)
        )
