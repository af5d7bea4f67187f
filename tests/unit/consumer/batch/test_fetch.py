"""What Spark writes of a small batch, as it comes into memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cdcbus.consumer.batch.fetch import LENGTH_BYTES, _chunks
from cdcbus.consumer.records.records import by_lane

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)


def test_chunks_lie_in_memory_as_arrow_wants_it_which_else_complains(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    written = [
        pa.record_batch(
            [["shop"] * rows, [rows] * rows, range(rows), [b"x" * rows] * rows], schema=SCHEMA
        )
        for rows in (3, 7, 1)
    ]
    file = tmp_path / "records"
    with file.open("wb") as stream:
        for chunk in (batch.serialize().to_pybytes() for batch in written):
            stream.write(len(chunk).to_bytes(LENGTH_BYTES) + chunk)
    table = pa.Table.from_batches(
        [pa.ipc.read_record_batch(chunk, SCHEMA) for chunk in _chunks(file)], SCHEMA
    )
    assert table.equals(pa.Table.from_batches(written))
    assert {lane: len(records) for lane, records in by_lane(table).items()} == {
        ("shop", rows): rows for rows in (3, 7, 1)
    }
    assert capfd.readouterr().err == ""


def test_a_batch_of_no_records_has_no_chunks(tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.touch()
    assert list(_chunks(file)) == []
