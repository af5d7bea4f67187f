from __future__ import annotations

from collections.abc import Collection

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.lineage.case_twins import merged_twins

UPPER, LOWER, OTHER = (TableId("shop", table) for table in ("Orders", "orders", "items"))


def never(_: Collection[TableId]) -> bool:
    return False


def always(_: Collection[TableId]) -> bool:
    return True


def test_tables_that_differ_in_case_become_one_where_the_target_has_one() -> None:
    pairs = [(UPPER, UPPER), (LOWER, LOWER), (OTHER, OTHER)]
    assert merged_twins(pairs, never) == {}
    found = merged_twins(pairs, always)
    assert found.keys() == {UPPER, LOWER}
    assert "shop.Orders and shop.orders differ in case only" in found[LOWER]


@pytest.mark.parametrize("copy", [OTHER, LOWER])
def test_a_mapper_makes_them_one_table_too(copy: TableId) -> None:
    assert merged_twins([(UPPER, copy), (LOWER, copy)], never).keys() == {copy}


def test_one_table_is_no_twin_of_itself_nor_of_another() -> None:
    assert merged_twins([(UPPER, UPPER), (UPPER, LOWER), (OTHER, LOWER)], always) == {}
