"""A MariaDB source of a test's own, which the test may hurt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Database, Plan
from cdcbus.ops.stack.databases import SOURCE
from cdcbus.ops.stack.server import ServerFolder
from cdcbus.plugins.positions import BinlogPosition
from tests.integration.producer.reading import connect, position
from tests.support.servers.secure_servers import answers, open_folder, place_of
from tests.support.waiting import wait_until


class PrivateMariadb:
    """Its data outlives a kill."""

    def __init__(self, place: ServerFolder, options: tuple[str, ...]) -> None:
        self._place = place
        with processes.umask(0o022):
            place.folder.mkdir()
            self._command = [*SOURCE.prepare(place), *options]

    @property
    def database(self) -> Database:
        return self._place.plan.database("source")

    @property
    def pid(self) -> int:
        """Its process id; 0 when it does not run."""
        return processes.pid(self._place.folder) or 0

    def start(self) -> None:
        """Returns when it answers."""
        processes.start(self._place.folder, self._command, self._place.account)
        wait_until(lambda: answers(SOURCE, self._place), f"the server in {self._place.folder}")

    def kill(self) -> None:
        """SIGKILL."""
        processes.kill(self._place.folder)

    def binlog(self, name: str) -> Path:
        return self._place.data / name

    def execute(self, *statements: str) -> BinlogPosition:
        """Runs statements in a session of their own; returns the end of the binlog afterwards."""
        with connect(self.database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return position(cursor)


@contextmanager
def private_mariadb(*options: str) -> Iterator[PrivateMariadb]:
    """A new server that runs."""
    with open_folder() as folder:
        server = PrivateMariadb(place_of(SOURCE, folder, Plan.new()), options)
        try:
            server.start()
            yield server
        finally:
            server.kill()
