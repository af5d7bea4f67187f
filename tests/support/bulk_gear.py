"""Has a consumer task leave to Spark whatever it can, where a test is about executors: else the tail
gear may be through before Spark is up."""

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
