"""How a Spark application begins and ends, and what is said where it does not as it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Event
from zipfile import ZipFile

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.jvm.package_zip import package_zip
from cdcbus.consumer.spark import session
from cdcbus.consumer.spark.session import shared_spark, spark_session
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError

pytestmark = pytest.mark.integration


def task(master: str) -> LoadTask:
    return LoadTask(
        "7",
        TopicConfig("", ()),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(""),
        spark_options={"spark.master": master},
    )


FUNCTIONS = """
from threading import Event
from cdcbus.consumer.spark.session import spark_session
from tests.integration.consumer.spark.test_spark_application import task
with spark_session(task("local[1]"), Event()) as (spark, _):
    registry = getattr(spark.sparkContext._jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$")
    print(getattr(registry, "MODULE$").internal().listFunction().mkString(" "))
"""


def test_a_session_is_made_without_mllibs_functions() -> None:
    functions = subprocess.run(
        [sys.executable, "-c", FUNCTIONS], check=True, capture_output=True, text=True
    ).stdout
    assert "timestampadd" in functions
    assert "vector_to_array" not in functions


IN_A_FOLDER = """
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event
from cdcbus.consumer.spark.session import spark_session
from tests.integration.consumer.spark.test_spark_application import task
options = {"spark.master": "local[1]", "spark.jars": "lib/some.jar"}
with spark_session(replace(task("local[1]"), spark_options=options), Event()) as (spark, _):
    print(spark.sparkContext.getConf().get("spark.jars"))
    java = spark.sparkContext._gateway.proc.pid
    print(Path(f"/proc/{java}/cwd").resolve())
    # By a Python worker, as the certificate of a target is.
    read = spark.sparkContext.parallelize([sys.argv[1]]).map(lambda name: Path(name).read_text())
    print(read.collect()[0].strip())
"""


def _printed_in(folder: Path, file: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FOLDER, file],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_spark_leaves_nothing_in_the_current_folder_whose_files_it_finds(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    with ZipFile(tmp_path / "lib" / "some.jar", "w") as jar:
        jar.writestr("some.txt", "")
    (tmp_path / "ca.pem").write_text("certificate")
    jars, java, read = _printed_in(tmp_path, "ca.pem")
    assert jars.endswith(f"{tmp_path}/lib/some.jar")
    assert Path(java).name.startswith("cdcbus-spark-")
    assert read == "certificate"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ca.pem", "lib"]


def test_spark_starts_in_a_folder_that_cannot_be_written() -> None:
    _, _, read = _printed_in(Path("/proc/sys/kernel"), "ostype")
    assert read == "Linux"


def test_spark_that_does_not_start_says_why() -> None:
    why = r"task 7: Spark does not start with spark.master=local\[0,4\]: .*The number of cores"
    with pytest.raises(CdcError, match=why), spark_session(task("local[0]"), Event()):
        pass


def test_an_application_that_its_cluster_ends_is_lost_to_all_its_tasks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    losses: list[str] = []
    why = (
        r"node 1: its application local-\d+ was ended by spark.master=local\[1,4\], whose logs "
        r"say why"
    )
    with (
        pytest.raises(CdcError, match=why),
        shared_spark(
            "cdcbus node 1", {"spark.master": "local[1]"}, Event(), losses.append
        ) as open_spark,
        open_spark(task("local[1]"), Event()) as (spark, _),
    ):
        spark.sparkContext._jsc.sc().stop()  # as it is when a cluster has ended it
        spark.range(1).collect()
    [loss] = losses
    assert re.fullmatch(f"cdcbus {why}", loss)
    assert "was ended by" in caplog.text


def test_an_application_that_its_cluster_ends_while_it_starts_is_not_in_the_way_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stopped context that stayed would be what each further start finds."""

    def ended(scratch: Path) -> Path:
        context = SparkContext._active_spark_context
        assert context is not None
        context._jsc.sc().stop()
        return package_zip(scratch)

    monkeypatch.setattr(session, "has_executors", lambda spark: True)
    monkeypatch.setattr(session, "package_zip", ended)
    why = r"task 7: its application local-\d+ was ended by spark.master=local\[1,4\]"
    with pytest.raises(CdcError, match=why), spark_session(task("local[1]"), Event()):
        pass
    monkeypatch.undo()
    with spark_session(task("local[1]"), Event()) as (spark, _):
        assert spark.range(3).count() == 3


def test_an_application_that_ends_with_its_node_is_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    losses: list[str] = []
    stop = Event()
    with (
        pytest.raises((PySparkException, Py4JError)),
        shared_spark(
            "cdcbus node 1", {"spark.master": "local[1]"}, stop, losses.append
        ) as open_spark,
        open_spark(task("local[1]"), stop) as (spark, _),
    ):
        stop.set()
        spark.sparkContext._jsc.sc().stop()
        spark.range(1).collect()
    assert losses == []
    assert "was ended by" not in caplog.text
