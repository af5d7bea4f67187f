"""Python workers that die as often as Spark tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.changes.two_tables import TwoTables
from tests.support.clusters.bulk_gear import with_eager_spark

pytestmark = pytest.mark.integration
# More often than Spark tries, whichever partition it is.
DYING = """
import os
from pathlib import Path

DEATHS = Path(__file__).with_name("deaths")


def change(row):
    deaths = DEATHS.stat().st_size if DEATHS.exists() else 0
    if deaths < 9:
        DEATHS.write_text("x" * (deaths + 1))
        os._exit(1)
    return row
"""


def test_a_task_goes_on_when_workers_were_lost_as_often_as_spark_tries(
    tables: TwoTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than 20 s: Spark tries a batch again and again before it gives up, each time with a new
    Python worker."""
    tmp_path.joinpath("dying.py").write_text(DYING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for seed in range(1, 7):  # more than the driver applies itself
        tables.change(seed)
    load = with_eager_spark(
        tables.shop.load(
            "postgresql",
            consumer__eventProcessor__className="dying:change",
            consumer__source__maxRecordsPerBatch="100",
            spark__master="local[2]",
        )
    )
    load.start()
    tables.assert_arrived(load)
    assert "Spark's executors were lost again and again: " in load.log.read_text()
