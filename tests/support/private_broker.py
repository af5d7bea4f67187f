"""A Kafka of a test's own, to be stopped and killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.java_servers import KAFKA
from cdcbus.ops.stack.server import NotAnswering, Place
from tests.support.secure_servers import open_folder, place_of


class PrivateBroker:
    def __init__(self, place: Place) -> None:
        self._place = place
        place.folder.mkdir()

    @property
    def address(self) -> str:
        return self._place.plan.address("kafka")

    def start(self) -> None:
        with processes.umask(0o022):
            command = KAFKA.prepare(self._place)
        processes.start(self._place.folder, command, self._place.account)
        deadline = time.monotonic() + 120
        while not self._answers():
            assert time.monotonic() < deadline, processes.log_file(self._place.folder).read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            KAFKA.check(self._place)
        except NotAnswering:
            return False
        return True

    def kill(self) -> None:
        processes.kill(self._place.folder)

    def signal(self, number: signal.Signals) -> None:
        pid = processes.pid(self._place.folder)
        assert pid is not None
        os.kill(pid, number)


@contextmanager
def private_broker() -> Iterator[PrivateBroker]:
    with open_folder() as folder:
        broker = PrivateBroker(place_of(KAFKA, folder, Plan.new()))
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()
