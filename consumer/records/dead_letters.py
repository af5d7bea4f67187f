"""Dead letters: records that could not be applied, kept in a Kafka topic until somebody replays or
drops them.

A letter is the original record, with its bytes and headers, and headers of ours that say where it
comes from and why. Its key names the task and the record, so that a letter that is put twice counts
once; an empty value under that key resolves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from confluent_kafka import Message

from cdcbus.plugins.errors import DataError, TargetRejected
from cdcbus.plugins.positions import TopicPartition

PREFIX: Final = "cdcbus."
REPLAYED: Final = f"{PREFIX}replayed"
REPLAYED_OFFSET: Final = f"{REPLAYED}.offset"

Headers = list[tuple[str, bytes | None]]


class DeadLetter(NamedTuple):
    """Which record could not be applied, and why; the reason holds no cell values."""

    topic: str
    partition: int
    offset: int
    reason: str

    @property
    def record(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class OpenDeadLetter:
    """A letter as the topic holds it."""

    dead_letter: DeadLetter
    # When it was put.
    time: str
    # Key, value and headers are the original record's.
    key: bytes | None
    value: bytes
    headers: Headers
    # The offset at which the record came first. It differs from the letter's where the record was
    # replayed before; the row's state is of that earlier time.
    origin: int


def refuse(
    dead_letters: list[DeadLetter] | None,
    partition: TopicPartition,
    offset: int,
    error: DataError | TargetRejected,
) -> None:
    """Makes a letter of a record. Without a list for letters, raises the error, naming the
    record."""
    if dead_letters is None:
        raise type(error)(f"record {partition}@{offset}: {error}") from error
    dead_letters.append(DeadLetter(*partition, offset, str(error)))


def letter_key(task_id: str, record: str) -> bytes:
    """The key of a letter; without a record, how the keys of all of a task's letters begin."""
    return f"{task_id}\n{record}".encode()


def letter_headers(task_id: str, dead_letter: DeadLetter, time: str, original: Message) -> Headers:
    """The original record's headers, and after them ours."""
    headers: Headers = list(cast(Headers, original.headers() or []))
    ours = {"task": task_id, **dead_letter._asdict(), "time": time}
    for name, value in ours.items():
        headers.append((f"{PREFIX}{name}", str(value).encode()))
    if original.key() is not None:
        headers.append((f"{PREFIX}key", to_bytes(original.key())))
    return headers


def read_letter(message: Message) -> OpenDeadLetter:
    """The letter that a record of the topic is."""
    ours: dict[str, bytes] = {}
    original: Headers = []
    for name, value in headers_of(message):
        if name.startswith(PREFIX):
            # Of equal names the last counts: a record that was replayed and refused again brings
            # those of its first time.
            ours[name.removeprefix(PREFIX)] = value or b""
        else:
            original.append((name, value))
    dead_letter = DeadLetter(
        ours["topic"].decode(), int(ours["partition"]), int(ours["offset"]), ours["reason"].decode()
    )
    return OpenDeadLetter(
        dead_letter,
        time=ours["time"].decode(),
        key=ours.get("key"),
        value=to_bytes(message.value()),
        headers=original,
        origin=int(ours.get("replayed.offset", dead_letter.offset)),
    )


def replayed_record(letter: OpenDeadLetter, value: bytes, time: str) -> dict[str, Any]:
    """The original record as it is sent again. `value`: the letter's, without the epoch."""
    noted = [(REPLAYED, time.encode()), (REPLAYED_OFFSET, str(letter.origin).encode())]
    return {
        "topic": letter.dead_letter.topic,
        "partition": letter.dead_letter.partition,
        "key": letter.key,
        "value": value,
        "headers": [*letter.headers, *noted],
    }


def origin_of(message: Message) -> int:
    """The offset at which a record of a source topic came first."""
    return int(dict(headers_of(message)).get(REPLAYED_OFFSET) or message.offset() or 0)


def headers_of(message: Message) -> Headers:
    """A record's headers; values as bytes."""
    found: Headers = []
    for name, value in cast(Headers, message.headers() or []):
        found.append((name, None if value is None else to_bytes(value)))
    return found


def to_bytes(value: str | bytes | None) -> bytes:
    """What the Kafka client gives as text or bytes."""
    return value.encode() if isinstance(value, str) else value or b""
