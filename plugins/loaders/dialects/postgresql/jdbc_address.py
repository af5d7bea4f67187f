"""Converts a JDBC address of PostgreSQL to the arguments of psycopg. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders.dialects.jdbc_address import Arguments, JdbcUrl, parts_of
from cdcbus.plugins.loaders.dialects.jdbc_parameters import (
    GONE_SECONDS,
    IDLE_SECONDS,
    LOCK_SECONDS,
    Setting,
    apply,
    argument,
    ignored,
    is_true,
)

SETTINGS: Final = "settings"
"""The key of server settings among the arguments: they are set after connecting, as poolers drop
the settings that a session starts with."""
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
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # a piece of XML is a cell, too
    "xmloption": "content",
    # otherwise NULL in an array is a text of four letters
    "array_nulls": "on",
    # otherwise the catalog quotes the names of types
    "quote_all_identifiers": "off",
}
"""Settings that the form of cells relies on, and that of names."""


def _server_setting(name: str) -> Setting:
    """Handles a parameter that sets one of the server's settings."""

    def put(value: str, arguments: Arguments) -> None:
        arguments[SETTINGS][name] = value

    return put


def _prepare_threshold(value: str) -> int | None:
    """After how many runs a statement is prepared; None: never."""
    return int(value) or None


def _server_type(value: str) -> str:
    return POSTGRESQL_SERVER_TYPES[value.lower()]


def _keepalive(value: str) -> int:
    return int(is_true(value))


def _ssl(value: str, arguments: Arguments) -> None:
    if is_true(value):
        arguments.setdefault("sslmode", "verify-full")


def _ssl_factory(value: str, arguments: Arguments) -> None:
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


def _ssl_key(value: str, arguments: Arguments) -> None:
    """Accepts PKCS-8 in PEM and DER, refuses pgjdbc's third form, PKCS-12."""
    if value.lower().endswith((".p12", ".pfx")):
        raise ValueError(value)
    arguments["sslkey"] = value


def _socket_timeout(value: str, arguments: Arguments) -> None:
    """A server that is down is noticed after this time, whether data is being sent or awaited."""
    if seconds := int(value):
        arguments["tcp_user_timeout"] = seconds * 1000
        arguments["keepalives_idle"] = seconds


OPTION: Final = re.compile(r"(?:-c\s*|--)([\w.-]+)=(.*)", re.DOTALL)


def _options(value: str, arguments: Arguments) -> None:
    """Any number of `-c NAME=VALUE` or `--NAME=VALUE`, with blanks and backslashes escaped."""
    # `-c NAME` as one word
    joined = re.sub(r"-c\s+", "-c", value)
    for escaped in re.findall(r"(?:\\.|\S)+", joined):
        word = re.sub(r"\\(.)", r"\1", escaped)
        match = OPTION.fullmatch(word)
        if match is None:
            raise ValueError(value)
        name = match[1].replace("-", "_")
        arguments[SETTINGS][name] = match[2]


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
    **ignored(
        "stringtype rewritebatchedinserts binarytransfer defaultrowfetchsize loggerlevel "
        "loggerfile preparedstatementcachequeries preparedstatementcachesizemib autosave "
        "useunicode characterencoding charset servertimezone allowencodingchanges "
        "cancelsignaltimeout loadbalancehosts hostrecheckseconds assumeminserverversion "
        "prefer_query_mode preferquerymode readonly escapesyntaxcallmode "
        "logunclosedconnections"
    ),
    "sslmode": argument("sslmode"),
    "ssl": _ssl,
    "sslfactory": _ssl_factory,
    "sslrootcert": argument("sslrootcert"),
    "sslcert": argument("sslcert"),
    "sslkey": _ssl_key,
    "sslpassword": argument("sslpassword"),
    "sslnegotiation": argument("sslnegotiation", str.lower),
    "channelbinding": argument("channel_binding"),
    "gssencmode": argument("gssencmode", str.lower),
    "applicationname": argument("application_name"),
    "currentschema": _server_setting("search_path"),
    "options": _options,
    "connecttimeout": argument("connect_timeout", int),
    "logintimeout": argument("connect_timeout", int),
    "sockettimeout": _socket_timeout,
    "tcpkeepalive": argument("keepalives", _keepalive),
    "preparethreshold": argument("prepare_threshold", _prepare_threshold),
    "targetservertype": argument("target_session_attrs", _server_type),
}


def read_postgresql(rest: str, target: JdbcTarget) -> JdbcUrl:
    """Reads the address after its prefix. Raises ConfigError."""
    parts = parts_of(rest, target, 5432)
    hosts, ports = zip(*parts.hosts, strict=True)
    arguments: Arguments = {
        "host": ",".join(hosts),
        "port": ",".join(map(str, ports)),
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
    apply(parts.parameters, POSTGRESQL_PARAMETERS, arguments, target)
    settings = POSTGRESQL_DEFAULTS | arguments.pop(SETTINGS) | POSTGRESQL_FIXED
    return JdbcUrl("postgresql", f"postgresql://{parts.shown}", arguments, settings=settings)
