"""A real Kubernetes, whose pods run the executors; one of them is lost at work."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdcbus.ops.demo.tasks import TaskProcess
from tests.support.changes.two_tables import TwoTables
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.clusters.kubernetes import Kubernetes, missing, open_kubernetes
from tests.support.waiting import wait_until

# Of each Python process that applies rows: its pod, and where it has cdcbus from.
FEW = {"consumer__source__maxRecordsPerBatch": "100"}  # so that all is a backlog
PROCESSOR = """
import os
from pathlib import Path

from cdcbus.plugins import rowchange

pod = os.environ.get("SPARK_EXECUTOR_POD_NAME", "driver")
Path(__file__).with_name(f"{pod}-{os.getpid()}.told").write_text(rowchange.__file__)


def unchanged(row):
    return row
"""


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    assert not missing(), f"this machine has no {', '.join(missing())}"
    with open_kubernetes(tmp_path / "kubernetes") as kubernetes:
        yield kubernetes


def stop(load: TaskProcess, kubernetes: Kubernetes) -> None:
    """The task, of which nothing is left then."""
    load.ask_to_stop()
    assert load.await_stop() == 0
    wait_until(
        lambda: not (kubernetes.found("pods") or kubernetes.found("configmaps")),
        "what it had in Kubernetes to be gone",
    )


@pytest.mark.parametrize("end", [Kubernetes.delete_pod, Kubernetes.kill_pod])
def test_pods_apply_partitions_with_the_package_that_they_are_sent_and_one_is_lost(
    end: Callable[[Kubernetes, str], None],
    kubernetes: Kubernetes,
    tables: TwoTables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "teller.py").write_text(PROCESSOR)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    tables.change(1)
    shop = tables.shop
    load = with_eager_spark(
        shop.load(
            "postgresql",
            consumer__source__maxRecordsPerBatch="100",
            consumer__eventProcessor__className="teller:unchanged",
            spark__executor__memory="640m",
            **kubernetes.spark_options(modules),
            **kubernetes.login(),
        )
    )
    with tables.held_at_work(load):
        lost = random.choice(list(kubernetes.found("pods")))
        end(kubernetes, lost)
    tables.change(2)
    tables.assert_arrived(load)
    used = [file.read_text() for file in modules.glob("*-exec-*.told")]
    assert len(used) > 1
    assert all("cdcbus.zip/cdcbus/" in cdcbus for cdcbus in used)
    assert lost not in kubernetes.found("pods")
    stop(load, kubernetes)


def test_a_task_whose_pods_do_not_start_says_that_it_waits_for_them(
    kubernetes: Kubernetes, tables: TwoTables, tmp_path: Path
) -> None:
    tables.change(1)
    options = {
        **kubernetes.spark_options(tmp_path),
        **kubernetes.login(),
        "spark.kubernetes.container.image": "cdcbus.test/none:1",
    }
    load = with_eager_spark(tables.shop.load("postgresql", **FEW, **options))
    load.start()
    waits = re.compile(
        r"waits for executors: spark.master=\S+ has given application (spark-\w+) none"
    )
    wait_until(lambda: waits.search(load.log.read_text()) is not None, "the warning")
    [application] = waits.findall(load.log.read_text())
    assert {
        pod["metadata"]["labels"]["spark-app-selector"] for pod in kubernetes.found("pods").values()
    } == {application}
    stop(load, kubernetes)


def test_pods_of_a_driver_that_is_killed_end_and_the_next_one_goes_on(
    kubernetes: Kubernetes, tables: TwoTables, tmp_path: Path
) -> None:
    tables.change(1)
    options = {**kubernetes.spark_options(tmp_path), **kubernetes.login()}
    load = with_eager_spark(tables.shop.load("postgresql", **FEW, **options))
    load.start()
    wait_until(lambda: tables.shop.is_applied(load), "the rows", 360)
    load.kill()
    left = kubernetes.found("pods").keys()
    assert left
    tables.change(2)
    load.start()
    tables.assert_arrived(load)
    load.ask_to_stop()
    assert load.await_stop() == 0
    wait_until(
        lambda: (
            [pod["status"]["phase"] for pod in kubernetes.found("pods").values()]
            == ["Succeeded"] * len(left)
        ),
        "their end",
    )
    assert kubernetes.found("pods").keys() == left


def test_a_task_in_a_pod_owns_those_of_its_executors(
    kubernetes: Kubernetes, tables: TwoTables, tmp_path: Path
) -> None:
    tables.change(1)
    here = {"spark.kubernetes.driver.pod.name": "task", "spark.driver.host": "127.0.0.1"}
    options = {**kubernetes.spark_options(tmp_path), **here}
    load = with_eager_spark(tables.shop.load("postgresql", **FEW, **options))
    kubernetes.start_task("task", load, tmp_path)
    tables.assert_arrived(load)
    pods = kubernetes.found("pods")
    assert pods.pop("task")["status"]["phase"] == "Running"
    owners = [
        [owner["name"] for owner in pod["metadata"]["ownerReferences"]] for pod in pods.values()
    ]
    assert owners == [["task"], ["task"]]
    kubernetes.delete_pod("task")
    wait_until(
        lambda: not (kubernetes.found("pods") or kubernetes.found("configmaps")),
        "what it had in Kubernetes to be gone",
    )
    assert "has stopped" in load.log.read_text()
