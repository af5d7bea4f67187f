"""What an error of a source server, or of the connection to it, means. Pure."""

from __future__ import annotations

import re
from typing import Final

import pymysql

from cdcbus.plugins.errors import (
    CHECK_SERVER,
    PositionLost,
    SourceError,
    SourceMisconfigured,
    SourceRefused,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.mysql.tls import TLS_ERRORS, is_tls_refusal
from cdcbus.producer.config import SourceConfig

OF_CLIENT: Final = range(2000, 3000)
"""The driver's own numbers: no connection, or a lost one."""
AWAY: Final = (pymysql.OperationalError, pymysql.InterfaceError, pymysql.InternalError)
_PASSING: Final = {
    *(1205, 1213, 1020, 1180, 1412, 1615),  # locks, a changed row, a table altered meanwhile
    *(1927, 4031, 1152, 1158, 1159, 1160, 1161),  # killed, idle, network
    *(1040, 1041, 1037, 1038, 1135, 1203, 1226),  # connections, memory, limits of a user
    *(1021, 1114, 1024, 1026, 1030, 1016, 1023, 1878),  # disk, files, the storage engine
    *(1053, 1079, 1047, 1317, 1969, 3024),  # shutdown, cluster not ready, interrupted, time limits
    *(3168, 3169, 9001, 9002, 9004),  # not ready, killed; ProxySQL reaches no server
    *(1045, 1129, 1130, 1251, 1698, 1862),  # logins
}
# A table's file is damaged, in MyISAM and Aria until it is repaired; no tablespace.
_DAMAGED: Final = {126, 127, 130, 131, 132, 134, 136, 140, 144, 145, 155, 175, 176, 194}
# The operating system's numbers: a file that is missing, and one of another owner.
_UNOPENED: Final = {2, 13}
# A file that cannot be read, looked at or opened; the text says by which of these numbers.
_OF_FILES: Final = {2, 9, 13, 29, 1016, 1024, 1030}
_FILE_ERROR = re.compile(r"(?:Got error|Errcode|errno):? (\d+)", re.I)
_ACCESS_DENIED = {1044, 1045, 1698, 1251, 2059}
# host blocked, host not allowed, password expired (twice), account locked (MySQL, MariaDB)
_NOT_LET_IN = {1129, 1130, 1820, 1862, 3118, 4151}
_NO_PRIVILEGE = {1142, 1227, 1370}
_LOG_LOST = 1236
# What both servers say under the number of a lost log where they cannot read a file that they hold.
_UNREAD = re.compile(r"could not open log file|I/O error|memory allocation|decryption fail", re.I)
_SAME_SERVER_ID = 4052  # MariaDB; MySQL reports this with the number of a lost log


def source_error(error: Exception, config: SourceConfig) -> SourceError:
    """Converts a driver's error into ours: what failed, where, what to do. Server texts of these
    kinds hold no cell values."""
    host, port = config.addresses[0]
    where = f"{host}:{port}"
    code, text = 0, str(error)
    if isinstance(error, pymysql.Error) and error.args:
        code, text = error.args[0], str(error.args[-1])
    if code in _ACCESS_DENIED:
        return SourceRefused(
            f"source {where} refuses user {config.user} ({code}): check consumer.source.username "
            "and password"
        )
    if code in _NOT_LET_IN:
        return SourceRefused(
            f"source {where} does not let user {config.user} in ({code} {text}); change that there"
        )
    if code in TLS_ERRORS or is_tls_refusal(error):
        return SourceRefused(
            f"source {where}: no TLS connection with consumer.source.sslMode={config.tls.mode} "
            f"({text}); check it, sslCa, sslCert, sslKey"
        )
    if code in _NO_PRIVILEGE:
        return SourceRefused(
            f"source {where}: user {config.user} may not read the binlog ({code} {text}); "
            f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO that user"
        )
    if code == _SAME_SERVER_ID or (code == _LOG_LOST and "same server_uuid/server_id" in text):
        return SourceMisconfigured(
            f"source {where} has let another reader with the same server id in and ended this one "
            f"({code}): "
            "give each task a consumer.source.slaveId of its own, and run none twice"
        )
    if code == _LOG_LOST and _UNREAD.search(text):
        return SourceUnavailable(
            f"source {where} cannot read its binlog now ({code} {text}); its error log says more"
        )
    if code == _LOG_LOST:
        return PositionLost(
            f"source {where} cannot send the binlog from the wanted position ({code} {text})"
        )
    if isinstance(error, AWAY) and code_of(error) not in (0, *OF_CLIENT):
        # as of a disk that is full, or too many connections
        return SourceUnavailable(f"source {where} cannot answer now ({code} {text})")
    if isinstance(error, pymysql.err.InternalError):
        # the driver's own: packets out of order, as behind a proxy
        return SourceUnavailable(f"source {where} answers with a broken stream: {text}")
    if isinstance(
        error, pymysql.err.OperationalError | pymysql.err.InterfaceError | OSError | EOFError
    ):
        return SourceUnavailable(f"source {where} cannot be reached: {text}{CHECK_SERVER}")
    return SourceMisconfigured(f"source {where} answers with an error ({code} {text})")


def is_of_binlog(error: SourceError) -> bool:
    """Whether an error while the binlog is read is one of its files: the server itself answers."""
    if isinstance(error, PositionLost | UnreadableEvent):
        return True
    cause = error.__cause__
    # MariaDB gives the number of a file that is not found, MySQL that of a lost log.
    return isinstance(cause, pymysql.Error) and code_of(cause) in {_LOG_LOST, *_OF_FILES}


def passes(error: pymysql.Error) -> bool:
    """Whether the same statement may be answered later. The driver's classes do not tell: an
    unknown column is an OperationalError, too."""
    code = code_of(error)
    # Numbers below are those of the server's file layer, as of a disk that is full.
    is_of_server = code >= 1000 and code not in OF_CLIENT
    may_pass = isinstance(error, AWAY) and (not is_of_server or code in _PASSING)
    return may_pass and not _is_of_one_table(code, str(error.args[-1:]))


def _is_of_one_table(code: int, text: str) -> bool:
    """Whether an error of the server's files is one of a single table, which stays until somebody
    mends the table."""
    if code in _DAMAGED:
        return True
    number = _FILE_ERROR.search(text) if code in _OF_FILES else None
    return number is not None and int(number[1]) in _DAMAGED | _UNOPENED


def code_of(error: pymysql.Error) -> int:
    """The error's number; 0 for one of the driver's own that has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0
