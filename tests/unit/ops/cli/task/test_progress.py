"""What `task status` shows of a task's work."""

from __future__ import annotations

import pytest

from cdcbus.ops.cli.task.progress import print_failures, print_progress, sparkline
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.stat import Percentiles, Stat, TableCounts
from cdcbus.tasks.zookeeper.tasks import Failure


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((), ""),
        ((0, 0), "··"),
        ((1, 8), "▁█"),
        ((0, 1, 500, 1000), "·▁▄█"),
        ((7, 7, 7), "███"),
        ((1, 9), "▁█"),
    ],
)
def test_a_sparkline_has_a_character_for_each_number(
    numbers: tuple[int, ...], expected: str
) -> None:
    assert sparkline(numbers) == expected


def test_lag_delays_hour_and_tables_are_shown_and_counters_that_are_nowhere_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stat = Stat(
        State.WORKING,
        rows=1200,
        lag_bytes=5000,
        lag_seconds=2.0,
        still_seconds=70.0,
        skew_seconds=-1.5,
        delays={"source_to_kafka": Percentiles(0.1, 0.2, 0.3)},
        tables=(TableCounts("shop", "shop.orders", 1200, 1000, 200),),
    )
    print_progress(stat, [0] * 58 + [10, 1190])
    shown = capsys.readouterr().out
    assert "lag: 5,000 bytes, 2.0 s\n" in shown
    assert "has not moved for 70 s" in shown
    assert "source to kafka: 0.100 s, 95 % within 0.200, 99 % within 0.300" in shown
    assert "the source's clock is off by -1.5 s" in shown
    assert "▁█ at most 1,190 rows a minute" in shown
    assert (
        "  swimlane  rows   inserted  updated  table\n  shop      1,200  1,000     200      "
        "shop.orders\n" in shown
    )


def test_the_last_failures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_failures(
        [
            Failure("2026-05-04 03:02:01", "node n1", f"reason {number}", number)
            for number in range(1, 8)
        ]
    )
    shown = capsys.readouterr().out
    assert "failures, 5 of 7, the newest last:" in shown
    assert "2026-05-04 03:02:01 UTC, node n1, 7 times: reason 7" in shown
    assert "reason 2" not in shown
