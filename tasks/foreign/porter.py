"""Reads porter's whole tree in ZooKeeper: its tasks, their positions, its shared sources. Changes
nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.tasks.config.diagnostics import Diagnostics
from cdcbus.tasks.config.named_sources import NamedSource
from cdcbus.tasks.zookeeper.connection import ROOT, connected
from cdcbus.tasks.zookeeper.dist_nodes import TASKS, DistNodes, dist_path
from cdcbus.tasks.zookeeper.position.znodes import position_path, stored_positions
from cdcbus.tasks.zookeeper.source_registry import SourceNodes, source_path
from cdcbus.tasks.zookeeper.znode import answer, get_children


@dataclass(slots=True)
class PorterTree:
    """The content of the tree. `tasks`: by id, as porter's JSON. `positions`: by task and swimlane.
    `sources`: by name. `unread`: why others cannot be read, by name. `found`: what could not be
    carried over."""

    tasks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    positions: dict[str, dict[str, str]] = field(default_factory=dict)
    sources: dict[str, NamedSource] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    found: Diagnostics = field(default_factory=Diagnostics)

    def source(self, name: str) -> NamedSource | None:
        """A source by name, or None. Raises ConfigError for one that cannot be read."""
        if name in self.unread:
            raise ConfigError(self.unread[name])
        return self.sources.get(name)


@contextmanager
def looked_at(where: str) -> Iterator[KazooClient]:
    """A connection to someone else's ZooKeeper, which does not create a missing chroot. Raises
    PositionError, PositionUnavailable, ConfigError."""
    hosts, slash, chroot = where.partition("/")
    # `connect` would create the chroot in somebody else's ensemble.
    with connected(hosts) as client:
        if chroot and answer(client.exists_async(f"/{chroot}")) is None:
            raise PositionError(f"ZooKeeper at {hosts} has no {slash}{chroot}; check the path")
        client.chroot = f"/{chroot}" if chroot else ""
        yield client


def porter_tree(where: str) -> PorterTree:
    """porter's tree at `host:port[,...][/chroot]`; its chroot is /suixingpay by default. Raises
    PositionError where there is no such tree."""
    tree = PorterTree()
    with looked_at(where) as client:
        ids = sorted(get_children(client, TASKS))
        if not ids:
            raise PositionError(
                f"nothing is below {TASKS} at {where}; give porter's chroot, as in "
                "host:2181/suixingpay"
            )
        for task_id in ids:
            _read_task(client, task_id, tree)
        nodes = SourceNodes(client)
        for name in nodes.names():
            try:
                source = nodes.get(name)
            except ConfigError as error:
                # It keeps only those tasks that name it from being carried over.
                tree.unread[name] = str(error)
                tree.found.warning(0, source_path(name), f"not carried over: {error}")
                continue
            if source is not None:
                tree.sources[name] = source
        for name in sorted(get_children(client, ROOT)):
            if name not in ("task", "datesource"):
                tree.found.note(0, f"{ROOT}/{name}", "not carried over: it is about porter's nodes")
    return tree


def _read_task(client: KazooClient, task_id: str, tree: PorterTree) -> None:
    try:
        dist = DistNodes(client).get(task_id)
    except ConfigError as error:
        tree.found.error(0, dist_path(task_id), f"not carried over: {error}")
        return
    if dist is None:
        tree.found.warning(
            0, dist_path(task_id), "there is no task: its remains are not carried over"
        )
        return
    tree.tasks[task_id] = dist
    for path, text in stored_positions(client, task_id).items():
        swimlane = path.removeprefix(f"{position_path(task_id)}/")
        if not text.strip():
            continue
        try:
            _check(text)
        except PositionError as error:
            tree.found.error(0, path, f"not carried over: {error}")
            continue
        tree.positions.setdefault(task_id, {})[swimlane] = text.strip()


def _check(text: str) -> None:
    # Positions in a binlog have no topic.
    if '"topic"' in text:
        kafka_positions_from_json(text)
    else:
        BinlogPosition.from_json(text)
