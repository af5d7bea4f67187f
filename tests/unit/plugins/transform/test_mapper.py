"""Where rows and cells go."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError, ConversionError, DataError, UnmappedColumn
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId, Unclear
from cdcbus.plugins.transform.cells.expression import read_expression
from cdcbus.plugins.transform.cells.mask import read_mask
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rules import MapperRule

SOURCE = Table(
    TableId("Shop", "Orders"),
    (Column("ID", "bigint"), Column("Note", "varchar(40)", 12), Column("extra", "int")),
    ("ID",),
)
ORIGIN = Origin("bin.1", 7)


def target(*columns: str, generated: tuple[str, ...] = ()) -> TargetTable:
    types = {name: TargetColumn(name, "text", is_generated=name in generated) for name in columns}
    return TargetTable(TableId("shop", "orders"), types, ("id",), dialect="postgresql")


def update(before: Row, after: Row) -> RowChange:
    return RowChange(SOURCE, Op.UPDATE, before, after, ORIGIN, 3, True)


def map_row(rule: MapperRule | None, change: RowChange, table: TargetTable) -> RowChange:
    [route] = Mapper((rule,) if rule else ()).routes(change.table.id)
    return route.plan(change.table, table).map(change)


def names(rules: Sequence[MapperRule], source: TableId) -> list[TableId]:
    return [route.target for route in Mapper(rules).routes(source)]


# Tables

RULES = (
    MapperRule(),
    MapperRule(schema=("SHOP", "s")),
    MapperRule(table=("orders", "t")),
    MapperRule(schema=("shop", "st"), table=("Orders", "both")),
    MapperRule(schema=("shop", "ST"), table=("orders", "Both"), force_matched=False),
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (TableId("Shop", "ORDERS"), TableId("st", "both")),
        (TableId("other", "Orders"), TableId("other", "t")),
        (TableId("shop", "items"), TableId("s", "items")),
        (TableId("Other", "Items"), TableId("Other", "Items")),
    ],
)
def test_the_most_telling_rule_names_the_table(source: TableId, expected: TableId) -> None:
    assert names(RULES, source) == names(tuple(reversed(RULES[:4])), source) == [expected]


def test_without_rules_names_stay() -> None:
    assert names((), SOURCE.id) == [SOURCE.id]


# Columns


def test_columns_match_exactly_first_then_in_any_case() -> None:
    mapped = map_row(
        None,
        update({"ID": "1"}, {"ID": "1", "Note": "x", "extra": None}),
        target("id", "note", "Note", "EXTRA"),
    )
    assert mapped == RowChange(
        Table(
            TableId("shop", "orders"),
            (Column("id", "bigint"), Column("Note", "varchar(40)"), Column("EXTRA", "int")),
            ("id",),
        ),
        Op.UPDATE,
        {"id": "1"},
        {"id": "1", "Note": "x", "EXTRA": None},
        ORIGIN,
        3,
        True,
    )


def test_columns_are_renamed_in_any_case() -> None:
    rule = MapperRule(columns={"NOTE": "REMARK", "absent": "ignored"})
    mapped = map_row(rule, update({}, {"ID": "1", "Note": "x"}), target("id", "remark", "extra"))
    assert mapped.after == {"id": "1", "remark": "x"}


def test_a_column_that_the_target_lacks_is_refused_with_its_remedy() -> None:
    with pytest.raises(UnmappedColumn) as refused:
        map_row(MapperRule(columns={"note": "Remark"}), update({}, {}), target("id", "extra"))
    assert str(refused.value) == (
        "column Note of source table Shop.Orders has no column Remark in target table shop.orders: "
        'add it (ALTER TABLE "shop"."orders" ADD COLUMN "Remark" varchar(40)), '
        "rename it with mapper[i].column, or set mapper[i].forceMatched=false to drop it"
    )


def test_all_columns_that_the_target_lacks_are_refused_at_once_with_one_remedy() -> None:
    rule = MapperRule(columns={"note": "Remark"}, computed={"made": read_expression("x")})
    with pytest.raises(UnmappedColumn) as refused:
        map_row(rule, update({}, {}), target("id"))
    assert str(refused.value) == (
        "columns Note, extra of source table Shop.Orders have no columns Remark, extra in target "
        "table shop.orders, "
        "and mapper[i] computes column made, which it lacks too: add them "
        '(ALTER TABLE "shop"."orders" ADD COLUMN "Remark" varchar(40), ADD COLUMN "extra" '
        'integer, ADD COLUMN "made" text), '
        "rename them with mapper[i].column, or set mapper[i].forceMatched=false to drop them"
    )
    sentence = (
        r'^mapper\[i\] computes columns a, b, .*: add them \(.* ADD COLUMN "b" text\), or '
        r"remove the lines$"
    )
    with pytest.raises(UnmappedColumn, match=sentence):
        map_row(computing(a="x", b="y"), update({}, {}), target("id"))


def test_a_name_too_long_for_the_target_is_refused_with_the_remedy_to_shorten_it() -> None:
    long = "x" * 64
    rule = MapperRule(columns={"note": long})
    with pytest.raises(UnmappedColumn) as refused:
        map_row(rule, update({}, {}), target("id"))
    assert str(refused.value) == (
        f"column Note of source table Shop.Orders goes to column {long} of target table "
        "shop.orders, where names have at most 63 bytes: rename it with mapper[i].column, or set "
        "mapper[i].forceMatched=false to drop it"
    )
    with pytest.raises(UnmappedColumn) as refused:
        map_row(computing(**{long: "x"}), update({}, {}), target("id"))
    assert str(refused.value) == (
        f"mapper[i] computes column {long} of target table shop.orders, where names have at most "
        "63 bytes: give it a shorter name"
    )


def test_two_columns_for_one_that_the_target_lacks_are_added_once() -> None:
    with pytest.raises(
        UnmappedColumn, match=r'add them \(ALTER TABLE "shop"\."orders" ADD COLUMN "both" integer\)'
    ):
        map_row(MapperRule(columns={"note": "both", "extra": "both"}), update({}, {}), target("id"))


def test_a_column_that_the_target_lacks_is_dropped_where_the_rule_says_so() -> None:
    mapped = map_row(
        MapperRule(force_matched=False),
        update({"ID": "1", "extra": "5"}, {"extra": "6"}),
        target("id", "note"),
    )
    assert (mapped.before, mapped.after) == ({"id": "1"}, {})
    assert [column.name for column in mapped.table.columns] == ["id", "note"]


def test_a_column_that_the_target_computes_is_left_out() -> None:
    mapped = map_row(
        None,
        update({}, {"ID": "1", "extra": "6"}),
        target("id", "note", "extra", generated=("extra",)),
    )
    assert mapped.after == {"id": "1"}


def test_a_column_that_the_record_does_not_describe_is_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"^a row of Shop\.Orders holds column new, which its record does not describe$",
    ):
        map_row(None, update({}, {"ID": "1", "new": "x"}), target("id", "note", "extra"))


@pytest.mark.parametrize(
    "row", [{"ID": "1", "Note": "x", "extra": "5", "new": "x"}, {"ID": "1", "new": "x"}]
)
def test_a_column_that_the_record_does_not_describe_is_refused_where_nothing_is_renamed_too(
    row: Row,
) -> None:
    for change in (update({}, row), update(row, {}), RowChange(SOURCE, Op.DELETE, row, None)):
        with pytest.raises(
            DataError,
            match=r"^a row of Shop\.Orders holds column new, which its record does not describe$",
        ):
            map_row(None, change, target("ID", "Note", "extra", "new"))


def test_two_columns_cannot_go_to_one() -> None:
    with pytest.raises(ConfigError) as refused:
        map_row(MapperRule(columns={"note": "extra"}), update({}, {}), target("id", "extra"))
    assert (
        str(refused.value)
        == "columns Note and extra of source table Shop.Orders both go to column extra of "
        "shop.orders"
    )


def test_a_truncate_is_mapped_too() -> None:
    mapped = map_row(
        None, RowChange(SOURCE, Op.TRUNCATE, None, None), target("id", "note", "extra")
    )
    assert (mapped.table.id, mapped.before, mapped.after) == (TableId("shop", "orders"), None, None)


def test_a_truncate_without_columns_fits_any_rule() -> None:
    """As a binlog and GoldenGate have it."""
    rule = MapperRule(
        columns={"Note": "text"},
        computed={"extra": read_expression("{Note}")},
        masks={"Note": read_mask("fixed:-")},
    )
    mapped = map_row(
        rule,
        RowChange(Table(SOURCE.id, (), ()), Op.TRUNCATE, None, None),
        target("id", "text", "extra"),
    )
    assert (mapped.op, mapped.before, mapped.after) == (Op.TRUNCATE, None, None)


def test_rows_whose_names_are_equal_are_taken_as_they_are() -> None:
    row = {"ID": "1", "Note": "x"}
    assert map_row(None, update({}, row), target("ID", "Note", "extra")).after is row


def test_a_target_that_has_changed_is_looked_at_again() -> None:
    [route] = Mapper((MapperRule(force_matched=False),)).routes(SOURCE.id)
    assert route.plan(SOURCE, target("id")).map(update({}, {"extra": "6"})).after == {}
    assert route.plan(SOURCE, target("id", "extra")).map(update({}, {"extra": "6"})).after == {
        "extra": "6"
    }


def test_a_source_that_has_changed_is_looked_at_again() -> None:
    [route], table = Mapper(()).routes(SOURCE.id), target("note")
    for name in ("note", "Note", "NOTE"):
        source = Table(SOURCE.id, (Column(name),), ())
        assert route.known_plan(source, table) is None
        assert route.plan(source, table).map(
            RowChange(source, Op.INSERT, None, {name: "x"})
        ).after == {"note": "x"}
        assert route.known_plan(source, table) is route.plan(source, table)


# Several tables


def test_rules_for_the_same_tables_and_several_targets_send_rows_to_all_of_them() -> None:
    rules = (
        MapperRule(table=("orders", "a")),
        MapperRule(table=("ORDERS", "b")),
        MapperRule(schema=("shop", "s")),
    )
    assert names(rules, SOURCE.id) == [TableId("Shop", "a"), TableId("Shop", "b")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("orders_7", "orders"),
        ("ORDERS_12", "orders"),
        ("orders_x", "orders_x"),
        ("orders_7_old", "orders_7_old"),
        ("orders_9", "nine"),
    ],
)
def test_a_pattern_is_matched_whole_in_any_case_and_a_name_comes_before_it(
    source: str, expected: str
) -> None:
    rules = (MapperRule(table=("orders_[0-9]+", "orders")), MapperRule(table=("orders_9", "nine")))
    assert names(rules, TableId("shop", source)) == [TableId("shop", expected)]


def test_of_several_patterns_that_match_a_table_the_first_counts() -> None:
    rules = [
        MapperRule(table=(pattern, target))
        for pattern, target in (("o_[0-9]+", "o"), ("ord.*", "ord"), ("[a-z]+_[0-9]+", "all"))
    ]
    assert [
        names(rules, TableId("shop", table))[0].table for table in ("o_7", "orders_7", "x_7")
    ] == ["o", "ord", "all"]


def test_a_pattern_for_a_table_comes_before_a_name_of_a_schema() -> None:
    rules = (
        MapperRule(schema=("shop", "s")),
        MapperRule(table=("o.*", "t")),
        MapperRule(schema=("sh.*", "both"), table=("o.*", "both")),
    )
    assert names(rules, SOURCE.id) == [TableId("both", "both")]
    assert names(rules[:2], SOURCE.id) == [TableId("Shop", "t")]


def test_schema_and_table_come_before_a_table_alone_whichever_is_a_pattern() -> None:
    """As porter has it, which knows names only."""
    rules = [
        MapperRule(table=("orders", "table")),
        MapperRule(schema=("sh.*", "s"), table=("ord.*", "patterns")),
        MapperRule(schema=("shop", "s"), table=("ord.*", "schema")),
        MapperRule(schema=("sh.*", "s"), table=("orders", "name")),
        MapperRule(schema=("shop", "s"), table=("orders", "names")),
    ]
    for number, expected in enumerate(["table", "patterns", "schema", "name", "names"]):
        assert [found.table for found in names(rules[: number + 1], SOURCE.id)] == [expected]


def pairs(*rules: tuple[str, str]) -> tuple[MapperRule, ...]:
    """As `schema` and `table` of a task file, empty without the line."""
    made = [tuple(tuple(text.split(",")) if text else None for text in rule) for rule in rules]
    return tuple(MapperRule(schema=schema, table=table) for schema, table in made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "is_shared"),
    [
        ((), False),
        (pairs(("", "")), False),
        (pairs(("", "orders,t")), False),
        (pairs(("shop,s", "")), False),
        (pairs(("shop,s", "orders,t")), False),
        (pairs(("shop,s", ""), ("shop,s2", "")), False),  # one to several
        (pairs(("shop,s", ""), ("other,s2", "")), False),
        (pairs(("shop,s", ""), ("other,s", "items,items")), False),
        # other.orders goes elsewhere
        (pairs(("shop,s", ""), ("other,s", ""), ("other,s2", "orders,orders")), False),
        (pairs(("shop,s", ""), ("OTHER,S", "")), True),
        (pairs(("shop,s", "orders,orders"), ("other,s", "")), True),
        (pairs(("shop,s", "orders,t"), ("other,s", "t,T")), True),
        (pairs(("shop,s", "orders,t"), ("other,s", "")), True),  # other.t
        (pairs(("other,SHOP", "")), True),  # what has no rule goes to its own name
        (pairs(("", "others,Orders")), True),
        (pairs(("", "orders,t"), ("", "others,T")), True),
        (pairs(("", "ord.*,t")), True),
        (pairs(("sh.*,s", "")), True),
        (pairs(("", "orders,t"), ("", "t_[0-9]+,T")), True),
    ],
)
def test_a_target_that_another_source_table_reaches_by_the_rules_is_shared(
    rules: tuple[MapperRule, ...], is_shared: bool
) -> None:
    assert {route.is_shared for route in Mapper(rules).routes(SOURCE.id)} == {is_shared}


@pytest.mark.parametrize(
    ("rules", "includes", "excludes", "is_shared"),
    [
        (pairs(("shop,s", ""), ("other,s", "")), "SHOP.ORDERS OTHER.ITEMS", "", False),
        (pairs(("shop,s", ""), ("other,s", "")), "SHOP.ORDERS OTHER.ORDERS", "", True),
        (pairs(("shop,s", ""), ("other,s", "")), "", "OTHER.ORDERS", False),
        (pairs(("shop,s", "")), "SHOP.ORDERS S.ORDERS", "", True),
        (pairs(("", "orders,t")), "SHOP.ORDERS SHOP.T", "", True),
        (pairs(("", "orders,t")), "SHOP.ORDERS OTHER.T", "", False),
        (pairs(("", "orders,t"), ("", "t,t2")), "SHOP.ORDERS SHOP.T", "", False),
        (pairs(("", "ord.*,t")), "SHOP.ORDERS SHOP.ITEMS", "", False),
        (pairs(("", "ord.*,t")), "SHOP.ORDERS SHOP.ORDERS_1", "", True),
    ],
)
def test_the_filter_tells_which_source_tables_share_a_target(
    rules: tuple[MapperRule, ...], includes: str, excludes: str, is_shared: bool
) -> None:
    mapper = Mapper(rules, frozenset(includes.split()), frozenset(excludes.split()))
    assert [route.is_shared for route in mapper.routes(SOURCE.id)] == [is_shared]


def test_a_truncate_is_refused_where_the_target_is_shared() -> None:
    [route] = Mapper(pairs(("shop,s", ""), ("other,s", ""))).routes(SOURCE.id)
    with pytest.raises(
        DataError,
        match=r"^TRUNCATE of Shop\.Orders: target table shop\.orders holds rows of other source "
        r"tables too",
    ):
        route.plan(SOURCE, target("id", "note", "extra")).map(
            RowChange(SOURCE, Op.TRUNCATE, None, None)
        )


# Cells


def test_columns_are_left_out_and_chosen_in_any_case() -> None:
    row = {"ID": "1", "Note": "x", "extra": "5"}
    assert map_row(
        MapperRule(ignored=frozenset({"note"})), update({}, row), target("id", "extra")
    ).after == {"id": "1", "extra": "5"}
    assert map_row(MapperRule(included=frozenset({"id"})), update({}, row), target("id")).after == {
        "id": "1"
    }


def computing(**texts: str) -> MapperRule:
    return MapperRule(
        computed={name: read_expression(text) for name, text in texts.items()},
        ignored=frozenset({"note", "extra"}),
    )


def test_a_computed_column_takes_the_place_of_one_that_is_copied() -> None:
    rule = computing(NOTE="{note:upper} {@schema}.{@table} {{{id}}}", made="fixed")
    mapped = map_row(
        rule,
        update({"ID": "1", "Note": "a"}, {"ID": "1", "Note": "b"}),
        target("id", "note", "made"),
    )
    assert mapped.before == {"id": "1", "note": "A Shop.Orders {1}", "made": "fixed"}
    assert mapped.after == {"id": "1", "note": "B Shop.Orders {1}", "made": "fixed"}


def test_a_computed_column_is_null_where_what_it_takes_is() -> None:
    assert map_row(
        computing(made="{id}{note}"), update({}, {"ID": "1", "Note": None}), target("id", "made")
    ).after == {
        "id": "1",
        "made": None,
    }


def test_a_partial_image_brings_a_computed_column_only_with_what_it_takes() -> None:
    rule, table = computing(made="{id}{note}"), target("id", "made")
    assert map_row(rule, update({"ID": "1"}, {"extra": "5"}), table).after == {}
    assert map_row(rule, update({"ID": "1"}, {"Note": "x"}), table).after == {"made": "1x"}
    with pytest.raises(
        DataError,
        match=r"^mapper\[i\]\.expression\.made takes column ID, which a row of Shop\.Orders does "
        r"not have$",
    ):
        map_row(rule, update({}, {"Note": "x"}), table)
    with pytest.raises(DataError, match="column Note"):
        map_row(rule, RowChange(SOURCE, Op.INSERT, None, {"ID": "1"}), table)


def test_a_computed_column_that_the_target_lacks_is_refused_with_its_remedy() -> None:
    with pytest.raises(
        UnmappedColumn, match=r'^mapper\[i\] computes column made, .*ADD COLUMN "made" text'
    ):
        map_row(computing(made="x"), update({}, {}), target("id"))


def test_cells_are_masked_before_and_after() -> None:
    rule = MapperRule(masks={"note": read_mask("truncate:2"), "extra": read_mask("fixed:-")})
    mapped = map_row(
        rule,
        update({"Note": "secret"}, {"ID": "1", "Note": None, "extra": "5"}),
        target("id", "note", "extra"),
    )
    assert (mapped.before, mapped.after) == (
        {"note": "se"},
        {"id": "1", "note": None, "extra": "-"},
    )


def test_the_type_of_a_hash_is_known_also_where_that_of_the_source_is_only_a_bound() -> None:
    source = Table(SOURCE.id, (Column("ID", "longtext", is_bound=True),), ())
    rule = MapperRule(masks={"id": read_mask("hash")})
    (column,) = Mapper([rule]).routes(SOURCE.id)[0].columns(source)
    assert column.own_type == "char(64)"


def test_a_key_may_be_hashed_but_not_cut() -> None:
    table = target("id", "note", "extra")
    hashed = map_row(
        MapperRule(masks={"id": read_mask("hash:salt")}), update({}, {"ID": "1"}), table
    )
    assert hashed.after == {"id": hashlib.sha256(b"salt1").hexdigest()}
    with pytest.raises(
        ConfigError,
        match=r"^mapper\[i\]\.mask\.ID: column id is part of the key of target table shop\.orders",
    ):
        map_row(MapperRule(masks={"id": read_mask("truncate:1")}), update({}, {"ID": "1"}), table)


# What is wrong with every row

LEFT_OUT = [MapperRule(ignored=frozenset({"id"})), MapperRule(included=frozenset({"note"}))]


@pytest.mark.parametrize("rule", LEFT_OUT)
def test_the_target_s_key_must_not_be_left_out(rule: MapperRule) -> None:
    with pytest.raises(ConfigError) as refused:
        map_row(rule, update({}, {"ID": "1"}), target("id", "note", "extra"))
    assert str(refused.value) == (
        "mapper[i] leaves out column ID of source table Shop.Orders, which is part of the key of "
        "target table shop.orders: "
        "rows could not be told apart; keep it, or compute it with mapper[i].expression"
    )


@pytest.mark.parametrize("rule", LEFT_OUT)
def test_what_is_the_source_s_key_only_may_be_left_out(rule: MapperRule) -> None:
    row = {"ID": "1", "Note": "x"}
    columns = {name: TargetColumn(name, "text") for name in ("id", "note", "extra")}
    for key in ((), ("note",)):
        assert map_row(
            rule, update(row, row), TargetTable(TableId("shop", "orders"), columns, key)
        ).after == {"note": "x"}
    computed = MapperRule(
        ignored=frozenset({"id"}), computed={"ID": read_expression("{id}-{note}")}
    )
    assert map_row(computed, update(row, row), target("id", "note", "extra")).after == {
        "note": "x",
        "id": "1-x",
    }


@pytest.mark.parametrize(
    ("rule", "key", "old"),
    [
        (None, "note", {"ID": "1"}),
        (MapperRule(computed={"extra": read_expression("{note}-{id}")}), "extra", {"ID": "1"}),
        (None, "note", {}),
    ],
    ids=["copied", "computed", "no old row"],
)
def test_an_update_that_does_not_say_what_the_target_s_key_was_is_refused(
    rule: MapperRule | None, key: str, old: Row
) -> None:
    columns = {name: TargetColumn(name, "text") for name in ("id", "note", "extra")}
    table = TargetTable(TableId("shop", "orders"), columns, (key,))
    with pytest.raises(
        DataError, match=f"UPDATE without its primary key column {key}.* lacks Note"
    ):
        map_row(rule, update(old, {"Note": "x"}), table)
    assert map_row(rule, update({"ID": "1", "Note": "w"}, {"Note": "x"}), table)


def test_the_source_s_key_is_in_each_old_row() -> None:
    table = target("id", "note", "extra")
    assert map_row(None, update({}, {"ID": "1"}), table)
    spelled = replace(SOURCE, key=("id",))
    assert map_row(None, replace(update({}, {"ID": "1"}), table=spelled), table)


# Columns without a type


def untyped(type_: str, unclear: Unclear, rule: MapperRule | None = None) -> RowChange:
    source = Table(TableId("shop", "t"), (Column("c", unclear=unclear),), ())
    table = TargetTable(
        TableId("shop", "t"), {"c": TargetColumn("c", type_)}, (), dialect="postgresql"
    )
    return map_row(rule, RowChange(source, Op.INSERT, None, {"c": "20101"}), table)


@pytest.mark.parametrize(
    "type_", ["date", "datetime", "timestamp", "timestamptz", "time", "time without time zone"]
)
def test_what_may_be_a_number_of_days_does_not_go_to_a_column_of_times(type_: str) -> None:
    with pytest.raises(
        ConversionError,
        match=r"^column c of shop\.t comes without its type, .*column c of target table shop\.t "
        rf"is of type {type_}",
    ):
        untyped(type_, Unclear.TIMES | Unclear.BYTES)
    assert untyped(type_, Unclear.BYTES).after == {"c": "20101"}


@pytest.mark.parametrize("type_", ["bytea", "varbinary", "blob", "longblob", "binary", "geometry"])
def test_what_may_be_base64_does_not_go_to_a_column_of_bytes(type_: str) -> None:
    with pytest.raises(ConversionError, match="bytes from base64 cannot be told"):
        untyped(type_, Unclear.BYTES)
    assert untyped(type_, Unclear.NOTHING).after == {"c": "20101"}


@pytest.mark.parametrize("type_", ['"bit"', "bit", "bit varying", "varbit"])
def test_a_bit_is_unclear_only_where_the_format_may_write_it_as_base64(type_: str) -> None:
    """Debezium without a schema does, Maxwell writes a number."""
    remedy = (
        r"bits from base64 .*: send the types too "
        r"\(value\.converter\.schemas\.enable=true\), or leave"
    )
    with pytest.raises(ConversionError, match=remedy):
        untyped(type_, Unclear.TIMES | Unclear.BYTES | Unclear.BITS)
    assert untyped(type_, Unclear.BYTES).after == {"c": "20101"}


def test_the_cure_is_one_of_the_format_at_hand() -> None:
    with pytest.raises(ConversionError) as raised:
        untyped("blob", Unclear.BYTES)
    assert str(raised.value).endswith("is of type blob: leave it out with mapper[i].ignore")


@pytest.mark.parametrize("type_", ["int", "numeric", "text", "varchar", "bigint", "json", "year"])
def test_other_columns_take_cells_without_a_type(type_: str) -> None:
    assert untyped(type_, Unclear.TIMES | Unclear.BYTES).after == {"c": "20101"}


def test_an_unclear_column_may_be_left_out() -> None:
    assert untyped("date", Unclear.TIMES, MapperRule(ignored=frozenset({"c"}))).after == {}
