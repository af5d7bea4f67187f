"""What the columns of rows and of their target mean for a consumer task, without servers."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.converters.debezium_values import column_type as field_type
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from cdcbus.plugins.time_zone import read_zone
from cdcbus.plugins.transform.cells.expression import constant
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.tasks.preflight.load import _twins
from cdcbus.tasks.preflight.records import Sample, describe_unreadable, other_form
from cdcbus.tasks.preflight.result import CheckResult
from cdcbus.tasks.preflight.target_columns import describe_columns
from tests.support.topics.canal_packets import packet

SOURCE = TableId("SHOP", "ORDERS")
ID, NAME, COUNT = (
    Column("ID", "int"),
    Column("NAME", "varchar(40)"),
    Column("COUNT", "int unsigned"),
)


def target(
    *columns: str, required: str = "", key: tuple[str, ...] = ("id",), dialect: str = "postgresql"
) -> TargetTable:
    return TargetTable(
        TableId("copy", "orders"),
        {n: TargetColumn(n, "text", is_required=n == required) for n in columns},
        key,
        dialect=dialect,
    )


def sample(
    *columns: Column, op: Op = Op.INSERT, is_ahead: bool = True, key: tuple[str, ...] = ("ID",)
) -> Sample:
    row: Row = {column.name: "1" for column in columns}
    seen = Sample()
    seen.add(
        RowChange(Table(SOURCE, columns, key), op, None if op is Op.INSERT else row, row),
        "t[0]@7",
        is_ahead,
    )
    return seen


def look(
    seen: Sample | None, table: TargetTable, rule: MapperRule | None = None
) -> list[CheckResult]:
    return list(describe_columns(Mapper([rule] if rule else []).routes(SOURCE)[0], seen, table))


def odd(results: list[CheckResult]) -> list[tuple[str, str, str]]:
    return [(each.outcome, each.found, each.remedy) for each in results if each.outcome != "ok"]


def test_columns_that_fit_in_any_case_are_ok() -> None:
    (seen,) = look(sample(ID, NAME), target("id", "name", "more"))
    assert (seen.outcome, seen.subject, seen.found) == (
        "ok",
        "target table copy.orders",
        "has all 2 columns of the newest rows of SHOP.ORDERS",
    )


@pytest.mark.parametrize(
    ("dialect", "alter"),
    [
        ("postgresql", 'ALTER TABLE "copy"."orders" ADD COLUMN "COUNT" bigint;'),
        ("mysql", "ALTER TABLE `copy`.`orders` ADD COLUMN `COUNT` int unsigned;"),
    ],
)
def test_a_column_that_the_target_lacks_is_told_with_the_statement_that_adds_it(
    dialect: str, alter: str
) -> None:
    assert odd(look(sample(ID, COUNT), target("id", dialect=dialect))) == [
        (
            "error",
            "has no column COUNT for column COUNT of SHOP.ORDERS, which record t[0]@7 has",
            f"{alter} or rename it with mapper[i].column.COUNT, or drop it with "
            "mapper[i].forceMatched=false.",
        )
    ]


@pytest.mark.parametrize("note", [Column("NOTE"), Column("NOTE", "longtext", is_bound=True)])
def test_a_form_without_types_says_so(note: Column) -> None:
    ((_, _, remedy),) = odd(look(sample(ID, note), target("id")))
    assert remedy.startswith(
        'ALTER TABLE "copy"."orders" ADD COLUMN "NOTE" text; with the type that it has at the '
        "source; or rename"
    )


def test_all_lacking_columns_are_told_at_once_with_one_statement() -> None:
    seen = sample(ID, NAME, COUNT, Column("NOTE"))
    old = Column("OLD", "int")
    seen.add(
        RowChange(Table(SOURCE, (ID, old), ("ID",)), Op.INSERT, None, {"ID": "1", "OLD": "1"}),
        "t[1]@3",
        False,
    )
    assert odd(look(seen, target("id"))) == [
        (
            "error",
            "has no columns NAME, COUNT, NOTE for columns NAME, COUNT, NOTE of SHOP.ORDERS, which "
            "record t[0]@7 has",
            'ALTER TABLE "copy"."orders" ADD COLUMN "NAME" varchar(40), ADD COLUMN "COUNT" '
            'bigint, ADD COLUMN "NOTE" text; '
            "with the source's types for NOTE; "
            "or rename them with mapper[i].column.X, or drop them with "
            "mapper[i].forceMatched=false.",
        ),
        (
            "warning",
            "has no column OLD for column OLD of SHOP.ORDERS, which record t[1]@3 has; that "
            "record is before the start",
            'ALTER TABLE "copy"."orders" ADD COLUMN "OLD" integer;',
        ),
    ]
    rule = MapperRule(computed={"a": constant("1"), "b": constant("2")})
    assert odd(look(sample(ID), target("id", dialect="oracle"), rule)) == [
        (
            "error",
            "has no columns a, b, which mapper[i] computes",
            'ALTER TABLE "copy"."orders" ADD ("a" CLOB, "b" CLOB); or remove the lines.',
        )
    ]


def test_a_renamed_column_is_looked_for_by_its_new_name() -> None:
    rule = MapperRule(columns={"name": "label"})
    assert odd(look(sample(ID, NAME), target("id", "label"), rule)) == []
    ((_, found, remedy),) = odd(look(sample(ID, NAME), target("id", "name"), rule))
    assert found.startswith("has no column label for column NAME of SHOP.ORDERS")
    assert 'ADD COLUMN "label" varchar(40);' in remedy


def test_a_column_that_is_left_out_on_purpose_or_was_only_in_applied_records_is_a_warning() -> None:
    ((outcome, found, _),) = odd(
        look(sample(ID, NAME), target("id"), MapperRule(force_matched=False))
    )
    assert (outcome, found.rpartition("; ")[2]) == (
        "warning",
        "mapper[i].forceMatched=false leaves it out",
    )
    ((outcome, found, _),) = odd(look(sample(ID, NAME, is_ahead=False), target("id")))
    assert (outcome, found.rpartition("; ")[2]) == ("warning", "that record is before the start")


def test_a_column_stays_ahead_when_an_older_partition_has_it_too() -> None:
    seen = sample(ID, NAME)
    seen.add(
        RowChange(Table(SOURCE, (ID, NAME), ("ID",)), Op.INSERT, None, {"ID": "1", "NAME": "a"}),
        "t[1]@3",
        False,
    )
    assert [outcome for outcome, _, _ in odd(look(seen, target("id")))] == ["error"]


def test_a_column_that_a_record_describes_but_no_row_has_does_not_count() -> None:
    seen = Sample()
    seen.add(
        RowChange(Table(SOURCE, (ID, NAME), ("ID",)), Op.DELETE, {"ID": "1"}, None), "t[0]@1", True
    )
    assert odd(look(seen, target("id"))) == []


def test_key_columns_that_rows_do_not_bring_are_an_error() -> None:
    (seen,) = odd(look(sample(ID, NAME, key=()), target("id", "name", "shop", key=("id", "shop"))))
    assert seen[:2] == (
        "error",
        "the newest rows of SHOP.ORDERS bring no shop, which is part of its key",
    )


def test_keys_that_differ_are_a_warning() -> None:
    ((outcome, found, _),) = odd(look(sample(ID, NAME), target("id", "name", key=("name",))))
    assert (outcome, found.partition(";")[0]) == (
        "warning",
        "its key is name, that of SHOP.ORDERS is ID",
    )


@pytest.mark.parametrize(("op", "count"), [(Op.INSERT, 1), (Op.UPDATE, 0)])
def test_a_column_that_inserts_need_is_missed_only_where_rows_are_inserted(
    op: Op, count: int
) -> None:
    found = odd(look(sample(ID, op=op), target("id", "needed", required="needed")))
    assert [outcome for outcome, _, _ in found] == ["warning"] * count


def test_the_mapper_of_a_table_is_looked_at_where_no_record_is_there() -> None:
    rule = MapperRule(table=("ORDERS", "orders"), columns={"NAME": "label", "ID": "id"})
    ((outcome, found, remedy),) = odd(look(None, target("id"), rule))
    assert (outcome, found) == ("error", "has no column label for column NAME of SHOP.ORDERS")
    assert remedy.startswith('ALTER TABLE "copy"."orders" ADD COLUMN "label" text;')
    # a rule for any table, which may have no NAME
    assert look(None, target("id"), MapperRule(columns={"NAME": "label"})) == []


def test_a_mapper_column_that_rows_do_not_have_is_a_warning() -> None:
    rule = MapperRule(table=("ORDERS", "orders"), columns={"NAEM": "label"})
    ((outcome, found, _),) = odd(look(sample(ID), target("id", "label"), rule))
    assert (outcome, found) == (
        "warning",
        "mapper[i].column.NAEM: the newest rows of SHOP.ORDERS have no such column",
    )


@pytest.mark.parametrize(("is_ahead", "outcome"), [(True, "error"), (False, "warning")])
def test_a_record_that_cannot_be_read_stops_only_a_task_that_is_to_read_it(
    is_ahead: bool, outcome: str
) -> None:
    seen = describe_unreadable("records of t", "t[0]@7", is_ahead, ConversionError("no JSON"))
    assert seen.outcome == outcome
    assert "record t[0]@7: no JSON" in seen.found


@pytest.mark.parametrize(
    ("value", "zone", "form"),
    [
        (packet([]), "", "canalProtobuf"),
        (b'{"database":"a","table":"t","type":"INSERT","data":[{"id":1}]}', "", "canalRow"),
        (b'{"database":"a","table":"t","type":"INSERT","data":[{"id":1}]}', "+08:00", ""),
        (packet([{"entryType": 9}]), "", ""),
        (b"?", "", ""),
    ],
)
def test_a_record_of_another_form_is_named_where_that_reads_it(
    value: bytes, zone: str, form: str
) -> None:
    """The third one is refused in its own form, too."""
    assert other_form(value, zone) == form
    seen = describe_unreadable("records of t", "t[0]@7", True, ConversionError("no JSON"), form)
    assert (f"consumer.converter={form}, or auto" in seen.remedy) == bool(form)


def test_columns_that_are_left_out_or_computed_need_no_column_of_their_own() -> None:
    rule = MapperRule(
        ignored=frozenset({"name"}),
        computed={"id": constant("1")},
        included=frozenset({"id", "name"}),
    )
    assert odd(look(sample(ID, NAME, COUNT), target("id"), rule)) == []


def test_a_computed_column_must_be_there() -> None:
    rule = MapperRule(computed={"shard": constant("1")})
    assert odd(look(sample(ID), target("id"), rule)) == [
        (
            "error",
            "has no column shard, which mapper[i] computes",
            'ALTER TABLE "copy"."orders" ADD COLUMN "shard" text; or remove the line.',
        )
    ]


def test_a_computed_column_may_be_part_of_the_key() -> None:
    rule = MapperRule(computed={"shard": constant("1")})
    assert odd(look(sample(ID), target("id", "shard", key=("id", "shard")), rule)) == []


def test_a_key_that_holds_less_than_the_sources_is_a_warning() -> None:
    columns = {
        "id": TargetColumn("id", "numeric", 10, scale=1),
        "name": TargetColumn("name", "text", is_folding=True),
    }
    table = TargetTable(TableId("copy", "orders"), columns, ("id", "name"), dialect="postgresql")
    found = look(sample(Column("ID", "decimal(10,2)"), NAME, key=("ID", "NAME")), table)
    [(outcome, text, remedy)] = odd(found)
    assert outcome == "warning"
    assert (
        text == "column id of its key keeps less than that of SHOP.ORDERS, a decimal(10,2): the "
        "second of two rows that are one there is refused"
    )
    assert remedy.startswith("Make column id numeric(")
    assert any("may take different texts for equal" in each.found for each in found)


def test_cells_of_which_the_target_keeps_less_are_a_warning() -> None:
    columns = {"id": TargetColumn("id", "integer"), "name": TargetColumn("name", "date")}
    table = TargetTable(TableId("copy", "orders"), columns, ("id",), dialect="postgresql")
    found = look(sample(Column("ID", "int"), Column("NAME", "datetime"), key=("ID",)), table)
    [(outcome, text, remedy)] = odd(found)
    assert outcome == "warning"
    assert text.endswith("of cells of SHOP.ORDERS: name (datetime)")
    assert "verify --repair" in remedy


@pytest.mark.parametrize(
    ("type_", "length", "field", "expected"),
    [
        ("date", None, {"type": "int64", "name": "io.debezium.time.Timestamp"}, "datetime(3)"),
        (
            "datetime",
            3,
            {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
            "datetime(6)",
        ),
        ("datetime", 4, {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, ""),
        ("datetime", 0, {"type": "int64", "name": "io.debezium.time.Timestamp"}, ""),
        ("timestamp", 0, {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, ""),
        ("float", None, {"type": "int64"}, "bigint"),
        ("float", None, {"type": "int32"}, ""),
        ("float", None, {"type": "double"}, ""),
        ("decimal", 9, {"type": "double"}, ""),
        ("char", 36, {"type": "string"}, ""),
    ],
)
def test_of_a_type_that_is_only_a_bound_sure_losses_are_a_warning(
    type_: str, length: int | None, field: dict[str, str], expected: str
) -> None:
    mysql_type, _, is_bound, least, _ = field_type(field)
    source = Column("NAME", mysql_type, is_bound=is_bound, least=least)
    columns = {
        "id": TargetColumn("id", "int", declared="int"),
        "name": TargetColumn(
            "name", type_, length, scale=2 if type_ == "decimal" else None, declared=type_
        ),
    }
    table = TargetTable(TableId("copy", "orders"), columns, ("id",), dialect="mysql")
    found = odd(look(sample(Column("ID", "int"), source, key=("ID",)), table))
    named = [text.partition("SHOP.ORDERS: ")[2] for _, text, _ in found]
    assert named == ([f"name (up to {expected})"] if expected else [])


@pytest.mark.parametrize(
    ("zone", "key", "is_told"),
    [
        ("Europe/Berlin", ("id", "made"), True),
        ("Europe/Berlin", ("id",), False),
        ("Asia/Shanghai", ("id", "made"), False),
        ("+02:00", ("id", "made"), False),
    ],
)
def test_a_key_of_local_times_is_told_where_clocks_are_put_back(
    zone: str, key: tuple[str, ...], is_told: bool
) -> None:
    [route] = Mapper([], zone=read_zone(zone)).routes(SOURCE)
    made = Column("made", "timestamp")
    seen = odd(
        list(describe_columns(route, sample(ID, made, key=key), target("id", "made", key=key)))
    )
    assert [outcome for outcome, *_ in seen] == ["warning"] * is_told
    assert not is_told or "clocks of Europe/Berlin" in seen[0][1]


def test_columns_without_types_are_refused_where_a_zone_is_named() -> None:
    [route] = Mapper([], zone=read_zone("Asia/Shanghai")).routes(SOURCE)
    seen = odd(list(describe_columns(route, sample(Column("ID")), target("id"))))
    assert [outcome for outcome, *_ in seen] == ["error"]
    assert "comes without its type" in seen[0][1]


def test_tables_that_differ_in_case_and_go_to_one_target_table_are_told() -> None:
    twins: Any = {TableId("shop", name): None for name in ("Orders", "orders")}
    rule = MapperRule(None, ("orders", "sales"))
    loader: Any = None
    (seen, *others) = _twins(Mapper([rule]), twins, loader)
    assert (seen.subject, others) == ("target table shop.sales", [])
    assert not list(_twins(Mapper([]), twins, loader))
