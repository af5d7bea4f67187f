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

# Of a JVM that ends soon: the second compiler and a parallel collector are not worth their work.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Of a node: executors of one core.
SETTINGS = """\
spark.master={master}
spark.executor.memory=640m
spark.executor.cores=1
spark.cores.max={cores}
"""


@dataclass(frozen=True)
class Cluster:
    """A master, and everything that belongs to it, in `folder`."""

    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]]

    def add_worker(self, memory: str) -> int:
        """Starts a worker with two cores. Returns its process id, which is also that of the session
        to which its executors belong."""
        log = _start(
            self.folder,
            self.processes,
            "worker.Worker",
            "--cores",
            "2",
            "--memory",
            memory,
            self.url,
        )
        wait_until(
            lambda: "Successfully registered with master" in log.read_text(), f"the worker: {log}"
        )
        return self.processes[-1].pid


def executors(session: int) -> list[int]:
    """Process ids of the executors in the session of a process: of a worker, or of a task with
    `local-cluster`."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_executor = (
                folder.name.isdigit()
                and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
            )
            if is_executor and os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@contextmanager
def open_cluster(folder: Path) -> Iterator[Cluster]:
    """A master without workers. `folder` is created, for logs and what executors need. Everything
    is killed at the end."""
    folder.mkdir()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        log = _start(folder, processes, "master.Master", "--port", "0")
        said = re.compile(r"Starting Spark master at (spark://\S+)")
        wait_until(lambda: said.search(log.read_text()) is not None, f"the master: {log}")
        [url] = said.findall(log.read_text())
        yield Cluster(url, folder, processes)
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(folder: Path, processes: list[subprocess.Popen[bytes]], name: str, *words: str) -> Path:
    """Starts a process and returns its log."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_DAEMON_JAVA_OPTS": " ".join(SHORT_LIVED),
    }
    command = [
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{name}",
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
        *words,
    ]
    log = folder / f"{len(processes)}.log"
    with log.open("wb") as output:
        processes.append(
            subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        )
    return log
