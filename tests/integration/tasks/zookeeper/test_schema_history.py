"""ZooKeeperSchemas on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from tests.contract.schema_store import MakeStore, SchemaStoreContract

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def client(zookeeper: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/cdcbus/schemas-test")
    yield client
    client.stop()
    client.close()


class TestZooKeeperSchemas(SchemaStoreContract):
    @pytest.fixture
    def make(self, client: KazooClient, name: str) -> MakeStore:
        return lambda: ZooKeeperSchemas(client, name, "shop")


def test_an_entry_is_a_node_that_people_can_read(client: KazooClient, name: str) -> None:
    store = ZooKeeperSchemas(client, name, "shop")
    store.save({"shop.orders": "text"})
    assert store.path == f"/datas/task/{name}/schema/shop"
    assert client.get(f"/datas/task/{name}/schema/shop/shop.orders")[0] == b"text"


def test_a_server_that_does_not_answer_is_said(zookeeper: str, name: str) -> None:
    gone = connect(f"{zookeeper}/cdcbus/schemas-test")
    gone.stop()
    store = ZooKeeperSchemas(gone, name, "shop", patience_seconds=0.2)
    with pytest.raises(PositionUnavailable, match=f"/datas/task/{name}/schema/shop"):
        store.save({"shop.orders": "text"})
    gone.close()
