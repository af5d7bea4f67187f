"""A connection to ZooKeeper for the duration of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdcbus.tasks.zookeeper.connection import connected

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.tasks.control.bus_settings import BusSettings


@contextmanager
def bus_client(bus: BusSettings) -> Iterator[KazooClient]:
    """Raises PositionUnavailable, which names the address, when ZooKeeper does not answer within
    4 s."""
    with connected(bus.zookeeper, auth=bus.zookeeper_auth) as client:
        yield client
