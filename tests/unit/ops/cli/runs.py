"""What the tests of the command line share: a task file, a real process, a command that fails."""

import os
import subprocess
import sys

GOOD = """\
taskId=1
consumer.consumerName=KafkaFetch
consumer.source.servers=127.0.0.1:1
consumer.source.topics=a
loader.loaderName=JdbcBatch
loader.source.url=jdbc:mysql://h/db
"""


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cdcbus", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
    )


class Failing:
    """Commands of the real command line that fail in a chosen way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self.error
