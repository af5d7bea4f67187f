"""Binlog event headers and types: which carry rows, which have no effect on rows, which cannot be
read.

Layout: MySQL Internals "Binary Log Event"; numbers as in `binlog_event.h` of MySQL and
`log_event.h` of MariaDB.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from pymysqlreplication.constants import BINLOG

HEADER = struct.Struct("<IBIIIH")
IGNORABLE_FLAG = 0x80
SESSION_FLAG = 0x04  # LOG_EVENT_THREAD_SPECIFIC_F

HEARTBEAT_V2 = 0x29
HEARTBEATS = {BINLOG.HEARTBEAT_LOG_EVENT, HEARTBEAT_V2}
GTIDS_BEFORE_FILE = {BINLOG.PREVIOUS_GTIDS_LOG_EVENT, BINLOG.MARIADB_GTID_GTID_LIST_EVENT}
# Events that change no row and end no transaction.
WITHOUT_EFFECT = {
    BINLOG.STOP_EVENT,
    BINLOG.INTVAR_EVENT,
    BINLOG.RAND_EVENT,
    BINLOG.USER_VAR_EVENT,
    BINLOG.IGNORABLE_LOG_EVENT,
    BINLOG.ROWS_QUERY_LOG_EVENT,
    0x24,  # TRANSACTION_CONTEXT, group replication
    0x25,  # VIEW_CHANGE, group replication
    BINLOG.MARIADB_ANNOTATE_ROWS_EVENT,
    BINLOG.MARIADB_BINLOG_CHECKPOINT_EVENT,
    BINLOG.MARIADB_START_ENCRYPTION_EVENT,
    # Pieces of a file for LOAD DATA in statement format, or its removal: only EXECUTE_LOAD_QUERY
    # loads it.
    BINLOG.BEGIN_LOAD_QUERY_EVENT,
    BINLOG.APPEND_BLOCK_EVENT,
    BINLOG.DELETE_FILE_EVENT,
}
# Events that change rows, or may, in ways this release cannot decode: reading stops before them.
UNREADABLE = {
    0x1A: "INCIDENT (the server itself says that its binlog may lack changes)",
}
GTID_TAGGED = 0x2A
EXECUTE_LOAD_QUERY = 0x12
TRANSACTION_PAYLOAD = 0x28
XA_PREPARE = 0x26
# Servers take the no-break space of a single-byte character set for a blank: A0, or FF in cp852,
# cp866 and keybcs2. In a text that was encoded again in UTF-8 it is C2 A0.
_NO_BREAK = rb"\xC2?\xA0|\xFF"
# A comment: between marks, or from a sign to the end of its line; the sign `--` is one before a
# blank or a line break. It is atomic (?>), as the number of attempts to extend it over those after
# it would double with each.
COMMENT = rb"(?>/\*(?!M?!).*?\*/|(?:#|--(?=[\0- \x7f]|" + _NO_BREAK + rb"))[^\n]*\n)"
# The marks of version-specific code: MariaDB's own is code to MariaDB, and a comment to MySQL.
_MARKS = (rb"/\*M?!\d*", rb"(?:/\*!\d*|(?>/\*M!.*?\*/))")
# Texts in quotes, with a backslash that escapes, and without (sql_mode NO_BACKSLASH_ESCAPES).
_QUOTED = (rb"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", rb"'[^']*'|\"[^\"]*\"")


def _statement(begin: Callable[[bytes], bytes]) -> re.Pattern[bytes]:
    """A statement that begins so, whatever precedes it, in each way in which a server may read it.
    `begin` takes what may stand between words."""
    ways = []
    # Each way apart: in one expression, the number of attempts would double with each mark.
    for marks in _MARKS:
        gap = rb"(?:\s|" + _NO_BREAK + rb"|" + marks + rb"|\*/|" + COMMENT + rb")"
        for quoted in _QUOTED:
            # MariaDB's prefix, up to its FOR outside of quotes and comments.
            part = rb"(?>" + COMMENT + rb"|" + quoted + rb"|`[^`]*`|.)"
            setting = rb"(?>SET" + gap + rb"+STATEMENT\b" + part + rb"*?(?<![@\w])FOR\b)"
            ways.append(rb"(?:" + gap + rb"|" + setting + rb")*" + begin(gap))
    return re.compile(b"|".join(ways), re.IGNORECASE | re.DOTALL)


def _changes_rows(gap: bytes) -> bytes:
    form = rb"FORMAT" + gap + rb"*=" + gap + rb"*['\"]?\w+['\"]?" + gap + rb"+"
    analyze = rb"ANALYZE" + gap + rb"+(?:" + form + rb")?"
    verbs = rb"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|SELECT|DO)\b"
    return rb"(?:" + analyze + rb")?" + verbs


def _creates_table(gap: bytes) -> bytes:
    return rb"CREATE" + gap + rb"+(?:OR" + gap + rb"+REPLACE" + gap + rb"+)?TABLE\b"


def _changes_tables(gap: bytes) -> bytes:
    verb = rb"(?:ALTER|DROP|RENAME|CREATE" + gap + rb"+OR" + gap + rb"+REPLACE)" + gap + rb"+"
    return verb + rb"(?:(?:ONLINE|IGNORE)" + gap + rb"+)*(?:TABLES?|DATABASE|SCHEMA)\b"


# Statements that change rows when logged as text; SELECT and DO through the functions they call.
ROW_STATEMENT = _statement(_changes_rows)
CREATE_TABLE = _statement(_creates_table)
TRUNCATE = _statement(lambda _: rb"TRUNCATE\b")
# Statements that change or replace tables which are there already, none of a session alone.
CHANGES_TABLES = _statement(_changes_tables)
BEGIN = re.compile(rb"BEGIN|START TRANSACTION|XA START .*", re.IGNORECASE | re.DOTALL)
COMMIT = re.compile(rb"COMMIT", re.IGNORECASE)
ROLLBACK = re.compile(rb"ROLLBACK", re.IGNORECASE)
ROLLBACK_TO = re.compile(rb"ROLLBACK\s+(?:WORK\s+)?TO\b.*", re.IGNORECASE | re.DOTALL)
INSIDE = re.compile(rb"(?:SAVEPOINT|RELEASE\s+SAVEPOINT|XA\s+END)\b.*", re.IGNORECASE | re.DOTALL)


def checksum_bytes_of(format_description: bytes) -> int:
    """The size of the checksum after each event of a binlog file, from the file's first event."""
    # Before that event's own checksum, which it has even where the others have none.
    if format_description[-5] == 1:
        return 4
    return 0


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """Returns a length-encoded integer and the index after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
