"""A JDBC address, its parts, and its form for messages: what all SQL databases share. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.mysql.tls import BY_ITSELF, MysqlTls

Arguments = dict[str, Any]
# What begins a query; other text after a ? can belong to a password.
QUERY: Final = re.compile(r"\?[\w.$-]+(?:[=&]|\Z)")
# An @ behind the place of the hosts: the / or ? before it is part of a login.
HALF_LOGIN: Final = re.compile("//.*[/?].*@", re.DOTALL)
ESCAPED: Final = "a / or ? in a user or password as %2F and %3F"
PREFIX: Final = re.compile(r"(?:jdbc:(?:oracle:)?\w+:)?")
HOST: Final = re.compile(r"(\[[^\]]+\]|[^:\[\]()=]*)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class JdbcUrl:
    """A target's address. `dialect`: postgresql, mysql (MariaDB too) or oracle. `shown` is for
    messages: no user, no password. `arguments` are those of the driver's connect function, without
    `mysql_tls`; hidden from repr, as they hold the password. `call_timeout_milliseconds`: the limit
    for Oracle's answers, 0 = none. `settings`: PostgreSQL's, for each transaction."""

    dialect: str
    shown: str
    arguments: Mapping[str, Any] = field(repr=False)
    mysql_tls: MysqlTls = BY_ITSELF
    call_timeout_milliseconds: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> list[str]:
        """The files of certificates and keys that it names."""
        wallet = self.arguments.get("wallet_location")
        of_driver = (self.arguments.get(name) for name in ("sslrootcert", "sslcert", "sslkey"))
        found = (*of_driver, wallet and f"{wallet}/ewallet.pem", *self.mysql_tls.files_written_at())
        return [name for name in found if name]

    def connect_arguments(self) -> Arguments:
        """All arguments. Reads the certificates that they name; raises ConfigError for an unusable
        file."""
        return {**self.arguments, **self.mysql_tls.driver_arguments()}


@dataclass(frozen=True, slots=True)
class Parts:
    """HOSTS/DATABASE?PARAMETERS; parameter names are in lower case, as JDBC drivers differ in
    theirs."""

    hosts: list[tuple[str, int]]
    database: str
    parameters: dict[str, str]
    user: str
    password: str

    @property
    def shown(self) -> str:
        """The address for messages, without parameters and login."""
        hosts = []
        for host, port in self.hosts:
            hosts.append(f"{host}:{port}")
        return f"{','.join(hosts)}/{self.database}"


def parts_of(rest: str, target: JdbcTarget, default_port: int) -> Parts:
    """`rest`: the target's address after its prefix. Raises ConfigError."""
    before_query = QUERY.split(rest, maxsplit=1)[0]
    if HALF_LOGIN.match(before_query):
        raise refused(target, f"write {ESCAPED}, an @ in the database's name as %40")
    if "@" in before_query and not rest.startswith("//"):
        raise refused(
            target, "an @ ends a login: write // before it; in a database's name write %40"
        )
    address, _, query = rest.partition("?")
    # PostgreSQL's short form: a database on this machine
    if not address.startswith("//"):
        address = f"//localhost/{address.lstrip('/')}"
    authority, _, database = address[2:].partition("/")
    # the last @, as a password may hold one
    login, _, names = authority.rpartition("@")
    parameters = parameters_of(query)
    login_user, _, login_password = login.partition(":")
    user = parameters.pop("user", unquote(login_user))
    password = parameters.pop("password", unquote(login_password))
    hosts = []
    for name in names.split(","):
        hosts.append(_host(name, default_port, target))
    return Parts(
        hosts,
        unquote(database),
        parameters,
        target.user or user,
        target.password or password,
    )


def parameters_of(query: str) -> dict[str, str]:
    """The parameters by name in lower case."""
    return {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)}


def _host(text: str, default_port: int, target: JdbcTarget) -> tuple[str, int]:
    match = HOST.fullmatch(text)
    if match is None:
        # Not shown: it can be the first part of a login.
        raise refused(target, f"expected HOST or HOST:PORT, and {ESCAPED}")
    try:
        # As a look-up does, whose error would be no database's.
        match[1].encode("idna")
    except UnicodeError as error:
        raise refused(
            target, "a part of the host's name is empty or longer than 63 characters"
        ) from error
    return match[1].strip("[]") or "localhost", int(match[2] or default_port)


def refused(target: JdbcTarget, why: str) -> ConfigError:
    """The error for a target whose address cannot be read."""
    return ConfigError(f"JDBC address {without_parameters(target.url)}: {why}")


def without_parameters(url: str) -> str:
    """The address for messages: parameters, and the text before an @, may hold a password."""
    found = PREFIX.match(url)
    prefix = found[0] if found else ""
    address, *rest = re.split("[?;]", url.removeprefix(prefix), maxsplit=1)
    # A password that holds a ? or ; looks the same as a parameter that holds an @. In brackets are
    # parameters, too: address=(host=...)(password=...).
    if "@" in "".join(rest) or "(" in address:
        return f"{prefix}..."
    return prefix + re.sub("^(//)?.*@", r"\1", address, flags=re.DOTALL)
