"""The settings of a Spark application, and checks of those that are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cdcbus.consumer.config import SPARK_MASTER
from cdcbus.plugins.errors import ConfigError

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
SPECULATION = (
    "has Spark apply one partition twice at the same time, which no order survives: leave it "
    "out, or set it to false"
)
# Spark's default on clusters.
ATTEMPTS = 4
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
JARS = "spark.jars"
# Without it a JVM out of memory loses its threads one by one and hangs silently.
JVM_OPTION = "-XX:+ExitOnOutOfMemoryError"
# Java's second compiler costs 3 s of a core in a task's first minute, mostly for code that runs
# only at the start. So its thresholds are ten times the defaults, and the first compiler's twice.
COMPILER_OPTIONS = (
    "-XX:Tier3InvocationThreshold=400 -XX:Tier3MinInvocationThreshold=200 "
    "-XX:Tier3CompileThreshold=4000 "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# The default collector costs more processor time per record; the parallel one with a small young
# generation takes no more memory. A larger metaspace keeps the classes that Spark loads at its
# start from triggering collections.
COLLECTOR_OPTIONS = "-XX:+UseParallelGC -XX:MaxNewSize=128m -XX:MetaspaceSize=256m"
# Small plans, one output: no web page, no adaptive planning, no shuffles.
SETTINGS = {
    "spark.master": SPARK_MASTER,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # MLlib adds functions for vectors to each session, and learning their types takes Spark most of
    # a second.
    "spark.sql.extensions.test.loadFromCp": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "1g",
    # Clusters that limit a container's memory count the Python worker too, which needs more than
    # the 384 MB that Spark expects.
    "spark.executor.memoryOverhead": "1g",
    # A task runs for months, so old losses must not add up.
    "spark.executor.failuresValidityInterval": "1h",
    "spark.yarn.am.attemptFailuresValidityInterval": "1h",
    # How long Spark keeps the Kafka clients of an ended query, and their last poll; its default is
    # 5 minutes.
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "2s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
    # Spark keeps Python workers by their environment. For SQL this setting is part of it; set, the
    # workers serve everything.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # A Python worker takes tens of megabytes for each slice and frees them again. Returning them to
    # Linux each time would be a seventh of its work. The last two values are the highest that the C
    # library would adapt to.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "spark.log.level": "FATAL",
    # Set explicitly, in case the cluster's defaults enable it.
    "spark.speculation": "false",
}
# Without executors no other machine needs to reach the driver, and Python workers find cdcbus
# installed, as Spark does not send it.
LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "cdcbus.consumer.spark.python_daemon",
}


def joined(separator: str, parts: Iterable[object]) -> str:
    """The non-empty parts, joined as text."""
    return separator.join(str(part) for part in parts if part)


def check_speculation(options: Mapping[str, str]) -> None:
    """Raises ConfigError where Spark would run the same partition twice at the same time: each run
    would undo the other's transactions."""
    if options.get("spark.speculation", "").strip().lower() == "true":
        raise ConfigError(f"spark.speculation=true {SPECULATION}")


def check_hadoop_configuration(environment: Mapping[str, str]) -> None:
    """Raises ConfigError when the environment names no folder with YARN's configuration: Spark
    would look for YARN on this machine, for a quarter of an hour."""
    found: list[str] = []
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        folder = environment.get(name)
        if not folder:
            continue
        if (Path(folder) / "yarn-site.xml").is_file():
            return
        found.append(f"{name} is {folder}, where there is none")
    raise ConfigError(
        "spark.master=yarn needs HADOOP_CONF_DIR (or YARN_CONF_DIR) in its environment, the folder "
        f"of the cluster's yarn-site.xml: {' and '.join(found) or 'neither is set'}"
    )


def java_options(given: str, environment: Mapping[str, str], archive: str = "") -> str:
    """Our options, `archive`, then the `given` ones. Our collector is left out where these or the
    environment choose one, as Java refuses two."""
    chosen = [given]
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        chosen.append(environment.get(name, ""))
    options = [JVM_OPTION, COMPILER_OPTIONS]
    if not re.search(r"-XX:\+Use\w*GC\b", " ".join(chosen)):
        options.append(COLLECTOR_OPTIONS)
    log_settings = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    return joined(" ", [*options, archive, log_settings, given])


def with_attempts(master: str) -> str:
    """A local master under which Spark repeats the work of a Python worker that died, as it always
    does on clusters; any other master unchanged."""
    found = re.fullmatch(r"local(?:\[([^,]*)\])?", master)
    if not found:
        return master
    return f"local[{found[1] or 1},{ATTEMPTS}]"


def is_cluster(master: str) -> bool:
    """Whether a `spark.master` runs separate executors: all except `local` and `local[...]` do."""
    return not re.fullmatch(r"local(\[.*\])?", master)
