"""A ZooKeeper of a test's own, to be paused and killed."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.java_servers import ZOOKEEPER
from cdcbus.ops.stack.server import ServerFolder
from tests.support.servers.secure_servers import answers, open_folder, place_of
from tests.support.waiting import wait_until


class PrivateZooKeeper:
    """Its data outlives a kill, and so do sessions."""

    def __init__(self, place: ServerFolder, settings: Mapping[str, str]) -> None:
        """`settings` are added to its zoo.cfg."""
        self._place, self._settings = place, settings
        place.folder.mkdir()

    @property
    def address(self) -> str:
        return self._place.plan.address("zookeeper")

    def start(self) -> None:
        """Returns when it answers."""
        with processes.umask(0o022):
            command = ZOOKEEPER.prepare(self._place)
        with (self._place.folder / "zoo.cfg").open("a", encoding="utf-8") as file:
            file.writelines(f"{key}={value}\n" for key, value in self._settings.items())
        processes.start(self._place.folder, command, self._place.account)
        wait_until(lambda: answers(ZOOKEEPER, self._place), f"the server in {self._place.folder}")

    def kill(self) -> None:
        """SIGKILL."""
        processes.kill(self._place.folder)

    def empty(self) -> None:
        """Deletes all that it has stored, while it does not run."""
        shutil.rmtree(self._place.data)

    def keep(self, folder: Path) -> None:
        """Copies all that it has stored, while it does not run."""
        shutil.copytree(self._place.data, folder)

    def restore(self, folder: Path) -> None:
        """Has what `keep` has copied, and nothing else, while it does not run."""
        self.empty()
        shutil.copytree(folder, self._place.data)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        pid = processes.pid(self._place.folder)
        assert pid is not None
        os.kill(pid, number)


@contextmanager
def private_zookeeper(
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[PrivateZooKeeper]:
    with open_folder() as folder:
        server = PrivateZooKeeper(place_of(ZOOKEEPER, folder, Plan.new()), settings)
        try:
            server.start()
            yield server
        finally:
            server.kill()
