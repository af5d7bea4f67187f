"""What large things cost a fetch task in memory; `python -m tests.bench.large` measures more of
them, and times."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.ops.stack.addresses import Addresses
from tests.bench import large

pytestmark = pytest.mark.integration


def test_rows_of_16_mb_take_less_than_400_mb(stack: Addresses, tmp_path: Path) -> None:
    with large.empty_schema(stack.source) as connection, connection.cursor() as cursor:
        bench = large.Bench(stack, tmp_path)
        try:
            (cost,) = large.wide(bench, cursor, connection, 0.15)
        finally:
            bench.close()
    assert cost.peak < 400
