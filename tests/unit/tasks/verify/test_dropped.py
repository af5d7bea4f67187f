"""Source tables that are gone, and what is left of them at the target."""

from __future__ import annotations

from dataclasses import replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import FOLLOWED, entry_name, entry_table
from cdcbus.tasks.verify.dropped import gone_tables
from tests.unit.tasks.verify.two_sides import ORDERS, feed, load

PARTS = TableId("shop", "parts")


def test_a_table_that_was_read_and_is_not_shown_any_more_is_gone() -> None:
    known = [(feed(), {ORDERS, PARTS})]
    assert gone_tables(load(), known, {ORDERS}, {ORDERS}) == {PARTS: [PARTS]}
    assert gone_tables(load(), known, {ORDERS, TableId("shop", "PARTS")}, {ORDERS}) == {}


def test_what_is_compared_or_reported_otherwise_is_not_gone() -> None:
    known = [(feed(), {PARTS})]
    assert gone_tables(load(), known, {ORDERS}, {ORDERS, PARTS}) == {}
    named = replace(load(), includes=frozenset({"SHOP.PARTS"}))
    assert gone_tables(named, known, {ORDERS}, {ORDERS}) == {}


def test_a_table_that_the_tasks_leave_out_is_not_missed() -> None:
    one = feed()
    bare = replace(one, load=replace(one.load, excludes=frozenset({"SHOP.PARTS"})))
    assert gone_tables(load(), [(bare, {PARTS})], {ORDERS}, {ORDERS}) == {}


def test_an_entrys_name_says_its_table() -> None:
    odd = TableId("a.b/c", "d e.f")
    assert entry_table(entry_name(odd)) == odd
    assert entry_table(FOLLOWED) is None
