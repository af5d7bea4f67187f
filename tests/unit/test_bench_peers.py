"""What is said of two programs that did the same work, as far as it needs no server."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cdcbus.ops.stack.addresses import Plan
from tests.bench.peers.__main__ import table
from tests.bench.peers.connect import Jars, sink_settings, source_settings
from tests.bench.peers.picture import Compared, svg
from tests.bench.peers.work import rate_until
from tests.bench.processes import check, cpu_seconds

RATE = Compared("snapshot", "rows/s", False, {"cdcbus": [40, 60, 50], "Debezium": [25, 20, 30]})
DELAY = Compared("delay", "ms", True, {"cdcbus": [10.0], "Debezium": [40.0]})


def test_a_ratio_above_one_means_that_cdcbus_is_better_whatever_is_better() -> None:
    assert [*table([RATE, DELAY]).columns[-1].cells] == ["2.00", "4.00"]


def test_bars_of_a_picture_are_as_long_as_medians_are() -> None:
    picture = ElementTree.fromstring(svg([RATE], "a & b"))
    bars = [each for each in picture.iter() if each.get("class", "").startswith("bar")]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    assert "a & b" in "".join(picture.itertext())


def test_given_jars_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "plugins/sink").mkdir(parents=True)
    (tmp_path / "plugins/source").mkdir()
    found = Jars.given(tmp_path)
    assert found == Jars(
        tmp_path / "connect", (tmp_path / "plugins/sink", tmp_path / "plugins/source")
    )


def test_the_sink_reads_the_topic_that_the_source_writes(tmp_path: Path) -> None:
    addresses = Plan.new().addresses()
    source = source_settings(addresses, "peer7", tmp_path, "orders", "initial")
    sink = sink_settings(addresses, "peer7", "orders")
    assert sink["topics"] == f"{source['topic.prefix']}.{source['table.include.list']}"


def test_a_rate_counts_from_the_last_look_that_saw_no_row() -> None:
    counts = iter((7, 7, 7, 8, 107))
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.1)
        found = rate_until([child.pid], 100, lambda: next(counts))
        assert cpu_seconds([child.pid]) > 0
        # two pauses of 50 ms or more; the one before them does not count
        assert 0 < found.per_second <= 100 / 0.1
        assert found.cpu >= 0
        assert found.megabytes > 1
    finally:
        child.kill()
        child.wait()


def test_a_process_that_has_ended_is_noticed() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 60
    with pytest.raises(AssertionError, match="has ended by itself"):
        while time.monotonic() < deadline:  # a zombie, until it is waited for
            check([child.pid])
    child.wait()
