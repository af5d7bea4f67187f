"""Record keys: which columns, which text, and what becomes of an update that changes them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import ConfigError, UnreadableEvent
from cdcbus.plugins.kafka.config import KeyRule, PublishConfig
from cdcbus.plugins.kafka.record_key import (
    NEW_KEY,
    OLD_KEY,
    key_columns,
    key_text,
    marked_pair,
    split_key_change,
)
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId

TABLE = Table(TableId("shop", "orders"), tuple(map(Column, ("id", "Region", "n"))), ("id",))
ROW = {"id": "7", "Region": "eu", "n": None}


def config(**partition_keys: tuple[str, ...]) -> PublishConfig:
    return PublishConfig(
        "",
        "t",
        "canalRow",
        {name.replace("__", "."): columns for name, columns in partition_keys.items()},
    )


def table(*key: str) -> Table:
    return Table(TableId("s", "t"), tuple(map(Column, key)), key)


def test_the_primary_key_is_the_default() -> None:
    assert key_columns(TABLE, config()) == ("id",)
    assert key_columns(TABLE, config(SHOP__OTHER=("n",), SHOP2__ORDERS=("n",))) == ("id",)


def test_partition_key_columns_are_found_in_any_case_and_keep_the_table_s_spelling() -> None:
    assert key_columns(TABLE, config(SHOP__ORDERS=("REGION", "ID"))) == ("id", "Region")


def test_columns_stand_in_the_order_of_their_upper_case_names() -> None:
    assert key_columns(table("b", "C", "A"), config()) == ("A", "b", "C")
    # `X` comes before `_`, `_` before `x`
    assert key_columns(table("id_x", "idx"), config()) == ("idx", "id_x")
    assert key_columns(table("id_x", "idx"), config(S__T=("ID_X", "IDX"))) == ("idx", "id_x")


def test_a_table_without_key_has_no_key_columns() -> None:
    assert key_columns(table(), config()) == ()


def test_a_partition_key_column_that_the_table_does_not_have_is_named() -> None:
    with pytest.raises(
        ConfigError,
        match=r"partitionKey\.shop\.orders: the table has no column UUID; it has id, Region, n",
    ):
        key_columns(TABLE, config(SHOP__ORDERS=("UUID",)))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (("id",), "7_"),
        (("Region", "id"), "eu_7_"),
        (("n",), "null_"),
        ((), ""),
        (("id", "n"), "7_null_"),
    ],
)
def test_each_value_is_followed_by_an_underscore(columns: tuple[str, ...], text: str) -> None:
    assert key_text(RowChange(TABLE, Op.INSERT, None, ROW), columns) == text.encode()
    assert key_text(RowChange(TABLE, Op.DELETE, ROW, None), columns) == text.encode()


def test_the_key_of_an_update_is_the_new_one() -> None:
    assert (
        key_text(RowChange(TABLE, Op.UPDATE, ROW, {**ROW, "Region": "漢"}), ("Region",))
        == "漢_".encode()
    )


def test_a_truncate_has_no_key() -> None:
    assert key_text(RowChange(TABLE, Op.TRUNCATE, None, None), ()) == b""


@pytest.mark.parametrize("column", ["id", "Region"])
def test_an_update_of_primary_key_or_partition_key_is_a_delete_and_an_insert(column: str) -> None:
    after = {**ROW, column: "new"}
    change = RowChange(TABLE, Op.UPDATE, ROW, after, row=3, is_last=True)
    delete, insert = split_key_change(change, ("Region",))
    assert delete == RowChange(TABLE, Op.DELETE, ROW, None, row=3, is_last=False)
    assert insert == RowChange(TABLE, Op.INSERT, None, after, row=3, is_last=True)


@given(
    st.sampled_from(["id", "Region", "n"]),
    st.none() | st.text(max_size=3),
    st.sets(st.sampled_from(["id", "Region", "n"])),
)
def test_every_part_of_a_split_has_one_key(
    column: str, value: str | None, partition_key: set[str]
) -> None:
    columns = tuple(sorted(partition_key))
    change = RowChange(TABLE, Op.UPDATE, ROW, {**ROW, column: value})
    parts = list(split_key_change(change, columns))
    changed = column in {"id", *partition_key} and ROW[column] != value
    assert [part.op for part in parts] == ([Op.DELETE, Op.INSERT] if changed else [Op.UPDATE])
    for part in parts:
        if part.op is Op.UPDATE:
            assert part is change
            assert key_text(RowChange(TABLE, Op.DELETE, part.before, None), columns) == key_text(
                part, columns
            )


def test_other_operations_and_updates_without_the_key_are_not_split() -> None:
    for change in (
        RowChange(TABLE, Op.INSERT, None, ROW),
        RowChange(TABLE, Op.DELETE, ROW, None),
        RowChange(TABLE, Op.TRUNCATE, None, None),
        RowChange(TABLE, Op.UPDATE, {}, ROW),
        RowChange(replace(TABLE, is_described=False), Op.UPDATE, {"n": "1"}, ROW),
    ):
        assert list(split_key_change(change, ("id",))) == [change]


@pytest.mark.parametrize("after", [{"Region": "us", "n": "2"}, {"n": "2"}, ROW])
def test_an_update_whose_former_record_key_was_not_logged_is_not_sent(after: Row) -> None:
    """Its row may be in another partition."""
    change = RowChange(TABLE, Op.UPDATE, {"id": "7"}, after)
    with pytest.raises(UnreadableEvent, match="the record key needs column Region, which the row"):
        list(split_key_change(change, ("Region", "id")))
    by_table = key_columns(TABLE, ruled(KeyRule("shop.orders", is_by_table=True)))
    for key in (("id",), by_table):
        assert list(split_key_change(change, key)) == [change]


def test_a_key_change_is_sent_whole_where_both_images_together_are() -> None:
    change = RowChange(TABLE, Op.UPDATE, ROW, {"id": "new"})
    assert [part.after for part in split_key_change(change, ("id",))] == [
        None,
        {**ROW, "id": "new"},
    ]


def test_a_key_change_whose_images_lack_columns_is_not_sent() -> None:
    with pytest.raises(
        UnreadableEvent, match="its images lack column Region, n: it cannot be sent whole"
    ):
        list(split_key_change(RowChange(TABLE, Op.UPDATE, {"id": "1"}, {"id": "2"}), ("id",)))


def test_the_two_records_of_a_key_change_name_each_other_s_key() -> None:
    delete, insert = marked_pair([{"key": b"1_", "value": b"d"}, {"key": b"2_", "value": b"i"}])
    assert delete == {"key": b"1_", "value": b"d", "headers": {NEW_KEY: b"2_"}}
    assert insert == {"key": b"2_", "value": b"i", "headers": {OLD_KEY: b"1_"}}


def test_a_record_alone_has_no_headers() -> None:
    assert marked_pair([{"key": b"1_", "value": b"d"}]) == [{"key": b"1_", "value": b"d"}]


def ruled(*rules: KeyRule, **exact: tuple[str, ...]) -> PublishConfig:
    keys = {name.replace("__", "."): columns for name, columns in exact.items()}
    return PublishConfig("h:1", "t", "canalRow", keys, key_rules=rules)


def test_a_table_s_own_line_goes_before_patterns_and_of_these_the_first_that_fits_counts() -> None:
    orders = Table(TableId("Shop", "Orders_7"), tuple(map(Column, "abc")), ("a",))
    first, second = KeyRule(r"shop\.orders_\d+", ("B",)), KeyRule("shop.*", ("c",))
    assert key_columns(orders, ruled(first, second)) == ("b",)
    assert key_columns(orders, ruled(second, first)) == ("c",)
    assert key_columns(orders, ruled(first, SHOP__ORDERS_7=("c", "a"))) == ("a", "c")
    assert key_columns(orders, ruled(KeyRule(r"shop\.orders", ("b",)))) == ("a",)
    assert key_columns(orders, ruled(KeyRule("shop.*"), first)) == ("a",)


def test_a_table_that_is_the_key_gives_all_its_rows_one_key() -> None:
    log = Table(TableId("shop", "log"), (Column("a"),), ())
    key = key_columns(log, ruled(KeyRule("shop.log", is_by_table=True)))
    assert [
        key_text(RowChange(log, op, before, after), key)
        for op, before, after in (
            (Op.INSERT, None, {"a": "1"}),
            (Op.UPDATE, {"a": "1"}, {"a": None}),
            (Op.TRUNCATE, None, None),
        )
    ] == [b"log"] * 3


def test_a_column_that_a_rule_names_and_a_table_lacks_is_said_with_the_line() -> None:
    log = Table(TableId("shop", "log"), (Column("a"),), ())
    rule = KeyRule("shop.*", ("id",), setting="loader.source.partitionHash")
    with pytest.raises(
        ConfigError, match=r"partitionHash: the table shop\.log has no column id; it has a"
    ):
        key_columns(log, ruled(rule))
