"""A real YARN, whose containers run the executors; one of them is killed at work."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.changes.two_tables import TwoTables
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.clusters.yarn import SPARK_JARS, Yarn, kill, open_yarn

pytestmark = pytest.mark.integration
# Of each Python process that applies rows: where it works, and where it has cdcbus from.
PROCESSOR = """
import os
from pathlib import Path

from cdcbus.plugins import rowchange

Path(__file__).with_name(f"{os.getpid()}.told").write_text(f"{os.getcwd()} {rowchange.__file__}")


def unchanged(row):
    return row
"""


@pytest.fixture
def yarn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yarn]:
    with open_yarn(tmp_path / "yarn") as yarn:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
        yield yarn


def test_containers_apply_partitions_with_the_package_that_they_are_sent_and_one_is_killed(
    tables: TwoTables, yarn: Yarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than 20 s: YARN starts a JVM for the application and one for each container."""
    tmp_path.joinpath("teller.py").write_text(PROCESSOR)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # YARN hands it on
    tables.change(1)
    shop = tables.shop
    load = with_eager_spark(
        shop.load(
            "postgresql",
            consumer__source__maxRecordsPerBatch="100",
            consumer__eventProcessor__className="teller:unchanged",
            spark__master="yarn",
            spark__executor__memory="640m",
            spark__yarn__jars=f"local:{SPARK_JARS}/*",
            spark__yarn__stagingDir=(yarn.folder / "staging").as_uri(),
        )
    )
    with tables.held_at_work(load):
        kill(random.choice(yarn.executors()))
    tables.change(2)
    tables.assert_arrived(load)
    in_containers = [
        told
        for file in tmp_path.glob("*.told")
        if (told := file.read_text()).startswith(str(yarn.folder))
    ]
    assert in_containers
    assert all("cdcbus.zip/cdcbus/" in told for told in in_containers)
