"""Binlog event headers and kinds: which carry rows, which mean nothing to them, which cannot be read.

Layout: MySQL Internals "Binary Log Event"; numbers as in `binlog_event.h` of MySQL and `log_event.h` of MariaDB.
"""

from __future__ import annotations

import re
import struct

from pymysqlreplication.constants import BINLOG

HEADER = struct.Struct("<IBIIIH")
IGNORABLE_FLAG = 0x80

HEARTBEAT_V2 = 0x29
HEARTBEATS = {BINLOG.HEARTBEAT_LOG_EVENT, HEARTBEAT_V2}
# Events that change no row and end no transaction.
WITHOUT_EFFECT = {
    BINLOG.STOP_EVENT,
    BINLOG.INTVAR_EVENT,
    BINLOG.RAND_EVENT,
    BINLOG.USER_VAR_EVENT,
    BINLOG.IGNORABLE_LOG_EVENT,
    BINLOG.ROWS_QUERY_LOG_EVENT,
    BINLOG.PREVIOUS_GTIDS_LOG_EVENT,
    0x24,  # TRANSACTION_CONTEXT, group replication
    0x25,  # VIEW_CHANGE, group replication
    BINLOG.MARIADB_ANNOTATE_ROWS_EVENT,
    BINLOG.MARIADB_BINLOG_CHECKPOINT_EVENT,
    BINLOG.MARIADB_GTID_GTID_LIST_EVENT,
    BINLOG.MARIADB_START_ENCRYPTION_EVENT,
}
# Events that do change rows, or may, in ways this release cannot decode: stop before them, by name.
UNREADABLE = {
    0x11: "BEGIN_LOAD_QUERY (LOAD DATA in statement format)",
    0x12: "EXECUTE_LOAD_QUERY (LOAD DATA in statement format)",
    0x1A: "INCIDENT (the server itself says that its binlog may lack changes)",
    0x26: "XA_PREPARE (an XA transaction)",
    0x27: "PARTIAL_UPDATE_ROWS (binlog_row_value_options=PARTIAL_JSON)",
    0x28: "TRANSACTION_PAYLOAD (binlog_transaction_compression=ON)",
    0x2A: "GTID_TAGGED (a GTID with a tag)",
    0xA5: "QUERY_COMPRESSED (log_bin_compress=ON)",
    **dict.fromkeys(range(0xA6, 0xAC), "compressed rows (log_bin_compress=ON)"),
}
# What changes rows where it is logged as text; SELECT and DO by the functions that they call. Comments may stand in front, and
# `SET STATEMENT ... FOR`, MariaDB's prefix.
ROW_STATEMENT = re.compile(
    rb"\s*(?:(?:/\*.*?\*/|(?:#|--\s)[^\n]*\n|SET\s+STATEMENT\s.*?\sFOR\s)\s*)*(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|SELECT|DO)\b",
    re.IGNORECASE | re.DOTALL,
)
BEGIN = re.compile(rb"BEGIN|START TRANSACTION|XA START .*", re.IGNORECASE | re.DOTALL)
END = re.compile(rb"COMMIT|ROLLBACK", re.IGNORECASE)
