from __future__ import annotations

import random

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.columns import Shape
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.direct.chunks import course as course_module
from cdcbus.tasks.direct.chunks.course import Chunk, Course, Loaded

TABLE = TableId("shop", "orders")
SHAPE: Shape = ("id",), (), (), None


def course_of(count: int) -> tuple[Course, list[Chunk]]:
    chunks = [
        Chunk(TABLE, number, (str(number),) if number else None, (str(number + 1),), SHAPE)
        for number in range(count)
    ]
    course = Course(TABLE, TableProgress(TableState.RUNNING, until=(str(count),)))
    for chunk in chunks:
        course.cut(chunk)
    return course, chunks


def test_what_is_done_beyond_a_gap_is_shown_but_is_not_where_another_run_goes_on() -> None:
    course, (first, second, third) = course_of(3)
    course.done(third, Loaded(30, 300))
    assert (course.progress.after, course.progress.rows) == (None, 0)
    assert (course.shown.rows, course.shown.bytes) == (30, 300)
    course.done(first, Loaded(10, 100))
    assert (course.progress.after, course.progress.rows) == (("1",), 10)
    course.done(second, Loaded(20, 200))
    assert (course.progress.after, course.progress.rows) == (("3",), 60)


@pytest.mark.parametrize("seed", range(5))
def test_in_whatever_order_chunks_end_all_before_the_place_are_done(seed: int) -> None:
    course, chunks = course_of(20)
    ended = set[int]()
    for chunk in random.Random(seed).sample(chunks, len(chunks)):
        course.done(chunk, Loaded(1, 1))
        ended.add(chunk.number)
        place = int(course.progress.after[0]) if course.progress.after else 0
        assert ended.issuperset(range(place))
        assert place not in ended
        assert course.progress.chunks == course.progress.rows == place
        assert course.shown.rows == len(ended)


def test_time_counts_from_the_first_chunk_of_the_table_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the beginning of the load; and one that goes on counts from its own beginning."""
    monkeypatch.setattr(course_module, "now_ms", lambda: 5_000)
    course, chunks = course_of(2)
    assert course.progress.started_ms == 5_000
    monkeypatch.setattr(course_module, "now_ms", lambda: 9_000)
    course.done(chunks[0], Loaded(1, 1))
    course.cut(Chunk(TABLE, 3, ("2",), ("3",), SHAPE))
    assert course.progress.started_ms == 5_000
    again = Course(TABLE, course.progress)
    again.cut(chunks[1])
    assert again.progress.started_ms == 5_000


def test_a_table_is_done_once_it_is_cut_to_its_end_and_all_chunks_are() -> None:
    course, chunks = course_of(2)
    for chunk in chunks:
        course.done(chunk, Loaded(1, 1))
    before = course.progress.state
    course.is_cut = True
    course.finish_if_done()
    assert (before, course.progress.state) == (TableState.RUNNING, TableState.DONE)
