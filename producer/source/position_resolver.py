"""Finds places in a server's binlog by time, by GTIDs or by name, and checks stored positions.
Decodes no rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import (
    ConfigError,
    PositionLost,
    SourceBehind,
    SourceError,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.binlog import tagged_gtid
from cdcbus.producer.binlog.checksums import Checksums, damage_noticed
from cdcbus.producer.binlog.coordinates import FIRST_EVENT, SPAN, BinlogCoordinates, carried
from cdcbus.producer.binlog.dump_stream import BOUNDED, open_stream
from cdcbus.producer.binlog.event_types import GTID_TAGGED, GTIDS_BEFORE_FILE, HEADER
from cdcbus.producer.binlog.gtid import (
    GtidSet,
    MariadbGtids,
    commit_us,
    gtids_before_file,
    mysql_gtid,
    parse_gtids,
)
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.server.errors import is_of_binlog

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
# how long the server may take to bring to disk what it has written
WAIT_SECONDS, PAUSE_SECONDS = 10.0, 0.1
_SAID_BYTES = 1 << 26  # reading more than this takes seconds, and is logged
_SAID_FILES = 100  # so does looking at the heads of more files: each takes a login
_HAS_GTID = {BINLOG.GTID_LOG_EVENT, GTID_TAGGED, BINLOG.MARIADB_GTID_EVENT}
_BEGINS = {*_HAS_GTID, BINLOG.ANONYMOUS_GTID_LOG_EVENT}


class Begin(NamedTuple):
    """Where a transaction begins, and when it was committed: less than `span_ms` after
    `commit_ms`."""

    file: str
    pos: int
    commit_ms: int
    span_ms: int


class Binlog:
    """One server's binlog, as it is now. `connection` is for queries; reading a file opens a
    connection of its own. `proceed` is called all the time while a time or GTIDs are looked for,
    and raises what ends that.

    All methods raise SourceUnavailable, SourceMisconfigured, and UnreadableEvent where a file is
    damaged.
    """

    def __init__(
        self,
        connection: Connection,
        server: Server,
        config: SourceConfig,
        proceed: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._server = server
        self._config = config
        self._proceed = proceed
        # By file, but for the last one, which may get its first transaction yet.
        self._newest_before: dict[str, int] = {}

    def earliest(self) -> BinlogPosition:
        """The beginning of the oldest file."""
        return self.start_of(self._files()[0][0])

    def start_of(self, file: str) -> BinlogPosition:
        """The beginning of a file."""
        return self._named(file, FIRST_EVENT)

    def latest(self) -> BinlogPosition:
        """The end of the binlog."""
        with servers.reported(self._config):
            end = servers.latest_position(self._connection)
        return self._named(end.file, end.pos, end.gtid)

    def at_time(self, epoch_ms: int) -> BinlogPosition:
        """The position before the first transaction of this time or later; a commit time in whole
        seconds may be anywhere in that second. Raises PositionLost for a time before the oldest
        file, ConfigError for a time in the future."""
        with servers.reported(self._config):
            now_ms = servers.now_ms(self._connection)
        if epoch_ms > now_ms:
            raise ConfigError(
                f"{when(epoch_ms)} has not come yet at source {self._where()}, where it is "
                f"{when(now_ms)}; give an earlier time"
            )
        begin, end = self._since(epoch_ms)
        return self._named(begin.file, begin.pos) if begin else end

    def from_time(self, epoch_ms: int, overlap_ms: int) -> BinlogPosition:
        """The same for the time of a transaction that another server has committed, less
        `overlap_ms`. Its clock times this server's transactions, too, up to the failover; those
        after it are timed by this server's clock. So where that is behind, the overlap is longer
        by as much. Raises PositionLost, also where there is no such transaction."""
        # The other server's clock is taken for like our own.
        own_ms = time.time_ns() // 1_000_000
        with servers.reported(self._config):
            now_ms = servers.now_ms(self._connection)
        oldest_ms = self._oldest_ms()
        behind_ms = max(0, own_ms - now_ms)
        # Reading from the oldest file leaves no gap if that file is older than the transaction.
        begin_ms = max(epoch_ms - overlap_ms - behind_ms, min(epoch_ms - behind_ms, oldest_ms))
        begin, _ = self._since(begin_ms)
        if begin is None:
            raise PositionLost(
                f"source {self._where()}, where it is {when(now_ms)}, holds no transaction of "
                f"{when(begin_ms)} or later: it lacks what was read from the other server, or its "
                "clock is far behind"
            )
        return self._named(begin.file, begin.pos)

    def _oldest_ms(self) -> int:
        """When the oldest file was created; 0 if the server cannot send its head."""
        try:
            return self.created_ms(self._file_names()[0])
        except SourceError as error:
            if not is_of_binlog(error):
                raise
            return 0

    def _since(self, epoch_ms: int) -> tuple[Begin | None, BinlogPosition]:
        """The first transaction of a time or later, and the end of what was searched. Raises
        PositionLost."""
        second_ms = epoch_ms - epoch_ms % 1000

        first = self._file_before(epoch_ms, second_ms)
        end = self.latest()
        begin = self._first(
            BinlogPosition(first, FIRST_EVENT),
            end,
            lambda begin: begin.commit_ms + begin.span_ms > epoch_ms,
        )
        return begin, end

    def _file_before(self, epoch_ms: int, second_ms: int) -> str:
        """The last file of which it is known that transactions in those before it are older than
        the second. Raises PositionLost."""
        before, before_ms = "", 0
        unread: SourceError | None = None
        for file, found in self._times(epoch_ms):
            if isinstance(found, SourceError):
                unread = unread or found
                continue
            # Where times go back, those before that can be of any time. Heads have whole seconds.
            if before and found // 1000 < before_ms // 1000:
                LOG.warning(
                    "source %s: its binlog's times go back between %s (%s) and %s (%s), as by a "
                    "clock set back, a long statement, or a replica that lagged: the first "
                    "transaction of %s or later is looked for from %s on, which can take long",
                    *(self._where(), before, when(before_ms), file, when(found)),
                    *(when(epoch_ms), before),
                )
                break
            if found >= second_ms:
                if not before and not unread:
                    self._check_begin(file, epoch_ms)
                    return file
                break
            before, before_ms, unread = file, found, None
        if before:
            return before
        raise unread or SourceUnavailable(
            f"the binlog files of source {self._where()} were purged while {when(epoch_ms)} was "
            "looked for in them"
        )

    def _check_begin(self, file: str, epoch_ms: int) -> None:
        """Raises PositionLost if the oldest file was begun after a time."""
        if (begin_ms := self.created_ms(file)) > epoch_ms:
            raise PositionLost(
                f"the binlog of source {self._where()} begins with {file} at "
                f"{when(begin_ms)}, after the wanted {when(epoch_ms)}: "
                "what was committed between the two is not in it"
            )

    def _times(self, epoch_ms: int) -> Iterator[tuple[str, int | SourceError]]:
        """Yields each file with `_newest_before_ms`, or with the error of one that the server
        cannot send. Files that are purged meanwhile are left out."""
        names = self._file_names()
        for number, file in enumerate(names):
            self._proceed()
            if number == _SAID_FILES:
                LOG.info(
                    "source %s: looking for %s in the heads of its binlog files, %d at most",
                    *(self._where(), when(epoch_ms), len(names)),
                )
            try:
                found = self._newest_before.get(file) or self._newest_before_ms(file)
            except SourceError as error:
                if not is_of_binlog(error):
                    raise
                if file in self._file_names():
                    LOG.warning("%s; looking for %s without %s", error, when(epoch_ms), file)
                    yield file, error
                continue
            if file != names[-1]:
                self._newest_before[file] = found
            yield file, found

    def after_gtids(self, position: BinlogPosition) -> BinlogPosition:
        """The position with the place of the first transaction that is not in its GTID set, and
        no server, as reading uses the set. Raises SourceBehind when the server lacks some of the
        set or of what is published beyond it, PositionLost when it no longer has everything that
        follows, or has gone another way."""
        with servers.reported(self._config):
            gtids = parse_gtids(position.gtid, is_mariadb=self._server.is_mariadb)
            if position.published is not None:
                self._check_published_gtids(position.published)
            if not self._server.is_mariadb:  # MariaDB checks them itself
                self.check_executed(position)
                self._check_purged(position)
            end = self.latest()
            try:
                begin = self._first(gtids, end, lambda _: True)
            except PositionLost:
                self.check_executed(position)  # MariaDB's own error is the same for both
                raise
        place = begin or end  # the end: all of them are in the set
        return replace(position, file=place.file, pos=place.pos, server_uuid="", file_created_ms=0)

    def check_executed(self, position: BinlogPosition) -> None:
        """Raises SourceBehind when the server lacks some of the position's GTID set."""
        if missing := self._missing(position):
            raise SourceBehind(
                f"{missing}: it is behind, it has lost them, its binlog was reset, or it is a "
                "replica that writes none (log_slave_updates, log_replica_updates)"
            )

    def _check_published_gtids(self, published: Published) -> None:
        """Raises SourceBehind when the server lacks some of what is published, PositionLost when
        it has other transactions of the same numbers in its place: MariaDB's numbers alone do not
        tell the two apart. The server itself compares only where reading begins."""
        parse_gtids(published.gtid, is_mariadb=self._server.is_mariadb)
        self.check_executed(BinlogPosition(published.file, published.pos, gtid=published.gtid))
        if not self._server.is_mariadb:
            return
        states = servers.gtid_states(self._connection)
        if others := MariadbGtids.parse(published.gtid).not_in(*states):
            raise PositionLost(
                f"source {self._where()} has not executed {others}, which the task has read, and "
                "has gone on without: which of its later transactions were read is not known, and "
                f"Kafka has rows that are not at the source; {self._begin()}"
            )

    def _missing(self, position: BinlogPosition) -> str:
        """A clause that names the GTIDs of the position that the server lacks; empty if none."""
        with servers.reported(self._config):
            if self._server.is_mariadb:
                logged = MariadbGtids.parse(servers.logged_gtids(self._connection))
                missing = logged.missing(MariadbGtids.parse(position.gtid))
            else:
                missing = servers.missing_gtids(self._connection, position.gtid)
        if not missing:
            return ""
        return (
            f"source {self._where()} has not executed {missing}, which the task has "
            f"read{_committed(position)}"
        )

    def _check_purged(self, position: BinlogPosition) -> None:
        if purged := servers.purged_gtids(self._connection, position.gtid):
            raise PositionLost(
                f"source {self._where()} has purged {purged}, which the task has not "
                f"read{_committed(position)}; {self._begin()}"
            )

    def check(self, position: BinlogPosition) -> BinlogPosition:
        """Returns a position in this server's own files, completed with what the server knows of
        it; the beginning of the next file if the server has lost the end of this one. Raises
        PositionLost, naming the gap, when its file is missing, shorter, or another file of that
        name, and when this is so of what is published beyond it."""
        # Before the first event, as canal and others write where they mean the file's beginning.
        position = replace(position, pos=max(position.pos, FIRST_EVENT))
        following = self._after_lost_end(position)
        published = position.published
        if published is not None:
            self._check_published(published, position)
        if following is not None:
            return replace(following, batch_id=position.batch_id, published=published)
        known = self._named(position.file, position.pos, position.gtid)
        return replace(
            known,
            batch_id=position.batch_id,
            timestamp_ms=position.timestamp_ms,
            published=published,
        )

    def _check_published(self, published: Published, position: BinlogPosition) -> None:
        """Raises PositionLost when the server does not hold what is published beyond a position: it
        is passed over by its place, so the files up to there must be those that were read."""
        created_ms = published.file_created_ms
        if published.file == position.file:
            created_ms = created_ms or position.file_created_ms
        try:
            self._after_lost_end(
                BinlogPosition(
                    published.file,
                    published.pos,
                    gtid=published.gtid,
                    file_created_ms=created_ms,
                )
            )
        except PositionLost as lost:
            raise PositionLost(
                f"{lost}. Up to there everything is published, though reading resumes at {position}"
            ) from lost

    def _after_lost_end(self, position: BinlogPosition) -> BinlogPosition | None:
        """None for a position in this server's files; the beginning of the next file if the server
        has lost the end of this one. Raises PositionLost."""
        size = dict(self._files()).get(position.file)
        if size is None:
            raise self.lost(position)
        created_ms = self.created_ms(position.file)
        if position.file_created_ms not in (0, created_ms):
            raise self.lost(
                position,
                f"its {position.file} is of {when(created_ms)}, the one that was read of "
                f"{when(position.file_created_ms)}, so "
                "the binlog was reset or is another server's (a position set by hand needs no "
                "fileTimestamp)",
            )
        if 0 < size < position.pos:  # 0: the server could not open it just then
            following = self.file_after(position.file)
            if not following or not position.file_created_ms:
                raise self.lost(position, f"{position.file} is {size} bytes long")
            LOG.warning(
                "source %s has lost the end of %s after %d, which the task has read up to %d: "
                "the server went down before it was on disk. "
                "Continuing with %s; what was committed in between is in Kafka, but not at the "
                "source",
                self._where(),
                position.file,
                size,
                position.pos,
                following,
            )
            return self.start_after_break(following, position.gtid or None)
        is_comparable = position.gtid and self._server.has_gtids and not self._server.is_mariadb
        if is_comparable and (missing := self._missing(position)):
            raise PositionLost(f"{missing}: it has lost them, or its binlog was reset")
        return None

    def lost(self, position: BinlogPosition, reason: str = "") -> PositionLost:
        """The error for a position that does not exist: what is wanted and what exists, by file
        and time."""
        names = self._file_names()
        text = (
            f"source {self._where()} does not hold {position}{_committed(position)}: it has "
            f"{names[0]} to {names[-1]}; {self._begin()}"
        )
        if reason:
            text += f"; {reason}"
        return PositionLost(text)

    def file_after(self, file: str) -> str:
        """The next file's name; empty after the last one."""
        names = self._file_names()
        if file not in names[:-1]:
            return ""
        return names[names.index(file) + 1]

    def file_after_break(self, file: str, start: BinlogCoordinates) -> str:
        """The name of the file to continue with where the server cannot send the rest of this one,
        which was read from `start`. Empty after the last file; and where `start` is no edge of an
        event, or may be none: then it may not be the file that is damaged."""
        following = self.file_after(file)
        if following and file == start.file and not self.is_edge(start):
            return ""
        return following

    def start_after_break(self, following: str, read: str | None) -> BinlogPosition:
        """The beginning of the file after one whose end is missing or cannot be sent. `read`: the
        GTIDs up to that end, None if they are not known. Raises PositionLost if the file's head
        lists others: what is missing has been committed at the source, and was not read."""
        start = self.start_of(following)
        if read is None or not start.gtid:
            return start
        if self._server.is_mariadb:
            unread = MariadbGtids.parse(read).missing(MariadbGtids.parse(start.gtid))
        else:
            with servers.reported(self._config):
                unread = servers.other_gtids(self._connection, start.gtid, read)
        if unread:
            raise PositionLost(
                f"source {self._where()} cannot send all that it has committed before {following}: "
                f"{unread} are missing in its binlog, as after a power loss or in a copy of its "
                "files, so their rows must be copied again"
            )
        return start

    def is_edge(self, place: BinlogCoordinates) -> bool | None:
        """Whether a file begins at the place, or one of its events ends there: reads the file up to
        it. None where the server notices a damaged event before it, and does not send more."""
        if place.pos == FIRST_EVENT:
            return True
        start = BinlogPosition(place.file, FIRST_EVENT)
        try:
            for _, _, end in self._placed(start, passes_damage=True):
                if end >= place:
                    return end == place
        except PositionLost:  # the file breaks off before it
            return False
        except UnreadableEvent:
            return None
        return False

    def created_ms(self, file: str) -> int:
        """When a file was created. Raises PositionLost for one that the server does not hold."""
        for event, _, _ in self._placed(BinlogPosition(file, FIRST_EVENT)):
            if created_ms := _created_ms(event):
                return created_ms
        raise PositionLost(f"source {self._where()}: binlog file {file} has no beginning")

    def _newest_before_ms(self, file: str) -> int:
        """A time that no transaction before a file is later than: when this server created it, and
        when its first transaction was committed, which can be by another server's clock."""
        created_ms = 0
        for event, body, place in self._placed(BinlogPosition(file, FIRST_EVENT)):
            created_ms = created_ms or _created_ms(event)
            if begin := _begin_of(event, body, place):
                return max(created_ms, begin.commit_ms)
        return created_ms

    def _begin(self) -> str:
        name = self._files()[0][0]
        if begin_ms := self._oldest_ms():
            return f"{name} begins at {when(begin_ms)}"
        return f"when {name} begins cannot be read"

    def _named(self, file: str, pos: int, gtid: str = "") -> BinlogPosition:
        position = BinlogPosition(
            file,
            pos,
            gtid=gtid,
            server_uuid=self._server.identity,
            file_created_ms=self.created_ms(file),
        )
        if not self._server.is_mariadb:
            return replace(position, gtid=gtid or self._gtids_before(file, pos))
        with servers.reported(self._config):
            return replace(position, gtid=servers.gtids_at(self._connection, position))

    def _gtids_before(self, file: str, pos: int) -> str:
        """The GTIDs that MySQL had executed at a transaction edge: those in the file's head, and
        those since. Empty after 4 GB, where events name no offset, after a damaged event, and for a
        server without GTIDs."""
        if not self._server.has_gtids or pos >= SPAN:
            return ""
        if pos > _SAID_BYTES:
            LOG.info(
                "source %s: reading %s up to %d for the GTIDs before it", self._where(), file, pos
            )
        try:
            return str(self._gtids_read(file, pos) or "")
        except UnreadableEvent as error:
            damaged, _, _ = str(error).partition(": ")
            LOG.warning(
                "the GTIDs before %s:%d are not known, as the event at %s is damaged: until the "
                "next file begins, reading resumes by the place alone",
                *(file, pos, damaged),
            )
            return ""

    def _gtids_read(self, file: str, pos: int) -> GtidSet | None:
        found: GtidSet | None = None
        for event, body, place in self._placed(BinlogPosition(file, FIRST_EVENT)):
            if place.file != file:
                break
            kind = event[4]
            if kind == BINLOG.PREVIOUS_GTIDS_LOG_EVENT:
                found = gtids_before_file(body, is_mariadb=False)
            if found is None:
                continue
            if place.pos <= pos and (gtid := _mysql_gtid(kind, body)):
                found.add(gtid)
            if place.pos >= pos:
                break
        return found

    def is_before_gtids(self, position: BinlogPosition) -> bool:
        """Whether it is known that the server had executed no transaction with a GTID before this
        edge. A position without GTIDs does not say whether there are none."""
        if position.gtid or not self._server.has_gtids or position.pos >= SPAN:
            return False
        is_known = False
        try:
            for event, body, end in self._placed(BinlogPosition(position.file, FIRST_EVENT)):
                if end > BinlogCoordinates(position.file, position.pos):
                    break
                if event[4] in _HAS_GTID:
                    return False
                if event[4] in GTIDS_BEFORE_FILE:
                    if str(gtids_before_file(body, is_mariadb=self._server.is_mariadb)):
                        return False
                    is_known = True
        except (PositionLost, UnreadableEvent):
            return False
        return is_known

    def _files(self) -> list[tuple[str, int]]:
        with servers.reported(self._config):
            return servers.binlog_files(self._connection)

    def _file_names(self) -> list[str]:
        return [name for name, _ in self._files()]

    def _first(
        self,
        start: BinlogPosition | GtidSet,
        end: BinlogPosition,
        is_wanted: Callable[[Begin], bool],
    ) -> Begin | None:
        """The begin of the first wanted transaction from `start` on; None if there is none before
        `end`, up to which the server must have written already."""
        until = BinlogCoordinates(end.file, end.pos)
        reached, give_up = BinlogCoordinates("", 0), 0.0
        while True:
            place = reached
            for event, body, place in self._placed(start):
                self._proceed()
                begin = _begin_of(event, body, place)
                if begin and is_wanted(begin):
                    return begin
            # MySQL says that it has written a transaction before it is on disk, and sends it then.
            # MariaDB does not; with GTIDs, it also sends no place after those that it leaves out.
            if self._server.is_mariadb or place >= until:
                return None
            if place > reached:
                reached, give_up = place, time.monotonic() + WAIT_SECONDS
            elif time.monotonic() > give_up:
                raise SourceUnavailable(
                    f"source {self._where()} sends its binlog only to {place}, and has written it "
                    f"to {until}: what is in between cannot be read yet"
                )
            time.sleep(PAUSE_SECONDS)
            # A request has 32 bits for the offset.
            if isinstance(start, BinlogPosition) and place.pos < SPAN:
                start = BinlogPosition(place.file, place.pos)

    def _placed(
        self, start: BinlogPosition | GtidSet, *, passes_damage: bool = False
    ) -> Iterator[tuple[bytes, bytes, BinlogCoordinates]]:
        """Yields each event from `start` to the end of the binlog, its body without a checksum, and
        where it ends. Rotate events are left out. Raises UnreadableEvent for a damaged event;
        `passes_damage`: only for one that the server does not send, others have no body."""
        file, pos = "", 0
        has_begun = False
        checksums = Checksums(self._server.checksum_bytes)
        try:
            with self._events(start) as events:
                for event in events:
                    _, kind, _, length, end, _ = HEADER.unpack_from(event)
                    try:
                        body = checksums.body(event)
                    except UnreadableEvent as error:
                        if not passes_damage:
                            raise UnreadableEvent(f"{file}:{pos}: {error}") from error
                        # By its length the server has found the next one.
                        pos += len(event)
                        has_begun = True
                        yield event, b"", BinlogCoordinates(file, pos)
                        continue
                    if kind == BINLOG.ROTATE_EVENT:
                        file, pos = body[8:].decode(), int.from_bytes(body[:8], "little")
                        has_begun = False
                        continue
                    if kind == BINLOG.FORMAT_DESCRIPTION_EVENT:
                        # A file's head, with its own offset, is repeated before a later event.
                        if pos == FIRST_EVENT:
                            pos += length
                    elif end:  # has 32 bits
                        pos = carried(pos, end)
                    elif has_begun:  # MariaDB omits the offsets of these events
                        pos += length
                    has_begun |= kind in _BEGINS
                    yield event, body, BinlogCoordinates(file, pos)
        except PositionLost as lost:
            if damage := damage_noticed(lost, BinlogCoordinates(file, pos)):
                raise damage from lost
            raise
        except SourceUnavailable as error:
            if not file and isinstance(start, BinlogPosition):
                file, pos = start.file, start.pos
            if file and is_of_binlog(error):
                raise SourceUnavailable(f"{file}:{pos}: {error}") from error.__cause__
            raise

    @contextmanager
    def _events(self, start: BinlogPosition | GtidSet) -> Iterator[Iterator[bytes]]:
        with servers.reported(self._config), closing(servers.connect(self._config)) as connection:
            stream = open_stream(connection, self._server, start, BOUNDED)
            yield chain.from_iterable(stream)

    def _where(self) -> str:
        host, port = self._config.addresses[0]
        return f"{host}:{port}"


def _created_ms(event: bytes) -> int:
    """When a file was created, of which this is the head; 0 for any other event."""
    if event[4] != BINLOG.FORMAT_DESCRIPTION_EVENT:
        return 0
    return int.from_bytes(event[:4], "little") * 1000


def _begin_of(event: bytes, body: bytes, end: BinlogCoordinates) -> Begin | None:
    """The begin of the transaction that an event, which ends at this place, begins; None for any
    other event."""
    timestamp, kind, _, length, _, _ = HEADER.unpack_from(event)
    if kind not in _BEGINS:
        return None
    # The header's time is in whole seconds.
    commit_ms, span_ms = _commit_ms(kind, body), 1
    if not commit_ms:
        commit_ms, span_ms = timestamp * 1000, 1000
    return Begin(end.file, end.pos - length, commit_ms, span_ms)


def _commit_ms(kind: int, body: bytes) -> int:
    """The commit time in the event that begins a transaction; 0 if only its header has one."""
    if kind == BINLOG.MARIADB_GTID_EVENT:
        return 0
    if kind == GTID_TAGGED:
        return tagged_gtid.parse(body).commit_us // 1000
    return commit_us(body) // 1000


def _mysql_gtid(kind: int, body: bytes) -> str:
    """The GTID of an event that begins a transaction; empty for any other."""
    if kind == GTID_TAGGED:
        return tagged_gtid.parse(body).text
    if kind == BINLOG.GTID_LOG_EVENT:
        return mysql_gtid(body)
    return ""


def when(epoch_ms: int) -> str:
    """A time as shown to operators."""
    return utc_text(epoch_ms, zone=" UTC")


def _committed(position: BinlogPosition) -> str:
    if not position.timestamp_ms:
        return ""
    return f", committed {when(position.timestamp_ms)}"
