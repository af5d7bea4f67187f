"""Loads batches of row changes into targets: makes loaders by the name in a task file, and
recognizes the kind of a target by its address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cdcbus.plugins.contracts import JdbcTarget, Loader
from cdcbus.plugins.loaders.dialect import SqlDialect
from cdcbus.plugins.loaders.dialects.mysql.dialect import Mysql
from cdcbus.plugins.loaders.dialects.oracle.dialect import Oracle
from cdcbus.plugins.loaders.dialects.postgresql.dialect import Postgresql
from cdcbus.plugins.loaders.dry_run import JdbcSqlDebug
from cdcbus.plugins.loaders.engine import Database, open_database
from cdcbus.plugins.loaders.jdbc_url import database_of, read_url
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch, JdbcSingle
from cdcbus.plugins.registry import make_added_loader

LOADERS: Final[dict[str, Callable[[Database, str], Loader]]] = {
    "JdbcBatch": JdbcBatch,
    "JdbcSingle": JdbcSingle,
    "JdbcSqlDebug": JdbcSqlDebug,
}


def make_loader(name: str, target: JdbcTarget) -> Loader:
    """Makes a loader by name, built in or from another package; it connects at first use. Raises
    ConfigError for an unknown name or address."""
    if name in LOADERS:
        return LOADERS[name](open_target(target), target.task_id)
    return make_added_loader(name, target)


def target_kind(name: str, target: JdbcTarget) -> str:
    """What kind of target a loader writes to: a database's name; of a loader from another package
    its own."""
    if name in LOADERS:
        return database_of(target.url)
    return name


def open_target(target: JdbcTarget) -> Database:
    """Returns a target database that connects at first use. Raises ConfigError for an unknown
    address."""
    url = read_url(target)
    dialects: dict[str, SqlDialect] = {
        "postgresql": Postgresql(target.zero_date),
        "mysql": Mysql(),  # needs no policy: it stores zero dates
        "oracle": Oracle(target.zero_date),
    }
    return open_database(target, url, dialects[url.dialect])
