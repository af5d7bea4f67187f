"""Whether known columns are those of a table map, and what they add to it; that servers say it
so is in tests/integration/producer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.decoding.column_types import BINARY, BOOL, BinlogColumn
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.schema.completion import completed, fits, with_open_types


def table_map(*columns: BinlogColumn) -> TableMap:
    return TableMap(TableId("s", "t"), columns)


@pytest.mark.parametrize(
    ("column", "type_", "is_one"),
    [
        (BinlogColumn("", TYPE.LONG), "int(10) unsigned zerofill", True),
        (BinlogColumn("", TYPE.LONG), "bigint", False),
        (BinlogColumn("", TYPE.STRING, (16, 0)), "uuid", True),
        (BinlogColumn("", TYPE.STRING, (4, 0)), "uuid", False),
        (BinlogColumn("", TYPE.STRING, (4, 0)), "inet4", True),
        (BinlogColumn("", TYPE.VARCHAR, (12, 0)), "vector(3)", True),
    ],
)
def test_a_column_fits_by_type_and_size(column: BinlogColumn, type_: str, is_one: bool) -> None:
    assert fits(table_map(column), TableSchema((TableColumn("c", type_),))) is is_one


@pytest.mark.parametrize(
    ("type_", "signed", "unsigned"),
    [
        (TYPE.LONG, "int", "int unsigned"),
        (TYPE.LONG, "int(10)", "int(10) unsigned zerofill"),
        (TYPE.TINY, BOOL, "tinyint(1) unsigned"),
        (TYPE.NEWDECIMAL, "decimal(5,2)", "decimal(5,2) unsigned"),
        (TYPE.FLOAT, "float", "float unsigned"),
        (TYPE.DOUBLE, "double", "double unsigned"),
    ],
)
def test_a_number_fits_by_its_sign_where_the_table_map_says_it(
    type_: int, signed: str, unsigned: str
) -> None:
    bare = table_map(BinlogColumn("", type_))
    minus = replace(bare, has_signs=True)
    plus = replace(minus, columns=(BinlogColumn("", type_, unsigned=True),))
    found = []
    for known in (signed, unsigned):
        schema = TableSchema((TableColumn("c", known),))
        found.append((fits(bare, schema), fits(minus, schema), fits(plus, schema)))
    assert found == [(True, True, False), (True, False, True)]


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize(
    ("type_", "meta", "known"),
    [
        (TYPE.YEAR, (0, 0), "year"),  # MySQL counts it as unsigned
        (TYPE.BIT, (8, 0), "bit(8)"),
        (TYPE.ENUM, (1, 0), "enum('unsigned')"),
    ],
)
def test_what_has_no_sign_fits_either_way(
    type_: int, meta: tuple[int, int], known: str, unsigned: bool
) -> None:
    found = replace(table_map(BinlogColumn("", type_, meta, unsigned)), has_signs=True)
    assert fits(found, TableSchema((TableColumn("c", known),)))


def test_both_shapes_show_the_sign_that_does_not_fit() -> None:
    plus = BinlogColumn("", TYPE.LONG, unsigned=True)
    found = replace(table_map(plus, BinlogColumn("", TYPE.YEAR, unsigned=True)), has_signs=True)
    known = TableSchema((TableColumn("a", "int"), TableColumn("y", "year")))
    with pytest.raises(UnreadableEvent, match=r"int unsigned, year, .* has 2: a int, y year"):
        completed(found, known)


def test_what_full_table_maps_leave_open_is_told_by_the_name_of_the_column() -> None:
    full = table_map(
        BinlogColumn("n", TYPE.LONG),
        BinlogColumn("u", TYPE.STRING, (16, 0), charset=BINARY),
        BinlogColumn("t", TYPE.TIMESTAMP),
    )
    known = TableSchema(
        (
            TableColumn("t", "timestamp(3) /* mariadb-5.3 */"),
            TableColumn("u", "inet6"),
            TableColumn("other", "int"),
        )
    )
    found = with_open_types(full, known)
    assert found is not None
    assert [(column.data_type, column.meta) for column in found.columns] == [
        ("", (0, 0)),
        ("inet6", (16, 0)),
        ("", (3, 0)),
    ]
    for columns in ([TableColumn("u", "inet6")], [TableColumn("u", "inet4"), known.columns[0]]):
        assert with_open_types(full, TableSchema(tuple(columns))) is None


def test_they_are_told_too_where_the_table_map_says_nothing() -> None:
    known = TableSchema((TableColumn("u", "uuid"), TableColumn("t", "time /* mariadb-5.3 */")))
    found = completed(
        table_map(BinlogColumn("", TYPE.STRING, (16, 0)), BinlogColumn("", TYPE.TIME)), known
    )
    assert [(column.name, column.data_type, column.meta) for column in found.columns] == [
        ("u", "uuid", (16, 0)),
        ("t", "", (0, 0)),
    ]


@pytest.mark.parametrize(
    ("hashes", "has_hashes", "is_one"),
    [(0, True, True), (2, True, True), (1, True, False), (3, True, False), (2, False, False)],
)
def test_a_hash_may_follow_for_each_key_that_is_one(
    hashes: int, has_hashes: bool, is_one: bool
) -> None:
    known = TableSchema(
        (TableColumn("a", "text"), TableColumn("b", "varchar(3000)", is_nullable=False)),
        (
            UniqueKey("a", ("a",)),
            UniqueKey("b", ("b",), is_hashed=True),
            UniqueKey("c", ("a",), False),
        ),
    )
    columns = [BinlogColumn("", TYPE.BLOB, (2, 0)), BinlogColumn("", TYPE.VARCHAR, (3000, 0))]
    columns += [BinlogColumn("", TYPE.LONGLONG)] * hashes
    found = replace(table_map(*columns), has_hashes=has_hashes)
    assert fits(found, known) is is_one
    if hashes:  # of unsigned numbers
        assert not fits(replace(found, has_signs=True), known)
    assert known.key == ()
    assert TableSchema.from_fields(known.to_fields()) == known
    if is_one:
        hidden = [column.is_hidden for column in completed(found, known).columns]
        assert hidden == [False, False, *[True] * hashes]
