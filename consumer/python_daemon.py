"""The process that Spark forks Python workers from, on this machine: they begin with all loaded that applying a lane needs.

Else each loads it for itself, which takes most of its start.
"""

from pyspark.daemon import manager

import cdcbus.consumer.executors  # noqa: F401

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
