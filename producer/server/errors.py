"""What an error of a source server, or of the connection to it, means. Pure."""

from __future__ import annotations

import re

import pymysql

from cdcbus.plugins.errors import (
    CHECK_SERVER,
    PositionLost,
    SourceError,
    SourceMisconfigured,
    SourceRefused,
    SourceUnavailable,
)
from cdcbus.plugins.mysql.tls import TLS_ERRORS, is_tls_refusal
from cdcbus.producer.config import SourceConfig

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
    if isinstance(error, pymysql.err.InternalError):
        if isinstance(code, int):
            # of the operating system, as of a disk that is full, or too many open files
            return SourceUnavailable(f"source {where} cannot answer now ({code} {text})")
        # the driver's own: packets out of order, as behind a proxy
        return SourceUnavailable(f"source {where} answers with a broken stream: {text}")
    if isinstance(
        error, pymysql.err.OperationalError | pymysql.err.InterfaceError | OSError | EOFError
    ):
        return SourceUnavailable(f"source {where} cannot be reached: {text}{CHECK_SERVER}")
    return SourceMisconfigured(f"source {where} answers with an error ({code} {text})")
