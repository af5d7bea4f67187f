"""JSON objects in ZooKeeper: what tasks and nodes report to each other and to operators. Every
request is answered or fails within ANSWER_SECONDS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.process_identity import is_gone
from cdcbus.tasks.zookeeper.connection import LOST, REFUSED, unanswered

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ANSWER_SECONDS = 5.0
# Requests in flight at a time, see `groups`.
AT_ONCE = 200
# The errors of a transaction that another request preceded.
OF_OTHERS = (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
STAMP = "%Y-%m-%d %H:%M:%S"
_T = TypeVar("_T")
Watch = Callable[[object], None]


class JsonNode:
    """A znode as read. `damage`: a sentence that says why it holds no JSON object; `fields` is then
    empty."""

    __slots__ = ("czxid", "damage", "fields", "mzxid", "owner", "path", "version")

    def __init__(self, path: str, data: bytes, stat: Any) -> None:
        self.path = path
        self.version: int = stat.version
        self.czxid: int = stat.czxid
        self.mzxid: int = stat.mzxid
        self.owner: int = stat.ephemeralOwner
        self.damage = ""
        self.fields: dict[str, Any] = {}
        # Empty, as ZooKeeper makes the parents of a path.
        if not data.strip():
            return
        try:
            read = orjson.loads(data)
        except orjson.JSONDecodeError:
            read = None
        if isinstance(read, dict):
            self.fields = read
        else:
            self.damage = (
                f"{path} does not hold a JSON object; delete it with zkCli, or write it again"
            )

    def usable(self) -> JsonNode:
        """The znode itself. Raises ConfigError when it is damaged."""
        if self.damage:
            raise ConfigError(self.damage)
        return self

    def text(self, name: str) -> str:
        """A field as text; empty where it is missing or null."""
        value = self.fields.get(name)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        return orjson.dumps(value).decode()

    def number(self, name: str, otherwise: int = 0) -> int:
        """A field as a whole number; `otherwise` where it is not one."""
        value = self.fields.get(name)
        # To Python, a bool is an int.
        if isinstance(value, bool) or not isinstance(value, int):
            return otherwise
        return value

    def real(self, name: str) -> float | None:
        """A field as a number; None where it is not one."""
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)


def camel_case_fields(value: DataclassInstance) -> dict[str, Any]:
    """A dataclass as the fields of a znode, with names in porter's style."""
    return {_camel_case(name): each for name, each in asdict(value).items()}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Turns errors of kazoo inside the block into PositionUnavailable or PositionError, which name
    the path."""
    try:
        yield
    except (*LOST, *REFUSED) as error:
        raise unanswered(error, path) from error


def answer(request: Any, seconds: float = ANSWER_SECONDS) -> Any:
    """The answer to a request of kazoo. Without a limit, a request sent while disconnected would
    wait forever."""
    return request.get(timeout=seconds)


def get_node(client: KazooClient, path: str, watch: Watch | None = None) -> JsonNode | None:
    """The znode, or None. `watch` is called once, at the next change, also for a znode that does
    not exist yet."""
    with reported(path):
        try:
            return JsonNode(path, *answer(client.get_async(path, watch=watch)))
        except NoNodeError:
            # A failed get sets no watch; only `exists` can watch a znode that is missing.
            if watch is not None:
                answer(client.exists_async(path, watch=watch))
            return None


def get_children(client: KazooClient, path: str, watch: Watch | None = None) -> list[str]:
    """The names below a path, sorted; empty for a znode that does not exist."""
    with reported(path):
        try:
            return sorted(answer(client.get_children_async(path, watch=watch)))
        except NoNodeError:
            return []


def put_node(client: KazooClient, path: str, fields: Mapping[str, Any]) -> None:
    """Writes the znode, whatever it held before."""
    data = orjson.dumps(fields)
    with reported(path):
        try:
            # Most writes replace a znode, so one request is the rule.
            answer(client.set_async(path, data))
        except NoNodeError:
            try:
                answer(client.create_async(path, data, makepath=True))
            except NodeExistsError:
                # Another process created it between the two requests.
                answer(client.set_async(path, data))


def get_nodes(client: KazooClient, paths: Iterable[str]) -> dict[str, JsonNode]:
    """The znodes that exist, by path."""
    nodes = {}
    for group in groups(paths):
        # All requests of a group are sent before the first wait.
        requests = {path: client.get_async(path) for path in group}
        for path, request in requests.items():
            with reported(path), suppress(NoNodeError):
                nodes[path] = JsonNode(path, *answer(request))
    return nodes


def put_nodes(client: KazooClient, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes the znodes, whatever they held before. If this raises, some may be written."""
    for group in groups(nodes):
        data = {path: orjson.dumps(nodes[path]) for path in group}
        missing = []
        # All requests of a group are sent before the first wait; creates only where they fail.
        requests = {path: client.set_async(path, data[path]) for path in group}
        for path, request in requests.items():
            with reported(path):
                try:
                    answer(request)
                except NoNodeError:
                    missing.append(path)
        requests = {path: client.create_async(path, data[path], makepath=True) for path in missing}
        for path, request in requests.items():
            with reported(path):
                try:
                    answer(request)
                except NodeExistsError:
                    answer(client.set_async(path, data[path]))


def groups(names: Iterable[_T]) -> Iterator[list[_T]]:
    """The names in groups of AT_ONCE, the number of requests in flight at a time. With more, the
    last answer would take too long."""
    rest = iter(names)
    while group := list(islice(rest, AT_ONCE)):
        yield group


def take_node(client: KazooClient, path: str, fields: Mapping[str, Any]) -> bool:
    """Creates the znode, which lives as long as the client's session; False when a session has it.
    One of no session, as a copy of the tree can hold, is replaced: nothing would end it. Not for
    locks: porter's are of no session."""
    data = orjson.dumps(fields)
    while True:
        with reported(path), suppress(NodeExistsError):
            answer(client.create_async(path, data, ephemeral=True, makepath=True))
            return True
        turn = turn_of(client, path)
        holder = get_node(client, path)
        # Otherwise it was deleted between the requests.
        if turn is not None and holder is not None:
            if holder.owner:
                return False
            if _follow(client, turn, holder, data):
                return True


def take_free(client: KazooClient, path: str, fields: Mapping[str, Any]) -> JsonNode | None:
    """Makes this client's session the holder of an ephemeral znode, if nobody holds it, or only a
    process of this machine that has ended, whose session would keep it for some seconds. Returns
    None, or the holder if it is another one. Raises PositionUnavailable, PositionError."""
    while True:
        turn = turn_of(client, path)
        if turn is None:
            with reported(path):
                answer(client.ensure_path_async(path.rpartition("/")[0]))
            continue
        holder = get_node(client, path)
        if is_own(client, holder):
            return None
        if holder is not None and not is_gone(holder.fields):
            return holder
        # False: another process was first, and may hold it.
        if _follow(client, turn, holder, orjson.dumps(fields)):
            return None


def give_up(client: KazooClient, path: str) -> None:
    """Deletes a znode of `take_free` if it is this session's. Raises PositionUnavailable,
    PositionError."""
    while True:
        turn = turn_of(client, path)
        # Without its folder the task or the node was removed; making it would bring that back.
        if turn is None:
            return
        holder = get_node(client, path)
        if not is_own(client, holder) or _follow(client, turn, holder, None):
            return


@dataclass(frozen=True, slots=True)
class Turn:
    """The folder of a znode of `take_free`, or of one that `take_node` replaces, as it was before
    the holder was read. Its version changes with each such holder. That of the holder's znode says
    nothing about who it is: each new one begins with 0."""

    path: str
    data: bytes
    version: int


def turn_of(client: KazooClient, path: str) -> Turn | None:
    """The turn of the holder that is read next; None where the folder is missing."""
    folder = path.rpartition("/")[0]
    with reported(folder):
        try:
            data, stat = answer(client.get_async(folder))
        except NoNodeError:
            return None
    return Turn(path, data, stat.version)


def _follow(client: KazooClient, turn: Turn, holder: JsonNode | None, data: bytes | None) -> bool:
    """Ends the turn of a holder, and begins one of this session with `data`, None: of nobody.
    Returns False where another process has done so since the turn was read."""
    transaction = client.transaction()
    transaction.set_data(turn.path.rpartition("/")[0], turn.data, turn.version)
    if holder is not None:
        transaction.delete(turn.path)
    if data is not None:
        transaction.create(turn.path, data, ephemeral=True)
    with reported(turn.path):
        return is_done(answer(transaction.commit_async()))


def is_done(results: Iterable[object]) -> bool:
    """Whether a transaction was done, by its results; not where another request preceded it. Raises
    any other error."""
    failed = [each for each in results if isinstance(each, KazooException)]
    for each in failed:
        if not isinstance(each, OF_OTHERS):
            raise each
    return not failed


def is_own(client: KazooClient, node: JsonNode | None) -> bool:
    """Whether the znode belongs to this client's session. Raises PositionUnavailable where the
    client has lost its connection since it read the znode."""
    if node is None:
        return False
    # Once, as the connection may end between two looks; None without a connection.
    session = client.client_id
    if session is None:
        raise unanswered(ConnectionLoss(), node.path)
    return bool(node.owner == session[0])


def drop_node(client: KazooClient, path: str) -> None:
    """Deletes the znode if it exists."""
    with reported(path):
        try:
            answer(client.delete_async(path))
        except NoNodeError:
            return


def drop_tree(client: KazooClient, path: str) -> None:
    """Deletes the znode, if it exists, and all below it. Raises NotEmptyError where another process
    creates some meanwhile."""
    # kazoo's own has no limit of time.
    for name in get_children(client, path):
        drop_tree(client, f"{path}/{name}")
    drop_node(client, path)


def now() -> str:
    """The current time in the form of these znodes, which is porter's: UTC, to the second."""
    return f"{datetime.now(UTC):{STAMP}}"


def age_seconds(stamp: str) -> float | None:
    """How long ago a time in the form of `now` was; None for any other text."""
    try:
        moment = datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return time.time() - moment.timestamp()
