"""Driver errors become ours: the class that decides what a task does, and a sentence without cells."""

import psycopg
import pymysql
import pytest
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.errors import TargetError, TargetMisconfigured, TargetRejected, TargetUnavailable, UniqueViolation
from cdcbus.plugins.loaders import mysql, postgresql


def wrapped(error: Exception, base: type[Exception]) -> BaseException:
    """As SQLAlchemy hands a driver's error on."""
    return DBAPIError.instance("INSERT", None, error, base, hide_parameters=True)


@pytest.mark.parametrize(
    ("states", "error"),
    [
        ("08006 40001 40P01 53100 53300 55P03 57014 57P01 57P02 57P03 58030 25006", TargetUnavailable),
        ("28000 28P01 3D000 42501", TargetMisconfigured),
        ("23505", UniqueViolation),
        ("22001 22P02 23502 23503 23514 23P01 42P01 42703 0A000 54000 P0001 XX000", TargetRejected),
    ],
)
def test_postgresql_states(states: str, error: type[TargetError]) -> None:
    for state in states.split():
        diagnosis = postgresql.diagnose(wrapped(psycopg.errors.lookup(state)("SECRET"), psycopg.Error), ())
        assert diagnosis.error is error
        assert diagnosis.text.startswith(f"SQLSTATE {state}: ")
        assert "SECRET" not in diagnosis.text


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ('connection failed: FATAL:  password authentication failed for user "cdc"', TargetMisconfigured),
        ('connection failed: FATAL:  database "nope" does not exist', TargetMisconfigured),
        ('connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1"', TargetMisconfigured),
        ("connection failed: Connection refused\n\tIs the server running?", TargetUnavailable),
        ("connection failed: FATAL:  the database system is starting up", TargetUnavailable),
        ("the connection is lost", TargetUnavailable),
    ],
)
def test_postgresql_connections(message: str, error: type[TargetError]) -> None:
    diagnosis = postgresql.diagnose(wrapped(psycopg.OperationalError(message), psycopg.Error), ())
    assert diagnosis == (error, message.partition("\n")[0])


def test_cells_that_the_postgresql_driver_refuses_are_not_shown() -> None:
    diagnosis = postgresql.diagnose(wrapped(psycopg.DataError("SECRET"), psycopg.Error), ())
    assert diagnosis == (TargetRejected, "the driver refuses the cells (DataError)")


@pytest.mark.parametrize(
    ("number", "message", "error", "text"),
    [
        (1205, "Lock wait timeout exceeded", TargetUnavailable, "Lock wait timeout exceeded"),
        (1213, "Deadlock found", TargetUnavailable, "Deadlock found"),
        (1290, "The MySQL server is running with the --read-only option", TargetUnavailable, None),
        (2003, "Can't connect to MySQL server on 'h'", TargetUnavailable, None),
        (2013, "Lost connection", TargetUnavailable, None),
        (4031, "The client was disconnected", TargetUnavailable, None),
        (1040, "Too many connections", TargetUnavailable, None),
        (1045, "Access denied for user 'u'@'h'", TargetMisconfigured, None),
        (1142, "INSERT command denied to user 'u'", TargetMisconfigured, None),
        (1049, "Unknown database 'd'", TargetMisconfigured, None),
        (1062, "Duplicate entry 'SECRET' for key 't.one'", UniqueViolation, "a value that must be unique is there already, key t.one"),
        (1062, "Duplicate entry 'SECRET for key 'x'' for key 'one'", UniqueViolation,
         "a value that must be unique is there already, key one"),
        (1366, "Incorrect integer value: 'SECRET' for column `d`.`t`.`v` at row 1", TargetRejected, "a cell does not fit column v"),
        (1366, "Incorrect integer value: 'a column v' for column 'other' at row 1", TargetRejected, "the server refuses the rows"),
        (1366, "Incorrect string value: '\\xF0' for column 'v' at row 1", TargetRejected,
         "text has characters that column v cannot hold: check its character set"),
        (3140, "Invalid JSON text: \"SECRET\" at position 0 in value for column 't.v'.", TargetRejected, "a cell does not fit column v"),
        (1406, "Data too long for column 'v' at row 1", TargetRejected, "Data too long for column 'v' at row 1"),
        (1064, "You have an error in your SQL syntax near 'SECRET'", TargetRejected, "the server refuses the rows"),
        (1644, "a trigger says SECRET", TargetRejected, "the server refuses the rows"),
    ],
)  # fmt: skip
def test_mysql_errors(number: int, message: str, error: type[TargetError], text: str | None) -> None:
    diagnosis = mysql.diagnose(wrapped(pymysql.err.OperationalError(number, message), pymysql.err.Error), ("id", "v"))
    assert diagnosis == (error, f"errno {number}: {text or message}")


def test_a_mysql_connection_that_is_closed_already_is_unavailable() -> None:
    diagnosis = mysql.diagnose(wrapped(pymysql.err.InterfaceError(0, ""), pymysql.err.Error), ())
    assert diagnosis == (TargetUnavailable, "the connection is lost (InterfaceError)")
