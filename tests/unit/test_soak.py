"""What a soak takes for growth."""

from __future__ import annotations

from tests.soak.samples import Series


def series(*values: float) -> Series:
    return Series("memory", "MB", 40, [(float(at), value) for at, value in enumerate(values)])


def test_what_comes_and_goes_has_not_grown_where_it_is_there_more_often() -> None:
    seldom = [300.0] * 6 + [1100.0] * 4
    often = [300.0] * 2 + [1100.0] * 8
    assert series(*seldom * 8, *often * 2).verdict == ""


def test_what_takes_more_each_time_has_grown() -> None:
    assert "has grown from" in series(*range(300, 1300, 10)).verdict


def test_what_was_never_seen_is_not_flat() -> None:
    assert series().verdict == "memory was not sampled"
