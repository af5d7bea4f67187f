"""A task's history by the minute."""

from hypothesis import given
from hypothesis import strategies as st

from cdcbus.tasks.runtime.throughput_history import KEPT_SECONDS, Minute, last_hour, with_minute

BEGIN = 1_800_000_000 // 60 * 60


def minute(number: int, rows: int = 1) -> Minute:
    return Minute(BEGIN + 60 * number, rows, 0, 0.5, "WORKING")


def test_rows_of_a_minute_in_which_a_task_was_started_anew_are_added_up() -> None:
    assert with_minute([minute(0), minute(1, 5)], minute(1, 3)) == [minute(0), minute(1, 8)]


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9)), max_size=30))
def test_the_history_is_in_order_bounded_and_loses_no_recent_row(
    told: list[tuple[int, int]],
) -> None:
    history: list[Minute] = []
    told.sort()
    for number, rows in told:
        history = with_minute(history, minute(number, rows))
    newest = max((number for number, _ in told), default=0)
    assert [each.at for each in history] == sorted({each.at for each in history})
    assert all(BEGIN + newest * 60 - each.at < KEPT_SECONDS for each in history)
    assert sum(each.rows for each in history) == sum(
        rows for number, rows in told if newest - number < KEPT_SECONDS / 60
    )


def test_the_last_hour_has_sixty_whole_minutes_with_nothing_where_nobody_told() -> None:
    hour = last_hour([minute(0, 7), minute(58, 3), minute(60, 9)], BEGIN + 60 * 60 + 30)
    assert (len(hour), hour[0], hour[58], sum(hour)) == (60, 7, 3, 10)
