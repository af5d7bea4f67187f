"""Converts a JDBC address of MySQL or MariaDB to the arguments of PyMySQL. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders.dialects.jdbc_address import Arguments, JdbcUrl, parts_of, refused
from cdcbus.plugins.loaders.dialects.jdbc_parameters import (
    IDLE_SECONDS,
    LOCK_SECONDS,
    Setting,
    apply,
    ignored,
    seconds,
)
from cdcbus.plugins.loaders.dialects.mysql.jdbc_tls import MYSQL_TLS_PARAMETERS, mysql_tls

# Zero dates, zero ids and backslashes pass as the source wrote them; a value that does not fit is
# an error, never truncated.
MYSQL_MODE: Final = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES"
# MariaDB truncates fractional seconds that do not fit a column, unless this mode makes it round
# like MySQL, which has no such mode and sees a comment.
MARIADB_MODE: Final = "/*M!100401 ',TIME_ROUND_FRACTIONAL'*/"
# Limits of the whole server would cut answers, and the texts of GROUP_CONCAT, and its moment for
# tables with system versioning would show former rows, all without an error. Its guards against
# careless statements (`max_join_size`, `sql_safe_updates`) would refuse batches.
MYSQL_LIMITS: Final = (
    "/*M!100304 system_versioning_asof=DEFAULT,*/ "
    f"sql_select_limit={2**64 - 1}, group_concat_max_len={1 << 26}, sql_safe_updates=0, "
    "sql_big_selects=1, sql_quote_show_create=1"
)
MYSQL_SESSION: Final = f"{MYSQL_LIMITS}, time_zone='+00:00', sql_mode='{MYSQL_MODE}'{MARIADB_MODE}"
MARIADB_IDLE: Final = f"/*M!100300 idle_transaction_timeout={IDLE_SECONDS},*/"
MYSQL_DEFAULTS: Final = (
    f"innodb_lock_wait_timeout={LOCK_SECONDS}, lock_wait_timeout={LOCK_SECONDS}, {MARIADB_IDLE}"
)
"""Defaults that the address can override."""
MAX_PACKET: Final = "max_allowed_packet"
"""The key in a connection's info of the longest statement that its server takes, in bytes."""


def _session_variables(value: str, arguments: Arguments) -> None:
    """Adds session variables; our own come last, so that they take effect."""
    arguments["init_command"] = f"SET {MYSQL_DEFAULTS} {value}, {MYSQL_SESSION}"


MYSQL_PARAMETERS: Final[Mapping[str, Setting]] = {
    **ignored(
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
    **MYSQL_TLS_PARAMETERS,
    "connecttimeout": seconds("connect_timeout"),
    "sockettimeout": seconds("read_timeout", "write_timeout"),
    "sessionvariables": _session_variables,
}


def read_mysql(rest: str, target: JdbcTarget) -> JdbcUrl:
    """Reads the address after its prefix. Raises ConfigError."""
    parts = parts_of(rest, target, 3306)
    if len(parts.hosts) > 1:
        raise refused(target, "several hosts are not supported for MySQL; name one or a proxy")
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
    apply(parts.parameters, MYSQL_PARAMETERS, arguments, target)
    is_mariadb = target.url.startswith("jdbc:mariadb:")
    tls = mysql_tls(parts.parameters, is_mariadb, target)
    return JdbcUrl("mysql", f"mysql://{parts.shown}", arguments, tls)
