"""A standalone Spark cluster on this machine, and the executors of one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Cluster:
    """A master and one worker with two cores. `worker` is the process whose session the executors belong to."""

    url: str
    worker: int


def executors(session: int) -> list[int]:
    """Process ids of the executors in the session of a process: of a worker, or of a task with `local-cluster`."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_executor = folder.name.isdigit() and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
            if is_executor and os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@contextmanager
def open_cluster(folder: Path) -> Iterator[Cluster]:
    """`folder` is made, for logs and what executors need. All is killed at the end."""
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder)}
    folder.mkdir()
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> Path:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *words]
        log = folder / f"{len(started)}.log"
        with log.open("wb") as output:
            started.append(subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True))
        return log

    try:
        master = start("master.Master", "--port", "0")
        said = re.compile(r"Starting Spark master at (spark://\S+)")
        wait_until(lambda: said.search(master.read_text()) is not None, f"the master: {master}")
        [url] = said.findall(master.read_text())
        worker = start("worker.Worker", "--cores", "2", "--memory", "2g", url)
        wait_until(lambda: "Successfully registered with master" in worker.read_text(), f"the worker: {worker}")
        yield Cluster(url, started[-1].pid)
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
