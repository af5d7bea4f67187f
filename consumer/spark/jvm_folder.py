"""The current folder of Spark's JVM, and what the caller's relative paths mean there.

Spark makes a folder `artifacts` in it, and does not start where it cannot. So without executors
the JVM begins in the scratch folder. Executors resolve some paths in folders of their own, as the
driver must then, too: on a cluster the JVM stays in the caller's folder, if that can be written.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory

from cdcbus.consumer.spark.settings import CLASS_PATH, JARS, JAVA_OPTIONS

# The caller's folder, for Python workers: they begin in the JVM's.
FOLDER_VARIABLE = "CDCBUS_CALLER_FOLDER"
# Settings with paths, and what separates these.
_SEPARATORS = {
    JARS: ",",
    CLASS_PATH: os.pathsep,
    "spark.driver.extraLibraryPath": os.pathsep,
    "spark.archives": ",",
    "spark.eventLog.dir": ",",
    "spark.files": ",",
    "spark.jars.ivy": ",",
    "spark.jars.ivySettings": ",",
    "spark.kerberos.keytab": ",",
    "spark.kubernetes.driver.podTemplateFile": ",",
    "spark.kubernetes.executor.podTemplateFile": ",",
    "spark.local.dir": ",",
    "spark.metrics.conf": ",",
    "spark.scheduler.allocation.file": ",",
    "spark.sql.warehouse.dir": ",",
    "spark.submit.pyFiles": ",",
    "spark.yarn.archive": ",",
    "spark.yarn.jars": ",",
}
_VARIABLES = (
    "HADOOP_CONF_DIR",
    "JAVA_HOME",
    "PYTHONPATH",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "YARN_CONF_DIR",
)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# An option of Java that ends with a path.
_OPTION = re.compile(r"(-D[^=]+=(?:file:)?|-javaagent:|-XX:\w+(?:Path|File)=|-Xlog:.*file=)(.+)")


def caller_folder() -> Path:
    """The current folder of this process; the root where it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def jvm_folder(scratch: Path, has_executors: bool) -> Path:
    """Where the JVM begins."""
    caller = caller_folder()
    return caller if has_executors and _is_writable(caller) else scratch


def _is_writable(folder: Path) -> bool:
    try:
        with TemporaryDirectory(dir=folder):
            return True
    except OSError:
        return False


def with_whole_paths(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, whose relative paths are those of the caller's folder. Java leaves the files
    of its crashes there, too."""
    whole = dict(settings)
    for key, separator in _SEPARATORS.items():
        if text := settings.get(key):
            whole[key] = separator.join(map(whole_path, text.split(separator)))
    crash = f"-XX:ErrorFile={caller_folder() / 'hs_err_pid%p.log'}"
    options = [crash, *map(_whole_option, shlex.split(settings.get(JAVA_OPTIONS, "")))]
    whole[JAVA_OPTIONS] = shlex.join(options)
    return whole


def make_whole(environment: MutableMapping[str, str]) -> None:
    """Replaces relative paths in the variables that Java and Python workers read."""
    for name in _VARIABLES:
        if text := environment.get(name):
            environment[name] = os.pathsep.join(map(whole_path, text.split(os.pathsep)))


def whole_path(path: str) -> str:
    """A relative path, as of the caller's folder; URIs unchanged."""
    if not path.strip() or _URI.match(path.strip()):
        return path
    return str(caller_folder() / path.strip())


def _whole_option(option: str) -> str:
    found = _OPTION.fullmatch(option)
    if not found:
        return option
    name, path = found.groups()
    # A property can hold anything.
    if name.startswith("-D") and not Path(path).exists():
        return option
    return f"{name}{whole_path(path)}"
