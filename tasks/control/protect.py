"""Restricts everything that the bus stores in ZooKeeper to the user of zookeeper.auth."""

from __future__ import annotations

from collections.abc import Iterator

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import CREATOR_ALL_ACL

from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import answer, get_children, reported


def protect(client: KazooClient, by: str) -> int:
    """Restricts the bus's znodes to the client's own user, and returns their number. Repeating it
    changes nothing. Raises PositionUnavailable, and PositionError for a znode that belongs to
    someone else."""
    count = 0
    with audited(client, by, "protect", "ZooKeeper"):
        for path in _below(client, ROOT):
            with reported(path):
                try:
                    answer(client.set_acls_async(path, CREATOR_ALL_ACL))
                    count += 1
                # Deleted meanwhile, as locks are.
                except NoNodeError:
                    continue
    return count


def _below(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in get_children(client, path):
        yield from _below(client, f"{path}/{name}")
