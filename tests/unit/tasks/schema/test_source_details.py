import pytest

from cdcbus.tasks.schema.source_details import Default, DefaultKind, quotes_defaults, read_default

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
