"""A consumer task's positions in ZooKeeper, a node for each topic."""

from __future__ import annotations

from collections.abc import Mapping

from cdcbus.consumer.offsets import Lane
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import PositionConflict
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json


def save(stores: Mapping[str, PositionStore], next_offsets: Mapping[Lane, int]) -> None:
    """Raises PositionConflict where an operator has set one meanwhile."""
    for topic, store in stores.items():
        positions = [KafkaPosition(topic, partition, offset - 1) for (name, partition), offset in next_offsets.items() if name == topic]
        store.save(kafka_positions_to_json(positions))


def edit_of(stores: Mapping[str, PositionStore]) -> PositionConflict | None:
    """What an operator has set since it was read or saved last."""
    edited = [store.path for store in stores.values() if store.is_edited()]
    return PositionConflict(f"{edited[0]} was set by somebody else; going on from there") if edited else None
