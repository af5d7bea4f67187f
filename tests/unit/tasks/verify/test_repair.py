"""What a repair sends."""

import pytest

from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.tasks.verify.repair import as_source


@pytest.mark.parametrize(
    ("type_", "cell", "wanted"),
    [
        ("decimal(10,2)", "1.5", "1.50"),
        ("decimal(10,0)", "7", "7"),
        ("decimal(65,30)", f"{10**34 + 1}.5", f"{10**34 + 1}.5{'0' * 29}"),
        ("datetime(3)", "2024-01-01 00:00:00.500000", "2024-01-01 00:00:00.500"),
        ("datetime(3)", "2024-01-01 00:00:00", "2024-01-01 00:00:00.000"),
        ("datetime", "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
        ("time(1)", "-30:00:01.500000", "-30:00:01.5"),
        ("varchar(9)", "1.5", "1.5"),
        ("int(11)", "-7", "-7"),
    ],
)
def test_a_keys_cell_gets_the_digits_of_the_source(type_: str, cell: str, wanted: str) -> None:
    """By that text goes the partition of its record."""
    assert as_source(TableColumn("c", type_), cell) == wanted
