"""What is looked for in a topic, and how it is shown."""

from __future__ import annotations

import pytest

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.cells import cells_side_by_side
from cdcbus.ops.web.records.search import (
    Sought,
    moment,
    places_of,
    places_text,
)
from cdcbus.plugins.kafka.topic_log import KafkaRecord
from cdcbus.plugins.rowchange import Op, Origin, RowChange, Table, TableId

TABLE = Table(TableId("shop", "people"), (), ("id",))
ORIGIN = Origin()
UPDATE = RowChange(
    TABLE, Op.UPDATE, {"name": "Ada", "id": "1"}, {"name": None, "id": "1", "city": "x"}, ORIGIN
)
RECORD = KafkaRecord(0, 7, 0, b"1_", b"{}")


def test_all_cells_stand_side_by_side_the_key_first() -> None:
    cells = cells_side_by_side(UPDATE)
    assert [(cell.name, cell.is_key, cell.is_changed) for cell in cells] == [
        ("id", True, False),
        ("name", False, True),
        ("city", False, False),  # not known before is not changed
    ]
    assert (cells[1].before, cells[1].after, cells[2].has_before) == ("Ada", None, False)


@pytest.mark.parametrize(
    ("sought", "fits"),
    [
        (Sought(), True),
        (Sought(text="ADA"), True),
        (Sought(text="grace"), False),
        (Sought(key="1"), True),
        (Sought(key="1", text="x", op="UPDATE", tables=("shop.p*",)), True),
        (Sought(op="DELETE"), False),
        (Sought(tables=("orders",)), False),
    ],
)
def test_a_row_change_fits_all_that_is_asked(sought: Sought, fits: bool) -> None:
    assert sought.fits(RECORD, UPDATE) is fits


def test_places_and_times_are_read_as_they_are_written() -> None:
    assert places_of("0@120, 3@7") == {0: 120, 3: 7}
    assert places_text({3: 7, 0: 120}) == "0@120 3@7"
    assert moment("2026-11-26T03:00") == moment("2026-11-26 04:00:00+01:00") == 1_795_662_000_000
    assert moment(" ") is None
    for wrong in ("x", "1@", "@1", "-1@2"):
        with pytest.raises(Refused):
            places_of(wrong)
    with pytest.raises(Refused):
        moment("yesterday")
