"""The wire formats that can be read as columns, as far as their members matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.dates import FIRST_US, LAST_US
from cdcbus.plugins.time_zone import seconds_ahead

NO_BYTES: Final = pa.scalar(b"", pa.binary())
# Beyond this length Arrow and `from_bytes` read different times.
OP_TS_CHARACTERS: Final = pa.scalar(26, pa.int32())
MS_US: Final = pa.scalar(1000, pa.int64())


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format whose records are JSON objects."""

    # The members that hold each image; the first of two with the same column counts.
    before: tuple[str, ...]
    after: tuple[str, ...]
    # The other members that differ between most records.
    varying: frozenset[str]
    # The one of these with the commit time, a number or text, and how it is read.
    commit: str
    is_commit_text: bool
    commit_us: Callable[[pa.Array], pa.Array]
    # Whether the images of a record with one row are its cells unchanged.
    is_plain: Callable[[Mapping[str, Any]], bool]
    # Bytes that all records of a table share, found quickly; other records may share them too.
    marks: Callable[[pa.BinaryArray], pa.BinaryArray]


def _epoch_ms(numbers: pa.Array) -> pa.Array:
    """Epoch microseconds; 0 for a number that no date has, as `from_bytes` reads it."""
    moments = pc.multiply_checked(pc.cast(pc.ascii_trim(numbers, ":,"), pa.int64()), MS_US)
    is_date = pc.and_(pc.greater_equal(moments, FIRST_US), pc.less_equal(moments, LAST_US))
    return pc.if_else(is_date, moments, 0)


def _utc_times(times: pa.Array) -> pa.Array:
    """UTC times in epoch microseconds; 0 for null. Raises ArrowInvalid for a time that Arrow and
    `from_bytes` read differently."""
    is_long = pc.greater(pc.binary_length(times), OP_TS_CHARACTERS)
    is_year_0 = pc.starts_with(times, "0000")
    if pc.any(pc.or_(is_long, is_year_0)).as_py():
        raise pa.ArrowInvalid("a time in a form of its own")
    moments = pc.cast(times, pa.timestamp("us"))
    return pc.fill_null(pc.cast(moments, pa.int64()), 0)


def _clock_times(zone: tzinfo, times: pa.Array) -> pa.Array:
    """Local times of a zone, otherwise as `_utc_times`."""
    clock_us = _utc_times(times)
    # Each second is looked up once, as rows that are written together share most of them.
    whole = pc.floor_temporal(clock_us.cast(pa.timestamp("us")), unit="second")
    seen = whole.cast(pa.timestamp("s")).cast(pa.int64()).dictionary_encode()
    ahead_us = [seconds_ahead(zone, each) * 1_000_000 for each in seen.dictionary.to_pylist()]
    moments = pc.subtract(clock_us, pa.array(ahead_us, pa.int64()).take(seen.indices))
    return pc.if_else(times.is_null(), clock_us, moments)


def _has_no_missing_flag(message: Mapping[str, Any]) -> bool:
    """Whether the images hold no `<COLUMN>_isMissing` flag of GoldenGate."""
    names = [*(message.get("before") or ()), *(message.get("after") or ())]
    return not any(name.endswith("_isMissing") for name in names)


def _canal_has_own_cells(message: Mapping[str, Any]) -> bool:
    """Whether the cells are ours: without `txLast` they are in canal's own rendering. And whether
    an UPDATE has a whole row: what a part of a row was before, `from_bytes` knows."""
    if message.get("type") == "UPDATE":
        [row] = message["data"]
        return "txLast" in message and row.keys() == (message.get("mysqlType") or {}).keys()
    return "txLast" in message


def _canal_marks(records: pa.BinaryArray) -> pa.BinaryArray:
    """About 50 bytes up to the table's name, as long as `ts` has 13 digits (until the year 2286);
    and everything from `txLast` on."""
    up_to_table = pc.binary_slice(records, -100, -51)
    from_tx_last = pc.binary_slice(records, -31)
    return pc.binary_join_element_wise(up_to_table, from_tx_last, NO_BYTES)


def _ogg_marks(records: pa.BinaryArray) -> pa.BinaryArray:
    """Everything up to the operation, or up to a part of the table's name."""
    return pc.binary_slice(records, 0, 38)


CANAL_ROW: Final = Wire(
    before=("old", "data"),
    after=("data",),
    varying=frozenset({"es", "gtid", "pos", "row", "ts"}),
    commit="es",
    is_commit_text=False,
    commit_us=_epoch_ms,
    is_plain=_canal_has_own_cells,
    marks=_canal_marks,
)
OGG_JSON: Final = Wire(
    before=("before", "after"),
    after=("after",),
    varying=frozenset({"op_ts", "current_ts", "pos"}),
    commit="op_ts",
    is_commit_text=True,
    commit_us=_utc_times,
    is_plain=_has_no_missing_flag,
    marks=_ogg_marks,
)


def ogg_json(zone: tzinfo | None) -> Wire:
    """oggJson whose times are local times of a zone; None: UTC."""
    if zone is None:
        return OGG_JSON
    return replace(OGG_JSON, commit_us=partial(_clock_times, zone))
