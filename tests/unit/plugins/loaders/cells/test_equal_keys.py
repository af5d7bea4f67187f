"""Keys as they are spelled at the source and at the target."""

from __future__ import annotations

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders.cells.equal_keys import as_spelled, refuse_others
from cdcbus.plugins.rowchange import TableId

TABLE = TargetTable(
    TableId("shop", "t"),
    {
        "code": TargetColumn("code", "varchar", 10, is_folding=True),
        "kind": TargetColumn("kind", "char", 3, is_folding=True),
        "n": TargetColumn("n", "int", declared="int(5) unsigned zerofill"),
    },
    ("code", "kind", "n"),
    dialect="mysql",
)
SENT = ("abc", "x", "42")


def test_what_the_target_fills_up_is_no_other_spelling() -> None:
    found = ("abc", "x  ", "00042")
    assert as_spelled(TABLE, [SENT], [found]) == [SENT]
    refuse_others(TABLE, [SENT], [found])


@pytest.mark.parametrize("found", [("Abc", "x", "00042"), ("abc", "X", "00042")])
def test_a_text_in_another_case_is_another_spelling(found: tuple[str, ...]) -> None:
    assert as_spelled(TABLE, [SENT], [found]) == []
    with pytest.raises(TargetRejected, match="spelled otherwise"):
        refuse_others(TABLE, [SENT], [found])


def test_an_empty_text_is_spelled_as_a_blank_in_oracle() -> None:
    column = TargetColumn("CODE", "VARCHAR2", 10, is_folding=True)
    table = TargetTable(TableId("SHOP", "T"), {"CODE": column}, ("CODE",), dialect="oracle")
    assert as_spelled(table, [("",)], [(" ",)]) == [("",)]
    refuse_others(table, [("",)], [(" ",)])
