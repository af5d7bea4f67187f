"""Connections to a target, and its errors as ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import TargetMisconfigured, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders.jdbc_url import JdbcUrl
from cdcbus.plugins.loaders.sql import SqlDialect


@dataclass(frozen=True, slots=True)
class Database:
    """A target's pool of connections, and how it is spoken to. `shown` is its address for messages."""

    engine: Engine
    dialect: SqlDialect
    shown: str

    @contextmanager
    def reported(self, what: str, columns: Collection[str] = ()) -> Iterator[None]:
        """Turns driver errors inside the block into TargetErrors that say where and `what`. `columns`: those of the statement, in order.

        The driver's error is not chained: its text may hold cells.
        """
        try:
            yield
        except DBAPIError as error:
            diagnosis = self.dialect.diagnose(error, columns)
            cure = "; check loader.source.userName, its password and its rights" if diagnosis.error is TargetMisconfigured else ""
            raise diagnosis.error(f"{self.shown}, {what}: {diagnosis.text}{cure}") from None
        except PoolTimeout:
            raise TargetUnavailable(f"{self.shown}, {what}: all connections stayed busy; raise the pool's size") from None
        except UnicodeEncodeError:
            raise TargetRejected(f"{self.shown}, {what}: a cell holds half a character (a lone surrogate)") from None


def open_database(target: JdbcTarget, url: JdbcUrl, dialect: SqlDialect) -> Database:
    """Connects at first use; READ COMMITTED, as gap locks would make lanes wait for each other."""
    engine = create_engine(
        f"{dialect.driver}://",
        connect_args=dict(url.arguments),
        pool_size=target.pool_size,
        max_overflow=0,
        pool_pre_ping=True,
        isolation_level="READ COMMITTED",
        hide_parameters=True,
    )
    return Database(engine, dialect, url.shown)
