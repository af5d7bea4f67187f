"""Rows a second by table, from counters."""

from __future__ import annotations

from cdcbus.tasks.runtime.table_rates import TABLES_REPORTED, WINDOW_SECONDS, TableRates
from cdcbus.tasks.zookeeper.stat import TableCounts, TableRate


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rates_are_those_of_the_last_minute_the_busiest_first_and_a_resting_table_has_none() -> (
    None
):
    clock = Clock()
    rates = TableRates(clock)
    assert rates.of([]) == ()
    told: tuple[TableRate, ...] = ()
    for second in range(5, 305, 5):
        clock.now = 100.0 + second
        early = min(second, 100) * 50  # rests then
        told = rates.of(
            [
                TableCounts("t", "s.a", second * 10),
                TableCounts("t", "s.b", second * 2),
                TableCounts("t", "s.c", early),
            ]
        )
        if second == 50:
            assert told[0] == TableRate("t", "s.c", 50.0)
    assert told == (TableRate("t", "s.a", 10.0), TableRate("t", "s.b", 2.0))


def test_a_table_that_is_new_counts_from_nothing_and_the_busiest_are_told_alone() -> None:
    clock = Clock()
    rates = TableRates(clock)
    clock.now += WINDOW_SECONDS
    tables = [TableCounts("t", f"s.{number}", number * 60) for number in range(1, 1000)]
    told = rates.of(tables)
    assert (len(told), told[0]) == (TABLES_REPORTED, TableRate("t", "s.999", 999.0))
