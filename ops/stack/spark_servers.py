"""A standalone Spark cluster of the stack, of the jars that pyspark has: a master, and workers,
each a process of its own."""

import json
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from cdcbus.consumer.jvm.maven import java, pyspark_jars
from cdcbus.ops.stack.addresses import HOST, SPARK_MASTER, spark_worker
from cdcbus.ops.stack.server import NotAnswering, Server, ServerFolder

WORKER_CORES, WORKER_MEMORY = 2, "2g"
_HEAP = ("-XX:+UseSerialGC", "-Xmx256m")
# A master that is restarted knows its workers and applications.
_RECOVERY = "-Dspark.deploy.recoveryMode=FILESYSTEM"
# Each application leaves a copy of its jars with each worker.
_CLEANUP = ("-Dspark.worker.cleanup.enabled=true", "-Dspark.worker.cleanup.appDataTtl=3600")


def spark_servers(workers: int) -> tuple[Server, ...]:
    """The master and its workers; empty for 0 workers."""
    if not workers:
        return ()
    return (_MASTER, *map(_worker, range(1, workers + 1)))


def _worker(number: int) -> Server:
    name = spark_worker(number)
    return Server(
        name,
        f"Spark worker {number}",
        None,
        ports=(name, f"{name}-page"),
        is_database=False,
        stop_signal=signal.SIGTERM,
        prepare=_prepare_worker,
        check=_check_worker,
    )


def _prepare_master(place: ServerFolder) -> list[str]:
    options = (_RECOVERY, f"-Dspark.deploy.recoveryDirectory={place.data}")
    return _spark(place, options, "master.Master")


def _prepare_worker(place: ServerFolder) -> list[str]:
    words = ("--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY)
    master = place.plan.spark
    return _spark(place, _CLEANUP, "worker.Worker", *words, "--work-dir", str(place.data), master)


def _spark(place: ServerFolder, options: tuple[str, ...], name: str, *words: str) -> list[str]:
    place.data.mkdir(exist_ok=True)
    jars = pyspark_jars()[0].parent
    # what a worker starts its executors with
    environment = {
        "SPARK_HOME": jars.parent,
        "SPARK_SCALA_VERSION": "2.13",  # else it looks for a folder of its own sources
        "SPARK_LOCAL_DIRS": place.data,
        "SPARK_LOCAL_IP": HOST,
        "JAVA_HOME": Path(java()).resolve().parent.parent,
    }
    page = str(place.plan.ports[f"{place.name}-page"])
    return [
        "/usr/bin/env",
        *(f"{key}={value}" for key, value in environment.items()),
        *(str(java()), *_HEAP, *options, "-cp", str(jars / "*")),
        f"org.apache.spark.deploy.{name}",
        *("--host", HOST, "--port", str(place.port), "--webui-port", page),
        *words,
    ]


def _check_master(place: ServerFolder) -> None:
    _check_port(place)
    if (said := _master_says(place)["status"]) != "ALIVE":
        raise NotAnswering(f"the master is {said}")


def _check_worker(place: ServerFolder) -> None:
    _check_port(place)
    workers = _master_says(place)["workers"]
    if not any(each["port"] == place.port and each["state"] == "ALIVE" for each in workers):
        raise NotAnswering("the master does not know it yet")


def _check_port(place: ServerFolder) -> None:
    try:
        socket.create_connection((HOST, place.port), timeout=2).close()
    except OSError as error:
        raise NotAnswering(str(error)) from error


def _master_says(place: ServerFolder) -> Any:
    try:
        with urlopen(
            f"http://{place.plan.address(f'{SPARK_MASTER}-page')}/json/", timeout=5
        ) as page:
            return json.load(page)
    except (URLError, OSError, ValueError) as error:
        raise NotAnswering(f"its master does not answer: {error}") from error


_MASTER = Server(
    SPARK_MASTER,
    "Spark master",
    None,
    ports=(SPARK_MASTER, f"{SPARK_MASTER}-page"),
    is_database=False,
    stop_signal=signal.SIGTERM,
    prepare=_prepare_master,
    check=_check_master,
)
