"""The session variables at the start of a Query event."""

from __future__ import annotations

from collections.abc import Mapping

# The codes of session variables in a Query event, "Query_event_codes", and their sizes in bytes.
# Reading stops at a code that is not listed.
(
    FLAGS,
    SQL_MODE,
    _CATALOG,
    _AUTO_INCREMENT,
    CHARSET,
    _TIME_ZONE,
    _CATALOG_NZ,
    _LC_TIME,
    _CHARSET_DATABASE,
    _TABLE_MAP,
) = range(10)
_MASTER_BYTES, _INVOKER, _SCHEMAS, _MICROSECONDS = range(10, 14)
EXPLICIT_TIMESTAMPS = 16  # MySQL's explicit_defaults_for_timestamp
DDL_XID = 17  # MySQL's, with DDL that has changed something in tables of InnoDB
_HRNOW, XID, _ALTER = 128, 129, 130  # MariaDB's
_COLLATIONS = 131  # MariaDB's: pairs of a character set and its default collation
_FIXED = {
    FLAGS: 4,
    SQL_MODE: 8,
    _AUTO_INCREMENT: 4,
    CHARSET: 6,
    _LC_TIME: 2,
    _CHARSET_DATABASE: 2,
    _TABLE_MAP: 8,
    _MASTER_BYTES: 4,
    _MICROSECONDS: 3,
    EXPLICIT_TIMESTAMPS: 1,
    DDL_XID: 8,
    _HRNOW: 3,
    XID: 8,
}
MARIADB_EXPLICIT_TIMESTAMPS = 1 << 24  # a flag
_NO_SCHEMAS = 254  # too many to list
# Flags of `_ALTER`, "gtid_flags_extra": with binlog_alter_two_phase an ALTER is logged when it
# starts, while others still write rows of the old shape, and again when it has ended.
_STARTED, _COMMITTED, _ROLLED_BACK = 2, 4, 8


def session_variables(status: bytes) -> dict[int, bytes]:
    """Parses the variables, by their codes."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(status):
        code, at = status[at], at + 1
        end = _end_of(code, status, at)
        if end is None:
            break
        found[code] = status[at:end]
        at = end
    return found


def has_happened(variables: Mapping[int, bytes]) -> bool:
    """Whether a statement has changed something: False for an ALTER that starts or has failed."""
    return not int.from_bytes(variables.get(_ALTER, b"")[:1], "little") & (_STARTED | _ROLLED_BACK)


def _end_of(code: int, status: bytes, at: int) -> int | None:
    """Where the variable whose value begins at `at` ends; None if unknown."""
    if code in _FIXED:
        return at + _FIXED[code]
    if code == _COLLATIONS:
        return at + 1 + status[at] * 4
    if code == _ALTER:
        if status[at] & (_COMMITTED | _ROLLED_BACK):
            return at + 9  # the number of the transaction that started it
        return at + 1
    if code in (_TIME_ZONE, _CATALOG_NZ):
        return at + 1 + status[at]
    if code == _CATALOG:
        return at + 2 + status[at]
    if code == _INVOKER:
        host = at + 1 + status[at]
        return host + 1 + status[host]
    if code == _SCHEMAS:
        end = at + 1
        if status[at] == _NO_SCHEMAS:
            return end
        for _ in range(status[at]):
            end = status.index(b"\0", end) + 1
        return end
    return None
