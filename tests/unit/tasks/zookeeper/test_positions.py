import time

import pytest

from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from cdcbus.tasks.zookeeper.positions import connect, position_path
from tests.contract.position_store import PositionStoreContract


class MemoryHand:
    """An operator at a MemoryNode."""

    def __init__(self) -> None:
        self._node = MemoryNode()

    def store(self) -> PositionStore:
        return MemoryPositions(self._node, "/datas/task/1/position/memory")

    def set(self, text: str) -> None:
        self._node.set(text.encode())

    def delete(self) -> None:
        self._node.delete()

    def text(self) -> str:
        return self._node.node.data.decode()


class TestMemoryPositions(PositionStoreContract):
    @pytest.fixture
    def node(self) -> MemoryHand:
        return MemoryHand()


def test_the_path_is_porters() -> None:
    assert position_path("1084", "T_ORDER") == "/datas/task/1084/position/T_ORDER"
    assert position_path("1084") == "/datas/task/1084/position"


def test_an_unreachable_server_is_named_within_five_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(
        PositionUnavailable, match=r"127\.0\.0\.1:1/suixingpay did not answer within 0\.5 s"
    ):
        connect("127.0.0.1:1/suixingpay", timeout_seconds=0.5)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("address", ["[::1]:1", "127.0.0.1:1,[::1]:2/a/b", "nohost.invalid:1"])
def test_each_form_of_an_address_is_tried(address: str) -> None:
    with pytest.raises(PositionUnavailable):
        connect(address, timeout_seconds=0.2)


@pytest.mark.parametrize("address", ["127.0.0.1:port", "[::1:2181", ""])
def test_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        connect(address)
