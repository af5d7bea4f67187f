"""Tables that a mapper cannot take, before rows come."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import MagicMock

import pytest

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer import mapped_tables
from cdcbus.producer.config import FetchTask, FilterConfig, RowTransform, SourceConfig
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.mapped_tables import check_mapper, idle, unfit

CARDS = TableId("shop", "cards")
SCHEMAS = {
    CARDS: TableSchema(
        (TableColumn("id", "int(11)"), TableColumn("pan", "varchar(20)")),
        (UniqueKey("PRIMARY", ("id",)),),
    )
}
TASK = FetchTask(
    "1",
    "shop",
    SourceConfig((("db1", 3306),), "u"),
    FilterConfig(),
    PublishConfig("k:9092", "t", "canalRow", {"STORE.CARDS": ("pan", "owner")}),
)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (MapperRule(ignored=frozenset(("id",))), "leaves out column id, which is part of the key"),
        (MapperRule(masks={"id": Mask("fixed", text="x")}), "would become one: use hash"),
        (MapperRule(columns={"pan": "id"}), "both go to column id of shop.cards"),
        (MapperRule(schema=("shop", "STORE")), "the table has no column owner; it has id, pan"),
    ],
)
def test_what_a_rule_cannot_do_to_a_table_is_said(rule: MapperRule, said: str) -> None:
    [found] = unfit(replace(TASK, transform=RowTransform((rule,))), SCHEMAS)
    assert said in found


CARDS_PAIR = (("shop", "shop"), ("cards", "cards"))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            MapperRule(*CARDS_PAIR, ignored=frozenset(("pen",))),
            "mapper[i].ignore: there is no column pen in shop.cards, so the line leaves nothing out",
        ),
        (
            MapperRule(*CARDS_PAIR, masks={"pen": Mask("hash")}),
            "mapper[i].mask.pen: there is no column pen in shop.cards, so the line masks nothing",
        ),
        (
            MapperRule(included=frozenset(("id", "pen"))),
            "mapper[i].include: there is no column pen in shop.cards, so the line adds nothing",
        ),
        (
            MapperRule(table=("cadrs", "cards"), ignored=frozenset(("pan",))),
            "mapper[i].ignore of the entry for schema any, table cadrs: none of the tables that the "
            "task reads uses the entry, so it withholds nothing",
        ),
    ],
)
def test_a_line_that_withholds_nothing_is_said(rule: MapperRule, said: str) -> None:
    assert list(idle(replace(TASK, transform=RowTransform((rule,))), SCHEMAS)) == [said]


def test_a_column_that_some_table_of_a_rule_has_is_withheld() -> None:
    both = {**SCHEMAS, TableId("shop", "users"): TableSchema((TableColumn("Mail", "text"),))}
    rule = MapperRule(ignored=frozenset(("mail", "pan")))
    assert list(idle(replace(TASK, transform=RowTransform((rule,))), both)) == []


def test_a_table_that_cannot_be_opened_may_have_what_no_other_has() -> None:
    users = TableId("shop", "users")
    of_all = MapperRule(ignored=frozenset(("mail",)))
    of_users = MapperRule(table=("users", "users"), masks={"mail": Mask("hash")})
    task = replace(TASK, transform=RowTransform((of_users, of_all)))
    assert len(list(idle(task, SCHEMAS))) == 2
    assert list(idle(task, SCHEMAS, [users])) == []


def test_what_an_event_processor_makes_of_rows_is_unknown() -> None:
    rule = MapperRule(ignored=frozenset(("pen",)))
    transform = RowTransform((rule,), processor="shop:rename")
    assert list(idle(replace(TASK, transform=transform), SCHEMAS)) == []


def test_heartbeats_are_not_mapped() -> None:
    rule = MapperRule(ignored=frozenset(("id",)))
    task = replace(TASK, transform=RowTransform((rule,), heartbeats=TableId("SHOP", "Cards")))
    assert list(unfit(task, SCHEMAS)) == []


def test_a_source_without_tables_of_the_task_is_asked_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = MagicMock()
    reader.tables.return_value = []
    monkeypatch.setattr(mapped_tables, "SchemaReader", lambda _: reader)
    monkeypatch.setattr(mapped_tables, "servers", MagicMock(reported=nullcontext))
    check_mapper(replace(TASK, transform=RowTransform((MapperRule(),))))
    reader.schemas.assert_not_called()
