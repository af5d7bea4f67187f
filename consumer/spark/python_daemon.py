"""The process that Spark forks Python workers from, on this machine: they begin with all loaded
that applying a partition needs.

Else each loads it for itself, which takes most of its start. PySpark is loaded as it is installed:
Spark puts archives of it in front of that, whose modules Python compiles at each start, and whose
lists a worker reads again before each task.
"""

import gc
import re
import sys


def leave_out_archives() -> None:
    """Those of PySpark and py4j on Python's path."""
    for place in [place for place in sys.path if re.search(r"/(pyspark|py4j-[^/]*)\.zip$", place)]:
        sys.path.remove(place)
        sys.path_importer_cache.pop(place, None)


def main() -> None:
    """Does not return: what it forks ends as a worker does, and it ends itself when Spark has no
    more need of it."""
    import pyarrow.acero  # noqa: F401  # which Arrow else loads when it first groups rows
    from pyspark.daemon import manager

    import cdcbus.consumer.batch.executor_batch  # noqa: F401

    gc.freeze()  # a worker collects garbage after each task, for which it need not look at all this
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    leave_out_archives()
    main()
