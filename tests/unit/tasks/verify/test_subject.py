"""What of a table is compared, and in which way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import RowChange, Table, TableId
from cdcbus.plugins.time_zone import read_zone
from cdcbus.plugins.transform.cells.expression import constant, read_expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.ddl.table_schema import NAMED
from cdcbus.tasks.verify.subject import Way
from tests.unit.tasks.verify.two_sides import INT, PG_INT, mapped, subject, target, with_short_key


@pytest.mark.parametrize(
    ("own", "theirs", "way"),
    [
        ("int(11)", "integer", Way.RANGES),
        ("decimal(10,2)", "numeric", Way.RANGES),
        ("varbinary(8)", "bytea", Way.RANGES),
        ("varchar(9)", "text", Way.BUCKETS),
        ("datetime", "timestamp without time zone", Way.BUCKETS),
        ("double", "double precision", Way.STREAM),
        ("varchar(9)", "bpchar", Way.STREAM),
        ("char(9)", "bpchar", Way.BUCKETS),
    ],
)
def test_the_type_of_the_key_tells_the_way(own: str, theirs: str, way: Way) -> None:
    """Ranges need one order on both sides; buckets one text."""
    found = subject([mapped({**INT, "id": own})], target({**PG_INT, "id": theirs}))
    assert found.way is way
    assert found.is_found_by_key is (way is not Way.STREAM)


@pytest.mark.parametrize(
    ("own", "length", "is_found"),
    [
        ("varchar(9)", 9, True),
        ("varchar(9)", 8, False),
        ("varchar(9)", None, True),
        ("text", 9, False),
        ("char(9)", 8, True),
        ("enum('a','b')", 8, True),
    ],
)
@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_a_key_whose_last_blanks_the_target_cuts_is_not_looked_up(
    own: str, length: int | None, is_found: bool, dialect: str
) -> None:
    table = with_short_key(length, dialect)
    charsets = {"id": "utf8mb4", "name": "utf8mb4"}
    found = subject([mapped({**INT, "id": own})], table, charsets=charsets)
    assert found.is_found_by_key is is_found
    assert found.way is (Way.BUCKETS if is_found else Way.STREAM)


def test_rows_in_oracle_are_looked_up_by_whole_numbers_only() -> None:
    """Its '' is NULL."""
    source = mapped({"ID": "int(11)", "NAME": "varchar(9)"}, ("ID",))
    types = {"ID": "NUMBER", "NAME": "VARCHAR2"}
    by_number = subject([source], target(types, ("ID",), "oracle"))
    assert (by_number.way, by_number.is_found_by_key) == (Way.RANGES, True)
    assert by_number.sources[0].pairs is None
    by_text = subject([source], target(types, ("NAME",), "oracle"))
    assert (by_text.way, by_text.is_found_by_key) == (Way.STREAM, False)


def test_a_key_in_another_order_than_the_sources_is_not_cut_into_ranges() -> None:
    types, theirs = {"a": "int(11)", "b": "int(11)"}, {"a": "integer", "b": "integer"}
    alike = subject([mapped(types, ("a", "b"))], target(theirs, ("a", "b")))
    turned = subject([mapped(types, ("a", "b"))], target(theirs, ("b", "a")))
    assert (alike.way, turned.way) == (Way.RANGES, Way.BUCKETS)


def test_a_target_whose_key_has_more_columns_than_the_sources_is_compared() -> None:
    """As of shards that come together, and of a source without a key."""
    shard = {"shard": constant("1")}
    types = {"id": "integer", "shard": "integer", "name": "text"}
    source = mapped(
        {"id": "int(11)", "name": "varchar(9)"}, ("id",), rule=MapperRule(computed=shard)
    )
    assert subject([source], target(types, ("id", "shard"))).way is Way.STREAM
    keyless = mapped(INT, (), rule=MapperRule(computed=shard))
    assert subject([keyless], target({**PG_INT, "shard": "integer"}, ("shard",))).way is Way.STREAM


def test_a_target_without_a_key_is_compared_by_the_sources() -> None:
    """In ranges only where the target's column takes no NULL: such a row is in no range."""
    table = target(PG_INT, ())
    found = subject([mapped(INT)], table)
    assert (found.key_names, found.way) == (("id",), Way.BUCKETS)
    columns = {**table.columns, "id": replace(table.columns["id"], is_nullable=False)}
    found = subject([mapped(INT)], replace(table, columns=columns))
    assert (found.key_names, found.way) == (("id",), Way.RANGES)


def test_rows_are_counted_where_the_sources_key_cannot_be_compared_at_the_target() -> None:
    found = subject([mapped(INT)], target({"id": "money", "name": "text"}, ()))
    assert (found.columns, found.key, found.way) == (("name",), (), Way.STREAM)


def test_rows_of_several_sources_without_the_targets_key_are_counted() -> None:
    sources = [mapped(INT), mapped(INT, name=TableId("shop", "older"))]
    found = subject(sources, target(PG_INT, ()))
    assert (found.key, found.way, found.is_found_by_key) == ((), Way.STREAM, False)


def test_a_column_that_not_all_sources_have_is_left_out() -> None:
    sources = [
        mapped({**INT, "note": "varchar(9)"}),
        mapped(INT, name=TableId("shop", "older")),
    ]
    found = subject(sources, target({**PG_INT, "note": "text"}))
    assert (found.columns, found.left_out) == (("id", "name"), ("note",))
    orders, older = found.sources
    assert orders.expect(("1", "a", "n")) == older.expect(("1", "a")) == [("1", "a")]


def test_a_column_whose_cells_the_target_shows_in_its_own_way_is_left_out() -> None:
    found = subject([mapped(INT)], target({"id": "integer", "name": "money"}))
    assert (found.columns, found.left_out) == (("id",), ("name",))


def test_a_column_that_the_target_lacks_is_named() -> None:
    found = subject([mapped(INT, rule=MapperRule(force_matched=False))], target({"id": "integer"}))
    assert (found.columns, found.left_out) == (("id",), ("name",))


def generated(table: TargetTable, name: str) -> TargetTable:
    column = replace(table.columns[name], is_generated=True)
    return replace(table, columns={**table.columns, name: column})


def test_a_column_that_the_target_generates_is_compared() -> None:
    found = subject([mapped(INT)], generated(target(PG_INT), "name"))
    assert (found.columns, found.left_out, found.way) == (("id", "name"), (), Way.RANGES)
    assert found.sources[0].expect(("1", "a")) == [("1", "a")]
    assert found.sources[0].pairs is not None


def test_times_that_both_servers_give_to_versions_of_rows_are_not_compared() -> None:
    types = {**INT, "since": "timestamp(6)"}
    source = mapped(types)
    table = generated(target(types, dialect="mysql"), "since")
    assert subject([source], table).left_out == ()
    versioned = replace(source, schema=replace(source.schema, times=NAMED))
    found = subject([versioned], table)
    assert (found.columns, found.left_out) == (("id", "name"), ("since",))


def test_a_column_that_only_the_target_has_is_no_matter() -> None:
    found = subject([mapped(INT)], target({**PG_INT, "loaded_at": "date"}))
    assert (found.columns, found.left_out) == (("id", "name"), ())


def test_a_table_without_a_column_to_compare_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shop\.orders has no column that can be compared"):
        subject([mapped({"id": "int(11)"}, ())], target({"id": "money"}, ()))


def test_sources_whose_texts_differ_have_no_sums() -> None:
    """A number of one source and a year of the other are not one text."""
    sources = [
        mapped({**INT, "c": "datetime(6)"}),
        mapped({**INT, "c": "varchar(30)"}, name=TableId("shop", "older")),
    ]
    found = subject(sources, target({**PG_INT, "c": "timestamp without time zone"}))
    assert [source.pairs for source in found.sources] == [None, None]
    assert found.way is Way.RANGES


def test_columns_of_another_order_and_name_go_to_their_places() -> None:
    rule = MapperRule(columns={"name": "title"})
    found = subject([mapped(INT, rule=rule)], target({"title": "text", "id": "integer"}))
    assert found.columns == ("title", "id")
    assert found.sources[0].expect(("1", "a")) == [("a", "1")]
    assert found.name == "shop.orders"


def test_cells_are_compared_in_one_form() -> None:
    types = {**INT, "paid": "decimal(10,2)", "more": "json"}
    found = subject([mapped(types)], target({**PG_INT, "paid": "numeric", "more": "text"}))
    [own] = found.sources[0].expect(("1", "a", "1.50", '{"a":1,"b":2.0}'))
    assert own == found.actual(("1", "a", "1.5", '{"b": 2, "a": 1}'))
    assert own != found.actual(("1", "a", "1.51", '{"b": 2, "a": 1}'))


def test_a_masked_column_is_compared_as_it_is_written() -> None:
    rule = MapperRule(masks={"name": Mask("fixed", text="***")})
    found = subject([mapped(INT, rule=rule)])
    assert found.sources[0].expect(("1", "secret")) == [("1", "***")]
    assert (found.sources[0].pairs, found.way) == (None, Way.RANGES)


def test_a_masked_key_is_not_looked_up() -> None:
    rule = MapperRule(masks={"id": Mask("hash")})
    found = subject([mapped(INT, rule=rule)], target({"id": "text", "name": "text"}))
    assert (found.is_found_by_key, found.way) == (False, Way.STREAM)


def test_a_computed_column_is_compared_with_what_it_would_be() -> None:
    rule = MapperRule(computed={"both": read_expression("{id}-{name}")})
    found = subject([mapped(INT, rule=rule)], target({**PG_INT, "both": "text"}))
    assert found.sources[0].expect(("1", "a")) == [("1", "a", "1-a")]


def test_rows_of_another_format_are_taken_through_it() -> None:
    """No database can sum up what it makes of them."""
    found = subject([mapped(INT)], converter="canalCompat")
    assert found.sources[0].expect(("1", None)) == [("1", None)]
    assert (found.sources[0].pairs, found.way) == (None, Way.STREAM)


def test_a_task_that_finds_out_the_format_by_itself_compares_as_one_that_names_it() -> None:
    found = subject([mapped(INT)], reading="auto")
    assert (found.way, found.is_found_by_key) == (Way.RANGES, True)


def test_records_in_upper_case_are_rows_of_the_same_table() -> None:
    """As porterCompat writes them."""
    found = subject([mapped(INT)], converter="porterCompat")
    assert found.sources[0].expect(("1", "a")) == [("1", "a")]


@pytest.mark.parametrize(
    ("converter", "wanted"), [("canalRow", "shop.orders"), ("porterCompat", "SHOP.ORDERS")]
)
def test_a_column_that_is_computed_of_the_tables_name_has_it_as_records_do(
    converter: str, wanted: str
) -> None:
    rule = MapperRule(computed={"whence": read_expression("{@schema}.{@table}")})
    found = subject(
        [mapped(INT, rule=rule)], target({**PG_INT, "whence": "text"}), converter=converter
    )
    assert found.sources[0].expect(("1", "a")) == [("1", "a", wanted)]


def process(change: RowChange) -> Sequence[RowChange]:
    """Doubles rows, leaves out those that are called no, and sends away those called away."""
    row = dict(change.after or {})
    if row["name"] == "no":
        return []
    if row["name"] == "away":
        table = Table(TableId("shop", "other"), change.table.columns, change.table.key)
        return [replace(change, table=table)]
    return [change, replace(change, after={**row, "name": "twice"})]


def test_rows_that_a_processor_makes_are_expected() -> None:
    [source] = subject([mapped(INT)], process=process).sources
    assert source.expect(("1", "a")) == [("1", "a"), ("1", "twice")]
    assert source.expect(("1", "no")) == []
    assert source.pairs is None


def test_a_processor_that_sends_rows_elsewhere_is_refused() -> None:
    [source] = subject([mapped(INT)], process=process).sources
    with pytest.raises(ConfigError, match="leave this table out with --table"):
        source.expect(("1", "away"))


def test_a_timestamp_is_compared_as_what_clocks_of_the_zone_show() -> None:
    """No sums: neither database makes these texts alike. One with a zone is compared as it is."""
    types = {**INT, "made": "timestamp", "sent": "timestamp"}
    theirs = {
        **PG_INT,
        "made": "timestamp without time zone",
        "sent": "timestamp with time zone",
    }
    found = subject([mapped(types, zone=read_zone("Asia/Shanghai"))], target(theirs))
    [source] = found.sources
    row = ("1", "a", "2024-05-01 20:30:00", "2024-05-01 20:30:00")
    assert source.expect(row) == [("1", "a", "2024-05-02 04:30:00", "2024-05-01 20:30:00")]
    assert (source.pairs, found.way, found.is_found_by_key) == (None, Way.RANGES, True)


def test_a_key_that_becomes_local_time_is_not_looked_up_nor_repaired() -> None:
    types, theirs = {"id": "timestamp"}, {"id": "timestamp without time zone"}
    found = subject([mapped(types, zone=read_zone("Europe/Berlin"))], target(theirs))
    assert (found.way, found.is_found_by_key) == (Way.STREAM, False)
    with pytest.raises(DataError, match="show twice"):
        found.sources[0].expect(("2024-10-27 00:30:00",))
