"""Events that end early or are garbled: both writers say what the row-at-a-time path says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cdcbus.producer.publish.native import MakePlan
from cdcbus.producer.source.row_events import Rows
from tests.unit.producer.publish.row_images import BOTH, COMPILED, FORMATS, cases, written

pytestmark = pytest.mark.usefixtures("stopped_clock")


@st.composite
def cut(draw: DrawFn) -> tuple[Rows, tuple[str, ...]]:
    """An event that ends early."""
    rows, key = draw(cases())
    return replace(rows, body=rows.body[: draw(st.integers(8, len(rows.body)))]), key


@st.composite
def garbled(draw: DrawFn) -> tuple[Rows, tuple[str, ...]]:
    """An event some of whose bytes are others, as no server writes them."""
    rows, key = draw(st.one_of(cases(), cut()))
    body = bytearray(rows.body)
    for place in draw(st.lists(st.integers(8, len(body) - 1), max_size=4)) if len(body) > 8 else []:
        body[place] = draw(st.integers(0, 255))
    return replace(rows, body=bytes(body)), key


@settings(max_examples=300)
@given(case=cut())
def test_of_an_event_that_ends_early_both_writers_say_what_the_plain_way_says(
    case: tuple[Rows, tuple[str, ...]],
) -> None:
    for name, make_plan in product(FORMATS, BOTH):
        wanted, found = written(case[0], name, case[1], make_plan)
        assert found == wanted, (name, make_plan)


@pytest.mark.parametrize("make_plan", [COMPILED])
@settings(max_examples=400)
@given(case=garbled())
def test_of_garbled_events_the_compiled_writer_says_what_the_plain_way_says(
    make_plan: MakePlan, case: tuple[Rows, tuple[str, ...]]
) -> None:
    for name in FORMATS:
        wanted, found = written(case[0], name, case[1], make_plan)
        assert found == wanted, name
