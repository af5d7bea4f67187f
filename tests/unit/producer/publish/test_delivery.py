"""When sent rows are handed over, and the text that a Kafka transaction keeps of a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.contracts import Mark, SentLog, Written
from cdcbus.plugins.errors import PositionError, PositionUnusable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.publish import delivery
from cdcbus.producer.publish.delivery import (
    METADATA_BYTES,
    PUSHED_RECORDS,
    Acknowledgements,
    Transactions,
    metadata,
    position_in,
)
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions

POSITIONS = st.builds(
    BinlogPosition,
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    st.integers(0, 2**40),
    gtid=st.text("a1-:,", max_size=300),
)


@given(POSITIONS, st.integers(0, 2**63))
def test_a_position_comes_back_for_the_same_change_number_only(
    position: BinlogPosition, position_version: int
) -> None:
    text = metadata(position, position_version)
    assert position_in(text, position_version) == position
    assert position_in(text, position_version + 1) is None


@given(POSITIONS, st.integers(0, 2**63), st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_a_position_holds_where_one_that_was_on_its_way_to_zookeeper_has_arrived(
    position: BinlogPosition, position_version: int, storing: list[str]
) -> None:
    text = metadata(position, position_version, storing)
    assert position_in(text, position_version) == position
    for stored in storing:
        assert position_in(text, position_version + 1, stored) == position
        assert position_in(text, position_version + 1, stored + "?") is None
    assert position_in(text, position_version + 1) is None


def test_gtids_are_left_out_where_the_text_would_be_too_long() -> None:
    position = BinlogPosition("mysql-bin.000001", 4, gtid="é" * METADATA_BYTES, server_uuid="u")
    text = metadata(position, 7)
    assert len(text.encode()) < METADATA_BYTES
    assert position_in(text, 7) == BinlogPosition("mysql-bin.000001", 4, server_uuid="u")


@pytest.mark.parametrize("text", ["", "7", "7 ", "another tool's note"])
def test_what_somebody_else_has_noted_is_no_position(text: str) -> None:
    assert position_in(text, 7) is None


def test_a_damaged_position_is_no_reason_to_guess() -> None:
    with pytest.raises(PositionError):
        position_in('7 {"offset":', 7)


def test_a_place_that_was_edited_alone_is_not_taken_over_with_the_former_ones_gtids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = SimpleNamespace(take_over=lambda: None, committed=lambda: (-1, ""))
    monkeypatch.setattr(delivery, "Transaction", lambda *_: kafka)
    was = BinlogPosition("bin.000003", 400, gtid="a:1-90")
    node = MemoryNode()
    node.write(Written(was.to_json()))
    node.set(replace(was, pos=200).to_json().encode())
    positions = MemoryPositions(node)
    publisher: Any = SimpleNamespace(is_fenced=False, sent=0)
    config: Any = SimpleNamespace(transactional_id="t", topic="t")
    Transactions(publisher, config, positions).take_over()
    assert positions.load() == BinlogPosition("bin.000003", 200).to_json()


@pytest.mark.parametrize(
    ("text", "is_stored", "is_foreign"),
    [
        ("7 3", True, True),
        ("7 3", False, True),
        ('7 3 {"last":{"offset":5}}', True, True),
        ("another tool's note", False, True),
        ("another tool's note", True, False),
        ("7", True, False),
        ("", False, False),
    ],
)
def test_what_a_task_of_another_kind_has_committed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, text: str, is_stored: bool, is_foreign: bool
) -> None:
    for call in ("take_over", "commit"):
        monkeypatch.setattr(Transaction, call, lambda *_: None)
    monkeypatch.setattr(Transaction, "committed", lambda _: (0, text))
    node = MemoryNode()
    if is_stored:
        node.write(Written(BinlogPosition("bin.000003", 400).to_json()))
    publisher: Any = SimpleNamespace(is_fenced=False, sent=0, connecting={})
    config = PublishConfig("127.0.0.1:9", "out", "canalRow", transactional_id="cdcbus-shop-eu")
    transactions = Transactions(publisher, config, MemoryPositions(node))
    if not is_foreign:
        transactions.take_over()
        return
    found = (
        r"^group cdcbus-shop-eu .* has committed an offset of out\[0\] that is not of a fetch task"
    )
    with pytest.raises(PositionUnusable, match=found):
        transactions.take_over()


@pytest.mark.parametrize("is_set", [True, False])
def test_what_topics_were_given_does_not_count_for_a_position_that_somebody_has_set(
    monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    """Or the process that starts next would refuse it, if this one dies before it stores any."""
    kafka = SimpleNamespace(take_over=lambda: None, committed=lambda: (-1, ""))
    monkeypatch.setattr(delivery, "Transaction", lambda *_: kafka)
    text = BinlogPosition("bin.000003", 400).to_json()
    mark = Mark(rules={"k": "d"}, sent={"t": SentLog("id", 7)})
    node = MemoryNode()
    node.write(Written(text, mark))
    if is_set:
        node.set(text.encode())
    publisher: Any = SimpleNamespace(is_fenced=False, sent=0)
    config: Any = SimpleNamespace(transactional_id="t", topic="t")
    Transactions(publisher, config, MemoryPositions(node)).take_over()
    assert node.written is not None
    assert node.written.mark == (replace(mark, sent={}) if is_set else mark)


def test_what_kafka_has_is_known_before_a_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    node = MemoryNode()
    was = BinlogPosition("bin.000003", 400, batch_id=7)
    node.write(Written(was.to_json()))
    positions = MemoryPositions(node)
    positions.load()
    newer = replace(was, pos=500)
    text = metadata(newer, positions.position_version)
    kafka = SimpleNamespace(committed=lambda: (0, text))
    monkeypatch.setattr(delivery, "Transaction", lambda *_: kafka)
    config: Any = SimpleNamespace(transactional_id="t", topic="t")
    publisher: Any = SimpleNamespace(sent=0)
    transactions = Transactions(publisher, config, positions)
    assert transactions.committed(was.to_json()) == replace(newer, batch_id=8)
    # Once the node was written again, that counts.
    text = metadata(newer, positions.position_version - 1)
    assert transactions.committed(was.to_json()) is None


class Publisher:
    """Kafka acknowledges what is pushed, unless there is something else to do."""

    def __init__(self) -> None:
        self.sent = self.pushed = 0

    def push(self, has_more: Callable[[], bool]) -> bool:
        if has_more():
            return False
        self.pushed = self.sent
        return True


def yes() -> bool:
    return True


def no() -> bool:
    return False


def test_a_lone_row_is_handed_over_where_what_had_arrived_beside_it_is_no_row() -> None:
    """A heartbeat, say, or a transaction of other tables."""
    for is_edge in (False, True):
        publisher: Any = Publisher()
        deliveries = Acknowledgements(publisher)
        publisher.sent = 1
        deliveries.reached(BinlogPosition("b.1", 4), yes)
        assert publisher.pushed == 0
        if is_edge:
            deliveries.reached(BinlogPosition("b.1", 5), no)
        else:
            deliveries.settle(no)
        assert publisher.pushed == deliveries.confirmed() == 1


def test_many_rows_are_left_to_fill_batches() -> None:
    publisher: Any = Publisher()
    deliveries = Acknowledgements(publisher)
    publisher.sent = 1
    deliveries.reached(BinlogPosition("b.1", 4), yes)
    publisher.sent += PUSHED_RECORDS + 1
    deliveries.reached(BinlogPosition("b.1", 5), no)
    deliveries.settle(no)
    assert publisher.pushed == 0
