"""What times in records say of the zone that they were written in."""

from collections.abc import Callable

import pytest

from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.tasks.preflight.record_times import RecordTimes, usual_steps

HOUR = 3600
CAME_MS = 1_714_532_645_000  # 2024-05-01 03:04:05
TABLE = Table(
    TableId("shop", "orders"),
    (Column("id", "int", 4), Column("made", "timestamp", 93), Column("due", "timestamp(3)", 93)),
    ("id",),
)


def change(committed_s: float, made: str | None = None, due: str | None = None) -> RowChange:
    origin = Origin(commit_us=CAME_MS * 1000 - round(committed_s * 1e6))
    row = {"id": "1", "made": made, "due": due}
    return RowChange(TABLE, Op.INSERT, None, row, origin)


def found(
    changes: list[RowChange], converter: str = "oggJson", zone: str = "", came_ms: int = CAME_MS
) -> list[str]:
    times = RecordTimes()
    for each in changes:
        times.add(each, came_ms)
    return [f"{each.found} | {each.remedy}" for each in times.results("t", converter, zone)]


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        ([1.0, 3.0, 0.1], 0),
        ([-8 * HOUR + 1.0], -16),
        ([5 * HOUR + 1.0] * 9 + [7.0], 10),
        ([5.5 * HOUR + 60] * 3, 11),
        ([5 * HOUR + 1.0] * 6 + [7.0] * 4, None),  # of two minds
        ([5 * HOUR + 900.0], None),  # under way for long
        ([30 * 86400.0], None),
        ([], None),
    ],
)
def test_most_must_be_off_by_the_same_half_hours(seconds: list[float], steps: int | None) -> None:
    assert usual_steps(seconds) == steps


def test_op_ts_of_another_zone_is_told_with_the_zone_that_it_is_likely_of() -> None:
    (told,) = found([change(-8 * HOUR + 1)] * 5)
    assert "8 hours after Kafka received them" in told
    assert "consumer.source.timeZone=+08:00" in told
    (told,) = found([change(5 * HOUR)] * 5, zone="+02:00")
    assert "5 hours before" in told and "=-03:00" in told


def test_twelve_hours_are_porters_clock_and_epoch_seconds_the_sources() -> None:
    assert "clock of 12 hours" in found([change(12 * HOUR)] * 5)[0]
    assert "epoch seconds" in found([change(8 * HOUR)] * 5, "canalRow")[0]
    assert "epoch seconds" in found([change(8 * HOUR)] * 5, "debeziumJson")[0]


def test_times_that_agree_or_that_nobody_knows_say_nothing() -> None:
    assert found([change(1)] * 5) == []
    assert found([change(900)] * 5) == []
    assert found([change(8 * HOUR)] * 5, came_ms=0) == []
    assert found([]) == []


def local(hours: int) -> str:
    return f"2024-05-01 {3 + hours:02}:04:04"


def test_a_timestamp_of_another_zone_is_told_where_none_is_right() -> None:
    (told,) = found([change(1, local(8))] * 3, "canalRow")
    assert "column made of shop.orders" in told and "timeZone=+08:00" in told
    assert found([change(1, local(8))] * 2, "canalRow") == []  # too few to tell
    assert found([change(1, local(0), local(8))] * 3, "canalRow") == []


@pytest.mark.parametrize(
    "unchanged",
    [
        lambda row: RowChange(TABLE, Op.UPDATE, row.after, row.after, row.origin),
        lambda row: RowChange(TABLE, Op.DELETE, row.after, None, row.origin),
    ],
)
def test_a_cell_that_was_not_just_written_says_nothing(
    unchanged: Callable[[RowChange], RowChange],
) -> None:
    assert found([unchanged(change(1, local(8)))] * 3, "canalRow") == []
