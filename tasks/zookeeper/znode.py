"""JSON objects in ZooKeeper: what tasks and nodes tell each other and operators. Every call
answers within ANSWER_SECONDS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError

from cdcbus.plugins.errors import ConfigError, PositionError, PositionUnavailable
from cdcbus.tasks.zookeeper.positions import LOST

ANSWER_SECONDS = 5.0
AT_ONCE = 200
_T = TypeVar("_T")
Watch = Callable[[object], None]


class JsonNode:
    """A node as read. `fields` is empty where `damage` says, in a sentence, why it holds no
    object."""

    __slots__ = ("damage", "fields", "mzxid", "owner", "version")

    def __init__(self, path: str, data: bytes, stat: Any) -> None:
        self.version: int = stat.version
        self.mzxid: int = stat.mzxid
        self.owner: int = stat.ephemeralOwner
        self.damage = ""
        try:
            read = orjson.loads(data) if data.strip() else {}
        except orjson.JSONDecodeError:
            read = None
        self.fields: dict[str, Any] = read if isinstance(read, dict) else {}
        if not isinstance(read, dict):
            self.damage = (
                f"{path} does not hold a JSON object; delete it with zkCli, or write it again"
            )

    def usable(self) -> JsonNode:
        """Itself. Raises ConfigError when it is damaged."""
        if self.damage:
            raise ConfigError(self.damage)
        return self

    def text(self, name: str) -> str:
        """A field as text; empty where it is missing or null."""
        value = self.fields.get(name)
        return (
            ""
            if value is None
            else value
            if isinstance(value, str)
            else orjson.dumps(value).decode()
        )

    def number(self, name: str, otherwise: int = 0) -> int:
        """A field as a whole number; `otherwise` where it is none."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else otherwise

    def real(self, name: str) -> float | None:
        """A field as a number, or None."""
        value = self.fields.get(name)
        return (
            float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        )


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Inside the block what kazoo raises becomes PositionUnavailable or PositionError, which
    name the path."""
    try:
        yield
    except NoAuthError as error:
        raise PositionError(
            f"ZooKeeper does not let this user use {path}; check zookeeper.auth and the node's ACL"
        ) from error
    except LOST as error:
        raise PositionUnavailable(
            f"ZooKeeper does not answer for {path}; check that the server runs"
        ) from error


def answer(request: Any, seconds: float = ANSWER_SECONDS) -> Any:
    """What ZooKeeper answers to a request of kazoo; without a limit one made while disconnected
    would wait for ever."""
    return request.get(timeout=seconds)


def get_node(client: KazooClient, path: str, watch: Watch | None = None) -> JsonNode | None:
    """The node, or None. `watch` is told once of the next change, also of a node that is not
    there yet."""
    with reported(path):
        try:
            return JsonNode(path, *answer(client.get_async(path, watch=watch)))
        except NoNodeError:
            if watch is not None:
                answer(client.exists_async(path, watch=watch))
            return None


def get_children(client: KazooClient, path: str, watch: Watch | None = None) -> list[str]:
    """The names below a path, in order; none where there is no such node."""
    with reported(path):
        try:
            return sorted(answer(client.get_children_async(path, watch=watch)))
        except NoNodeError:
            return []


def put_node(client: KazooClient, path: str, fields: Mapping[str, Any]) -> None:
    """Writes the node, whatever it held before."""
    data = orjson.dumps(fields)
    with reported(path):
        try:
            answer(client.set_async(path, data))
        except NoNodeError:
            try:
                answer(client.create_async(path, data, makepath=True))
            except NodeExistsError:
                answer(client.set_async(path, data))


def get_nodes(client: KazooClient, paths: Iterable[str]) -> dict[str, JsonNode]:
    """Those that are there, by path."""
    found = {}
    for some in groups(paths):
        for path, request in [(path, client.get_async(path)) for path in some]:
            with reported(path), suppress(NoNodeError):
                found[path] = JsonNode(path, *answer(request))
    return found


def put_nodes(client: KazooClient, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes them, whatever they held before; where this raises, some may be written."""
    for some in groups(nodes):
        data = {path: orjson.dumps(nodes[path]) for path in some}
        missing = []
        for path, request in [(path, client.set_async(path, data[path])) for path in some]:
            with reported(path):
                try:
                    answer(request)
                except NoNodeError:
                    missing.append(path)
        for path, request in [
            (path, client.create_async(path, data[path], makepath=True)) for path in missing
        ]:
            with reported(path):
                try:
                    answer(request)
                except NodeExistsError:
                    answer(client.set_async(path, data[path]))


def groups(names: Iterable[_T]) -> Iterator[list[_T]]:
    """So many at once as may be asked of ZooKeeper without waiting for each answer: more would
    make the last wait for too long."""
    rest = iter(names)
    while some := list(islice(rest, AT_ONCE)):
        yield some


def take_node(client: KazooClient, path: str, fields: Mapping[str, Any]) -> bool:
    """Makes the node, which lives as long as the client's session; False when it is there
    already."""
    with reported(path):
        try:
            answer(client.create_async(path, orjson.dumps(fields), ephemeral=True, makepath=True))
        except NodeExistsError:
            return False
    return True


def is_own(client: KazooClient, node: JsonNode | None) -> bool:
    """Whether the node lives by this client's session."""
    return node is not None and client.client_id is not None and node.owner == client.client_id[0]


def drop_node(client: KazooClient, path: str) -> None:
    """Deletes the node if it is there."""
    with reported(path):
        try:
            answer(client.delete_async(path))
        except NoNodeError:
            return


def now() -> str:
    """The time as these nodes tell it: UTC, in porter's form."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"


def age_seconds(stamp: str) -> float | None:
    """How long ago a time was that `now` has told; None for anything else."""
    try:
        return (
            time.time()
            - datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        )
    except ValueError:
        return None
