"""JDBC addresses as task files hold them, read into what the Python drivers take. Pure."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JdbcUrl:
    """A target's address. `dialect`: postgresql, mysql (MariaDB too) or oracle. `shown` is for messages: no user, no password.
    `arguments` are those of the driver's connect function; not shown by repr, as they hold the password."""

    dialect: str
    shown: str
    arguments: Mapping[str, Any] = field(repr=False)


def read_url(target: JdbcTarget) -> JdbcUrl:
    """The target's address; its user and password win over those in the address. Raises ConfigError naming what it cannot read."""
    for prefix, read in _READERS.items():
        if target.url.startswith(prefix):
            return read(target.url[len(prefix) :], target)
    raise ConfigError(f"JDBC address {_without_parameters(target.url)} is none of {', '.join(_READERS)}")


def _without_parameters(url: str) -> str:
    """Parameters may hold a password, and so may what stands before an @."""
    return re.sub(r"//[^/@]*@", "//", re.split("[?;]", url, maxsplit=1)[0])


@dataclass(frozen=True, slots=True)
class _Parts:
    """HOSTS/DATABASE?PARAMETERS; parameter names in lower case, as JDBC drivers differ in case."""

    hosts: list[tuple[str, int]]
    database: str
    parameters: dict[str, str]
    user: str
    password: str

    @property
    def shown(self) -> str:
        return f"{','.join(f'{host}:{port}' for host, port in self.hosts)}/{self.database}"


HOST: Final = re.compile(r"(\[[^\]]+\]|[^:\[\]()=]*)(?::(\d+))?")


def _parts(rest: str, target: JdbcTarget, default_port: int) -> _Parts:
    address, _, query = rest.partition("?")
    if not address.startswith("//"):
        address = f"//localhost/{address.lstrip('/')}"
    authority, _, database = address[2:].partition("/")
    login, _, hosts = authority.rpartition("@")
    parameters = {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)}
    login_user, _, login_password = login.partition(":")
    user = target.user or parameters.pop("user", unquote(login_user))
    password = target.password or parameters.pop("password", unquote(login_password))
    parameters.pop("user", None)
    parameters.pop("password", None)
    return _Parts([_host(text, default_port, target) for text in hosts.split(",")], unquote(database), parameters, user, password)


def _host(text: str, default_port: int, target: JdbcTarget) -> tuple[str, int]:
    match = HOST.fullmatch(text)
    if match is None:
        raise ConfigError(f"JDBC address {_without_parameters(target.url)}: {text} is not HOST or HOST:PORT")
    return match[1].strip("[]") or "localhost", int(match[2] or default_port)


Setting = Callable[[str, Arguments], None]


def _argument(name: str, convert: Callable[[str], Any] = str) -> Setting:
    """A parameter that the driver has under another name."""

    def put(value: str, arguments: Arguments) -> None:
        arguments[name] = convert(value)

    return put


def _ignore(value: str, arguments: Arguments) -> None:
    """A parameter of the Java driver that means nothing here."""


def _is_true(value: str) -> bool:
    return value.lower() in ("true", "1", "yes", "")


def _apply(parts: _Parts, known: Mapping[str, Setting], arguments: Arguments, target: JdbcTarget) -> None:
    for name, value in parts.parameters.items():
        if name not in known:
            raise ConfigError(f"JDBC address {_without_parameters(target.url)}: parameter {name} is not known; leave it out")
        try:
            known[name](value, arguments)
        except (ValueError, KeyError):
            raise ConfigError(f"JDBC address {_without_parameters(target.url)}: parameter {name} cannot be {value}") from None


# PostgreSQL


def _pg_option(name: str) -> Setting:
    """A server setting, set when the session starts."""

    def put(value: str, arguments: Arguments) -> None:
        escaped = re.sub(r"([\\ ])", r"\\\1", value)
        arguments["options"] += f" -c {name}={escaped}"

    return put


def _pg_ssl(value: str, arguments: Arguments) -> None:
    if _is_true(value):
        arguments.setdefault("sslmode", "verify-full")


def _pg_ssl_factory(value: str, arguments: Arguments) -> None:
    if value.endswith("NonValidatingFactory"):
        arguments["sslmode"] = "require"


def _pg_options(value: str, arguments: Arguments) -> None:
    arguments["options"] += f" {value}"


POSTGRESQL_SERVER_TYPES: Final = {
    "any": "any", "primary": "primary", "master": "primary", "secondary": "standby", "slave": "standby",
    "preferprimary": "any", "prefersecondary": "prefer-standby", "preferslave": "prefer-standby",
}  # fmt: skip
POSTGRESQL_PARAMETERS: Final[Mapping[str, Setting]] = {
    "sslmode": _argument("sslmode"), "ssl": _pg_ssl, "sslfactory": _pg_ssl_factory,
    "sslrootcert": _argument("sslrootcert"), "sslcert": _argument("sslcert"), "sslkey": _argument("sslkey"),
    "sslpassword": _argument("sslpassword"), "channelbinding": _argument("channel_binding"),
    "gssencmode": _argument("gssencmode", str.lower), "applicationname": _argument("application_name"),
    "currentschema": _pg_option("search_path"), "options": _pg_options,
    "connecttimeout": _argument("connect_timeout", int), "logintimeout": _argument("connect_timeout", int),
    "tcpkeepalive": _argument("keepalives", lambda value: int(_is_true(value))),
    "preparethreshold": _argument("prepare_threshold", lambda value: int(value) or None),
    "targetservertype": _argument("target_session_attrs", lambda value: POSTGRESQL_SERVER_TYPES[value.lower()]),
} | dict.fromkeys(
    ("sockettimeout", "stringtype", "rewritebatchedinserts", "binarytransfer", "defaultrowfetchsize", "loggerlevel", "loggerfile",
     "preparedstatementcachequeries", "preparedstatementcachesizemib", "autosave", "useunicode", "characterencoding", "charset",
     "servertimezone", "allowencodingchanges", "cancelsignaltimeout", "loadbalancehosts", "hostrecheckseconds", "assumeminserverversion",
     "prefer_query_mode", "preferquerymode", "readonly", "escapesyntaxcallmode", "logunclosedconnections"), _ignore
)  # fmt: skip


def _postgresql(rest: str, target: JdbcTarget) -> JdbcUrl:
    parts = _parts(rest, target, 5432)
    arguments: Arguments = {
        "host": ",".join(host for host, _ in parts.hosts),
        "port": ",".join(str(port) for _, port in parts.hosts),
        "dbname": parts.database or parts.user,
        "user": parts.user,
        "password": parts.password,
        "connect_timeout": target.connect_timeout_seconds,
        "client_encoding": "utf8",
        "application_name": f"cdcbus {target.task_id}".strip(),
        "options": "-c TimeZone=UTC",
    }
    _apply(parts, POSTGRESQL_PARAMETERS, arguments, target)
    return JdbcUrl("postgresql", f"postgresql://{parts.shown}", arguments)


# MySQL and MariaDB

# Zero dates, zero ids and backslashes pass as the source wrote them; what does not fit is an error, never cut.
MYSQL_MODE: Final = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES"
MYSQL_SESSION: Final = f"time_zone='+00:00', sql_mode='{MYSQL_MODE}'"


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


MYSQL_SSL_MODES: Final[Mapping[str, Callable[[], Arguments]]] = {
    "disabled": lambda: {"ssl_disabled": True},
    "preferred": dict,
    "required": lambda: {"ssl": _unverified()},
    "verifyca": lambda: {"ssl_verify_cert": True},
    "verifyidentity": lambda: {"ssl_verify_cert": True, "ssl_verify_identity": True},
}
MARIADB_SSL_MODES: Final = {"disable": "disabled", "trust": "required", "verifyfull": "verifyidentity"}


def _mysql_ssl_mode(value: str, arguments: Arguments) -> None:
    mode = value.lower().replace("_", "").replace("-", "")
    arguments.update(MYSQL_SSL_MODES[MARIADB_SSL_MODES.get(mode, mode)]())


def _mysql_ssl(when: bool, mode: str) -> Setting:
    def put(value: str, arguments: Arguments) -> None:
        if _is_true(value) is when:
            _mysql_ssl_mode(mode, arguments)

    return put


def _milliseconds(*names: str) -> Setting:
    def put(value: str, arguments: Arguments) -> None:
        seconds = -(-int(value) // 1000)
        arguments.update({name: seconds for name in names if seconds})

    return put


def _mysql_variables(value: str, arguments: Arguments) -> None:
    """Ours stay last, so that they hold."""
    arguments["init_command"] = f"SET {value}, {MYSQL_SESSION}"


MYSQL_PARAMETERS: Final[Mapping[str, Setting]] = {
    "sslmode": _mysql_ssl_mode, "usessl": _mysql_ssl(False, "disabled"), "requiressl": _mysql_ssl(True, "required"),
    "verifyservercertificate": _mysql_ssl(True, "verifyca"), "trustservercertificate": _mysql_ssl(True, "required"),
    "serversslcert": _argument("ssl_ca"),
    "connecttimeout": _milliseconds("connect_timeout"), "sockettimeout": _milliseconds("read_timeout", "write_timeout"),
    "sessionvariables": _mysql_variables,
} | dict.fromkeys(
    ("useunicode", "characterencoding", "connectioncollation", "servertimezone", "connectiontimezone", "forceconnectiontimezonetosession",
     "zerodatetimebehavior", "rewritebatchedstatements", "allowpublickeyretrieval", "autoreconnect", "failoverreadonly", "maxreconnects",
     "autoreconnectforpools", "useaffectedrows", "useserverprepstmts", "usecursorfetch", "cacheprepstmts", "prepstmtcachesize",
     "prepstmtcachesqllimit", "allowmultiqueries", "tinyint1isbit", "yearisdatetype", "nullcatalogmeansCurrent".lower(),
     "usejdbccomplianttimezoneshift", "uselegacydatetimecode", "allowloadlocalinfile", "usecompression", "usebulkstmts",
     "cacheserverconfiguration", "uselocalsessionstate", "elidesetautocommits", "maintaintimestats", "usessps", "jdbccomplianttruncation",
     "usecursorsfetch", "defaultfetchsize", "nodatetimestringsync", "useinformationschema", "tcpkeepalive", "usemysqlmetadata"), _ignore
)  # fmt: skip


def _mysql(rest: str, target: JdbcTarget) -> JdbcUrl:
    parts = _parts(rest, target, 3306)
    if len(parts.hosts) > 1:
        raise ConfigError(f"JDBC address {_without_parameters(target.url)}: several hosts are not supported for MySQL; name one or a proxy")
    [(host, port)] = parts.hosts
    arguments: Arguments = {
        "host": host,
        "port": port,
        "database": parts.database or None,
        "user": parts.user,
        "password": parts.password,
        "charset": "utf8mb4",
        "connect_timeout": target.connect_timeout_seconds,
        "init_command": f"SET {MYSQL_SESSION}",
    }
    _apply(parts, MYSQL_PARAMETERS, arguments, target)
    return JdbcUrl("mysql", f"mysql://{parts.shown}", arguments)


# Oracle

ORACLE_ADDRESS: Final = re.compile(r"(?:(?P<user>[^/@()]*)/(?P<password>[^@()]*))?@(?P<dsn>.+)", re.DOTALL)
ORACLE_SID: Final = re.compile(r"(?P<host>[^:/()]+):(?P<port>\d+):(?P<sid>[^:/()]+)")
ORACLE_SERVICE: Final = re.compile(r"(?://)?(?P<host>[^:/()]+)(?::(?P<port>\d+))?/(?P<service>[^:/()?]+)")


def _oracle(rest: str, target: JdbcTarget) -> JdbcUrl:
    address = ORACLE_ADDRESS.fullmatch(rest)
    dsn = _oracle_dsn(address["dsn"].strip()) if address else None
    if address is None or dsn is None:
        raise ConfigError(
            "JDBC address of Oracle: use jdbc:oracle:thin:@HOST:PORT:SID, jdbc:oracle:thin:@//HOST:PORT/SERVICE "
            "or jdbc:oracle:thin:@(DESCRIPTION=...)"
        )
    arguments = {"user": target.user or address["user"], "password": target.password or address["password"], "dsn": dsn}
    return JdbcUrl("oracle", f"oracle:{dsn}", arguments | {"tcp_connect_timeout": target.connect_timeout_seconds})


def _oracle_dsn(text: str) -> str | None:
    if text.startswith("("):
        return text
    if match := ORACLE_SID.fullmatch(text):
        host, port, sid = match["host"], match["port"], match["sid"]
        return f"(DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST={host})(PORT={port}))(CONNECT_DATA=(SID={sid})))"
    if match := ORACLE_SERVICE.fullmatch(text):
        return f"{match['host']}:{match['port'] or 1521}/{match['service']}"
    return None


_READERS: Final[Mapping[str, Callable[[str, JdbcTarget], JdbcUrl]]] = {
    "jdbc:postgresql:": _postgresql,
    "jdbc:mysql:": _mysql,
    "jdbc:mariadb:": _mysql,
    "jdbc:oracle:thin:": _oracle,
}
