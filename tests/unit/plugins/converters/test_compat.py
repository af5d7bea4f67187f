"""canalCompat and porterCompat: what is written is read as the same row change, but for what the
other form cannot say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.converters.canal_row import CanalCompat, CanalRow
from cdcbus.plugins.converters.canal_values import java_float
from cdcbus.plugins.converters.ogg_json import OggJson, PorterCompat
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.registry import make_forwarding_converter
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId
from tests.unit.plugins.converters.rows import CELLS, TIMES, changes

LABELS = st.lists(
    st.text(
        st.characters(exclude_characters="\\,", exclude_categories=["Cs"]), min_size=1, max_size=5
    ),
    min_size=1,
    max_size=5,
    unique=True,
)


@st.composite
def typed_columns(draw: st.DrawFn, name: str) -> tuple[Column, st.SearchStrategy[Cell]]:
    """A column, and the cells that the source can give it."""
    labels = draw(LABELS)
    text = ",".join("'" + label.replace("'", "''") + "'" for label in labels)
    subsets = st.sets(st.sampled_from(labels)).map(
        lambda chosen: ",".join(label for label in labels if label in chosen)
    )
    return draw(
        st.sampled_from(
            [
                (Column(name, f"enum({text})", 4), st.sampled_from(["", *labels])),
                (Column(name, f"set({text})", -7), subsets),
                (
                    Column(name, "binary(4)", 2004),
                    st.binary(max_size=4).map(lambda b: b.ljust(4, b"\0").decode("latin-1")),
                ),
                (
                    Column(name, "varbinary(4)", 2004),
                    st.binary(max_size=4).map(lambda b: b.decode("latin-1")),
                ),
                (Column(name, "int unsigned", -5), st.integers(0, 2**32 - 1).map(str)),
                (Column(name, "varchar(20)", 12), CELLS),
            ]
        )
    )


@st.composite
def typed_changes(draw: st.DrawFn) -> RowChange:
    columns = [
        draw(typed_columns(name))
        for name in draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    ]
    images = st.fixed_dictionaries({column.name: st.none() | cells for column, cells in columns})
    op = draw(st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE]))
    before: Row | None = draw(images) if op is not Op.INSERT else None
    after: Row | None = draw(images) if op is not Op.DELETE else None
    table = Table(
        TableId("shop", "orders"), tuple(column for column, _ in columns), (columns[0][0].name,)
    )
    return RowChange(table, op, before, after, Origin(commit_us=draw(TIMES) // 1000 * 1_000_000))


@given(typed_changes())
def test_canal_s_rendering_is_read_as_the_same_row_change(change: RowChange) -> None:
    (found,) = CanalCompat().from_bytes(CanalCompat().to_bytes(change))
    types = tuple(replace(column, sql_type=0) for column in found.table.columns)
    assert types == tuple(replace(column, sql_type=0) for column in change.table.columns)
    assert replace(found, table=change.table) == change


@pytest.mark.parametrize(
    ("mysql_type", "number", "cell", "expected"),
    [
        ("tinyint unsigned", 5, "127", -6), ("tinyint unsigned", 5, "128", 5), ("tinyint "
                                                                                "unsigned", 5, None, -6),
        ("smallint unsigned", 4, "32767", 5), ("smallint unsigned", 4, "32768", 4), ("mediumint "
                                                                                     "unsigned", 4, "8388608", 4),
        ("int unsigned", -5, "2147483647", 4), ("int unsigned", -5, "2147483648", -5),
        ("bigint unsigned", 3, "9223372036854775807", -5), ("bigint unsigned", 3, "9223372036854775808", 3),
        ("tinyint", -6, "-1", -6), ("decimal(10,2) unsigned", 3, "1.50", 3),
    ],
)  # fmt: skip
def test_an_unsigned_number_has_the_signed_type_s_number_unless_it_is_too_large(
    mysql_type: str, number: int, cell: Cell, expected: int
) -> None:
    table = Table(TableId("s", "t"), (Column("n", mysql_type, number),), ())
    assert CanalCompat().message(RowChange(table, Op.INSERT, None, {"n": cell}))["sqlType"] == {
        "n": expected
    }


@pytest.mark.parametrize("mysql_type", ["enum('a')", "set('a')"])
def test_a_label_that_the_type_does_not_have_is_named_never_guessed(mysql_type: str) -> None:
    table = Table(TableId("s", "t"), (Column("e", mysql_type),), ())
    with pytest.raises(ConversionError, match="column e holds a label that its type does not have"):
        CanalCompat().to_bytes(RowChange(table, Op.INSERT, None, {"e": "secret"}))


def test_a_label_with_a_backslash_is_not_read_from_canal() -> None:
    table = Table(TableId("s", "t"), (Column("e", "enum('a\\b')", 4),), ())
    with pytest.raises(ConversionError, match="backslash"):
        CanalCompat().from_bytes(
            CanalCompat().to_bytes(RowChange(table, Op.INSERT, None, {"e": "a\\b"}))
        )


def test_old_cells_that_are_not_known_are_not_forwarded_as_unchanged() -> None:
    """canal has no form for them, whether or not the record that is forwarded shows all columns."""
    forwarding = make_forwarding_converter("canalCompat")
    table = Table(TableId("s", "t"), (Column("id", "int", 4), Column("n", "int", 4)), ("id",))
    whole: Row = {"id": "1", "n": "2"}
    partly = RowChange(table, Op.UPDATE, {"id": "1"}, whole)
    minimal = RowChange(table, Op.UPDATE, {"id": "1"}, {"n": "2"})
    for own in (partly, minimal):
        for shown in (own, replace(own, table=replace(table, is_described=False))):
            [forwarded] = CanalRow().from_bytes(CanalRow().to_bytes(shown))
            assert forwarded.before == {"id": "1"}
            with pytest.raises(ConversionError, match=r"UPDATE of s\.t comes without column n of"):
                forwarding.to_bytes(forwarded)
    for known in ({}, {"id": "1", "n": "3"}):
        [found] = CanalCompat().from_bytes(forwarding.to_bytes(replace(partly, before=known)))
        assert found.before == known
    # Of a source's own row canal writes the same.
    message = CanalCompat().message(partly)
    assert (message["old"], "unknown" in message) == ([{}], False)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_java_s_text_of_a_float_is_the_same_number(number: float) -> None:
    text = java_float(repr(number))
    assert float(text) == number
    assert ("E" in text) == (number != 0 and not 1e-3 <= abs(number) < 1e7)
    assert "." in text


@given(changes(has_origin=False, may_lack_columns=True))
def test_porter_s_names_are_those_of_ogg_json_in_upper_case(change: RowChange) -> None:
    (plain,) = OggJson().from_bytes(OggJson().to_bytes(change))
    (upper,) = PorterCompat().from_bytes(PorterCompat().to_bytes(change))
    assert (upper.op, upper.origin) == (plain.op, plain.origin)
    assert upper.table.id == TableId(*(part.upper() for part in plain.table.id))
    assert upper.table.key == tuple(name.upper() for name in plain.table.key)
    for image, expected in ((upper.before, plain.before), (upper.after, plain.after)):
        assert image == (
            None if expected is None else {name.upper(): cell for name, cell in expected.items()}
        )
