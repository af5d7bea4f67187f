"""What target columns make of cells."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.plugins.loaders.cells.canonical import folded, held_column, hold_of, holds_less

CASES = [
    (TargetColumn("c", "int"), "007", "7"),
    (TargetColumn("c", "bigint"), "-12", "-12"),
    (TargetColumn("c", "decimal", 10, scale=1), "1.25", "1.3"),
    (TargetColumn("c", "decimal", 10, scale=2), "-0", "0.00"),
    (TargetColumn("c", "numeric"), "1.50", "1.5"),
    (TargetColumn("c", "datetime", 0), "2024-02-29 23:59:59.600", "2024-03-01 00:00:00"),
    (TargetColumn("c", "datetime", 3), "2024-02-29 10:00:00.000", "2024-02-29 10:00:00"),
    (TargetColumn("c", "datetime", 0), "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    (TargetColumn("c", "time", 0), "-838:59:58.9", "-838:59:59"),
    (TargetColumn("c", "time with time zone", 0), "10:00:00.5", "10:00:01"),
    (TargetColumn("c", "time with time zone"), "10:00:00.000000", "10:00:00"),
    (TargetColumn("c", "interval", 1), "-838:59:58.96", "-838:59:59"),
    (TargetColumn("c", "interval"), "1 day", "1 day"),
    (TargetColumn("c", "float"), "0.1", "0.1"),
    (TargetColumn("c", "real"), "0.100000001", "0.1"),
    (TargetColumn("c", "float"), "16777217", "16777216.0"),
    (TargetColumn("c", "float"), "-0", "0.0"),
    (TargetColumn("c", "double", declared="double(10,2)"), "1.233", "1.23"),
    (TargetColumn("c", "double", declared="double(10,2)"), "0.125", "0.12"),
    (TargetColumn("c", "double", declared="double(10,1)"), "-1.25", "-1.2"),
    (TargetColumn("c", "double", declared="double(10,1)"), "-0.01", "0.0"),
    (TargetColumn("c", "double", declared="double(10,2) unsigned"), "7e-1", "0.7"),
    (TargetColumn("c", "double", declared="double(10,2)"), "no number", "no number"),
    (TargetColumn("c", "float", declared="float(10,2)"), "0.127", "0.13"),
    (TargetColumn("c", "float", declared="float(10,2)"), "16777217", "16777216.0"),
    (TargetColumn("c", "money", scale=2), "12.345", "12.35"),
    (TargetColumn("c", "money", scale=0), "12.50", "13"),
    (TargetColumn("c", "interval", -2), "-01:02:59.9", "-01:02:00"),
    (TargetColumn("c", "interval", -4), "838:59:59", "838:00:00"),
    (TargetColumn("c", "interval", -4), "-00:59:59", "00:00:00"),
    (TargetColumn("c", "interval", -6), "838:59:59", "00:00:00"),
    (TargetColumn("c", "binary", 3), "a", "a\0\0"),
    (TargetColumn("c", "int"), "no number", "no number"),
    (TargetColumn("c", "char", 9), "a  ", "a"),
    (TargetColumn("c", "date"), "2024-02-29 10:00:00", "2024-02-29"),
    (TargetColumn("c", "numeric", 5, scale=-1), "15", "20"),
    (TargetColumn("c", "DATE"), "2024-02-29 10:00:00.999", "2024-02-29 10:00:00"),
    (TargetColumn("c", "TIMESTAMP(3)"), "2024-02-29 10:00:00.0005", "2024-02-29 10:00:00.001000"),
    (
        TargetColumn("c", "TIMESTAMP(6) WITH TIME ZONE"),
        "2024-02-29 10:00:00.0",
        "2024-02-29 10:00:00",
    ),
    (TargetColumn("c", "INTERVAL DAY(2) TO SECOND(0)"), "-01:00:00.5", "-01:00:01"),
    (TargetColumn("c", "CHAR", 9), "a  ", "a"),
    (TargetColumn("c", "BINARY_FLOAT"), "16777217", "16777216.0"),
    (TargetColumn("c", "BINARY_DOUBLE"), "1.50", "1.5"),
    (TargetColumn("c", "FLOAT", 126), "1.50", "1.5"),
    (
        TargetColumn("c", "uuid"),
        "{A0EEBC99-9C0B4EF8-BB6D6BB9BD380A11}",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    (TargetColumn("c", "uuid"), "no uuid", "no uuid"),
    (
        TargetColumn("c", "uuid"),
        "12345678_12345678_12345678_12345",
        "12345678_12345678_12345678_12345",
    ),
    (TargetColumn("c", "inet"), "10.0.0.1", "10.0.0.1"),
    (TargetColumn("c", "inet"), "10.0.0.1/32", "10.0.0.1"),
    (TargetColumn("c", "inet"), "10.0.0.1/8", "10.0.0.1/8"),
    (TargetColumn("c", "inet"), "10.0.0.1/255.0.0.0", "10.0.0.1/255.0.0.0"),
    (TargetColumn("c", "inet6"), "0:0::1", "::1"),
    (TargetColumn("c", "cidr"), "10.0.0.0", "10.0.0.0/32"),
    (TargetColumn("c", "macaddr"), "08002b-010203", "08:00:2b:01:02:03"),
    (TargetColumn("c", "macaddr"), "8:0:2B:1:2:3", "08:00:2b:01:02:03"),
    (TargetColumn("c", "macaddr"), "1:234:56:78:9a:bc", "1:234:56:78:9a:bc"),
    (TargetColumn("c", "macaddr8"), "08-00-2b-01-02-03-04-05", "08:00:2b:01:02:03:04:05"),
    (
        TargetColumn("c", "timestamp without time zone", 0),
        "1999-12-31 23:59:58.5",
        "1999-12-31 23:59:58",
    ),
    (
        TargetColumn("c", "timestamp without time zone", 0),
        "2024-02-29 10:00:00.5",
        "2024-02-29 10:00:01",
    ),
]


@pytest.mark.parametrize(("column", "cell", "held"), CASES)
def test_a_cell_becomes_what_its_column_holds_alone_and_among_many(
    column: TargetColumn, cell: str, held: str
) -> None:
    hold = hold_of(column)
    assert hold is not None
    assert hold(cell) == held
    assert hold(held) == held
    assert held_column(column, pa.array([cell, None, cell], pa.string())).to_pylist() == [
        held,
        None,
        held,
    ]


def test_texts_that_collations_take_for_equal_fold_together() -> None:
    for one, other in (
        ("a", "A"),
        ("é", "E"),
        ("straße", "STRASSE"),
        ("a", "a "),
        ("æ", "AE"),
        ("ß", "s"),
    ):
        assert folded(one) == folded(other)


@pytest.mark.parametrize(
    ("column", "source", "is_less"),
    [
        (TargetColumn("c", "char", 9), "varchar(9)", True),
        (TargetColumn("c", "binary", 9), "varbinary(9)", True),
        (TargetColumn("c", "date"), "datetime", True),
        (TargetColumn("c", "date"), "date", False),
        (TargetColumn("c", "float"), "double", True),
        (TargetColumn("c", "float"), "float", False),
        (TargetColumn("c", "decimal", 10, scale=1), "decimal(10,2)", True),
        (TargetColumn("c", "char", 9), "", False),
        (TargetColumn("c", "DATE"), "datetime(3)", True),
        (TargetColumn("c", "DATE"), "datetime", False),
        (TargetColumn("c", "TIMESTAMP(3)"), "datetime(6)", True),
        (TargetColumn("c", "TIMESTAMP(6)"), "datetime(6)", False),
        (TargetColumn("c", "NCHAR", 9), "varchar(9)", True),
        (TargetColumn("c", "BINARY_FLOAT"), "double", True),
        (TargetColumn("c", "NUMBER", 10, scale=1), "decimal(10,2)", True),
        (TargetColumn("c", "time with time zone", 0), "time(6)", True),
        (TargetColumn("c", "time with time zone"), "time(6)", False),
        (TargetColumn("c", "interval", 2), "time(3)", True),
        (TargetColumn("c", "interval"), "time(6)", False),
        (TargetColumn("c", "interval", -2), "time", True),
        (TargetColumn("c", "interval", -6), "time(6)", True),
        (TargetColumn("c", "double", declared="double(10,2)"), "double", True),
        (TargetColumn("c", "double", declared="double(10,2)"), "double(20,3)", True),
        (TargetColumn("c", "double", declared="double(10,2)"), "double(20,2)", False),
        (TargetColumn("c", "double", declared="double(10,2)"), "float", True),
        (TargetColumn("c", "double", declared="double(10,2)"), "decimal(10,3)", True),
        (TargetColumn("c", "double", declared="double(10,2)"), "decimal(10,2)", False),
        (TargetColumn("c", "double", declared="double(10,2)"), "int", False),
        (TargetColumn("c", "float", declared="float(10,2)"), "float(10,2)", False),
        (TargetColumn("c", "float", declared="float(10,2)"), "float", True),
        (TargetColumn("c", "money", scale=2), "decimal(10,3)", True),
        (TargetColumn("c", "money", scale=2), "decimal(10,2)", False),
        (TargetColumn("c", "money", scale=0), "decimal(10,2)", True),
        (TargetColumn("c", "int"), "decimal(10,2)", True),
        (TargetColumn("c", "bigint"), "double", True),
        (TargetColumn("c", "integer"), "decimal(10,0)", False),
        (TargetColumn("c", "smallint"), "bigint", False),
        (TargetColumn("c", "double"), "decimal(30,10)", True),
        (TargetColumn("c", "double precision"), "bigint", True),
        (TargetColumn("c", "double"), "decimal(10,2)", False),
        (TargetColumn("c", "double"), "int", False),
        (TargetColumn("c", "numeric", 10, scale=2), "double", True),
        (TargetColumn("c", "numeric"), "double", False),
    ],
)
def test_a_column_that_keeps_less_than_the_source_is_known_by_both_types(
    column: TargetColumn, source: str, is_less: bool
) -> None:
    assert holds_less(column, source) is is_less
