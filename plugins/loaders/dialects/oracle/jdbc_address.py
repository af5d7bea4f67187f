"""Converts a JDBC address of Oracle to the arguments of oracledb. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders.dialects.jdbc_address import Arguments, JdbcUrl, parameters_of
from cdcbus.plugins.loaders.dialects.jdbc_parameters import (
    Setting,
    apply,
    argument,
    ignored,
    is_true,
    seconds,
)

ORACLE_FORMS: Final = (
    "jdbc:oracle:thin:@HOST:PORT:SID, jdbc:oracle:thin:@//HOST:PORT/SERVICE, "
    "jdbc:oracle:thin:@(DESCRIPTION=...) "
    "or jdbc:oracle:thin:@TNSNAME, with USER/PASSWORD before the @ or without"
)
MISSHAPEN: Final = f"JDBC address of Oracle: use {ORACLE_FORMS}"
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


def _is_on(value: str) -> bool:
    return value.lower() == "on" or is_true(value)


ORACLE_PARAMETERS: Final[Mapping[str, Setting]] = {
    **ignored(
        "oracle.jdbc.timezoneasregion oracle.jdbc.defaultrowprefetch defaultrowprefetch "
        "oracle.jdbc.defaultbatchvalue defaultbatchvalue oracle.jdbc.defaultlobprefetchsize "
        "remarksreporting oracle.jdbc.remarksreporting includesynonyms "
        "oracle.jdbc.mapdatetotimestamp oracle.jdbc.j2ee13compliant oracle.jdbc.fanenabled "
        "oracle.jdbc.maxcachedbuffersize oracle.jdbc.autocommitspeccompliant "
        "oracle.jdbc.defaultnchar usefetchsizewithlongcolumn oracle.net.disableoob"
    ),
    "tns_admin": argument("config_dir"),
    "oracle.net.tns_admin": argument("config_dir"),
    "oracle.jdbc.readtimeout": argument("call_timeout", int),
    "oracle.net.connect_timeout": seconds("tcp_connect_timeout"),
    "connect_timeout": argument("tcp_connect_timeout", int),
    "transport_connect_timeout": argument("tcp_connect_timeout", int),
    "retry_count": argument("retry_count", int),
    "retry_delay": argument("retry_delay", int),
    "expire_time": argument("expire_time", int),
    "sdu": argument("sdu", int),
    "wallet_location": argument("wallet_location", _file),
    "oracle.net.wallet_location": argument("wallet_location", _file),
    "ssl_server_dn_match": argument("ssl_server_dn_match", _is_on),
    "oracle.net.ssl_server_dn_match": argument("ssl_server_dn_match", _is_on),
    "ssl_server_cert_dn": argument("ssl_server_cert_dn"),
    "oracle.net.ssl_server_cert_dn": argument("ssl_server_cert_dn"),
    "v$session.program": argument("program"),
    "v$session.machine": argument("machine"),
    "v$session.osuser": argument("osuser"),
    "v$session.terminal": argument("terminal"),
    "oracle.jdbc.editionname": argument("edition"),
    "oracle.jdbc.implicitstatementcachesize": argument("stmtcachesize", int),
}


def read_oracle(rest: str, target: JdbcTarget) -> JdbcUrl:
    """Reads the address after its prefix. The arguments are those of oracledb's thin mode. A
    TNSNAME is looked up in tnsnames.ora in the folder TNS_ADMIN. Raises ConfigError."""
    address = ORACLE_ADDRESS.fullmatch(rest)
    if address is None:
        raise ConfigError(MISSHAPEN)
    dsn = _dsn(address["dsn"].strip())
    parameters = parameters_of(address["query"] or "")
    user = parameters.pop("user", address["user"] or "")
    password = parameters.pop("password", address["password"] or "")
    task = f"cdcbus {target.task_id}".strip()
    arguments: Arguments = {
        "user": target.user or _unquoted(user),
        "password": target.password or _unquoted(password),
        "dsn": dsn,
        "tcp_connect_timeout": math.ceil(target.max_wait_seconds),
        # the driver refuses blanks and other special characters
        "program": re.sub(r"[^A-Za-z0-9.-]+", "-", task),
        # Minutes without data before the kernel asks whether the server's machine is still there.
        "expire_time": 1,
    }
    apply(parameters, ORACLE_PARAMETERS, arguments, target)
    # an attribute of the open connection, no argument of the connect
    call_timeout = arguments.pop("call_timeout", 0)
    return JdbcUrl("oracle", f"oracle:{dsn}", arguments, call_timeout_milliseconds=call_timeout)


def _unquoted(text: str) -> str:
    """Removes quotes: Oracle allows them around a text with a / or an @."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    return text


def _dsn(text: str) -> str:
    """The DSN as the driver takes it: a descriptor, [PROTOCOL://]HOSTS:PORT/SERVICE, or a name in
    tnsnames.ora. Raises ConfigError for anything else."""
    if text.startswith("("):
        return text
    if match := ORACLE_SID.fullmatch(text):
        host = match["host"].strip("[]")
        place = f"(ADDRESS=(PROTOCOL=tcp)(HOST={host})(PORT={match['port']}))"
        return f"(DESCRIPTION={place}(CONNECT_DATA=(SID={match['sid']})))"
    if match := ORACLE_SERVICE.fullmatch(text):
        hosts = match["hosts"]
        if not re.search(r":\d+$", hosts):
            hosts += ":1521"
        dsn = f"{hosts}/{match['service']}"
        return f"tcps://{dsn}" if match["protocol"] == "tcps:" else dsn
    if ORACLE_NAME.fullmatch(text):
        return text
    raise ConfigError(MISSHAPEN)
