"""Checksums as SQL: which columns have a text that is the same on both sides."""

import pytest

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.tasks.verify.sql.checksums import Digest, Sums
from cdcbus.tasks.verify.sql.pairs import pair_of


def has_pair(source: str, target: TargetColumn, dialect: str, charset: str = "utf8mb4") -> bool:
    column = TableColumn("c", source, charset if "char" in source or "text" in source else "")
    return pair_of(column, "`c`", target, "c", dialect, charset) is not None


@pytest.mark.parametrize(
    ("source", "target", "dialect"),
    [
        ("double", TargetColumn("c", "double precision"), "postgresql"),
        ("double", TargetColumn("c", "float"), "mysql"),
        ("double(20,5)", TargetColumn("c", "double"), "mysql"),
        ("double", TargetColumn("c", "double", declared="double(20,5)"), "mysql"),
        ("json", TargetColumn("c", "jsonb"), "postgresql"),
        ("decimal(10,4)", TargetColumn("c", "numeric", 10, scale=2), "postgresql"),
        ("datetime(6)", TargetColumn("c", "timestamp without time zone", 3), "postgresql"),
        ("datetime", TargetColumn("c", "date"), "postgresql"),
        ("varbinary(4)", TargetColumn("c", "binary", 4), "mysql"),
        ("binary(3)", TargetColumn("c", "binary", 4), "mysql"),
        ("int(11)", TargetColumn("c", "text"), "postgresql"),
        ("point", TargetColumn("c", "bytea"), "postgresql"),
        ("bit(8)", TargetColumn("c", '"bit"', 2), "postgresql"),
        ("bit(2)", TargetColumn("c", '"bit"'), "postgresql"),
        ("decimal(65,0)", TargetColumn("c", "numeric", 95, scale=30), "postgresql"),
    ],
)
def test_where_equal_texts_would_not_mean_equal_cells_there_is_no_checksum(
    source: str, target: TargetColumn, dialect: str
) -> None:
    assert not has_pair(source, target, dialect)


@pytest.mark.parametrize("charset", ["ascii", "gbk", "utf16", "cp1250"])
def test_a_character_set_in_which_a_byte_may_be_no_character_has_none(charset: str) -> None:
    """The server would show it as ?, which may be what the target has."""
    assert not has_pair("varchar(9)", TargetColumn("c", "text"), "postgresql", charset)
    assert has_pair("varchar(9)", TargetColumn("c", "text"), "postgresql", "latin1")


def test_sums_with_a_row_that_has_no_hash_are_never_equal() -> None:
    assert Sums(2, 2, 7).is_equal(Sums(2, 2, 7))
    assert not Sums(2, 1, 7).is_equal(Sums(2, 1, 7))
    assert not Sums(2, 2, 7).is_equal(Sums(3, 3, 7))


def test_digests_of_nothing_prove_nothing() -> None:
    """Nor do those of more rows than one is made for."""
    assert Digest(2, "ab").is_equal(Digest(2, "ab"))
    assert not Digest(2, "ab").is_equal(Digest(2, "ac"))
    assert not Digest(2, None).is_equal(Digest(2, None))
