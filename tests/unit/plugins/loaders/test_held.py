"""What target columns make of cells."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.plugins.loaders.held import folded, held_column, hold_of

CASES = [
    (TargetColumn("c", "int"), "007", "7"),
    (TargetColumn("c", "bigint"), "-12", "-12"),
    (TargetColumn("c", "decimal", 10, scale=1), "1.25", "1.3"),
    (TargetColumn("c", "decimal", 10, scale=2), "-0", "0.00"),
    (TargetColumn("c", "numeric"), "1.50", "1.5"),
    (TargetColumn("c", "datetime", 0), "2024-02-29 23:59:59.600", "2024-03-01 00:00:00"),
    (TargetColumn("c", "datetime", 3), "2024-02-29 10:00:00.000", "2024-02-29 10:00:00"),
    (TargetColumn("c", "datetime", 0), "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    (TargetColumn("c", "time", 0), "-838:59:58.9", "-838:59:59"),
    (TargetColumn("c", "float"), "0.1", "0.10000000149011612"),
    (TargetColumn("c", "binary", 3), "a", "a\0\0"),
    (TargetColumn("c", "int"), "no number", "no number"),
]


@pytest.mark.parametrize(("column", "cell", "held"), CASES)
def test_a_cell_becomes_what_its_column_holds_alone_and_among_many(column: TargetColumn, cell: str, held: str) -> None:
    hold = hold_of(column)
    assert hold is not None
    assert hold(cell) == held
    assert hold(held) == held
    assert held_column(column, pa.array([cell, None, cell], pa.string())).to_pylist() == [held, None, held]


def test_texts_that_collations_take_for_equal_fold_together() -> None:
    for one, other in (("a", "A"), ("é", "E"), ("straße", "STRASSE"), ("a", "a "), ("æ", "AE"), ("ß", "s")):
        assert folded(one) == folded(other)
