"""The text that a Kafka transaction keeps of a position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.publish.delivery import METADATA_BYTES, metadata, position_in

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
