"""Scans the DDL between two places of the binlog, ahead of the reader, in a stream of its own:
shows whether a table was altered by statements that the reader has not reached."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import PositionLost, SourceUnavailable, UnreadableEvent
from cdcbus.producer.binlog.checksums import Checksums
from cdcbus.producer.binlog.coordinates import FIRST_EVENT, SPAN, BinlogCoordinates, carried
from cdcbus.producer.binlog.dump_stream import BROKEN_OFF
from cdcbus.producer.binlog.event_types import (
    BEGIN,
    HEADER,
    INSIDE,
    ROW_STATEMENT,
    SESSION_FLAG,
)
from cdcbus.producer.binlog.mariadb_compression import QUERY_COMPRESSED, plain_query
from cdcbus.producer.ddl.session_variables import (
    CHARSET,
    DDL_XID,
    EXPLICIT_TIMESTAMPS,
    FLAGS,
    MARIADB_EXPLICIT_TIMESTAMPS,
    SQL_MODE,
    XID,
    has_happened,
    session_variables,
)
from cdcbus.producer.ddl.tokens import PLAIN, Session
from cdcbus.producer.decoding.charsets import sql_text

LOG = logging.getLogger(__name__)
# how long the server may take to bring to disk what it has written
WAIT_SECONDS, PAUSE_SECONDS = 10.0, 0.1
_SAID_BYTES = 1 << 26  # scanning more than this takes seconds, and is logged
# Stands for a damaged event, which may have been the DDL of any table: a text that no server ran.
_ANY_CHANGE = b"/*"
# Events that say where the following ones are.
_PLACES = {BINLOG.ROTATE_EVENT, BINLOG.FORMAT_DESCRIPTION_EVENT}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the binlog. `end` is the place after it; `thread` the session's number,
    `schema` the session's schema. `sql` is UTF-8, or the bytes as sent if not every character is
    certain. `has_happened`: not an ALTER of MariaDB that is logged when it starts or has failed.
    `is_of_session`: it depends on the session, by a temporary table or by a function such as
    CONNECTION_ID; a table that is altered or truncated without that is a real one. `is_left_out`:
    it is published already, or came from the other side."""

    end: BinlogCoordinates
    thread: int
    schema: str
    sql: bytes
    session: Session = PLAIN
    has_happened: bool = True
    is_of_session: bool = False
    is_left_out: bool = False


def statement(
    body: bytes, end: BinlogCoordinates, charsets: Mapping[int, str], version: str, flags: int
) -> Statement:
    """Parses a Query event's body. `charsets`: collation id -> character set; `version`: the
    server's version text; `flags`: those of the event's header. Layout: "Query_log_event": thread,
    time, length of the schema's name, error, length of the variables, variables, schema, 0,
    text."""
    start = 13 + int.from_bytes(body[11:13], "little")
    schema = body[start : start + body[8]]
    sql = body[start + body[8] + 1 :]
    variables = session_variables(body[13:start])
    # The collations of the client, in which the text is encoded, and of the connection, which its
    # literals get. The server's collation follows.
    collations = variables.get(CHARSET, b"")
    charset = charsets.get(int.from_bytes(collations[:2], "little"), "")
    literals = charsets.get(int.from_bytes(collations[2:4], "little"), "")
    text = sql_text(charset, sql)
    number = version_number(version)
    is_mariadb = "mariadb" in version.lower()
    if is_mariadb:
        explicit_timestamps = _explicit_timestamps(variables, number)
    else:
        explicit_timestamps = _flag(variables.get(EXPLICIT_TIMESTAMPS))
    session = Session(
        sql_mode=int.from_bytes(variables.get(SQL_MODE, b""), "little"),
        literals=literals,
        version=number,
        is_mariadb=is_mariadb,
        is_exact=text is not None,
        # servers write a transaction number only with DDL that changed something
        is_change=DDL_XID in variables or XID in variables,
        explicit_timestamps=explicit_timestamps,
    )
    if text is not None:
        sql = text.encode()
    thread = int.from_bytes(body[:4], "little")
    return Statement(
        end,
        thread,
        schema.decode("utf-8", "replace"),
        sql,
        session,
        has_happened=has_happened(variables),
        is_of_session=bool(flags & SESSION_FLAG),
    )


def _flag(value: bytes | None) -> bool | None:
    if value is None:
        return None
    return value != b"\0"


def _explicit_timestamps(variables: Mapping[int, bytes], version: int) -> bool | None:
    """MariaDB's explicit_defaults_for_timestamp, None if unknown: releases in which a session
    cannot choose it do not write it."""
    if int.from_bytes(variables.get(FLAGS, b""), "little") & MARIADB_EXPLICIT_TIMESTAMPS:
        return True
    if version < 100_600:
        writes_it = version >= 100_517
    elif version < 100_700:
        writes_it = version >= 100_609
    else:  # the releases from 10.7 to 10.11 never do
        writes_it = version >= 101_000
    # Where a release writes it, it is off if it is not among the flags.
    if writes_it:
        return False
    return None


def version_number(version: str) -> int:
    """The version as in executable comments: 8.0.23 is 80023."""
    major, minor, patch = map(int, re.findall(r"\d+", version + " 0 0 0")[:3])
    return major * 10_000 + minor * 100 + patch


def version_of(format_description: bytes) -> str:
    """The server's version, from the body of a binlog file's first event."""
    return format_description[2:52].rstrip(b"\0").decode("ascii", "replace")


def is_server_start(format_description: bytes) -> bool:
    """Whether the server was started with this file, of which this is the body of the first event:
    then no session had a temporary table."""
    # The time of the start. Files that the server began later, and streams from the middle of a
    # file, have none.
    return any(format_description[52:56])


def is_ddl(sql: bytes) -> bool:
    """Whether a statement may be DDL: it neither begins nor ends a transaction, nor belongs inside
    one, nor changes rows."""
    return not (
        BEGIN.fullmatch(sql)
        or sql.upper() in (b"COMMIT", b"ROLLBACK")
        or INSIDE.fullmatch(sql)
        or ROW_STATEMENT.match(sql)
    )


class DdlScan:
    """`events` opens the binlog at a place and yields its events, with `checksum_bytes` at the end
    of each, until the binlog's end. `charsets`: collation id -> character set; `version`: the
    server's, unless the binlog names another. `file_after_break` names the file to continue
    with where one, read from a place on, breaks off, as after a power loss; empty if there is none.

    A damaged event is found as a statement that may change any table. Found statements are kept, so
    that each byte is read about once.
    """

    def __init__(
        self,
        events: Callable[[BinlogCoordinates], Iterator[list[bytes]]],
        checksum_bytes: int,
        charsets: Mapping[int, str],
        version: str,
        file_after_break: Callable[[str, BinlogCoordinates], str],
    ) -> None:
        self._events = events
        self._file_after_break = file_after_break
        self._checksum_bytes = checksum_bytes
        self._charsets = charsets
        self._version = version
        self._from: BinlogCoordinates | None = None
        self._to: BinlogCoordinates | None = None
        self._found: list[Statement] = []

    def between(self, after: BinlogCoordinates, until: BinlogCoordinates) -> list[Statement]:
        """The statements that end after `after` and not after `until`, up to which the server must
        have written already. Raises PositionLost when the server no longer holds everything between
        the two, SourceUnavailable when it does not send that for long, UnreadableEvent for a file
        whose head is damaged, and what `events` raises."""
        if not after < until:
            return []
        if self._from is None or self._to is None or after > self._to:
            self._from = self._to = after
            self._found = []
        if after < self._from:
            before, _ = self._read(after, self._from)
            self._found = [one for one in before if one.end <= self._from] + self._found
            self._from = after
        if self._to < until:
            found, self._to = self._read(self._to, until)
            self._found += found
        return [one for one in self._found if after < one.end <= until]

    def _read(
        self, start: BinlogCoordinates, until: BinlogCoordinates
    ) -> tuple[list[Statement], BinlogCoordinates]:
        """Returns the statements from `start` to `until`, or to a place after it, and that
        place."""
        if start.file != until.file or until.pos - start.pos > _SAID_BYTES:
            LOG.info("looking for DDL in the binlog from %s to %s", start, until)
        found, end = self._read_once(start, until)
        # MySQL says that it has written a transaction before it is on disk, and sends it then.
        give_up = time.monotonic() + WAIT_SECONDS
        while end < until:
            if time.monotonic() > give_up:
                raise SourceUnavailable(
                    f"the server sends its binlog only to {end}, and has written it to {until}: "
                    "the DDL in between, by which rows are decoded, cannot be read yet"
                )
            time.sleep(PAUSE_SECONDS)
            more, reached = self._read_once(end, until)
            found += more
            if end < reached:
                end = reached
                give_up = time.monotonic() + WAIT_SECONDS
        return found, end

    def _read_once(
        self, start: BinlogCoordinates, until: BinlogCoordinates
    ) -> tuple[list[Statement], BinlogCoordinates]:
        """Like `_read`; ends before `until` if the server sends nothing more, or where a file
        breaks off."""
        scan = _Scan(start, self._charsets, self._version, Checksums(self._checksum_bytes))
        try:
            for events in self._events(scan.end):
                for event in events:
                    scan.take(event)
                if until <= scan.end:
                    break
        except PositionLost as lost:
            following = ""
            if BROKEN_OFF in str(lost):
                following = self._file_after_break(scan.file, start)
            if not following:
                raise
            return scan.found, BinlogCoordinates(following, FIRST_EVENT)
        return scan.found, max(start, scan.end)


class _Scan:
    """One reading of the binlog: the DDL behind `start`, and how far it has come."""

    def __init__(
        self,
        start: BinlogCoordinates,
        charsets: Mapping[int, str],
        version: str,
        checksums: Checksums,
    ) -> None:
        """`version`: the server's, until the file says which server wrote it."""
        self._start = start
        self._charsets = charsets
        self._version = version
        self._checksums = checksums
        # Whether a transaction of the file has begun: events without an offset before are those
        # of the file's head, which can be repeated.
        self._has_begun = False
        self.found: list[Statement] = []
        self.file = start.file
        self.end = start
        if start.pos >= SPAN:  # a request has 32 bits for the offset
            self.end = BinlogCoordinates(start.file, FIRST_EVENT)

    def take(self, event: bytes) -> None:
        """Takes the next event. Raises UnreadableEvent for a damaged one that says where the
        following ones are."""
        try:
            body = self._checksums.body(event)
        except UnreadableEvent as error:
            if event[4] in _PLACES:
                raise UnreadableEvent(f"{self.end}: {error}") from error
            self._take_damaged(event, error)
            return
        _, kind, _, _, end_pos, flags = HEADER.unpack_from(event)
        if kind == BINLOG.ROTATE_EVENT:
            self._rotate(body)
            return
        if kind == BINLOG.FORMAT_DESCRIPTION_EVENT:
            # says which server wrote this file
            self._version = version_of(body)
        if kind == BINLOG.MARIADB_GTID_EVENT:
            self._has_begun = True
        self._advance(kind, end_pos, len(event))
        query = _query(kind, body)
        if self._start < self.end and query is not None and is_ddl(_sql(query)):
            one = statement(query, self.end, self._charsets, self._version, flags)
            if one.has_happened:
                self.found.append(one)

    def _take_damaged(self, event: bytes, error: UnreadableEvent) -> None:
        LOG.warning("looking for DDL: %s: %s", self.end, error)
        self.end = BinlogCoordinates(self.file, self.end.pos + len(event))
        self._has_begun = True
        if self._start < self.end:
            self.found.append(Statement(self.end, 0, "", _ANY_CHANGE))

    def _rotate(self, body: bytes) -> None:
        self.file = body[8:].decode()
        begin = BinlogCoordinates(self.file, int.from_bytes(body[:8], "little"))
        self.end = max(self.end, begin)
        self._has_begun = False

    def _advance(self, kind: int, end_pos: int, event_bytes: int) -> None:
        """Moves the end behind an event whose header says that it ends at `end_pos`."""
        if end_pos:
            pos = end_pos
            # A file's head, with its own offset, can be repeated before a later event.
            if self.file == self.end.file and kind != BINLOG.FORMAT_DESCRIPTION_EVENT:
                pos = carried(self.end.pos, end_pos)
            self.end = max(self.end, BinlogCoordinates(self.file, pos))
        elif self._has_begun:  # MariaDB omits the offsets of these events
            self.end = BinlogCoordinates(self.file, self.end.pos + event_bytes)


def _query(kind: int, body: bytes) -> bytes | None:
    """The body of a Query event, also of a compressed one; None for any other event."""
    if kind == BINLOG.QUERY_EVENT:
        return body
    if kind == QUERY_COMPRESSED:
        return plain_query(body)
    return None


def _sql(query: bytes) -> bytes:
    """The statement: it follows 13 bytes, the status variables, and the schema with a zero byte."""
    variables_bytes = int.from_bytes(query[11:13], "little")
    schema_bytes = query[8]
    return query[13 + variables_bytes + schema_bytes + 1 :]
