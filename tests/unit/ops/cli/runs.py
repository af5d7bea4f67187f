"""What the tests of the command line share: a task file, a real process, a command that fails."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

GOOD = """\
taskId=1
consumer.consumerName=KafkaFetch
consumer.source.servers=127.0.0.1:1
consumer.source.topics=a
loader.loaderName=JdbcBatch
loader.source.url=jdbc:mysql://h/db
"""


def in_memory(monkeypatch: pytest.MonkeyPatch, command: ModuleType) -> MemoryZooKeeper:
    """The empty ZooKeeper that the commands of a module get from now on."""
    found = MemoryZooKeeper()

    @contextmanager
    def client(_: object) -> Iterator[MemoryZooKeeper]:
        yield found

    monkeypatch.setattr(command, "bus_client", client)
    return found


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
