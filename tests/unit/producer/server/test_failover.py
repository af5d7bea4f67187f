"""Which of several addresses is tried; that reading goes on there is in
tests/integration/producer/server/test_failover.py."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import (
    CdcError,
    SourceBehind,
    SourceMisconfigured,
    SourceRefused,
    SourceUnavailable,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.server.failover import Addresses, pause_seconds

A, B, C = ("a", 1), ("b", 2), ("c", 3)


class Course:
    """Attempts at the addresses, and the work that they do."""

    def __init__(self, *places: tuple[str, int]) -> None:
        self.work = 0
        source = SourceConfig(places, "reader")
        self.addresses = Addresses(
            FetchTask("1", "s", source, FilterConfig(), PublishConfig("k", "t", "canalRow")),
            lambda: self.work,
        )

    def fails(self, *, after_work: bool = False) -> tuple[str, int]:
        """The address that was tried."""
        with pytest.raises(SourceUnavailable), self.addresses.trying() as task:
            self.work += after_work
            raise SourceUnavailable("away")
        (place,) = task.source.addresses
        return place


def test_each_address_is_tried_three_times_round_and_round() -> None:
    course = Course(A, B, C)
    assert [course.fails() for _ in range(12)] == [A, A, A, B, B, B, C, C, C, A, A, A]


def test_work_done_begins_the_count_anew() -> None:
    course = Course(A, B)
    assert [course.fails(after_work=n == 2) for n in range(6)] == [A, A, A, A, A, B]


def test_a_single_address_is_tried_for_ever() -> None:
    course = Course(A)
    assert [course.fails() for _ in range(7)] == [A] * 7


def test_another_reader_with_the_same_server_id_is_no_reason_to_try_the_next_address() -> None:
    course = Course(A, B)
    for _ in range(5):
        with pytest.raises(SourceMisconfigured), course.addresses.trying():
            raise SourceMisconfigured("same server id")
    assert course.fails() == A


def test_an_address_that_refuses_gives_up_its_turn_at_once_and_all_of_them_stop() -> None:
    course = Course(A, B)

    def refuses() -> None:
        with course.addresses.trying():
            raise SourceRefused("no rights")

    with pytest.raises(SourceUnavailable, match="no rights"):
        refuses()
    assert [course.fails() for _ in range(3)] == [B] * 3
    with pytest.raises(SourceUnavailable, match="no rights"):
        refuses()
    assert course.fails(after_work=True) == B
    with pytest.raises(SourceUnavailable):
        refuses()
    with pytest.raises(SourceRefused):
        refuses()
    with pytest.raises(SourceRefused), Course(A).addresses.trying():
        raise SourceRefused("no rights")


def test_an_address_that_is_behind_the_one_that_was_read_gives_up_its_turn_to_the_others() -> None:
    course = Course(A, B)
    tried: list[tuple[str, int]] = []

    def attempt(task: FetchTask) -> None:
        tried.extend(task.source.addresses)
        if tried[-1] == A:
            raise SourceBehind("has not executed 0-1-7")

    course.addresses.first(attempt)
    assert tried == [A, B]
    # The one that has everything is away: one of the two will come back.
    for _ in range(3):
        assert [course.fails() for _ in range(3)] == [B] * 3
        with pytest.raises(SourceUnavailable, match="0-1-7"), course.addresses.trying() as task:
            attempt(task)
    with pytest.raises(SourceBehind), Course(A).addresses.trying() as task:
        attempt(task)


def test_the_first_start_asks_every_address_once() -> None:
    course = Course(A, B, C)
    tried: list[tuple[str, int]] = []

    def attempt(task: FetchTask) -> None:
        tried.extend(task.source.addresses)
        if tried[-1] != C:
            raise SourceUnavailable("away")

    course.addresses.first(attempt)
    assert tried == [A, B, C]
    assert course.fails() == C

    def refuses(task: FetchTask) -> None:
        tried.extend(task.source.addresses)
        raise SourceRefused("no rights") if tried[-1] == A else SourceUnavailable("away")

    tried.clear()
    with pytest.raises(SourceUnavailable):
        Course(A, B, C).addresses.first(refuses)
    assert tried == [A, B, C]

    def away(task: FetchTask) -> None:
        raise SourceUnavailable(f"{task.source.addresses} away")

    with pytest.raises(SourceUnavailable):
        Course(A, B).addresses.first(away)


def test_pauses_grow_to_twenty_seconds_and_begin_again() -> None:
    assert [pause_seconds(failures) for failures in range(12)] == [
        2,
        4,
        6,
        8,
        10,
        12,
        14,
        16,
        18,
        20,
        2,
        4,
    ]


@pytest.mark.parametrize("is_behind_first", [True, False])
def test_an_address_that_is_behind_may_catch_up_whatever_is_wrong_with_the_others(
    is_behind_first: bool,
) -> None:
    course = Course(A, B)
    errors: list[CdcError] = [SourceBehind("has not executed 0-1-7"), SourceRefused("no grant")]
    if not is_behind_first:
        errors.reverse()
    with pytest.raises(SourceUnavailable), course.addresses.trying():
        raise errors[0]
    with pytest.raises(SourceBehind, match="0-1-7"), course.addresses.trying():
        raise errors[1]
