"""Comparing rows: what is the same value on two servers is equal, and a planted difference is
found."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from cdcbus.ops.demo.shop.canonical import canonical
from cdcbus.ops.demo.shop.compare import Comparison, Difference, canonical_rows, compare
from cdcbus.ops.demo.shop.schema import TABLES, Kind, Table
from cdcbus.ops.demo.task_files import TARGETS
from cdcbus.ops.demo.verdict import is_equal, verdict_fields, verdict_sentences, verdict_table

LINES = next(table for table in TABLES if table.name == "order_lines")
ROWS: list[tuple[Any, ...]] = [
    (1, 1, "SKU-1", 2, Decimal("9.90"), None),
    (1, 2, "SKU-2", 1, Decimal("0.50"), b"\x00\xff"),
    (2, 1, "SKU-1", 1, Decimal("9.90"), b""),
]


@pytest.mark.parametrize(
    ("kind", "here", "there"),
    [
        (Kind.TEXT, "王 🧦", "王 🧦"),
        (Kind.WHOLE, 18446744073709551615, Decimal("18446744073709551615")),
        (Kind.EXACT, Decimal("12.5000"), Decimal("12.5")),
        (Kind.EXACT, Decimal("-0.00"), Decimal("0")),
        (Kind.EXACT, Decimal("1000000"), Decimal("1E+6")),
        (Kind.FLOAT, 3.140000104904175, 3.14),
        (Kind.DOUBLE, -0.0, 0.0),
        (Kind.BYTES, b"\x00\xff", memoryview(b"\x00\xff")),
        (Kind.BITS, b"\x05", "00000101"),
        (Kind.TRUTH, 1, True),
        (Kind.JSON, '{"b": 1.50, "a": [1e2, "x"]}', '{"a":[100,"x"],"b":1.5}'),
        (
            Kind.MOMENT,
            datetime(2024, 2, 29, 12),
            datetime(2024, 2, 29, 14, tzinfo=timezone(timedelta(hours=2))),
        ),
        (
            Kind.MOMENT,
            datetime(2024, 2, 29, 12, 0, 0, 120000),
            datetime(2024, 2, 29, 12, 0, 0, 120000, tzinfo=UTC),
        ),
        (Kind.DAY, date(2024, 2, 29), date(2024, 2, 29)),
        (Kind.CLOCK, timedelta(hours=23, milliseconds=7), time(23, 0, 0, 7000)),
    ],
)
def test_one_value_in_two_clothes_is_equal(kind: Kind, here: Any, there: Any) -> None:
    assert canonical(kind, here) == canonical(kind, there)


@pytest.mark.parametrize(
    ("kind", "here", "there"),
    [
        (Kind.TEXT, "", None),
        (Kind.TEXT, "NULL", None),
        (Kind.TEXT, "a ", "a"),
        (Kind.TEXT, "e\u0301", "é"),
        (Kind.WHOLE, 2**64 - 1, -1),
        (Kind.EXACT, Decimal("12.5000"), Decimal("12.5001")),
        (Kind.FLOAT, 3.14, 3.1400003),
        (Kind.DOUBLE, 0.1, 0.10000000000000002),
        (Kind.BYTES, b"\x01\x00", b"\x01"),
        (Kind.BITS, b"\x05", "00000100"),
        (Kind.JSON, "[1, 2]", "[2, 1]"),
        (Kind.JSON, "1", '"1"'),
        (Kind.JSON, "true", "1"),
        (Kind.JSON, "null", None),
        (Kind.MOMENT, datetime(2024, 2, 29, 12, 0, 0, 1), datetime(2024, 2, 29, 12)),
        (Kind.CLOCK, timedelta(hours=1), time(1, 0, 0, 1000)),
    ],
)
def test_different_values_differ(kind: Kind, here: Any, there: Any) -> None:
    assert canonical(kind, here) != canonical(kind, there)


def test_values_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError):
        canonical(Kind.TEXT, b"bytes")
    with pytest.raises(ValueError, match="whole"):
        canonical(Kind.WHOLE, 1.5)


def compared(
    source: list[tuple[Any, ...]], target: list[tuple[Any, ...]], table: Table = LINES
) -> Comparison:
    return compare(table, canonical_rows(table, source), canonical_rows(table, target))


def test_equal_rows_in_any_order_are_equal() -> None:
    assert compared(ROWS, ROWS[::-1]) == Comparison(LINES, 3, 3, [])


def test_a_planted_difference_is_found_with_its_key_and_columns() -> None:
    changed = (1, 2, "SKU-2", 2, Decimal("0.50"), b"\x00")
    assert compared(ROWS, [ROWS[0], changed, ROWS[2]]).differences == [
        Difference(("1", "2"), "quantity, gift_code")
    ]


def test_missing_and_extra_rows_are_found() -> None:
    extra = (3, 1, "SKU-9", 1, Decimal(1), None)
    found = compared(ROWS, [*ROWS[1:], extra])
    assert (found.source_rows, found.target_rows) == (3, 3)
    assert found.differences == [Difference(("1", "1"), "missing"), Difference(("3", "1"), "extra")]


def test_null_is_not_the_empty_value() -> None:
    assert compared([ROWS[2]], [(*ROWS[2][:-1], None)]).differences == [
        Difference(("2", "1"), "gift_code")
    ]


def test_the_verdict_names_the_first_differing_rows_and_counts_the_others() -> None:
    many = [(number, 1, "SKU", 1, Decimal(1), None) for number in range(9)]
    comparisons = {TARGETS[0]: [compared(many, [])], TARGETS[1]: [compared(many, many)]}
    console = Console(width=80)
    with console.capture() as capture:
        console.print(verdict_table(comparisons), *verdict_sentences(comparisons), sep="\n")
    said = capture.get()
    assert "PostgreSQL is not equal to the source: 9 rows differ" in said
    assert "shop.order_lines order_id 0, line 1: missing" in said
    assert "and 4 more" in said
    assert "MariaDB is equal to the source: 9 rows" in said
    assert not is_equal(comparisons)
    assert (
        json.loads(json.dumps(verdict_fields(comparisons)))["targets"]["postgresql"][0][
            "differing_rows"
        ]
        == 9
    )
