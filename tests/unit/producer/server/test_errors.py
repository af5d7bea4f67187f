"""A driver's error in our words; the errors themselves come from real servers in
tests/integration/producer."""

from __future__ import annotations

import pickle
import ssl

import pymysql
import pytest

from cdcbus.plugins.errors import (
    PositionLost,
    SourceError,
    SourceMisconfigured,
    SourceRefused,
    SourceUnavailable,
)
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server.errors import source_error


def of_tls(cause: ssl.SSLError) -> pymysql.err.OperationalError:
    """As the driver raises what goes wrong between two ends of TLS."""
    error = pymysql.err.OperationalError(2003, f"Can't connect ({cause})")
    error.original_exception = cause  # type: ignore[attr-defined]
    return error


CONFIG = SourceConfig((("db.example", 3306),), "reader", "s3cret")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            pymysql.err.OperationalError(1045, "Access denied"),
            SourceRefused,
            "consumer.source.username and password",
        ),
        (
            pymysql.err.OperationalError(1227, "Access denied; REPLICATION SLAVE"),
            SourceRefused,
            "GRANT REPLICATION SLAVE",
        ),
        (
            pymysql.err.OperationalError(1236, "Could not find first log file name"),
            PositionLost,
            "Could not find first log",
        ),
        (
            pymysql.err.OperationalError(1236, "Could not open log file"),
            SourceUnavailable,
            "cannot read its binlog now",
        ),
        (
            pymysql.err.OperationalError(1236, "I/O error reading log event; the first event"),
            SourceUnavailable,
            "I/O error reading log event",
        ),
        (
            pymysql.err.OperationalError(1236, "memory allocation failed reading log event"),
            SourceUnavailable,
            "cannot read its binlog now",
        ),
        (
            pymysql.err.OperationalError(1862, "Your password has expired"),
            SourceRefused,
            "does not let user reader in (1862 Your password has expired)",
        ),
        (pymysql.err.OperationalError(1129, "Host is blocked"), SourceRefused, "does not let"),
        (pymysql.err.OperationalError(1130, "not allowed"), SourceRefused, "does not let"),
        (pymysql.err.OperationalError(3118, "Account is locked"), SourceRefused, "is locked"),
        (pymysql.err.OperationalError(4151, "Account is locked"), SourceRefused, "is locked"),
        (
            pymysql.err.OperationalError(
                1236, "A replica with the same server_uuid/server_id as this replica has connected"
            ),
            SourceMisconfigured,
            "consumer.source.slaveId",
        ),
        (
            pymysql.err.OperationalError(4052, "A slave with the same server_uuid/server_id"),
            SourceMisconfigured,
            "consumer.source.slaveId",
        ),
        (
            pymysql.err.OperationalError(2003, "Can't connect"),
            SourceUnavailable,
            "cannot be reached: Can't connect; check its address, and that it runs",
        ),
        (
            pymysql.err.OperationalError(2026, "SSL is required"),
            SourceRefused,
            "sslMode=preferred (SSL is required)",
        ),
        (
            pymysql.err.OperationalError(3159, "require_secure_transport=ON"),
            SourceRefused,
            "consumer.source.sslMode",
        ),
        (
            of_tls(ssl.SSLCertVerificationError(1, "certificate verify failed")),
            SourceRefused,
            "certificate verify failed",
        ),
        (of_tls(ssl.SSLError(1, "unsupported protocol")), SourceRefused, "unsupported protocol"),
        (of_tls(ssl.SSLEOFError(8, "EOF occurred")), SourceUnavailable, "EOF occurred"),
        (
            pymysql.err.OperationalError(2013, "Lost connection"),
            SourceUnavailable,
            "Lost connection",
        ),
        (
            pymysql.err.OperationalError(1053, "Server shutdown in progress"),
            SourceUnavailable,
            "shutdown",
        ),
        (
            pymysql.err.InternalError(3, "Error writing file '/tmp/MY' (Errcode: 28)"),
            SourceUnavailable,
            "Errcode: 28",
        ),
        (pymysql.err.InterfaceError(0, ""), SourceUnavailable, "cannot be reached"),
        (TimeoutError("timed out"), SourceUnavailable, "timed out"),
        (ConnectionResetError(104, "Connection reset by peer"), SourceUnavailable, "reset"),
        (
            EOFError("the server ended the binlog stream"),
            SourceUnavailable,
            "ended the binlog stream",
        ),
        (
            pymysql.err.ProgrammingError(1146, "no such table"),
            SourceMisconfigured,
            "1146 no such table",
        ),
    ],
)
def test_each_error_has_its_class_and_says_where(
    error: Exception, kind: type[SourceError], words: str
) -> None:
    found = source_error(error, CONFIG)
    assert type(found) is kind
    assert "db.example:3306" in str(found)
    assert words in str(found)
    assert "s3cret" not in str(found)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_the_password_is_not_shown() -> None:
    assert "s3cret" not in repr(CONFIG)
