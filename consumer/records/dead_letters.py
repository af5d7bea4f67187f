"""Dead letters: records that could not be applied, kept in a Kafka topic until they are replayed or
dropped.

A dead letter is the original record, with its bytes and headers, plus headers of ours that say
where it comes from and why. Its key names the task and the record, so that a letter put twice
counts once; a null value under that key resolves it. An offset alone does not identify a record: in
a topic that was created again, or a log that was cut off and filled again, another one has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

from confluent_kafka import Message

from cdcbus.plugins.errors import DataError, TargetRejected
from cdcbus.plugins.positions import TopicPartition

PREFIX: Final = "cdcbus."
REPLAYED: Final = f"{PREFIX}replayed"
REPLAYED_OFFSET: Final = f"{REPLAYED}.offset"

Headers = list[tuple[str, bytes | None]]


class DeadLetter(NamedTuple):
    """A record that could not be applied, and the reason, which holds no cell values."""

    topic: str
    partition: int
    offset: int
    reason: str
    # Of the record, only where an open letter of another record has the same offset.
    digest: str = ""

    @property
    def record(self) -> str:
        """The letter's name."""
        place = f"{self.topic}/{self.partition}/{self.offset}"
        return f"{place}/{self.digest}" if self.digest else place


@dataclass(frozen=True, slots=True)
class OpenDeadLetter:
    """A dead letter as stored in the topic."""

    dead_letter: DeadLetter
    # When it was put into the topic.
    time: str
    # Key, value and headers are the original record's.
    key: bytes | None
    value: bytes
    headers: Headers
    # The offset at which the record first came. It differs from the letter's offset where the
    # record has been replayed before; the row's state is of that earlier time.
    origin: int

    @property
    def digest(self) -> str:
        return digest_of(self.key, self.value)


def refuse(
    dead_letters: list[DeadLetter] | None,
    partition: TopicPartition,
    offset: int,
    error: DataError | TargetRejected,
) -> None:
    """Adds a dead letter for a record. Without a list, raises the error, naming the record."""
    if dead_letters is None:
        raise type(error)(f"record {partition}@{offset}: {error}") from error
    dead_letters.append(DeadLetter(*partition, offset, str(error)))


def letter_key(task_id: str, record: str) -> bytes:
    """The key of a dead letter; with an empty record, the prefix of all keys of the task."""
    return f"{task_id}\n{record}".encode()


def letter_headers(task_id: str, dead_letter: DeadLetter, time: str, original: Message) -> Headers:
    """The original record's headers, followed by ours."""
    headers: Headers = list(cast(Headers, original.headers() or []))
    ours = {"task": task_id, **dead_letter._asdict(), "time": time}
    for name, value in ours.items():
        headers.append((f"{PREFIX}{name}", str(value).encode()))
    if original.key() is not None:
        headers.append((f"{PREFIX}key", to_bytes(original.key())))
    return headers


def read_letter(message: Message) -> OpenDeadLetter:
    """The dead letter in a record of the topic."""
    ours: dict[str, bytes] = {}
    original: Headers = []
    for name, value in headers_of(message):
        if name.startswith(PREFIX):
            # The last of equal names counts: a record that was replayed and refused again also
            # carries the headers of its first refusal.
            ours[name.removeprefix(PREFIX)] = value or b""
        else:
            original.append((name, value))
    dead_letter = DeadLetter(
        ours["topic"].decode(),
        int(ours["partition"]),
        int(ours["offset"]),
        ours["reason"].decode(),
        ours.get("digest", b"").decode(),
    )
    return OpenDeadLetter(
        dead_letter,
        time=ours["time"].decode(),
        key=ours.get("key"),
        value=to_bytes(message.value()),
        headers=original,
        # A later offset is one of another log, as after a forced replay.
        origin=min(int(ours.get("replayed.offset", dead_letter.offset)), dead_letter.offset),
    )


def replayed_record(letter: OpenDeadLetter, value: bytes, time: str) -> dict[str, Any]:
    """The original record as it is sent again. `value`: the letter's value, without the epoch."""
    noted = [(REPLAYED, time.encode()), (REPLAYED_OFFSET, str(letter.origin).encode())]
    return {
        "topic": letter.dead_letter.topic,
        "partition": letter.dead_letter.partition,
        "key": letter.key,
        "value": value,
        "headers": [*letter.headers, *noted],
    }


def origin_of(message: Message) -> int:
    """The offset at which a record of a source topic first came."""
    offset = message.offset() or 0
    return min(int(dict(headers_of(message)).get(REPLAYED_OFFSET) or offset), offset)


def digest_of(key: str | bytes | None, value: str | bytes | None) -> str:
    """A short text that is another one for a record with another key or value."""
    return sha256(b"\n".join((to_bytes(key), to_bytes(value)))).hexdigest()[:12]


def headers_of(message: Message) -> Headers:
    """A record's headers, with values as bytes."""
    found: Headers = []
    for name, value in cast(Headers, message.headers() or []):
        found.append((name, None if value is None else to_bytes(value)))
    return found


def to_bytes(value: str | bytes | None) -> bytes:
    """A value of the Kafka client, which can be text, as bytes; None becomes empty."""
    return value.encode() if isinstance(value, str) else value or b""
