"""SQL text of whole columns is that of their cells."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders.cells.arrow_literals import has_any
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialects.mysql import cells as mysql_cells
from cdcbus.plugins.loaders.dialects.postgresql import cells as postgresql_cells
from cdcbus.plugins.rowchange import TableId
from tests.support.processes.module_searches import module_searches

TEXT = (
    st.none()
    | st.text(max_size=6)
    | st.sampled_from(["", "null", "NULL", "\\", '"', "'", "''", "a,b", "{}", "\n", "\0", "é漢😀"])
)
NUMBERS = (
    st.none()
    | st.integers().map(str)
    | st.sampled_from(["1.50", "-.5", "1e5", "1\n", " 1", "0x1", "1.", "٣"])
)
DATES = st.none() | st.sampled_from(
    ["2024-02-29", "0000-00-00", "2024-02-00", "2024-00-01", "2024-02-29 10:00:00.5", "10000-01-01"]
)
TYPES: list[tuple[str, str, Any]] = [
    ("text", "varchar", TEXT),
    ("numeric", "decimal", NUMBERS),
    ("timestamp without time zone", "datetime", DATES),
    ("date", "date", DATES),
    ("bytea", "varbinary", st.none() | st.text(st.characters(max_codepoint=255), max_size=5)),
    ('"bit"', "bit", st.none() | st.integers(0, 1).map(str)),
    ("text[]", "json", TEXT),
    ("integer", "int", NUMBERS),
]


def table(types: list[str]) -> TargetTable:
    return TargetTable(
        TableId("shop", "t"),
        {f"c{i}": TargetColumn(f"c{i}", type_) for i, type_ in enumerate(types)},
        ("c0",),
    )


def result(make: Any) -> Any:
    """What it gives, or says."""
    try:
        return make()
    except TargetRejected as error:
        return str(error)


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
@given(data=st.data())
def test_columns_and_cells_give_the_same_sql(dialect: str, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(*(cells for *_, cells in chosen)), min_size=1, max_size=5))
    target = table([types[0 if dialect == "postgresql" else 1] for types in chosen])
    columns = ColumnRows([pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)])
    write: Any = postgresql_cells.arrays if dialect == "postgresql" else mysql_cells.row_literals
    names = tuple(target.columns)
    assert result(lambda: write(target, names, columns)) == result(
        lambda: write(target, names, rows)
    )


@pytest.mark.parametrize(
    "write", [postgresql_cells.arrays, mysql_cells.row_literals, postgresql_cells.copied_rows]
)
def test_no_module_is_looked_for(write: Any) -> None:
    columns = ColumnRows([pa.array(["1", "2"]), pa.array(["a", None])])
    write(table(["text", "integer"]), ("c0", "c1"), columns)
    with module_searches() as names:
        write(table(["text", "integer"]), ("c0", "c1"), columns)
    assert names == []


@given(
    rows=st.lists(
        st.tuples(*[st.none() | st.text("ab ,'é😀\t\n\r\"\\", max_size=3)] * 2),
        min_size=1,
        max_size=4,
    )
)
def test_rows_are_copied_as_plain_text_where_nothing_in_them_stands_for_something_else(
    rows: list[tuple[str | None, ...]],
) -> None:
    columns = ColumnRows([pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)])
    form, text = postgresql_cells.copied_rows(table(["text", "text"]), ("c0", "c1"), columns)
    cells = [cell for row in rows for cell in row]
    assert (form == postgresql_cells.PLAIN) == (
        not any(cell == "" or (cell and set(cell) & set('\t\n\r"\\')) for cell in cells)
    )
    if form == postgresql_cells.PLAIN:
        assert [
            cell or None for line in text.decode().splitlines() for cell in line.split("\t")
        ] == cells


@pytest.mark.parametrize(
    ("cells", "is_there"),
    [
        (pa.array(["a", None, "b'c"]), True),
        (pa.array(["a", "b"]), False),
        (pa.array(["'", "b", "c'"])[1:2], False),
        (pa.array(["a", "'"])[1:], True),
        (pa.nulls(2, pa.string()), False),
        (pa.array([], pa.string()), False),
    ],
    ids=["in a cell", "in none", "around a slice", "in a slice", "NULLs", "no cells"],
)
def test_what_is_looked_for_is_found_in_the_cells_alone(cells: pa.Array, is_there: bool) -> None:
    assert has_any(cells, "\0", "'") is is_there


def test_rows_of_columns_are_rows() -> None:
    rows = ColumnRows([pa.array(["1", "2", "3"]), pa.array(["a", None, "c"])])
    assert list(rows) == [("1", "a"), ("2", None), ("3", "c")]
    assert len(rows) == 3
    assert rows[1] == ("2", None)
    assert list(rows[1:]) == [("2", None), ("3", "c")]
