import pytest

from cdcbus.plugins.contracts import PositionStore
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from cdcbus.tasks.zookeeper.position.znodes import position_path
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
