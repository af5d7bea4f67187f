"""TIMESTAMP cells in columns that have no zone of their own."""

from __future__ import annotations

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from cdcbus.plugins.time_zone import read_zone
from cdcbus.plugins.transform.cells.expression import read_expression
from cdcbus.plugins.transform.cells.mask import read_mask
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.plan import Plan
from cdcbus.plugins.transform.rules import MapperRule

ORDERS = TableId("shop", "orders")
UTC_TIME = "2024-05-01 20:30:00.123"
LOCAL_TIME = "2024-05-02 04:30:00.123"
SOURCE = Table(
    ORDERS, (Column("id", "int"), Column("made", "timestamp(3)"), Column("due", "datetime(3)")), ()
)


def target(made: str, dialect: str, key: tuple[str, ...] = ("id",)) -> TargetTable:
    types = {"id": "int", "made": made, "due": made}
    columns = {name: TargetColumn(name, type_) for name, type_ in types.items()}
    return TargetTable(ORDERS, columns, key, dialect=dialect)


def plan(
    table: TargetTable,
    zone: str = "Asia/Shanghai",
    source: Table = SOURCE,
    rule: MapperRule | None = None,
) -> Plan:
    [route] = Mapper([rule] if rule else [], zone=read_zone(zone) if zone else None).routes(ORDERS)
    return route.plan(source, table)


def inserted(by: Plan, made: str | None = UTC_TIME) -> Row | None:
    row = {"id": "1", "made": made, "due": UTC_TIME}
    return by.map(RowChange(by.source, Op.INSERT, None, row)).after


@pytest.mark.parametrize(
    ("type_", "dialect"),
    [
        ("datetime", "mysql"),
        ("date", "mysql"),
        ("varchar", "mysql"),
        ("timestamp without time zone", "postgresql"),
        ("text", "postgresql"),
        ("TIMESTAMP(6)", "oracle"),
        ("TIMESTAMP", "oracle"),
        ("DATE", "oracle"),
    ],
)
def test_a_column_without_a_zone_gets_the_time_that_clocks_show(type_: str, dialect: str) -> None:
    """A DATETIME of the source has no zone either, and stays."""
    found = inserted(plan(target(type_, dialect)))
    assert found == {"id": "1", "made": LOCAL_TIME, "due": UTC_TIME}


@pytest.mark.parametrize(
    ("type_", "dialect"),
    [
        ("timestamp", "mysql"),
        ("timestamp with time zone", "postgresql"),
        ("TIMESTAMP(6) WITH TIME ZONE", "oracle"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "oracle"),
    ],
)
def test_a_column_with_a_zone_keeps_the_moment(type_: str, dialect: str) -> None:
    by = plan(target(type_, dialect))
    assert by.is_same
    assert inserted(by) == {"id": "1", "made": UTC_TIME, "due": UTC_TIME}


def test_without_a_zone_in_the_task_file_all_stays() -> None:
    assert inserted(plan(target("datetime", "mysql"), "")) == inserted(
        plan(target("timestamp", "mysql"))
    )


@pytest.mark.parametrize("cell", [None, "0000-00-00 00:00:00.000"])
def test_null_and_a_zero_date_are_no_time(cell: str | None) -> None:
    assert (inserted(plan(target("datetime", "mysql")), cell) or {})["made"] == cell


def test_both_images_of_an_update_are_brought_there_and_columns_that_are_not_sent_stay_away() -> (
    None
):
    by = plan(target("datetime", "mysql"))
    change = RowChange(SOURCE, Op.UPDATE, {"made": UTC_TIME}, {"id": "1", "made": None})
    mapped = by.map(change)
    assert (mapped.before, mapped.after) == ({"made": LOCAL_TIME}, {"id": "1", "made": None})


def test_a_renamed_column_is_brought_there_and_masked_and_computed_ones_see_the_moment() -> None:
    rule = MapperRule(
        columns={"made": "due", "due": "made"},
        computed={"id": read_expression("{made}")},
    )
    found = inserted(plan(target("datetime", "mysql"), rule=rule))
    assert found == {"due": LOCAL_TIME, "made": UTC_TIME, "id": UTC_TIME}
    masked = MapperRule(masks={"made": read_mask("hash")})
    by = plan(target("varchar", "mysql"), rule=masked)
    assert not by.converted
    assert inserted(by) == inserted(plan(target("varchar", "mysql"), "", rule=masked))


def test_what_is_no_time_is_refused_without_the_cell() -> None:
    with pytest.raises(DataError, match=r"column made of shop\.orders is a TIMESTAMP") as refused:
        inserted(plan(target("datetime", "mysql")), "1714532645")
    assert "1714532645" not in str(refused.value)


TWICE = ("2024-10-27 00:30:00", "2024-10-27 01:30:00")


@pytest.mark.parametrize("cell", TWICE)
def test_a_key_in_the_hour_that_comes_twice_is_refused_as_two_rows_could_become_one(
    cell: str,
) -> None:
    by = plan(target("datetime", "mysql", ("id", "made")), "Europe/Berlin")
    assert (inserted(by, "2024-10-27 02:30:00") or {})["made"] == "2024-10-27 03:30:00"
    assert (inserted(by, "0000-00-00 00:00:00") or {})["made"] == "0000-00-00 00:00:00"
    with pytest.raises(DataError, match=r"column made .* clocks of Europe/Berlin show twice"):
        inserted(by, cell)


def test_beside_the_key_both_of_them_are_one_time() -> None:
    by = plan(target("datetime", "mysql"), "Europe/Berlin")
    assert {(inserted(by, cell) or {})["made"] for cell in TWICE} == {"2024-10-27 02:30:00"}


def untyped(*names: str) -> Table:
    columns = [Column(c.name, "" if c.name in names else c.mysql_type) for c in SOURCE.columns]
    return Table(ORDERS, tuple(columns), ())


@pytest.mark.parametrize(
    ("source", "type_"),
    [
        (untyped("made"), "timestamp without time zone"),
        (untyped("id", "made", "due"), "timestamp without time zone"),
        (untyped("id", "made", "due"), "text"),
    ],
)
def test_a_record_without_types_is_refused(source: Table, type_: str) -> None:
    with pytest.raises(ConfigError, match="comes without its type, so it is not known"):
        plan(target(type_, "postgresql"), source=source)
    plan(target(type_, "postgresql"), "", source=source)


def test_a_text_that_a_processor_adds_needs_no_type() -> None:
    assert inserted(plan(target("text", "postgresql"), source=untyped("due")))
