"""Epoch times as dates, and numbers that are the time of no date."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.dates import FIRST_US, LAST_US, dated_us, utc_text

NOW_MS = 1_790_000_000_123


@given(st.datetimes())
def test_each_date_has_its_text(date: datetime) -> None:
    date = date.replace(microsecond=date.microsecond // 1000 * 1000)
    epoch_us = (date.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // (
        datetime.resolution
    )
    assert dated_us(epoch_us) == epoch_us
    assert utc_text(epoch_us // 1000, "milliseconds", "T", "Z") == (
        f"{date.isoformat(timespec='milliseconds')}Z"
    )


@pytest.mark.parametrize(
    "epoch_us", [FIRST_US - 1, LAST_US + 1, NOW_MS * 10**6, NOW_MS * 10**9, -NOW_MS * 10**9]
)
def test_a_number_of_another_unit_is_no_date(epoch_us: int) -> None:
    assert dated_us(epoch_us) == 0
    epoch_ms = epoch_us // 1000 + (epoch_us > 0)
    assert utc_text(epoch_ms, zone=" UTC") == f"(no date: {epoch_ms} ms)"
