"""What is printed for a table."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.ops.cli.verify.lines import lines_of
from cdcbus.tasks.verify.report import Example, Kind
from tests.unit.ops.cli.verify.verifying import different, report


def test_an_equal_table_is_one_line() -> None:
    found = report(source_rows=1234, target_rows=1234, chunks=2, seconds=0.26)
    assert lines_of(found) == [
        "shop.orders: equal, 1,234 rows at the source, 1,234 at the target, 2 chunks, 0.3 s"
    ]


def test_of_a_table_that_was_not_compared_only_the_reason_is_told() -> None:
    assert lines_of(report(error="it is not there", source_rows=5)) == [
        "shop.orders: error",
        "  it is not there",
    ]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"chunks_skipped": 1000}, "1,000 chunks skipped (--sample)"),
        ({"is_cut": True}, "the rest of the table was not read"),
        ({"changing": 2}, "2 rows kept changing and are not known to be equal"),
        ({"behind": 3}, "3 rows differ, but the changes up to now have not arrived"),
        ({"repaired": 4}, "4 rows published; this is the result after it"),
        ({"changing": 1}, "1 row kept changing and is not known to be equal"),
        ({"behind": 1}, "1 row differs, but the changes up to now have not arrived"),
        ({"repaired": 1}, "1 row published; this is the result after it"),
        (
            {"behind": 2, "is_partial": True},
            "2 rows differ, but the task reads only some partitions",
        ),
        (
            {"behind": 2, "inbound": ("8", "9")},
            "not arrived on both sides, or no time was left to look again: start the tasks, also 8 "
            "and 9, or wait longer",
        ),
        (
            {"behind": 2, "doubt": "no task"},
            "2 rows differ, but may be newer at the target: no task. Stop the writes there",
        ),
        ({"not_repaired": "why"}, "not repaired: why"),
        ({"of_others": 2, "others": ("8",)}, "2 rows that only the target has are not counted"),
        ({"of_others": 1, "others": ("8", "9")}, "is not counted: rows of other tasks (8, 9)"),
        ({"left_out": ("a", "b")}, "not all source tables have them: a, b"),
    ],
)
def test_what_is_not_known_of_a_table_is_said(fields: dict[str, Any], text: str) -> None:
    assert text in lines_of(report(**fields))[1]


@pytest.mark.parametrize(
    ("example", "text"),
    [
        (Example(Kind.MISSING, {"id": "1", "part": None}), "missing id='1', part=NULL"),
        (Example(Kind.EXTRA, {}, "00ff"), "extra row 00ff"),
        (Example(Kind.DIFFERENT, {"id": "1"}, "", ("a", "b")), "different id='1': a, b"),
        (
            Example(Kind.DIFFERENT, {"id": "1"}, "", ("a",), {"a": "x"}, {"a": None}),
            "different id='1': a: 'x' at the source, NULL at the target",
        ),
        (Example(Kind.EXTRA, {"id": "1"}, "", (), None, {"id": "1"}), "extra id='1'"),
        (
            Example(Kind.MISSING, {"id": "1"}, "", (), {"id": "1", "a": "x", "b": None}, None),
            "missing id='1': a='x', b=NULL",
        ),
        (
            Example(Kind.MISSING, {"id": "k" * 300}, "", (), {"a": "x" * 10**6}, None),
            f"missing id='{'k' * 300}': a='{'x' * 200}' (from character 1 of 1,000,000)",
        ),
        (
            Example(
                Kind.DIFFERENT,
                {"id": "1"},
                "",
                ("a",),
                {"a": "x" * 10**6 + "y"},
                {"a": "x" * 10**6},
            ),
            f"different id='1': a: '{'x' * 20}y' (from character 999,981 of 1,000,001) at the "
            f"source, '{'x' * 20}' (from character 999,981 of 1,000,000) at the target",
        ),
    ],
)
def test_a_row_that_differs_is_told_by_its_key(example: Example, text: str) -> None:
    assert lines_of(different(example))[1:] == ["  2 missing", f"  {text}"]


def test_a_table_that_the_source_has_no_more_is_not_compared() -> None:
    gone = report(is_gone=True, target_rows=1, counts={Kind.EXTRA: 1})
    heading, reason = lines_of(gone)
    assert heading.endswith(": different")
    assert "1 row is at the target, and the source shows no table for that any more" in reason
