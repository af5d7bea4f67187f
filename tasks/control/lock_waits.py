"""Says that sessions at the source wait for a table that others have locked, as by LOCK TABLES or
by a change of the table: without a word it would look as if nothing happened."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import pymysql

from cdcbus.plugins.errors import CdcError
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.control.source_of import source_connection

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
LOOK_SECONDS: Final = 10.0
"""How long a wait may take before it is told, and the time between two looks."""
ANSWER_SECONDS: Final = 10.0
UNKNOWN: Final = "(not known which)"
TABLE: Final = re.compile(r"\bFROM `((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")

IsOwn = Callable[[int, str], bool]
"""Whether a session is one of those that are watched, by its id and its user."""


class LockWaits:
    """The waits at one source. `server`: see `source_connection`."""

    def __init__(self, config: SourceConfig, is_own: IsOwn, server: str = "") -> None:
        self._config, self._is_own, self._server = config, is_own, server
        self._reported = set[str]()

    def look(self) -> None:
        """Warns of each table once. Says nothing of a source that does not answer: the sessions
        themselves do."""
        for table in waited_for(self._sessions(), self._is_own):
            if table not in self._reported:
                self._reported.add(table)
                LOG.warning(
                    "source table %s is locked, and has been waited for for more than %g s: "
                    "another session may hold a lock (LOCK TABLES, or a change of the table that "
                    "itself waits for an open transaction); end that session, or wait for it",
                    table,
                    LOOK_SECONDS,
                )

    def _sessions(self) -> Sequence[Sequence[Any]]:
        try:
            with source_connection(self._config, ANSWER_SECONDS, self._server) as connection:
                return servers.query(connection, "SHOW FULL PROCESSLIST")
        except (CdcError, pymysql.Error, OSError, EOFError):
            return ()


@contextmanager
def lock_waits_reported(
    config: SourceConfig, connection: Connection, server: str
) -> Iterator[None]:
    """Warns, while it is open, of tables that the connection waits for. `server`: see
    `source_connection`."""
    [[session]] = servers.query(connection, "SELECT CONNECTION_ID()")
    waits = LockWaits(config, lambda number, _: number == int(session), server)
    is_over = Event()

    def look() -> None:
        while not is_over.wait(LOOK_SECONDS):
            waits.look()

    Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def waited_for(sessions: Iterable[Sequence[Any]], is_own: IsOwn) -> list[str]:
    """The tables that own sessions have waited for long, by the rows of SHOW FULL PROCESSLIST: id,
    user, host, schema, command, seconds, state, text."""
    found = set()
    for number, user, _, _, _, seconds, state, text, *_ in sessions:
        is_long = float(seconds or 0) >= LOOK_SECONDS
        if is_long and is_own(int(number), user) and str(state).startswith("Waiting for table"):
            name = TABLE.search(str(text))
            found.add(".".join(name.groups()).replace("``", "`") if name else UNKNOWN)
    return sorted(found)
