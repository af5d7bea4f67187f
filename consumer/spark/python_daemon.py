"""The process from which Spark forks Python workers on this machine. It loads all modules that
applying a partition needs, so that each worker starts with them.

Loading them again would take most of a worker's start. PySpark is loaded from its installation:
Spark puts archives of it first on Python's path, but Python would compile their modules at each
start, and a worker would read their contents again before each task.
"""

import gc
import os
import re
import sys
from contextlib import suppress


def leave_out_archives() -> None:
    """Removes the archives of PySpark and py4j from Python's path."""
    for place in [*sys.path]:
        if re.search(r"/(pyspark|py4j-[^/]*)\.zip$", place):
            sys.path.remove(place)
            sys.path_importer_cache.pop(place, None)


def main() -> None:
    """Runs the daemon and does not return: its forks end like workers, and it ends once Spark no
    longer needs it."""
    # Arrow would load this in each worker, when it first groups rows.
    import pyarrow.acero  # noqa: F401
    from pyspark.daemon import manager

    import cdcbus.consumer.batch.executor_batch  # noqa: F401
    from cdcbus.consumer.spark.jvm_folder import FOLDER_VARIABLE

    # A task can name files in its own current folder, as certificates.
    if folder := os.environ.get(FOLDER_VARIABLE):
        with suppress(OSError):  # deleted since
            os.chdir(folder)
    # A worker collects garbage after each task, and would otherwise scan all these modules.
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    leave_out_archives()
    main()
