"""Source tables that are gone, and what is left of them at the target."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import FilterConfig
from cdcbus.producer.schema.history_codec import FOLLOWED, entry_name, entry_table
from cdcbus.tasks.control.beside import Beside, Unread
from cdcbus.tasks.control.source_of import Feed
from cdcbus.tasks.verify import dropped
from cdcbus.tasks.verify.dropped import Gone, gone_reports, gone_tables, left_tables
from cdcbus.tasks.verify.report import TableReport
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


# what the target notes


OLDER = TableId("shop", "older")


def left(*written: TableId, one: Feed | None = None) -> Gone:
    one = one or feed()
    return left_tables(one.load, [one], written, {ORDERS}, {ORDERS})


def mapping(*rules: MapperRule, **lists: Any) -> Feed:
    return replace(feed(), load=replace(load(), rules=rules, **lists))


def test_a_table_that_rows_went_to_and_no_source_table_goes_to_any_more_is_left() -> None:
    own = [TableId("shop", name) for name in ("cdcbus_tables", "cdcbus_row_7_orders")]
    assert left(ORDERS, TableId("SHOP", "Orders"), PARTS, *own) == {PARTS: [PARTS]}


def test_the_sources_of_a_table_are_those_of_the_rules_that_lead_to_it() -> None:
    named = MapperRule(table=("older", "parts"))
    assert left(PARTS, one=mapping(named)) == {PARTS: [OLDER, PARTS]}
    pattern = MapperRule(table=("p[0-9]", "parts"))
    assert left(PARTS, one=mapping(pattern)) == {PARTS: [TableId("shop", "p[0-9]"), PARTS]}
    # Its own name goes elsewhere.
    away = MapperRule(table=("parts", "new_parts"))
    assert left(PARTS, one=mapping(named, away)) == {PARTS: [OLDER]}


def test_a_table_to_which_the_tasks_send_no_rows_any_more_is_not_left() -> None:
    removed = mapping(MapperRule(schema=("shop", "new_shop")))
    assert left(PARTS, one=removed) == {}
    assert left(PARTS, one=mapping(excludes=frozenset({"SHOP.PARTS"}))) == {}
    one = feed()
    filtered = replace(one.fetch, tables=FilterConfig(regexes=(r"shop\.orders",)))
    assert left(PARTS, one=replace(one, fetch=filtered)) == {}
    assert left(PARTS, one=replace(one, topics=frozenset({"another"}))) == {}


def test_a_table_of_sources_that_the_task_names_is_not_left() -> None:
    rules = MapperRule(table=("older", "parts")), MapperRule(table=("p[0-9]", "parts"))
    names = frozenset({"SHOP.ORDERS", "SHOP.OLDER"})
    assert left(PARTS, one=mapping(*rules, includes=names)) == {}


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[TableReport]]:
    """The reports on a target table with two rows that the task has written."""

    def found(
        one: Feed,
        target: TableId,
        *others: str,
        is_absent: bool | Collection[TableId] = True,
        **unread: Unread,
    ) -> list[TableReport]:
        def lacks(table: TableId) -> bool:
            return is_absent if isinstance(is_absent, bool) else table in is_absent

        server = SimpleNamespace(lacks=lacks)
        monkeypatch.setattr(dropped, "SchemaReader", lambda _: server)
        monkeypatch.setattr(dropped, "known_tables", lambda *_: set())
        monkeypatch.setattr(dropped, "_written", lambda _: [target])
        monkeypatch.setattr(dropped, "_rows", lambda *_: 2)
        opened: Any = SimpleNamespace(
            zookeeper=None,
            task=one.load,
            feeds=[one],
            sources={one.place: None},
            beside=Beside(unread=unread),
        )
        return list(gone_reports(opened, [ORDERS], [ORDERS], lambda *_: [*others, *unread]))

    return found


@pytest.mark.parametrize(
    ("schema", "rule", "is_absent", "result"),
    [
        ("shop", None, True, "different"),
        # The user may have no right to see it.
        ("shop", None, False, "error"),
        # A schema that the source may never have had: a rule for it may have been removed.
        ("copy", None, True, "error"),
        ("shop", MapperRule(table=("p[0-9]", "parts")), True, "error"),
    ],
)
def test_rows_are_a_difference_only_where_the_source_certainly_has_no_table_for_them(
    reported: Callable[..., list[TableReport]],
    schema: str,
    rule: MapperRule | None,
    is_absent: bool,
    result: str,
) -> None:
    one = mapping(*[rule] if rule else [])
    [report] = reported(one, TableId(schema, "parts"), is_absent=is_absent)
    assert (report.result, report.target_rows) == (result, 2)
    assert reported(one, TableId(schema, "parts"), "8", is_absent=is_absent) == []


@pytest.mark.parametrize(
    ("absent", "doubtful"),
    [
        # The user has rights in shop only, so the server does not tell of copy.parts.
        ({PARTS, OLDER}, ""),
        ({PARTS}, "(shop.older)"),
        ((), "(shop.older, shop.parts)"),
    ],
)
def test_a_schema_that_the_source_shows_no_table_of_leaves_no_doubt(
    reported: Callable[..., list[TableReport]], absent: Collection[TableId], doubtful: str
) -> None:
    rules = [MapperRule(("shop", "copy"), (name, "parts")) for name in ("parts", "older")]
    [report] = reported(mapping(*rules), TableId("copy", "parts"), is_absent=absent)
    assert report.result == ("error" if doubtful else "different")
    assert doubtful in report.error


@pytest.mark.parametrize("others", [(), ("8",)])
def test_rows_that_may_be_of_a_task_that_cannot_be_read_prove_nothing(
    reported: Callable[..., list[TableReport]], others: tuple[str, ...]
) -> None:
    unread = {"9.properties": Unread("mapper[0] is broken", may_fetch=False)}
    [report] = reported(feed(), PARTS, *others, **unread)
    assert (report.result, report.target_rows) == ("error", 2)
    assert "(2) may be of a task that cannot be read: 9.properties: mapper[0]" in report.error
