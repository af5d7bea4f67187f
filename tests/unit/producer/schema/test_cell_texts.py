"""The text of records for a value of a column."""

import pytest

from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.producer.schema.cell_texts import cell_text


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        ("tinyint(1)", "true", "1"),
        ("tinyint(1)", "false", "0"),
        ("int(11)", "-7", "-7"),
        ("int(8) unsigned zerofill", "42", "42"),
        ("bigint(20) unsigned", "18446744073709551615", "18446744073709551615"),
        ("int(11)", "5.00", "5"),
        ("bit(2)", "3", "3"),
        ("year(4)", "0", "0000"),
        ("year(4)", "0000", "0000"),
        ("year(4)", "2155", "2155"),
        ("decimal(10,2)", "1.5", "1.50"),
        ("decimal(10,2) unsigned", "99999999.99", "99999999.99"),
        ("decimal(10,0)", "7", "7"),
        ("decimal(2,2)", "-0.5", "-0.50"),
        ("decimal(65,30)", f"{10**34 + 1}.5", f"{10**34 + 1}.5{'0' * 29}"),
        ("float", "0.1", "0.1"),
        ("double", "1e22", "1e+22"),
        ("date", "0001-02-03", "0001-02-03"),
        ("date", "0000-00-00", "0000-00-00"),
        ("datetime(3)", "2024-01-01 00:00:00.500000", "2024-01-01 00:00:00.500"),
        ("datetime(3)", "2024-01-01 00:00:00", "2024-01-01 00:00:00.000"),
        ("datetime", "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
        ("timestamp", "1970-01-01 00:00:01", "1970-01-01 00:00:01"),
        ("timestamp(2)", "0000-00-00 00:00:00", "0000-00-00 00:00:00.00"),
        ("time(1)", "-30:00:01.500000", "-30:00:01.5"),
        ("time", "838:59:59", "838:59:59"),
        ("char(2)", "ä", "ä"),
        ("varchar(3)", "a  ", "a  "),
        ("text", "1.5", "1.5"),
        ("binary(2)", "\0\xff", "\0\xff"),
        ("varbinary(2)", "", ""),
        ("blob", "\xff", "\xff"),
        ("enum('a','it''s')", "it's", "it's"),
        ("enum('a')", "", ""),
        ("set('x','y','z')", "x,z", "x,z"),
        ("set('x')", "", ""),
        ("uuid", "123E4567-e89b-12d3-a456-426655440000", "123e4567-e89b-12d3-a456-426655440000"),
        ("inet4", "10.0.0.1", "10.0.0.1"),
        ("inet6", "0:0::1", "::1"),
    ],
)
def test_a_value_has_the_text_of_the_binlogs_readers(type_: str, value: str, wanted: str) -> None:
    assert cell_text(TableColumn("c", type_, "utf8mb4"), value) == wanted


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int(11)", "1.5"),
        ("int(11)", "3000000000"),
        ("int(11)", "NaN"),
        ("int(11)", "x"),
        ("tinyint(4)", "1000"),
        ("int(10) unsigned", "-5"),
        ("bigint(20)", "9223372036854775808"),
        ("bit(2)", "4"),
        ("year(4)", "3000"),
        ("year(4)", "1900"),
        ("year(4)", "7"),
        ("decimal(10,2)", "1.123456"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2) unsigned", "-1"),
        ("decimal(5,2)", "Infinity"),
        ("float", "1e39"),
        ("float", "NaN"),
        ("double unsigned", "-1"),
        ("date", "20240-01-01"),
        ("date", "0044-03-15 BC"),
        ("date", "2024-13-01"),
        ("datetime", "2024-01-01 00:00:00.5"),
        ("datetime(3)", "2024-01-01 00:00:00.1234"),
        ("datetime", "infinity"),
        ("timestamp", "1950-01-01 00:00:00"),
        ("timestamp", "2106-02-07 06:28:16"),
        ("time", "01:00:00.25"),
        ("time", "1000:00:00"),
        ("time(1)", "838:59:59.5"),
        ("time", "1 day"),
        ("char(2)", "a "),
        ("varchar(5)", "much longer"),
        ("binary(4)", "abcde"),
        ("binary(4)", "ab"),
        ("varbinary(2)", "abc"),
        ("varbinary(2)", "€"),
        ("tinyblob", "x" * 256),
        ("tinytext", "ä" * 128),
        ("enum('a','b')", "zzz"),
        ("enum('a','b')", "A"),
        ("set('x','y')", "y,x"),
        ("set('x','y')", "x,x"),
        ("set('x','y')", "z"),
        ("uuid", "nonsense"),
        ("inet6", "10.0.0.1"),
        ("json", "{}"),
    ],
)
def test_a_value_that_the_column_cannot_hold_has_none(type_: str, value: str) -> None:
    assert cell_text(TableColumn("c", type_, "utf8mb4"), value) is None


@pytest.mark.parametrize(
    ("charset", "value", "wanted"),
    [
        ("latin1", "é€\x81", "é€\x81"),
        ("latin1", "ж", None),
        ("utf8mb3", "ж", "ж"),
        ("utf8mb3", "😀", None),
        ("utf8mb4", "😀", "😀"),
        ("utf8mb4", "\ud800", None),
    ],
)
def test_a_text_is_held_in_its_character_set(charset: str, value: str, wanted: str | None) -> None:
    assert cell_text(TableColumn("c", "varchar(9)", charset), value) == wanted
