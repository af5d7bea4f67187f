"""GTID sets, the transactions that have been executed: as text, in the binlog's encoding, and
extended one by one. Pure.

MySQL's is a set of numbers per server UUID, since 8.3 also per UUID and tag: `uuid:1-5:7:tag:1-3`.
MariaDB's is the last transaction of each domain: `domain-server-sequence`. Layouts:
`Gtid_set::encode` of MySQL, `Gtid_list_log_event` of MariaDB.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from operator import le
from typing import Protocol, Self
from uuid import UUID

from cdcbus.plugins.errors import PositionError

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MARIADB = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
# The last numbers that servers have: of a domain, a server and a sequence; of a transaction.
_LAST_MARIADB = (2**32 - 1, 2**32 - 1, 2**64 - 1)
_LAST_MYSQL = 2**63 - 1
_TAGGED = 1
_NUMBER = struct.Struct("<Q")
_LIST_ENTRY = struct.Struct("<IIQ")


class MysqlGtids:
    """A mutable set. Its text is MySQL's, with UUIDs and tags in order."""

    def __init__(self) -> None:
        # `uuid` or `uuid:tag` -> [first, last] in order, never touching
        self._spans: dict[str, list[list[int]]] = {}
        self._texts: dict[str, str] = {}  # cached, for keys whose spans have not changed since

    @classmethod
    def parse(cls, text: str) -> MysqlGtids:
        """Parses MySQL's text. Raises PositionError."""
        found = cls()
        for part in filter(None, re.sub(r"\s", "", text).lower().split(",")):
            uuid, *rest = part.split(":")
            key = uuid
            for word in rest:
                span = _SPAN.fullmatch(word)
                if span and all(int(number or 0) <= _LAST_MYSQL for number in span.groups()):
                    found._add(key, int(span[1]), int(span[2] or span[1]))
                elif _TAG.fullmatch(word):
                    key = f"{uuid}:{word}"
                else:
                    raise _no_set(part)
            if not _UUID.fullmatch(uuid) or not rest:
                raise _no_set(part)
        return found

    @classmethod
    def from_bytes(cls, data: bytes) -> MysqlGtids:
        """The set in a Previous_gtids event."""
        found = cls()
        count = _NUMBER.unpack_from(data)[0]
        at = 8
        # In a set with tags, the first and the last of the count's eight bytes are 1.
        is_tagged = count >> 56 == _TAGGED
        if is_tagged:
            count = count >> 8 & (1 << 48) - 1
        for _ in range(count):
            key = str(UUID(bytes=data[at : at + 16]))
            at += 16
            if is_tagged:
                # a variable-length number; tags are so short that it is one byte
                length = data[at] >> 1
                tag = data[at + 1 : at + 1 + length].decode()
                at += 1 + length
                if tag:
                    key = f"{key}:{tag}"
            (spans,) = _NUMBER.unpack_from(data, at)
            for _ in range(spans):
                first, end = struct.unpack_from("<QQ", data, at + 8)
                found._add(key, first, end - 1)
                at += 16
            at += 8
        return found

    def to_bytes(self) -> bytes:
        """The encoding in a dump request; with tags only if the set has any, as servers before 8.3
        know none."""
        is_tagged = any(":" in key for key in self._spans)
        count = len(self._spans)
        if is_tagged:
            count = _TAGGED << 56 | count << 8 | _TAGGED
        parts = [_NUMBER.pack(count)]
        for key, spans in sorted(self._spans.items()):
            uuid, _, tag = key.partition(":")
            parts.append(UUID(uuid).bytes)
            if is_tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(_NUMBER.pack(len(spans)))
            for first, last in spans:
                parts.append(struct.pack("<QQ", first, last + 1))
        return b"".join(parts)

    def add(self, gtid: str) -> None:
        """Adds one transaction's GTID, `uuid:5` or `uuid:tag:5` in lower case."""
        key, _, digits = gtid.rpartition(":")
        number = int(digits)
        spans = self._spans.get(key)
        self._texts.pop(key, None)
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            self._add(key, number, number)

    def _add(self, key: str, first: int, last: int) -> None:
        if not 0 < first <= last:
            raise PositionError(
                f"not a GTID set: {key}:{first}-{last} is not a range of numbers from 1 up"
            )
        self._texts.pop(key, None)
        spans = self._spans.setdefault(key, [])
        # from `low` to before `high`: the spans that the new one touches
        low = high = bisect_left(spans, first - 1, key=lambda span: span[1])
        while high < len(spans) and spans[high][0] <= last + 1:
            high += 1
        if low < high:
            first = min(first, spans[low][0])
            last = max(last, spans[high - 1][1])
        spans[low:high] = [[first, last]]

    def merge(self, other: MysqlGtids) -> None:
        """Adds all GTIDs of another set."""
        for key, spans in other._spans.items():
            for first, last in spans:
                self._add(key, first, last)

    def covers(self, other: MysqlGtids) -> bool:
        """Whether it contains all GTIDs of another set."""
        for key, spans in other._spans.items():
            if not all(self._has(key, first, last) for first, last in spans):
                return False
        return True

    def has(self, gtid: str) -> bool:
        """Whether it contains one transaction's GTID, as `add` takes it."""
        key, _, digits = gtid.rpartition(":")
        return self._has(key, int(digits), int(digits))

    def _has(self, key: str, first: int, last: int) -> bool:
        spans = self._spans.get(key, [])
        at = bisect_left(spans, last, key=lambda span: span[1])
        return at < len(spans) and spans[at][0] <= first

    def __str__(self) -> str:
        words: list[str] = []
        before = ""
        for key in sorted(self._spans):
            text = self._texts.get(key)
            if text is None:
                text = self._texts[key] = _spans_text(self._spans[key])
            uuid, _, tag = key.partition(":")
            head = f":{tag}" if uuid == before else f",{key}"
            words.append(f"{head}:{text}")
            before = uuid
        return "".join(words)[1:]


def _is_mariadb(gtid: str) -> bool:
    """Whether a server can have it: of numbers beyond the last ones it says that it cannot parse
    them, as if it were away."""
    found = _MARIADB.fullmatch(gtid)
    return found is not None and all(map(le, map(int, found.groups()), _LAST_MARIADB))


def _no_set(part: str) -> PositionError:
    return PositionError(f"not a GTID set: {part[:80]!r}; expected uuid:1-5:7 or uuid:tag:1-5")


def _spans_text(spans: list[list[int]]) -> str:
    """`1-5:7`."""
    return ":".join(f"{first}-{last}" if first < last else f"{first}" for first, last in spans)


class MariadbGtids:
    """The last transaction of each domain."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    @classmethod
    def parse(cls, text: str) -> MariadbGtids:
        """Parses MariaDB's text. Raises PositionError."""
        found = cls()
        for part in filter(None, re.sub(r"\s", "", text).split(",")):
            if not _is_mariadb(part):
                raise PositionError(
                    f"not a GTID position: {part[:80]!r}; expected domain-server-sequence, such "
                    "as 0-1-100"
                )
            found.add(part)
        return found

    @classmethod
    def from_bytes(cls, data: bytes) -> MariadbGtids:
        """The state in a Gtid_list event, which has a domain once per server, the latest last."""
        found = cls()
        # the highest four bits are flags
        count = int.from_bytes(data[:4], "little") & 0x0FFFFFFF
        entries = data[4 : 4 + count * _LIST_ENTRY.size]
        for domain, server, sequence in _LIST_ENTRY.iter_unpack(entries):
            found.add(f"{domain}-{server}-{sequence}")
        return found

    def add(self, gtid: str) -> None:
        """Adds one transaction's GTID, later than those of its domain so far."""
        self._last[gtid[: gtid.index("-")]] = gtid

    def merge(self, other: MariadbGtids) -> None:
        """Adds the domains of another state that are not in this one."""
        self._last = other._last | self._last

    def covers(self, other: MariadbGtids) -> bool:
        """Whether this state has each domain of another one, and is at least as far in it."""
        return all(
            _sequence(self._last.get(domain, "--0")) >= _sequence(gtid)
            for domain, gtid in other._last.items()
        )

    def missing(self, other: MariadbGtids) -> str:
        """What another state has in domains of this one, but this one has not; a domain that this
        one does not have at all may be another server's."""
        found = []
        for domain, gtid in other._last.items():
            if domain in self._last and _sequence(self._last[domain]) < _sequence(gtid):
                found.append(gtid)
        return ",".join(found)

    def not_in(self, logged: str, replicated: str) -> str:
        """Which of its transactions a server has not had itself, whatever it has of their numbers:
        by its `gtid_binlog_state`, and by its `gtid_slave_pos`. This is how the server decides
        whether it can send what follows; a domain that it does not have at all may be another
        server's."""
        last: dict[str, int] = {}  # by domain and server
        for gtid in logged.split(","):
            source, _, sequence = gtid.strip().rpartition("-")
            if source:
                last[source] = int(sequence)
        domains = {source.partition("-")[0] for source in last}
        had = MariadbGtids.parse(replicated)._last
        found = []
        for domain, gtid in self._last.items():
            source = gtid.rpartition("-")[0]
            is_had = last.get(source, 0) >= _sequence(gtid) or had.get(domain) == gtid
            if domain in domains and not is_had:
                found.append(gtid)
        return ",".join(found)

    def __str__(self) -> str:
        return ",".join(self._last[domain] for domain in sorted(self._last, key=int))


def _sequence(gtid: str) -> int:
    return int(gtid.rpartition("-")[2])


def mysql_gtid(body: bytes) -> str:
    """A transaction's GTID, from the body of MySQL's GTID event without tags."""
    uuid = body[1:17].hex()
    number = int.from_bytes(body[17:25], "little")
    return f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}:{number}"


def commit_us(body: bytes) -> int:
    """The commit time of a transaction on the server it originates from, in microseconds, as
    MySQL's GTID events without tags carry it since release 8; else 0."""
    if len(body) < 49:
        return 0
    # the highest bit is set if the time on the original server follows
    here = int.from_bytes(body[42:49], "little")
    return int.from_bytes(body[49:56], "little") if here >> 55 else here


class GtidSet(Protocol):
    """A GTID set of either kind of server."""

    def add(self, gtid: str) -> None: ...

    def merge(self, other: Self) -> None: ...

    def covers(self, other: Self) -> bool: ...


def parse_gtids(text: str, *, is_mariadb: bool) -> GtidSet:
    """Parses a GTID set. Raises PositionError for text that is not in this server's form."""
    return MariadbGtids.parse(text) if is_mariadb else MysqlGtids.parse(text)


def gtids_before_file(body: bytes, *, is_mariadb: bool) -> GtidSet:
    """The GTIDs executed before a binlog file, from its Previous_gtids or Gtid_list event; `body`
    is without header and checksum."""
    return MariadbGtids.from_bytes(body) if is_mariadb else MysqlGtids.from_bytes(body)
