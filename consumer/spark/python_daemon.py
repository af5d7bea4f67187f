"""The process that Spark forks Python workers from, on this machine. It loads all modules that
applying a partition needs, so that each worker starts with them.

Loading them anew would take most of a worker's start. PySpark is loaded from where it is installed:
Spark puts archives of it before that on Python's path, whose modules Python compiles at each start,
and whose lists a worker reads again before each task.
"""

import gc
import re
import sys


def leave_out_archives() -> None:
    """Takes the archives of PySpark and py4j from Python's path."""
    for place in [*sys.path]:
        if re.search(r"/(pyspark|py4j-[^/]*)\.zip$", place):
            sys.path.remove(place)
            sys.path_importer_cache.pop(place, None)


def main() -> None:
    """Does not return: its forks end as workers do, and it ends itself once Spark no longer needs
    it."""
    # Arrow would load it in each worker, when it first groups rows.
    import pyarrow.acero  # noqa: F401
    from pyspark.daemon import manager

    import cdcbus.consumer.batch.executor_batch  # noqa: F401

    # A worker collects garbage after each task: without this it would scan all these modules.
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    leave_out_archives()
    main()
