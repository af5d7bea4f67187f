"""Places in binlog files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.producer.binlog.coordinates import SPAN, carried


@given(st.integers(0, 1 << 40), st.integers(0, SPAN // 2 - 1))
def test_a_place_behind_another_is_whole_again(before: int, size: int) -> None:
    assert carried(before, (before + size) % SPAN) == before + size


@pytest.mark.parametrize(("before", "told"), [(1000, 256), (SPAN + 1000, 256)])
def test_a_little_back_is_no_turn(before: int, told: int) -> None:
    assert carried(before, told) == before - 1000 + 256
