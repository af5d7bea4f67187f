"""The epoch in a record, and records that are sent again on purpose."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdcbus.plugins.epoch import epoch_text, epochs, without_epoch

EPOCH = epoch_text(7, "1484", "shop")
# As tasks without ZooKeeper have written them.
LONGER = "1795838011060423-f43411e4"


@pytest.mark.parametrize(
    ("converter", "value", "bare"),
    [
        ("canalRow", f'{{"epoch":"{EPOCH}","data":[]}}', '{"data":[]}'),
        ("oggJson", f'{{"table":"t","epoch":"{EPOCH}"}}', '{"table":"t"}'),
        ("canalRow", '{"data":[]}', '{"data":[]}'),
        ("oggJson", '{"table":"t"}', '{"table":"t"}'),
        ("maxwellJson", f'{{"epoch":"{EPOCH}","data":[]}}', f'{{"epoch":"{EPOCH}","data":[]}}'),
    ],
)
def test_a_record_that_is_sent_again_tells_no_epoch(converter: str, value: str, bare: str) -> None:
    found = without_epoch(value.encode(), converter)
    assert found == bare.encode()
    if found != value.encode():
        told = epochs(pa.array([value.encode(), found], pa.binary()), converter)
        assert told is not None
        assert told.to_pylist() == [EPOCH.encode(), None]


@pytest.mark.parametrize(
    ("converter", "value", "bare"),
    [
        ("canalRow", f'{{"epoch":"{LONGER}","data":[]}}', '{"data":[]}'),
        ("oggJson", f'{{"table":"t","epoch":"{LONGER}"}}', '{"table":"t"}'),
        # No epoch of a fetch task.
        ("canalRow", '{"epoch":"now","data":[]}', '{"epoch":"now","data":[]}'),
    ],
)
def test_only_a_whole_epoch_is_cut_off(converter: str, value: str, bare: str) -> None:
    assert without_epoch(value.encode(), converter) == bare.encode()
