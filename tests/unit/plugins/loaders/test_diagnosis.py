"""Driver errors become ours: the class that decides what a task does, and a sentence without
cells."""

import oracledb
import psycopg
import pymysql
import pytest
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.dialects.mysql import errors as mysql_errors
from cdcbus.plugins.loaders.dialects.oracle import errors as oracle_errors
from cdcbus.plugins.loaders.dialects.postgresql import errors as postgresql_errors


def wrapped(error: Exception, base: type[Exception]) -> BaseException:
    """As SQLAlchemy hands a driver's error on."""
    return DBAPIError.instance("INSERT", None, error, base, hide_parameters=True)


@pytest.mark.parametrize(
    ("states", "error"),
    [
        (
            "08006 40001 40P01 53100 53300 55P03 57014 57P01 57P02 57P03 58030 25006 25P03",
            TargetUnavailable,
        ),
        ("28000 28P01 3D000 42501", TargetMisconfigured),
        ("23505 23503 23001 23P01", RowConflict),
        ("22001 22P02 23502 23514 44000 54000", TargetRejected),
        ("42P01 42703 42P10 428C9 0A000 55000", TargetTableUnfit),
        ("P0001 XX000 XX001 42601 25P02 38000", TargetError),
    ],
)
def test_postgresql_states(states: str, error: type[TargetError]) -> None:
    for state in states.split():
        diagnosis = postgresql_errors.diagnose(
            wrapped(psycopg.errors.lookup(state)("SECRET"), psycopg.Error), ()
        )
        assert diagnosis.error is error
        assert diagnosis.text.startswith(f"SQLSTATE {state}: ")
        assert "SECRET" not in diagnosis.text


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (
            'connection failed: FATAL:  password authentication failed for user "cdc"',
            TargetMisconfigured,
        ),
        ('connection failed: FATAL:  database "nope" does not exist', TargetMisconfigured),
        (
            'connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1"',
            TargetMisconfigured,
        ),
        ("connection failed: Connection refused\n\tIs the server running?", TargetUnavailable),
        ("connection failed: FATAL:  the database system is starting up", TargetUnavailable),
        ("the connection is lost", TargetUnavailable),
    ],
)
def test_postgresql_connections(message: str, error: type[TargetError]) -> None:
    diagnosis = postgresql_errors.diagnose(
        wrapped(psycopg.OperationalError(message), psycopg.Error), ()
    )
    assert diagnosis == (error, message.partition("\n")[0])


def test_cells_that_the_postgresql_driver_refuses_are_not_shown() -> None:
    diagnosis = postgresql_errors.diagnose(wrapped(psycopg.DataError("SECRET"), psycopg.Error), ())
    assert diagnosis == (TargetRejected, "the driver refuses the cells (DataError)")


@pytest.mark.parametrize(
    ("number", "message", "error", "text"),
    [
        (1205, "Lock wait timeout exceeded", TargetUnavailable, "Lock wait timeout exceeded"),
        (1213, "Deadlock found", TargetUnavailable, "Deadlock found"),
        (1412, "Table definition has changed, please retry transaction", TargetUnavailable, None),
        (1615, "Prepared statement needs to be re-prepared", TargetUnavailable, None),
        (1290, "The MySQL server is running with the --read-only option", TargetUnavailable, None),
        (2003, "Can't connect to MySQL server on 'h'", TargetUnavailable, None),
        (2013, "Lost connection", TargetUnavailable, None),
        (4031, "The client was disconnected", TargetUnavailable, None),
        (1040, "Too many connections", TargetUnavailable, None),
        (3100, "Error on observer while running replication hook 'before_commit'.",
         TargetUnavailable, "Error on observer while running replication hook 'before_commit': "
                            + mysql_errors.NO_COMMIT),
        (1045, "Access denied for user 'u'@'h'", TargetMisconfigured, None),
        (1142, "INSERT command denied to user 'u'", TargetMisconfigured, None),
        (1049, "Unknown database 'd'", TargetMisconfigured, None),
        (1062, "Duplicate entry 'SECRET' for key 't.one'", RowConflict, "a value that must be "
                                                                        "unique is there already, "
                                                                        "key t.one"),
        (1062, "Duplicate entry 'SECRET for key 'x'' for key 'one'", RowConflict,
         "a value that must be unique is there already, key one"),
        (1366, "Incorrect integer value: 'SECRET' for column `d`.`t`.`v` at row "
               "1", TargetRejected, "a cell does not fit column v"),
        (1366, "Incorrect integer value: 'a column v' for column 'other' at row "
               "1", TargetRejected, "the server refuses the rows"),
        (1366, "Incorrect string value: '\\xF0' for column 'v' at row 1", TargetRejected,
         "text has characters that column v cannot hold: check its character set"),
        (1267, "Illegal mix of collations (latin1_swedish_ci,IMPLICIT) and (utf8mb4_general_ci,"
               "COERCIBLE) for operation '='", TargetRejected,
         "a key has characters that its column cannot hold: check the column's character set"),
        (1267, "Illegal mix of collations (latin1_swedish_ci,IMPLICIT) and (utf8mb4_general_ci,"
               "IMPLICIT) for operation '='", TargetError,
         "the server refuses the statement, and not for what a row holds"),
        (3854, "Cannot convert string '\\xF0' from utf8mb4 to latin1", TargetRejected,
         "a key has characters that its column cannot hold: check the column's character set"),
        (3140, "Invalid JSON text: \"SECRET\" at position 0 in value for column "
               "'t.v'.", TargetRejected, "a cell does not fit column v"),
        (1406, "Data too long for column 'v' at row 1", TargetRejected, "Data too long for column "
                                                                        "'v' at row 1"),
        (1064, "You have an error in your SQL syntax near 'SECRET'", TargetError,
         "the server refuses the statement, and not for what a row holds"),
        (1644, "a trigger says SECRET", TargetError, "a trigger or a check of the target's own "
                                                     "refuses the statement (SIGNAL)"),
        (4161, "Unknown data type: 'vector'", TargetError, None),
        (1071, "Specified key was too long; max key length is 3072 bytes", TargetError, None),
        (1114, "The table 't' is full", TargetUnavailable, "The table 't' is full"),
        (1030, "Got error 28 from storage engine", TargetUnavailable, "Got error 28 from storage "
                                                                      "engine"),
        (3105, "The value specified for generated column 'g' in table 't' is not "
               "allowed.", TargetTableUnfit,
         "the server refuses the statement, and not for what a row holds"),
    ],
)  # fmt: skip
def test_mysql_errors(
    number: int, message: str, error: type[TargetError], text: str | None
) -> None:
    diagnosis = mysql_errors.diagnose(
        wrapped(pymysql.err.OperationalError(number, message), pymysql.err.Error), ("id", "v")
    )
    assert diagnosis == (error, f"errno {number}: {text or message}")


def test_a_commit_that_a_group_refuses_names_the_limit_that_can_be_the_reason() -> None:
    assert "group_replication_transaction_size_limit" in mysql_errors.NO_COMMIT


def test_a_mysql_connection_that_is_closed_already_is_unavailable() -> None:
    diagnosis = mysql_errors.diagnose(
        wrapped(pymysql.err.InterfaceError(0, ""), pymysql.err.Error), ()
    )
    assert diagnosis == (TargetUnavailable, "the connection is lost (InterfaceError)")


class OracleDetail:
    """What the driver's errors carry."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = int(text[4:9]) if text.startswith("ORA-") else 0

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ("ORA-00001: unique constraint (S.ONE) violated on table S.T columns (V)\nORA-03301: row "
         "with column values (V:'SECRET')",
         RowConflict, "ORA-00001: unique constraint (S.ONE) violated on table S.T columns (V)"),
        ("ORA-00060: deadlock detected while waiting for resource", TargetUnavailable, None),
        ("ORA-30006: resource busy; acquire with WAIT timeout expired", TargetUnavailable, None),
        ("ORA-01653: unable to extend table S.T by 128", TargetUnavailable, None),
        ("ORA-12514: TNS:listener does not currently know of service", TargetUnavailable, None),
        ("ORA-01033: ORACLE initialization or shutdown in progress", TargetUnavailable, None),
        ("ORA-01017: invalid username/password; logon denied", TargetMisconfigured, None),
        ("ORA-28000: The account is locked", TargetMisconfigured, None),
        ("ORA-01031: insufficient privileges", TargetMisconfigured, None),
        ('ORA-12899: value too large for column "S"."T"."V" (actual: 5, maximum: '
         '3)', TargetRejected, None),
        ('ORA-01400: cannot insert NULL into ("S"."T"."V")', TargetRejected, None),
        ("ORA-02291: integrity constraint (S.HAS_PARENT) violated - parent key not "
         "found", RowConflict, None),
        ("ORA-02091: transaction rolled back\nORA-00001: unique constraint (S.ONE) "
         "violated\nORA-03301: row with (V:'SECRET')",
         RowConflict, "ORA-00001: unique constraint (S.ONE) violated"),
        ("ORA-00942: table or view does not exist", TargetTableUnfit, None),
        ("ORA-01439: column to be modified must be empty to change datatype", TargetError, None),
        ("ORA-01438: value 4242 greater than specified precision (2, 0) for column "
         "V", TargetRejected,
         "ORA-01438: a cell does not fit column V"),
        ("ORA-01722: unable to convert string value containing 'SECRET' to a "
         "number", TargetRejected, "ORA-01722: a cell does not fit"),
        ("ORA-20001: a trigger says SECRET", TargetError, "ORA-20001: a trigger or a procedure of "
                                                          "the target's own refuses the statement"),
        ("ORA-00600: internal error", TargetError, "ORA-00600: the server refuses the statement, "
                                                   "and not for what a row holds"),
        ("DPY-6005: cannot connect to database (CONNECTION_ID=x).\n[Errno 111] Connection "
         "refused", TargetUnavailable,
         "DPY-6005: cannot connect to database (CONNECTION_ID=x)."),
        ("DPY-6005: cannot connect to database (CONNECTION_ID=x).\ncertificate verify "
         "failed", TargetMisconfigured,
         "DPY-6005: cannot connect to database (CONNECTION_ID=x)."),
        ("DPY-4011: the database or network closed the connection", TargetUnavailable, None),
        ("DPY-4024: call timeout of 5000 ms exceeded", TargetUnavailable, None),
        ("DPY-4001: no credentials specified", TargetMisconfigured, None),
        ("DPY-4003: value SECRET cannot be represented as an Oracle "
         "number", TargetRejected, "the driver refuses the cells (DPY-4003)"),
        ("SECRET", TargetRejected, "the driver refuses the cells (DatabaseError)"),
    ],
)  # fmt: skip
def test_oracle_errors(said: str, error: type[TargetError], text: str | None) -> None:
    diagnosis = oracle_errors.diagnose(
        wrapped(oracledb.DatabaseError(OracleDetail(said)), oracledb.Error), ("K", "V")
    )
    assert diagnosis == (error, text or said)
