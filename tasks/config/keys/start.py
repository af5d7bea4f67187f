"""The forms of `consumer.offset`: text -> where a task starts when no position is stored."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import AfterOffset, AtGtid, AtTime, BinlogStart, Edge, KafkaStart, Replay
from cdcbus.producer.binlog.gtid import parse_gtids
from cdcbus.tasks.config.keys.types import ValueType

# After the four magic bytes that open a binlog file.
FIRST_EVENT = 4
MYSQL_GTID = (
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:([a-z_][a-z0-9_]{0,31}|[0-9]+(-[0-9]+)?))+"
)
MARIADB_GTID = r"[0-9]+-[0-9]+-[0-9]+"
GTIDS = re.compile(
    rf"({MYSQL_GTID}(\s*,\s*{MYSQL_GTID})*|{MARIADB_GTID}(\s*,\s*{MARIADB_GTID})*)", re.IGNORECASE
)
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Kafka's offsets are signed 64-bit numbers.
LAST_OFFSET = 2**63 - 1
STOP_AT = "consumer.stopAt"


def _kafka(text: str) -> KafkaStart:
    if text in tuple(Edge):
        return Edge(text)
    # -1 is the offset before the first record: nothing is processed yet.
    if re.fullmatch(r"-1|[0-9]{1,19}", text):
        return AfterOffset(_offset(text))
    if numbers := re.fullmatch(r"([0-9]{1,19})\s*-\s*([0-9]{1,19})", text):
        first, last = _offset(numbers[1]), _offset(numbers[2])
        if first > last:
            raise ValueError("ends before it begins")
        return Replay(first, last)
    return _time(text)


def _binlog(text: str) -> BinlogStart:
    if text in tuple(Edge):
        return Edge(text)
    if DAY.fullmatch(text):
        # 2024-05-01 is a day, as no number in a GTID begins with 0; 2024-11-12 is ambiguous.
        if "-0" not in text:
            raise ValueError("a day, or a GTID of MariaDB")
        return _time(text)
    if GTIDS.fullmatch(text):
        try:
            parse_gtids(text, is_mariadb=":" not in text)
        except PositionError as error:
            raise ValueError("a number that no server has") from error
        return AtGtid(re.sub(r"\s", "", text))
    if place := re.fullmatch(r"([^\s:/,]+\.[0-9]{1,10})(?::([0-9]{1,19}))?", text):
        pos = int(place[2] or FIRST_EVENT)
        if pos < FIRST_EVENT:
            raise ValueError("inside the file's head")
        return BinlogPosition(place[1], pos)
    return _time(text)


def _offset(digits: str) -> int:
    offset = int(digits)
    if offset > LAST_OFFSET:
        raise ValueError("beyond any offset")
    return offset


def _time(text: str) -> AtTime:
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError("not a time")
    when = datetime.fromisoformat(text)
    # UTC, so that a text means the same on every machine.
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    seconds = when.timestamp()
    if seconds < 0:
        raise ValueError("before any log")
    return AtTime(round(seconds * 1000))


def _on_position_lost(text: str) -> Edge | None:
    if text == "stop":
        return None
    return Edge(text)


KAFKA_START: ValueType[KafkaStart] = ValueType(
    "start",
    _kafka,
    "the last processed offset, a replay first-last, earliest, latest, or an ISO time (UTC unless "
    "it says otherwise)",
    "1343115467 or 2788838-2791608 or 2024-05-01T03:04:05+08:00",
)
BINLOG_START: ValueType[BinlogStart] = ValueType(
    "start",
    _binlog,
    "a binlog file, file:position, a GTID set, earliest, latest, or an ISO time (UTC unless it "
    "says otherwise; with its hour where the day alone looks like a GTID, as 2024-11-12)",
    "mysql-bin.000064 or mysql-bin.000064:4 or 0-1-100 or 2024-05-01T03:04:05+08:00",
)
ON_POSITION_LOST: ValueType[Edge | None] = ValueType(
    "word",
    _on_position_lost,
    "stop, earliest or latest",
    "stop",
)
