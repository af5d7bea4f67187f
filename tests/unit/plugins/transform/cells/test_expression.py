"""What the text of a computed column means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.cells.expression import constant, read_expression

TABLE = TableId("Shop", "orders_7")
ROW = {"name": " Ünal ", "code": "abcdef", "none": None}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("{code}", "abcdef"),
        ("{code:upper}-{code:1-2}{code:6-9}", "ABCDEF-abf"),
        ("{name:trim}|{name:lower}", "Ünal| ünal "),
        ("{@schema}/{@table}", "Shop/orders_7"),
        ("{{{code}}}", "{abcdef}"),
        ("a{none}", None),
    ],
)
def test_columns_functions_and_braces(text: str, cell: str | None) -> None:
    assert read_expression(text).cell(TABLE, ROW) == cell


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "{}",
        "{:upper}",
        "{a:title}",
        "{a:2-1}",
        "{a:0-1}",
        "{a!r}",
        "{@column}",
        "{a:{b}}",
        "{a:1-}",
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_expression(text)


@given(st.text())
def test_a_constant_is_its_text_whatever_it_holds(text: str) -> None:
    assert constant(text).cell(TABLE, {}) == text
    assert read_expression(text.replace("{", "{{").replace("}", "}}")).cell(TABLE, {}) == text
