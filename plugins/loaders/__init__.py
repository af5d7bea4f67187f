"""Batches of row changes into targets: loaders by the name a task file uses, the target's kind by its address."""

from __future__ import annotations

from typing import Final

from cdcbus.plugins.contracts import JdbcTarget, Loader
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders.engine import open_database
from cdcbus.plugins.loaders.jdbc import JdbcBatch
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.loaders.mysql import Mysql
from cdcbus.plugins.loaders.postgresql import Postgresql
from cdcbus.plugins.loaders.sql import SqlDialect

LOADERS: Final = ("JdbcBatch",)
DIALECTS: Final[dict[str, SqlDialect]] = {"postgresql": Postgresql(), "mysql": Mysql()}


def make_loader(name: str, target: JdbcTarget) -> Loader:
    """A loader by name; it connects at first use. Raises ConfigError for a name or an address that it does not know."""
    if name not in LOADERS:
        raise ConfigError(f"no loader is called {name}; known are {', '.join(LOADERS)}")
    url = read_url(target)
    if url.dialect not in DIALECTS:
        raise ConfigError(f"{url.shown}: {url.dialect} cannot be written to yet; known are {', '.join(DIALECTS)}")
    return JdbcBatch(open_database(target, url, DIALECTS[url.dialect]), target.task_id)
