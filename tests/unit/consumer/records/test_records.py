"""The last record of what was read, however much of it is left out or cut off."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdcbus.consumer.records.records import NO_RECORDS, Records
from cdcbus.plugins.contracts import Landmark

READ = Records(
    pa.array([3, 4, 7, 9]), pa.array([b"a", b"b", b"c", b"d"]), times=pa.array([103, 104, 107, 109])
)


@pytest.mark.parametrize(
    "records", [READ, READ.take([0]), READ.take([0, 2]).before(9), READ[2:], READ.take([])]
)
@pytest.mark.parametrize(("end", "last"), [(12, 9), (10, 9), (9, 7), (8, 7), (7, 4), (4, 3)])
def test_the_last_record_before_an_offset_is_of_all_that_was_read(
    records: Records, end: int, last: int
) -> None:
    assert records.last_before(end) == Landmark(last, 100 + last)


def test_where_nothing_was_read_before_it_there_is_none() -> None:
    assert [READ.last_before(3), NO_RECORDS.last_before(3)] == [None, None]
