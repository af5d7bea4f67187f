"""Charts: what is drawn of numbers, and what is said of it in words."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.ops.web.pages.charts import ceiling, line_chart, runs, sparkline
from cdcbus.ops.web.series.series import Series

VALUES = st.lists(st.none() | st.floats(0, 1e12), max_size=80)


@given(VALUES)
@settings(max_examples=50)
def test_every_known_value_is_drawn_inside_the_box_and_no_unknown_one(
    values: list[float | None],
) -> None:
    top = ceiling(max((value for value in values if value is not None), default=0.0))
    drawn = [point for run in runs(values, top) for point in run]
    assert len(drawn) == sum(value is not None for value in values)
    assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in drawn)
    assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)


@given(VALUES)
@settings(max_examples=50)
def test_a_chart_is_well_formed_and_says_its_title(values: list[float | None]) -> None:
    for markup in (
        sparkline(values, "A <b> & B"),
        line_chart(Series("A <b> & B", "rows", 0, 60, values)),
    ):
        assert "A <b> & B" in "".join(ElementTree.fromstring(str(markup)).itertext())


def test_a_gap_parts_the_line_and_is_not_a_zero() -> None:
    assert list(runs([1, 1, None, 2], 2)) == [[(0.0, 50.0), (33.33, 50.0)], [(100.0, 0.0)]]
    assert str(sparkline([1, 1, None, 2], "x")).count("<polyline") == 2


def test_what_a_chart_means_is_told_in_words() -> None:
    chart = str(line_chart(Series("Lag", "seconds", 1_795_281_300, 60, [0.5, 12.25, None])))
    assert "From 17:15 to 17:18 UTC. Highest 12.2 seconds, last not known." in chart
    assert re.findall(r"<span(?: data-at=\"[0-9]+\")?>([^<]*)</span>", chart) == [
        "20",
        "10",
        "0",
        "17:15",
        "17:15",
        "17:16",
        "17:17",
        "17:18",
    ]
    assert "nothing is known yet" in str(sparkline([None, None], "Rows"))


@pytest.mark.parametrize(
    ("highest", "round_one"),
    [(0, 1), (1, 1), (1.2, 2), (2.1, 2.5), (999, 1000), (1001, 2000), (0.03, 0.05)],
)
def test_the_axis_ends_at_the_next_round_number(highest: float, round_one: float) -> None:
    assert ceiling(highest) == pytest.approx(round_one)
