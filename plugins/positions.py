"""Positions, in the JSON that operators read and edit with zkCli.

There are two kinds: a place in a binlog, and the last processed offset of Kafka partitions. Both
are immutable and only made where a task can resume: a place inside a transaction has no type here
(a row change's `Origin` names it). The JSON is porter's, compact, keys in its order; our extra keys
can be absent. Canal's cursor JSON can be read as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeGuard, TypeVar

import orjson

from cdcbus.plugins.errors import PositionError


@dataclass(frozen=True, slots=True)
class Published:
    """A transaction edge of the same server's binlog up to which everything is published, although
    reading resumes from an earlier place; `gtid` is the executed set there, `file_created_ms` when
    the file was begun, both empty or 0 where unknown."""

    file: str
    pos: int
    gtid: str = ""
    file_created_ms: int = 0


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A transaction edge in a source's binlog: reading can resume at byte `pos` of `file`. Other
    fields are empty or 0 where unknown."""

    file: str
    pos: int
    # Counts stored positions (informational, as in porter).
    batch_id: int = -1
    # The executed set up to here.
    gtid: str = ""
    # The commit time of the transaction before.
    timestamp_ms: int = 0
    # The server whose file this is; `server-id-1` where it has no UUID.
    server_uuid: str = ""
    # When the file was begun, as file names repeat on other servers and after a reset.
    file_created_ms: int = 0
    # How far the binlog is published beyond this position, while an XA transaction that was
    # prepared here is still open.
    published: Published | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"

    @property
    def reached(self) -> BinlogPosition:
        """The place before which everything is published: while an XA transaction is prepared, it
        is after the place where reading would resume."""
        published = self.published
        if published is None:
            return self
        return BinlogPosition(
            published.file,
            published.pos,
            gtid=published.gtid,
            timestamp_ms=self.timestamp_ms,
            server_uuid=self.server_uuid,
        )

    def moved_from(self, was: BinlogPosition) -> BinlogPosition:
        """This position; where it is `was` with another place, as after an edit of its file and
        offset, without what it still has of `was`: that says where `was` is, and not where this one
        is."""
        if (self.file, self.pos) == (was.file, was.pos) or not (self.gtid or self.timestamp_ms):
            return self
        if self.gtid not in ("", was.gtid) or self.timestamp_ms not in (0, was.timestamp_ms):
            return self
        # As `cdcbus offset reset` sets it where nothing was committed in between. It sets no time,
        # but a first start stores none either.
        is_news = was.timestamp_ms or self.server_uuid != was.server_uuid
        if self.server_uuid and not self.timestamp_ms and is_news:
            return self
        return BinlogPosition(
            self.file,
            self.pos,
            batch_id=self.batch_id,
            server_uuid=self.server_uuid,
            file_created_ms=self.file_created_ms if self.file == was.file else 0,
        )

    def to_json(self) -> str:
        """`{"batchId":B,"logfileName":F,"offset":O}` and, where known, `gtid`, `timestamp` (ms),
        `serverUuid`, `fileTimestamp` (ms) and `published`, an object of `logfileName`,
        `offset`, `gtid` and `fileTimestamp`."""
        fields: dict[str, Any] = {
            "batchId": self.batch_id,
            "logfileName": self.file,
            "offset": self.pos,
        }
        if self.gtid:
            fields["gtid"] = self.gtid
        if self.timestamp_ms:
            fields["timestamp"] = self.timestamp_ms
        if self.server_uuid:
            fields["serverUuid"] = self.server_uuid
        if self.file_created_ms:
            fields["fileTimestamp"] = self.file_created_ms
        if (published := self.published) is not None:
            fields["published"] = {"logfileName": published.file, "offset": published.pos}
            if published.gtid:
                fields["published"]["gtid"] = published.gtid
            if published.file_created_ms:
                fields["published"]["fileTimestamp"] = published.file_created_ms
        return orjson.dumps(fields).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> BinlogPosition:
        """Reads what `to_json` writes, porter's form, or canal's cursor. Raises PositionError."""
        fields = _object(text)
        # canal spells it "postion".
        cursor = fields.get("postion") or fields.get("position")
        if isinstance(cursor, dict):
            fields = cursor
        file = fields.get("logfileName") or fields.get("journalName")
        pos = fields.get("offset", fields.get("position"))
        if not isinstance(file, str) or not file or not _is_natural(pos):
            raise _not_of_binlog(text, f"expected {BINLOG_FORM}")
        return cls(
            file=file,
            pos=pos,
            batch_id=_field(fields, "batchId", int, -1, text),
            gtid=_field(fields, "gtid", str, "", text),
            timestamp_ms=_field(fields, "timestamp", int, 0, text),
            server_uuid=_field(fields, "serverUuid", str, "", text),
            file_created_ms=_field(fields, "fileTimestamp", int, 0, text),
            published=_published(fields.get("published"), text),
        )


def _published(fields: Any, text: str | bytes) -> Published | None:
    if fields is None:
        return None
    file = pos = None
    if isinstance(fields, dict):
        file = fields.get("logfileName")
        pos = fields.get("offset")
    if not isinstance(file, str) or not _is_natural(pos):
        raise _not_of_binlog(text, "published is not a place")
    gtid = _field(fields, "gtid", str, "", text)
    return Published(file, pos, gtid, _field(fields, "fileTimestamp", int, 0, text))


class TopicPartition(NamedTuple):
    """A partition of a Kafka topic: its records are one ordered log. Equal to the plain tuple."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """The last processed offset of one partition; -1 before the first record."""

    topic: str
    partition: int
    offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the position is of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def next_offset(self) -> int:
        """The first offset not yet processed."""
        return self.offset + 1

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def as_fields(self) -> dict[str, Any]:
        """porter's JSON object, keys in its order."""
        return {
            "offset": self.offset,
            "partition": self.partition,
            "positionKey": f"{self.topic}_{self.partition}",
            "topic": self.topic,
        }


def kafka_positions_to_json(positions: Iterable[KafkaPosition]) -> str:
    """The JSON of positions: one object for one partition, an array in partition order for several
    (one atomic write either way)."""
    in_order = sorted(positions, key=attrgetter("topic_partition"))
    fields = [position.as_fields() for position in in_order]
    if len(fields) == 1:
        return orjson.dumps(fields[0]).decode()
    return orjson.dumps(fields).decode()


def kafka_positions_from_json(text: str | bytes) -> list[KafkaPosition]:
    """Reads one object or an array of them. Raises PositionError, also for two entries of the same
    partition."""
    value = _json(text)
    entries = value if isinstance(value, list) else [value]
    positions = [_kafka_position(entry, text) for entry in entries]
    partitions = set(map(attrgetter("topic_partition"), positions))
    if not positions or len(partitions) < len(positions):
        raise PositionError(f"not one entry per partition: {_shown(text)}")
    return positions


def _kafka_position(entry: Any, text: str | bytes) -> KafkaPosition:
    if not isinstance(entry, dict):
        raise _not_of_kafka(text)
    topic = entry.get("topic")
    partition = entry.get("partition")
    offset = entry.get("offset")
    if (
        not isinstance(topic, str)
        or not topic
        or not _is_natural(partition)
        # -1: before the first record.
        or not (_is_natural(offset) or offset == -1)
    ):
        raise _not_of_kafka(text)
    return KafkaPosition(topic, partition, offset)


_T = TypeVar("_T")
# Of a text in an error: more would hide the sentence.
SHOWN_CHARACTERS = 120
BINLOG_FORM = '{"batchId":1,"logfileName":"mysql-bin.000501","offset":4}'
KAFKA_FORM = '{"offset":41,"partition":0,"positionKey":"orders_0","topic":"orders"}'


def _json(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PositionError(f"not JSON: {_shown(text)} ({error})") from error


def _object(text: str | bytes) -> dict[str, Any]:
    value = _json(text)
    if not isinstance(value, dict):
        raise _not_of_binlog(text, f"expected {BINLOG_FORM}")
    return value


def _field(fields: dict[str, Any], name: str, kind: type[_T], absent: _T, text: str | bytes) -> _T:
    """The value of an extra key; null counts as absent. Raises PositionError for another type."""
    value = fields.get(name)
    if value is None:
        return absent
    if type(value) is not kind:
        wanted = "a number" if kind is int else "text"
        raise _not_of_binlog(text, f"{name} is not {wanted}")
    return value


def _not_of_binlog(text: str | bytes, reason: str) -> PositionError:
    return PositionError(f"not a binlog position: {_shown(text)}; {reason}")


def _not_of_kafka(text: str | bytes) -> PositionError:
    return PositionError(f"not a Kafka position: {_shown(text)}; expected {KAFKA_FORM}")


def _is_natural(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _shown(text: str | bytes) -> str:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if len(text) > SHOWN_CHARACTERS:
        text = text[: SHOWN_CHARACTERS - 3] + "..."
    return repr(text)
