"""Converts the JDBC addresses of task files to the arguments of the Python drivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders.dialects.jdbc_address import JdbcUrl, without_parameters
from cdcbus.plugins.loaders.dialects.mysql.jdbc_address import read_mysql
from cdcbus.plugins.loaders.dialects.oracle.jdbc_address import read_oracle
from cdcbus.plugins.loaders.dialects.postgresql.jdbc_address import read_postgresql

READERS: Final[Mapping[str, Callable[[str, JdbcTarget], JdbcUrl]]] = {
    "jdbc:postgresql:": read_postgresql,
    "jdbc:mysql:": read_mysql,
    "jdbc:mariadb:": read_mysql,
    "jdbc:oracle:thin:": read_oracle,
}


def database_of(url: str) -> str:
    """The database that an address is for: postgresql, mysql (MariaDB too) or oracle; empty for
    another one."""
    for prefix in READERS:
        if url.startswith(prefix):
            name = prefix.split(":")[1]
            return "mysql" if name == "mariadb" else name
    return ""


def read_url(target: JdbcTarget) -> JdbcUrl:
    """Parses the target's address; its user and password override those in the address. Raises
    ConfigError, naming what it cannot read."""
    for prefix, read in READERS.items():
        if target.url.startswith(prefix):
            return read(target.url.removeprefix(prefix), target)
    known = ", ".join(READERS)
    raise ConfigError(f"JDBC address {without_parameters(target.url)} is none of {known}")
