"""Makes a consumer task leave everything it can to Spark, for tests of executors: else the tail gear
may be done before Spark is up."""

from __future__ import annotations

import os
from pathlib import Path

from cdcbus.ops.demo.tasks import TaskProcess

FOLDER = Path(__file__).with_name("eager_spark")


def with_eager_spark(task: TaskProcess) -> TaskProcess:
    """The same task; from its next start on."""
    others = task.environment.get("PYTHONPATH")
    task.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(FOLDER), others)))
    return task
