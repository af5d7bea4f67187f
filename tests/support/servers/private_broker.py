"""A Kafka of a test's own, to be stopped and killed."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.java_servers import KAFKA
from cdcbus.ops.stack.server import ServerFolder
from tests.support.servers.secure_servers import answers, open_folder, place_of
from tests.support.waiting import wait_until

NO_SETTINGS: Mapping[str, object] = {}
HEAD_BYTES = 12  # of a batch: its first offset and how many bytes follow


class PrivateBroker:
    """Its data outlives a kill."""

    def __init__(self, place: ServerFolder, settings: Mapping[str, object]) -> None:
        self._place, self._settings = place, settings
        place.folder.mkdir()

    @property
    def address(self) -> str:
        return self._place.plan.address("kafka")

    def start(self) -> None:
        """Returns when it answers."""
        with processes.umask(0o022):
            command = KAFKA.prepare(self._place)
            with (self._place.folder / "server.properties").open("a", encoding="utf-8") as file:
                for name, value in self._settings.items():
                    file.write(f"{name}={value}\n")
        processes.start(self._place.folder, command, self._place.account)
        wait_until(lambda: answers(KAFKA, self._place), f"the server in {self._place.folder}")

    def kill(self) -> None:
        """SIGKILL."""
        processes.kill(self._place.folder)

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Kills it, and cuts off a log from an offset on: the beginning of a batch, or the end.
        Start it again afterwards."""
        self.kill()
        folder = self._place.data / f"{topic}-{partition}"
        (log,) = folder.glob("*.log")
        data = log.read_bytes()
        place = 0
        while place < len(data) and int.from_bytes(data[place : place + 8]) < offset:
            place += HEAD_BYTES + int.from_bytes(data[place + 8 : place + HEAD_BYTES])
        assert place == len(data) or int.from_bytes(data[place : place + 8]) == offset, (
            "no batch begins there"
        )
        os.truncate(log, place)
        for made_of_it in (*folder.glob("*index"), *folder.glob("*.snapshot")):
            made_of_it.unlink()

    def empty(self, topic: str) -> None:
        """Kills it, and removes all logs of a topic, as where it was restored from before it had
        any. Start it again afterwards."""
        self.kill()
        for folder in self._place.data.glob(f"{topic}-*"):
            shutil.rmtree(folder)

    def signal(self, number: signal.Signals) -> None:
        pid = processes.pid(self._place.folder)
        assert pid is not None
        os.kill(pid, number)


@contextmanager
def private_broker(settings: Mapping[str, object] = NO_SETTINGS) -> Iterator[PrivateBroker]:
    """`settings`: of the broker, besides those of the stack's."""
    with open_folder() as folder:
        broker = PrivateBroker(place_of(KAFKA, folder, Plan.new()), settings)
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()
