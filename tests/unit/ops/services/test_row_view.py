"""`cdcbus topic` before it asks Kafka: which rows are meant, how they are shown, which words are
taken."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.ops.cli.main import main
from cdcbus.ops.services.row_view import as_fields, has_key, is_wanted, line, utc
from cdcbus.plugins.kafka.topic_log import KafkaRecord
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.tasks.config.diagnostics import printable

TABLE = Table(
    TableId("shop", "orders"), (Column("id"), Column("lang"), Column("note")), ("id", "lang")
)
ROW = {"id": "7", "lang": "de", "note": "a b"}
RECORD = KafkaRecord(2, 41, 1_700_000_000_123, b"7_de_", b"...")
MANY = KafkaRecord(2, 41, 1_700_000_000_123, None, b"...")  # of several rows
AT = "2023-11-14T22:13:20.123Z 2@41"


def change(op: Op, before: Row | None, after: Row | None, table: Table = TABLE) -> RowChange:
    return RowChange(table, op, before, after, Origin(commit_us=1_700_000_000_000_000))


INSERT = change(Op.INSERT, None, ROW)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (INSERT, "INSERT   shop.orders id=7 lang=de note='a b'"),
        (
            change(Op.DELETE, {**ROW, "note": None}, None),
            "DELETE   shop.orders id=7 lang=de note=NULL",
        ),
        (
            change(Op.UPDATE, ROW, {**ROW, "note": "NULL"}),
            "UPDATE   shop.orders id=7 lang=de note='a b'→'NULL'",
        ),
        (change(Op.UPDATE, ROW, ROW), "UPDATE   shop.orders id=7 lang=de"),
        (change(Op.UPDATE, ROW, {**ROW, "id": "8"}), "UPDATE   shop.orders id=7→8 lang=de"),
        (change(Op.UPDATE, {}, {"note": ""}), "UPDATE   shop.orders note=''"),
        (change(Op.TRUNCATE, None, None, Table(TABLE.id, (), ())), "TRUNCATE shop.orders"),
        (change(Op.INSERT, None, {"a\n": "\x1b[31m"}), r"INSERT   shop.orders a\n='\x1b[31m'"),
    ],
)
def test_a_row_change_is_one_line(row: RowChange, expected: str) -> None:
    assert line(RECORD, row).plain == f"{AT} {expected}"


def test_for_scripts_all_of_a_row_is_there() -> None:
    assert as_fields(MANY, change(Op.UPDATE, {}, ROW)) == {
        "partition": 2,
        "offset": 41,
        "time": "2023-11-14T22:13:20.123Z",
        "committed": "2023-11-14T22:13:20.000Z",
        "key": None,
        "op": "UPDATE",
        "table": "shop.orders",
        "before": {},
        "after": ROW,
    }


@pytest.mark.parametrize(
    ("tables", "ops", "key", "expected"),
    [
        ((), (), None, True),
        (("ORDERS",), (), None, True),
        (("shop.o*", "x"), (), None, True),
        (("shop",), (), None, False),
        ((), ("insert",), None, True),
        ((), ("update", "delete"), None, False),
        (("orders",), ("insert",), "7_de", True),
        (("orders",), ("insert",), "7_en", False),
    ],
)
def test_a_row_is_wanted_by_table_operation_and_key(
    tables: Sequence[str], ops: Sequence[str], key: str | None, expected: bool
) -> None:
    assert is_wanted(RECORD, INSERT, tables, key, ops) is expected


def test_a_key_is_the_record_s_or_that_of_either_image_also_where_the_record_has_none() -> None:
    moved = change(Op.UPDATE, ROW, {**ROW, "id": "8"})
    assert all(has_key(RECORD, INSERT, key) for key in ("7_de_", "7_de"))
    assert [key for key in ("7_de", "8_de", "9_de", "7", "7_de_") if has_key(MANY, moved, key)] == [
        "7_de",
        "8_de",
    ]
    assert not has_key(
        MANY, change(Op.INSERT, None, ROW, Table(TABLE.id, TABLE.columns, ())), "7_de"
    )


@given(st.text())
def test_no_text_plays_with_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text


def test_times_are_utc_with_milliseconds() -> None:
    assert utc(0) == "1970-01-01T00:00:00.000Z"
    # A record of a producer that counts in microseconds.
    assert utc(1_700_000_000_123_456) == "(no date: 1700000000123456 ms)"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tail", "t", "--from", "yesterday"], "expected an ISO time"),
        (["tail", "t", "--from", "-0"], "expected an ISO time"),
        (["tail", "t", "--to", "mysql-bin.000001"], "expected an ISO time"),
        (["find", "t", "--time", "17"], "expected an ISO time"),
        (["tail", "t", "--op", "upsert"], "'upsert' is not one of"),
        (["describe", "t", "--newest", "0"], "0 is not in the range"),
    ],
)
def test_words_that_are_none_are_refused_before_any_broker_is_asked(
    words: list[str], sentence: str
) -> None:
    refused = CliRunner().invoke(main, ["topic", *words, "--servers", "127.0.0.1:9"])
    assert refused.exit_code == 2
    assert sentence in refused.output
