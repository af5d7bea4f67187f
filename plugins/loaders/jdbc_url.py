"""Converts the JDBC addresses of task files to the arguments of the Python drivers. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.mysql_tls import BY_ITSELF, MysqlTls, TlsMode

Arguments = dict[str, Any]


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

    def connect_arguments(self) -> Arguments:
        """All arguments. Reads the certificates that they name; raises ConfigError for an unusable
        file."""
        return {**self.arguments, **self.mysql_tls.driver_arguments()}


def read_url(target: JdbcTarget) -> JdbcUrl:
    """Parses the target's address; its user and password override those in the address. Raises
    ConfigError, naming what it cannot read."""
    for prefix, read in _READERS.items():
        if target.url.startswith(prefix):
            return read(target.url[len(prefix) :], target)
    raise ConfigError(
        f"JDBC address {_without_parameters(target.url)} is none of {', '.join(_READERS)}"
    )


def _without_parameters(url: str) -> str:
    """The address for messages: parameters, and the text before an @, may hold a password."""
    address = re.split("[?;]", url, maxsplit=1)[0]
    return re.sub(r"^((?:\w+:)*(?://)?).*@", r"\1", address, flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Parts:
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
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{hosts}/{self.database}"


HOST: Final = re.compile(r"(\[[^\]]+\]|[^:\[\]()=]*)(?::(\d+))?")


def _parts(rest: str, target: JdbcTarget, default_port: int) -> _Parts:
    address, _, query = rest.partition("?")
    if not address.startswith("//"):
        address = f"//localhost/{address.lstrip('/')}"
    authority, _, database = address[2:].partition("/")
    login, _, hosts = authority.rpartition("@")
    parameters = _parameters(query)
    login_user, _, login_password = login.partition(":")
    user = target.user or parameters.pop("user", unquote(login_user))
    password = target.password or parameters.pop("password", unquote(login_password))
    parameters.pop("user", None)
    parameters.pop("password", None)
    return _Parts(
        [_host(text, default_port, target) for text in hosts.split(",")],
        unquote(database),
        parameters,
        user,
        password,
    )


def _parameters(query: str) -> dict[str, str]:
    return {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)}


def _host(text: str, default_port: int, target: JdbcTarget) -> tuple[str, int]:
    match = HOST.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"JDBC address {_without_parameters(target.url)}: {text} is not HOST or HOST:PORT"
        )
    return match[1].strip("[]") or "localhost", int(match[2] or default_port)


Setting = Callable[[str, Arguments], None]


def _argument(name: str, convert: Callable[[str], Any] = str) -> Setting:
    """Handles a parameter that the driver has under another name."""

    def put(value: str, arguments: Arguments) -> None:
        arguments[name] = convert(value)

    return put


def _ignore(value: str, arguments: Arguments) -> None:
    """Ignores a parameter that matters only to the Java driver."""


def _ignored(names: str) -> dict[str, Setting]:
    """Ignores parameters that matter only to the Java driver."""
    return dict.fromkeys(names.split(), _ignore)


def _is_true(value: str) -> bool:
    return value.lower() in ("true", "1", "yes", "")


def _apply(
    parameters: Mapping[str, str],
    known: Mapping[str, Setting],
    arguments: Arguments,
    target: JdbcTarget,
) -> None:
    for name, value in parameters.items():
        if name not in known:
            raise ConfigError(
                f"JDBC address {_without_parameters(target.url)}: parameter {name} is not known; "
                "leave it out"
            )
        try:
            known[name](value, arguments)
        except (ValueError, KeyError):
            raise ConfigError(
                f"JDBC address {_without_parameters(target.url)}: parameter {name} cannot be "
                f"{value}"
            ) from None


# PostgreSQL


SETTINGS: Final = "settings"
"""The key of server settings among the arguments: they are set after connecting, as poolers drop
the settings that a session starts with."""
LOCK_SECONDS: Final = 20
"""How long a statement waits for a lock, unless the address says otherwise: after that the log says
why, and the batch is repeated."""
IDLE_SECONDS: Final = 60
"""After this time without a statement the server rolls back a transaction: its process hangs."""
GONE_SECONDS: Final = 6
"""After this time without an answer a machine counts as down."""
POSTGRESQL_DEFAULTS: Final = {
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
}
"""Defaults that the address can override. Keep-alive is the server's: it rolls back the transaction
of a client machine that is down."""
POSTGRESQL_FIXED: Final = {
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "IntervalStyle": "postgres",
}
"""Settings that the form of cells relies on."""


def _pg_option(name: str) -> Setting:
    """Handles a server setting."""

    def put(value: str, arguments: Arguments) -> None:
        arguments[SETTINGS][name] = value

    return put


def _pg_ssl(value: str, arguments: Arguments) -> None:
    if _is_true(value):
        arguments.setdefault("sslmode", "verify-full")


def _pg_ssl_factory(value: str, arguments: Arguments) -> None:
    """Accepts pgjdbc's own factories; others are refused, as their checks are unknown."""
    match value.rpartition(".")[2]:
        case "NonValidatingFactory":
            arguments["sslmode"] = "require"
        case "DefaultJavaSSLFactory":
            arguments["sslrootcert"] = "system"
        case "LibPQFactory" | "":
            pass
        case _:
            raise ValueError(value)


def _pg_ssl_key(value: str, arguments: Arguments) -> None:
    """Accepts PKCS-8 in PEM and DER, refuses pgjdbc's third form, PKCS-12."""
    if value.lower().endswith((".p12", ".pfx")):
        raise ValueError(value)
    arguments["sslkey"] = value


def _pg_socket_timeout(value: str, arguments: Arguments) -> None:
    """A server that is down is noticed after this time, whether data is being sent or awaited."""
    if seconds := int(value):
        arguments.update(tcp_user_timeout=seconds * 1000, keepalives_idle=seconds)


PG_OPTION: Final = re.compile(r"(?:-c\s*|--)([\w.-]+)=(.*)", re.DOTALL)


def _pg_options(value: str, arguments: Arguments) -> None:
    """Any number of `-c NAME=VALUE` or `--NAME=VALUE`, with blanks and backslashes escaped."""
    # `-c NAME` as one word
    joined = re.sub(r"-c\s+", "-c", value)
    for word in re.findall(r"(?:\\.|\S)+", joined):
        match = PG_OPTION.fullmatch(re.sub(r"\\(.)", r"\1", word))
        if match is None:
            raise ValueError(value)
        arguments[SETTINGS][match[1].replace("-", "_")] = match[2]


POSTGRESQL_SERVER_TYPES: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferprimary": "any",
    "prefersecondary": "prefer-standby",
    "preferslave": "prefer-standby",
}
POSTGRESQL_PARAMETERS: Final[Mapping[str, Setting]] = {
    **_ignored(
        "stringtype rewritebatchedinserts binarytransfer defaultrowfetchsize loggerlevel "
        "loggerfile preparedstatementcachequeries preparedstatementcachesizemib autosave "
        "useunicode characterencoding charset servertimezone allowencodingchanges "
        "cancelsignaltimeout loadbalancehosts hostrecheckseconds assumeminserverversion "
        "prefer_query_mode preferquerymode readonly escapesyntaxcallmode "
        "logunclosedconnections"
    ),
    "sslmode": _argument("sslmode"),
    "ssl": _pg_ssl,
    "sslfactory": _pg_ssl_factory,
    "sslrootcert": _argument("sslrootcert"),
    "sslcert": _argument("sslcert"),
    "sslkey": _pg_ssl_key,
    "sslpassword": _argument("sslpassword"),
    "sslnegotiation": _argument("sslnegotiation", str.lower),
    "channelbinding": _argument("channel_binding"),
    "gssencmode": _argument("gssencmode", str.lower),
    "applicationname": _argument("application_name"),
    "currentschema": _pg_option("search_path"),
    "options": _pg_options,
    "connecttimeout": _argument("connect_timeout", int),
    "logintimeout": _argument("connect_timeout", int),
    "sockettimeout": _pg_socket_timeout,
    "tcpkeepalive": _argument("keepalives", lambda value: int(_is_true(value))),
    "preparethreshold": _argument("prepare_threshold", lambda value: int(value) or None),
    "targetservertype": _argument(
        "target_session_attrs", lambda value: POSTGRESQL_SERVER_TYPES[value.lower()]
    ),
}


def _postgresql(rest: str, target: JdbcTarget) -> JdbcUrl:
    parts = _parts(rest, target, 5432)
    arguments: Arguments = {
        "host": ",".join(host for host, _ in parts.hosts),
        "port": ",".join(str(port) for _, port in parts.hosts),
        "dbname": parts.database or parts.user,
        "user": parts.user,
        "password": parts.password,
        "connect_timeout": math.ceil(target.max_wait_seconds),
        "client_encoding": "utf8",
        "application_name": f"cdcbus {target.task_id}".strip(),
        "keepalives_idle": 3,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": GONE_SECONDS * 1000,
        SETTINGS: {},
    }
    _apply(parts.parameters, POSTGRESQL_PARAMETERS, arguments, target)
    settings = POSTGRESQL_DEFAULTS | arguments.pop(SETTINGS) | POSTGRESQL_FIXED
    return JdbcUrl("postgresql", f"postgresql://{parts.shown}", arguments, settings=settings)


# MySQL and MariaDB

# Zero dates, zero ids and backslashes pass as the source wrote them; a value that does not fit is
# an error, never truncated.
MYSQL_MODE: Final = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES"
# MariaDB truncates fractional seconds that do not fit a column, unless this mode makes it round
# like MySQL, which has no such mode and sees a comment.
MARIADB_MODE: Final = "/*M!100401 ',TIME_ROUND_FRACTIONAL'*/"
MYSQL_SESSION: Final = f"time_zone='+00:00', sql_mode='{MYSQL_MODE}'{MARIADB_MODE}"
MARIADB_IDLE: Final = f"/*M!100300 idle_transaction_timeout={IDLE_SECONDS},*/"
MYSQL_DEFAULTS: Final = (
    f"innodb_lock_wait_timeout={LOCK_SECONDS}, lock_wait_timeout={LOCK_SECONDS}, {MARIADB_IDLE}"
)
"""Defaults that the address can override."""


JAVA_STORES: Final = (
    ("trustcertificatekeystoreurl", "ca"),
    ("truststore", "ca"),
    ("clientcertificatekeystoreurl", "certificate"),
    ("keystore", "certificate"),
)
STORE_REMEDIES: Final = {
    "ca": "name the issuers' certificates as one PEM file: serverSslCert=/path/ca.pem",
    "certificate": "name certificate and key as one PEM file: keyStore=/path/client.pem",
}


def _mysql_tls(parameters: Mapping[str, str], is_mariadb: bool, target: JdbcTarget) -> MysqlTls:
    """Converts the TLS parameters of MySQL's and MariaDB's drivers; a mode overrides the older
    switches."""
    mode = _mysql_tls_mode(parameters, is_mariadb, target)
    files = {"ca": parameters.get("serversslcert", "").removeprefix("file:"), "certificate": ""}
    for name, use in JAVA_STORES:
        file = parameters.get(name, "").removeprefix("file:")
        if not file or (use == "ca" and not mode.is_verifying):
            continue
        if not file.lower().endswith(".pem"):
            raise ConfigError(
                f"JDBC address {_without_parameters(target.url)}: parameter {name} names a store "
                f"that only Java reads; {STORE_REMEDIES[use]}"
            )
        files[use] = files[use] or file
    if mode is TlsMode.DISABLED:
        return MysqlTls(mode)
    if mode is TlsMode.PREFERRED and files["certificate"]:
        mode = TlsMode.REQUIRED
    return MysqlTls(mode, files["ca"] if mode.is_verifying else "", files["certificate"])


def _mysql_tls_mode(parameters: Mapping[str, str], is_mariadb: bool, target: JdbcTarget) -> TlsMode:
    def is_set(name: str, default: bool = False) -> bool:
        return _is_true(parameters[name]) if name in parameters else default

    if "sslmode" in parameters:
        name = parameters["sslmode"].lower().replace("_", "-")
        try:
            return MYSQL_TLS_MODES[name]
        except KeyError:
            raise ConfigError(
                f"JDBC address {_without_parameters(target.url)}: parameter sslmode cannot be "
                f"{parameters['sslmode']}; "
                f"expected one of {', '.join(MYSQL_TLS_MODES)}"
            ) from None
    if not is_set("usessl", default=True):
        return TlsMode.DISABLED
    if is_set("trustservercertificate"):
        return TlsMode.REQUIRED
    # useSsl=true means all checks to MariaDB's driver, no checks to MySQL's
    if is_mariadb and is_set("usessl"):
        if is_set("disablesslhostnameverification"):
            return TlsMode.VERIFY_CA
        return TlsMode.VERIFY_IDENTITY
    if is_set("verifyservercertificate") or parameters.get("serversslcert"):
        return TlsMode.VERIFY_CA
    return TlsMode.REQUIRED if is_set("requiressl") else TlsMode.PREFERRED


MYSQL_TLS_MODES: Final = {mode.value: mode for mode in TlsMode} | {
    "disable": TlsMode.DISABLED,
    "trust": TlsMode.REQUIRED,
    "verify-full": TlsMode.VERIFY_IDENTITY,
}
"""MySQL's names, and MariaDB's that differ."""
MYSQL_TLS_PARAMETERS: Final = {
    *(name for name, _ in JAVA_STORES),
    *_ignored(
        "sslmode usessl requiressl verifyservercertificate trustservercertificate "
        "disablesslhostnameverification serversslcert trustcertificatekeystoretype "
        "trustcertificatekeystorepassword clientcertificatekeystoretype "
        "clientcertificatekeystorepassword truststoretype truststorepassword keystoretype "
        "keystorepassword keypassword fallbacktosystemtruststore fallbacktosystemkeystore "
        "enabledtlsprotocols tlsversions enabledsslprotocolsuites tlsciphersuites "
        "enabledsslciphersuites"
    ),
}


def _milliseconds(*names: str) -> Setting:
    """Handles a time limit that the driver takes in seconds, under these names; 0 = no limit."""

    def put(value: str, arguments: Arguments) -> None:
        seconds = -(-int(value) // 1000)  # rounded up: a limit below a second stays a limit
        if seconds:
            arguments.update(dict.fromkeys(names, seconds))

    return put


def _mysql_variables(value: str, arguments: Arguments) -> None:
    """Adds session variables; our own come last, so that they take effect."""
    arguments["init_command"] = f"SET {MYSQL_DEFAULTS} {value}, {MYSQL_SESSION}"


MYSQL_PARAMETERS: Final[Mapping[str, Setting]] = {
    **_ignored(
        "useunicode characterencoding connectioncollation servertimezone connectiontimezone "
        "forceconnectiontimezonetosession zerodatetimebehavior rewritebatchedstatements "
        "allowpublickeyretrieval autoreconnect failoverreadonly maxreconnects "
        "autoreconnectforpools useaffectedrows useserverprepstmts usecursorfetch "
        "cacheprepstmts prepstmtcachesize prepstmtcachesqllimit allowmultiqueries "
        "tinyint1isbit yearisdatetype nullcatalogmeanscurrent usejdbccomplianttimezoneshift "
        "uselegacydatetimecode allowloadlocalinfile usecompression usebulkstmts "
        "cacheserverconfiguration uselocalsessionstate elidesetautocommits maintaintimestats "
        "usessps jdbccomplianttruncation usecursorsfetch defaultfetchsize "
        "nodatetimestringsync useinformationschema tcpkeepalive usemysqlmetadata"
    ),
    **dict.fromkeys(MYSQL_TLS_PARAMETERS, _ignore),
    "connecttimeout": _milliseconds("connect_timeout"),
    "sockettimeout": _milliseconds("read_timeout", "write_timeout"),
    "sessionvariables": _mysql_variables,
}


def _mysql(rest: str, target: JdbcTarget) -> JdbcUrl:
    parts = _parts(rest, target, 3306)
    if len(parts.hosts) > 1:
        raise ConfigError(
            f"JDBC address {_without_parameters(target.url)}: several hosts are not supported for "
            "MySQL; name one or a proxy"
        )
    [(host, port)] = parts.hosts
    arguments: Arguments = {
        "host": host,
        "port": port,
        "database": parts.database or None,
        "user": parts.user,
        "password": parts.password.encode(),  # the driver would encode it as Latin-1
        "charset": "utf8mb4",
        "connect_timeout": math.ceil(target.max_wait_seconds),
        "init_command": f"SET {MYSQL_DEFAULTS} {MYSQL_SESSION}",
    }
    _apply(parts.parameters, MYSQL_PARAMETERS, arguments, target)
    tls = _mysql_tls(parts.parameters, target.url.startswith("jdbc:mariadb:"), target)
    return JdbcUrl("mysql", f"mysql://{parts.shown}", arguments, tls)


# Oracle

ORACLE_FORMS: Final = (
    "jdbc:oracle:thin:@HOST:PORT:SID, jdbc:oracle:thin:@//HOST:PORT/SERVICE, "
    "jdbc:oracle:thin:@(DESCRIPTION=...) "
    "or jdbc:oracle:thin:@TNSNAME, with USER/PASSWORD before the @ or without"
)
ORACLE_ADDRESS: Final = re.compile(
    r"(?:(?P<user>[^/@()]*)/(?P<password>.*))?@(?P<dsn>[^@?]+)(?:\?(?P<query>.*))?", re.DOTALL
)
ORACLE_HOST: Final = r"(?:\[[^\]\s]+\]|[^:/\[\]()=,\s]+)"
ORACLE_SID: Final = re.compile(rf"(?://)?(?P<host>{ORACLE_HOST}):(?P<port>\d+):(?P<sid>[^:/()\s]+)")
ORACLE_SERVICE: Final = re.compile(
    rf"(?:(?P<protocol>tcps?:)?//)?"
    rf"(?P<hosts>{ORACLE_HOST}(?::\d+)?(?:,{ORACLE_HOST}(?::\d+)?)*)/(?P<service>[^()=\s]+)"
)
ORACLE_NAME: Final = re.compile(r"\w[\w.$#-]*")


def _file(value: str) -> str:
    return value.removeprefix("file:")


ORACLE_PARAMETERS: Final[Mapping[str, Setting]] = {
    **_ignored(
        "oracle.jdbc.timezoneasregion oracle.jdbc.defaultrowprefetch defaultrowprefetch "
        "oracle.jdbc.defaultbatchvalue defaultbatchvalue oracle.jdbc.defaultlobprefetchsize "
        "remarksreporting oracle.jdbc.remarksreporting includesynonyms "
        "oracle.jdbc.mapdatetotimestamp oracle.jdbc.j2ee13compliant oracle.jdbc.fanenabled "
        "oracle.jdbc.maxcachedbuffersize oracle.jdbc.autocommitspeccompliant "
        "oracle.jdbc.defaultnchar usefetchsizewithlongcolumn oracle.net.disableoob"
    ),
    "tns_admin": _argument("config_dir"),
    "oracle.net.tns_admin": _argument("config_dir"),
    "oracle.jdbc.readtimeout": _argument("call_timeout", int),
    "oracle.net.connect_timeout": _milliseconds("tcp_connect_timeout"),
    "connect_timeout": _argument("tcp_connect_timeout", int),
    "transport_connect_timeout": _argument("tcp_connect_timeout", int),
    "retry_count": _argument("retry_count", int),
    "retry_delay": _argument("retry_delay", int),
    "expire_time": _argument("expire_time", int),
    "sdu": _argument("sdu", int),
    "wallet_location": _argument("wallet_location", _file),
    "oracle.net.wallet_location": _argument("wallet_location", _file),
    "ssl_server_dn_match": _argument(
        "ssl_server_dn_match", lambda value: value.lower() == "on" or _is_true(value)
    ),
    "oracle.net.ssl_server_dn_match": _argument(
        "ssl_server_dn_match", lambda value: value.lower() == "on" or _is_true(value)
    ),
    "ssl_server_cert_dn": _argument("ssl_server_cert_dn"),
    "oracle.net.ssl_server_cert_dn": _argument("ssl_server_cert_dn"),
    "v$session.program": _argument("program"),
    "v$session.machine": _argument("machine"),
    "v$session.osuser": _argument("osuser"),
    "v$session.terminal": _argument("terminal"),
    "oracle.jdbc.editionname": _argument("edition"),
    "oracle.jdbc.implicitstatementcachesize": _argument("stmtcachesize", int),
}


def _oracle(rest: str, target: JdbcTarget) -> JdbcUrl:
    """Parses an Oracle address. The arguments are those of oracledb's thin mode. A TNSNAME is
    looked up in tnsnames.ora in the folder TNS_ADMIN."""
    address = ORACLE_ADDRESS.fullmatch(rest)
    dsn = _oracle_dsn(address["dsn"].strip()) if address else None
    if address is None or dsn is None:
        raise ConfigError(f"JDBC address of Oracle: use {ORACLE_FORMS}")
    parameters = _parameters(address["query"] or "")
    user = parameters.pop("user", address["user"] or "")
    password = parameters.pop("password", address["password"] or "")
    arguments: Arguments = {
        "user": target.user or _unquoted(user),
        "password": target.password or _unquoted(password),
        "dsn": dsn,
        "tcp_connect_timeout": math.ceil(target.max_wait_seconds),
        # the driver refuses blanks and other special characters
        "program": re.sub(r"[^A-Za-z0-9.-]+", "-", f"cdcbus {target.task_id}".strip()),
    }
    _apply(parameters, ORACLE_PARAMETERS, arguments, target)
    return JdbcUrl(
        "oracle",
        f"oracle:{dsn}",
        arguments,
        call_timeout_milliseconds=arguments.pop("call_timeout", 0),
    )


def _unquoted(text: str) -> str:
    """Removes quotes: Oracle allows them around a text with a / or an @."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1] if is_quoted else text


def _oracle_dsn(text: str) -> str | None:
    """The DSN as the driver takes it: a descriptor, [PROTOCOL://]HOSTS:PORT/SERVICE, or a name in
    tnsnames.ora. None for anything else."""
    if text.startswith("("):
        return text
    if match := ORACLE_SID.fullmatch(text):
        host = match["host"].strip("[]")
        place = f"(ADDRESS=(PROTOCOL=tcp)(HOST={host})(PORT={match['port']}))"
        return f"(DESCRIPTION={place}(CONNECT_DATA=(SID={match['sid']})))"
    if match := ORACLE_SERVICE.fullmatch(text):
        protocol = "tcps://" if match["protocol"] == "tcps:" else ""
        port = "" if re.search(r":\d+$", match["hosts"]) else ":1521"
        return f"{protocol}{match['hosts']}{port}/{match['service']}"
    return text if ORACLE_NAME.fullmatch(text) else None


_READERS: Final[Mapping[str, Callable[[str, JdbcTarget], JdbcUrl]]] = {
    "jdbc:postgresql:": _postgresql,
    "jdbc:mysql:": _mysql,
    "jdbc:mariadb:": _mysql,
    "jdbc:oracle:thin:": _oracle,
}
