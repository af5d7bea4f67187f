"""Of which record of two partitions it is certain that it was made first, and what nobody can tell."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.apply.watermark import _Head, _is_beyond
from cdcbus.consumer.records.arrival_clock import IN_FLIGHT_SECONDS, ArrivalClock
from cdcbus.plugins.contracts import RowVersion
from cdcbus.plugins.positions import TopicPartition


def place(pos: int, commit_ms: int = 1) -> str:
    """As `row_order.place_of` makes it."""
    return f"{commit_ms:013d}{1:010d}{pos:020d}{0:010d}1"


def at(now_ms: float) -> ArrivalClock:
    """The clock after a record of this time."""
    arrivals = ArrivalClock()
    arrivals.saw(int(now_ms))
    return arrivals


def head(
    came_ms: int, at: str = "", server_id: int = 1, number: int = 0, topic: str = "t"
) -> _Head:
    return _Head(TopicPartition(topic, number), RowVersion(came_ms, at), server_id)


def test_of_one_millisecond_the_place_in_the_binlog_tells_whichever_partition_it_is() -> None:
    """A key that changes is a delete in one partition and an insert in another, at once."""
    delete, insert = head(5, place(1), number=1), head(5, place(2), number=0)
    assert not _is_beyond(delete, insert, at(5))
    assert _is_beyond(insert, delete, at(5))


@pytest.mark.parametrize("other", [{"server_id": 2}, {"topic": "other"}])
def test_places_of_two_binlogs_tell_nothing(other: dict[str, int | str]) -> None:
    one = head(5, place(5))
    newer = head(6, place(1), number=1, **other)  # type: ignore[arg-type]
    older = head(4, place(9), number=1, **other)  # type: ignore[arg-type]
    assert _is_beyond(newer, one, at(6))
    assert not _is_beyond(older, one, at(6))


@pytest.mark.parametrize(
    ("age_seconds", "is_over"), [(IN_FLIGHT_SECONDS + 10, True), (IN_FLIGHT_SECONDS - 10, False)]
)
def test_what_a_partition_that_was_read_to_its_end_may_still_get_is_waited_for(
    age_seconds: float, is_over: bool
) -> None:
    now_ms = time.time() * 1000
    own = head(int(now_ms - age_seconds * 1000))
    assert _is_beyond(None, own, at(now_ms)) is is_over
    assert not _is_beyond(None, own, at(own.version.came_ms))


HEADS = st.builds(
    head,
    st.integers(1, 3),
    st.sampled_from(["", place(1), place(2)]),
    st.integers(1, 2),
    st.integers(0, 1),
)


@given(HEADS, HEADS)
def test_of_two_partitions_never_do_both_wait_nor_are_both_beyond_the_other(
    one: _Head, other: _Head
) -> None:
    """Else they would wait for each other for ever, or both be refused."""
    if one.partition != other.partition:
        assert _is_beyond(one, other, at(3)) != _is_beyond(other, one, at(3))
