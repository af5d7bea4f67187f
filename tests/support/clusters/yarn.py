"""A YARN cluster on this machine: a ResourceManager, a NodeManager, and the containers that it
runs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from cdcbus.consumer.jvm.maven import Coordinate, java, resolve
from cdcbus.ops.stack.addresses import free_port
from tests.support.waiting import wait_until

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
RESOURCE_MANAGER, NODE_MANAGER = "resourcemanager.ResourceManager", "nodemanager.NodeManager"


@dataclass(frozen=True)
class Yarn:
    """Everything that belongs to it, or runs in it, is in `folder`."""

    folder: Path

    @property
    def configuration(self) -> Path:
        """The folder that users of the cluster name in HADOOP_CONF_DIR."""
        return self.folder / "conf"

    def executors(self) -> list[Path]:
        """The working folders of the containers in which an executor runs."""
        containers = self.folder.glob("local/usercache/*/appcache/*/container_*")
        return [each for each in containers if any(map(_is_executor, _processes(each)))]


@contextmanager
def open_yarn(folder: Path) -> Iterator[Yarn]:
    """Starts it in `folder`, which is created. Everything in it is killed at the end."""
    yarn = Yarn(folder)
    yarn.configuration.mkdir(parents=True)
    (yarn.configuration / "yarn-site.xml").write_text(_site(folder), encoding="utf-8")
    jars = _server_jars()
    with ExitStack() as ends:
        for server in (RESOURCE_MANAGER, NODE_MANAGER):
            ends.enter_context(_start(yarn, jars, server))
        ends.callback(kill, folder)
        log = _log(yarn, NODE_MANAGER)
        wait_until(
            lambda: "Registered with ResourceManager" in log.read_text(), f"the node manager: {log}"
        )
        yield yarn


def kill(folder: Path) -> None:
    """SIGKILL to every process whose working directory is in the folder."""
    while pids := _processes(folder):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _start(yarn: Yarn, jars: list[Path], server: str) -> subprocess.Popen[bytes]:
    options = (
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-Dlog4j2.level=info",
    )
    classes = ":".join(map(str, [yarn.configuration, *jars, SPARK_JARS / "*"]))
    command = [str(java()), *options, "-cp", classes, f"org.apache.hadoop.yarn.server.{server}"]
    # which containers have, too
    environment = {**os.environ, "JAVA_HOME": str(java().resolve().parents[1])}
    with _log(yarn, server).open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=yarn.folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _log(yarn: Yarn, server: str) -> Path:
    return yarn.folder / f"{server}.log"


def _server_jars() -> list[Path]:
    """What the servers need beside Spark's own jars, which have the client's part of the same
    version of Hadoop."""
    [client] = SPARK_JARS.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    others = [
        Coordinate("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
        Coordinate("javax.xml.bind", "jaxb-api", "2.3.1"),
    ]
    return resolve(
        [Coordinate("org.apache.hadoop", "hadoop-client-minicluster", version), *others],
        without=["hadoop-client-api", "hadoop-client-runtime", "junit"],
    )


def _site(folder: Path) -> str:
    """Everything on 127.0.0.1; no limits that a busy or full machine would meet."""
    ports = set[int]()
    for _ in range(5):
        ports.add(free_port(ports))
    manager, scheduler, tracker, admin, web = (f"127.0.0.1:{port}" for port in ports)
    settings = {
        "hadoop.tmp.dir": folder / "tmp",
        "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler",
        "yarn.resourcemanager.address": manager,
        "yarn.resourcemanager.scheduler.address": scheduler,
        "yarn.resourcemanager.resource-tracker.address": tracker,
        "yarn.resourcemanager.admin.address": admin,
        "yarn.resourcemanager.webapp.address": web,
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.address": "127.0.0.1:0",
        "yarn.nodemanager.localizer.address": "127.0.0.1:0",
        "yarn.nodemanager.webapp.address": "127.0.0.1:0",
        "yarn.nodemanager.local-dirs": folder / "local",
        "yarn.nodemanager.log-dirs": folder / "logs",
        "yarn.nodemanager.resource.memory-mb": 8192,
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
    }
    properties = ""
    for name, value in settings.items():
        text = escape(str(value))
        properties += f"<property><name>{name}</name><value>{text}</value></property>"
    return f"<configuration>{properties}</configuration>"


def _processes(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return found


def _is_executor(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return (
        words[0].endswith(b"/java")
        and b"org.apache.spark.executor.YarnCoarseGrainedExecutorBackend" in words
    )
