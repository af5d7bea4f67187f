from typing import Any

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.schema import source_details
from cdcbus.tasks.schema.source_details import (
    ColumnDetails,
    Default,
    DefaultKind,
    Index,
    IndexPart,
    TableDetails,
    quotes_defaults,
    read_default,
    read_details,
)

TEXT, NOW, BITS = DefaultKind.TEXT, DefaultKind.NOW, DefaultKind.BITS
EXPRESSION, UNCLEAR = DefaultKind.EXPRESSION, DefaultKind.UNCLEAR


@pytest.mark.parametrize(
    ("version", "quotes"),
    [
        ("11.4.5-MariaDB-log", True),
        ("10.2.11-MariaDB", True),
        ("10.1.48-MariaDB", False),
        ("9.7.0", False),
    ],
)
def test_which_servers_print_defaults_as_sql(version: str, quotes: bool) -> None:
    assert quotes_defaults(version) is quotes


@pytest.mark.parametrize(
    ("text", "data_type", "expected"),
    [
        (None, "int", None),
        ("NULL", "int", None),
        ("'NULL'", "varchar", Default(TEXT, "NULL")),
        (r"'it''s a \\ '", "varchar", Default(TEXT, "it's a \\ ")),
        ("-1.50", "decimal", Default(TEXT, "-1.50")),
        ("current_timestamp(3)", "datetime", Default(NOW, "3")),
        ("'current_timestamp'", "varchar", Default(TEXT, "current_timestamp")),
        ("b'101'", "bit", Default(BITS, "101")),
        ("(1 + 2)", "int", Default(EXPRESSION, "(1 + 2)")),
        ("'a?'", "varchar", Default(UNCLEAR, "a?")),
        ("'é'", "varbinary", Default(UNCLEAR, "é")),
    ],
)
def test_defaults_as_mariadb_prints_them(
    text: str | None, data_type: str, expected: Default | None
) -> None:
    assert read_default(text, "", data_type, has_quotes=True) == expected


@pytest.mark.parametrize(
    ("text", "extra", "data_type", "expected"),
    [
        (None, "", "int", None),
        ("NULL", "", "varchar", Default(TEXT, "NULL")),
        ("'", "", "varchar", Default(TEXT, "'")),
        ("CURRENT_TIMESTAMP", "", "varchar", Default(TEXT, "CURRENT_TIMESTAMP")),
        ("CURRENT_TIMESTAMP(6)", "", "timestamp", Default(NOW, "6")),
        ("CURRENT_TIMESTAMP", "DEFAULT_GENERATED", "datetime", Default(NOW, "")),
        ("uuid()", "DEFAULT_GENERATED", "varchar", Default(EXPRESSION, "uuid()")),
        ("b'1'", "", "bit", Default(BITS, "1")),
        ("0x00ff", "", "binary", Default(DefaultKind.BYTES, "00ff")),
        ("0x00ff", "", "varchar", Default(TEXT, "0x00ff")),
    ],
)
def test_defaults_as_mysql_prints_them(
    text: str | None, extra: str, data_type: str, expected: Default | None
) -> None:
    assert read_default(text, extra, data_type, has_quotes=False) == expected


ORDERS = TableId("shop", "orders")
COLUMNS = [
    ("shop", "orders", "id", "int", None, "", None, "", ""),
    ("shop", "orders", "a", "varchar", "x", "", "utf8mb4_bin", "a note", None),
    ("shop", "orders", "b", "int", "7", "VIRTUAL GENERATED", None, "", "`id` + 1"),
    ("shop", "orders", "since", "timestamp", None, "", None, "", "ROW START"),
]
INDEXES = [
    ("shop", "orders", "PRIMARY", 0, "BTREE", "id", None, "A"),
    ("shop", "orders", "by_a", 1, "BTREE", "a", 4, "D"),
    ("shop", "orders", "by_a", 1, "BTREE", None, None, "A"),
]


def test_details_are_read_with_as_few_questions_as_for_one_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def query(_: object, sql: str, *__: object) -> list[tuple[object, ...]]:
        asked.append(sql)
        answers: dict[str, list[tuple[object, ...]]] = {
            "VERSION()": [("9.7.0",)],
            "information_schema.columns": list(COLUMNS),
            "information_schema.statistics": list(INDEXES),
            "information_schema.tables": [("shop", "orders", "utf8mb4_bin", None)],
        }
        [found] = [rows for word, rows in answers.items() if word in sql]
        return found

    monkeypatch.setattr(source_details, "query", query)
    connection: Any = None
    found = read_details(connection, [ORDERS, TableId("shop", "gone")])
    assert len(asked) == 4
    assert found == {
        ORDERS: TableDetails(
            {
                "id": ColumnDetails(),
                "a": ColumnDetails(Default(TEXT, "x"), "utf8mb4_bin", "a note"),
                "b": ColumnDetails(is_generated=True),
                "since": ColumnDetails(is_generated=True),
            },
            (
                Index("PRIMARY", True, "BTREE", (IndexPart("id"),)),
                Index(
                    "by_a",
                    False,
                    "BTREE",
                    (IndexPart("a", 4, is_descending=True), IndexPart(None)),
                ),
            ),
            "utf8mb4_bin",
            "",
        )
    }
