"""The dead letters of both kinds of task. Those of a fetch task are for rows too large for Kafka:
they do not hold the record, but say where to find the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Producer

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.ops.services.topics import access_of
from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.dead_letter_sender import DeadLetterSender
from cdcbus.plugins.kafka.topic_log import Access, KafkaRecord, TopicLog, end_offsets, first_offsets
from cdcbus.producer.config import FetchTask

PREFIX = "cdcbus."
NO_REPLAY = (
    "the letters of a fetch task hold no records, as these are too large for Kafka. Raise the "
    "topic's max.message.bytes and set the "
    "position back before the row (`cdcbus dlq show` says where it is), or copy the row by hand; "
    "then `cdcbus dlq drop` the letter"
)


class LargeRow(NamedTuple):
    """`record` names the place of the row: TOPIC/FILE:PLACE/ROW/NUMBER, the event's first row in
    its transaction and the number after it, and a digest of which row it is."""

    record: str
    reason: str


@dataclass(frozen=True, slots=True)
class FetchLetter:
    """A dead letter as the topic holds it. `fields` are its headers: topic, table, key, position,
    row, bytes. `time` is when it was sent."""

    dead_letter: LargeRow
    time: str
    fields: dict[str, bytes]


def _row_of(each: FetchLetter) -> tuple[bytes, ...]:
    return tuple(each.fields.get(name, b"") for name in ("topic", "table", "key"))


class FetchLetters:
    """The open dead letters of one fetch task. A context manager."""

    def __init__(self, task: FetchTask) -> None:
        """Raises ConfigError for a task that stops instead of making dead letters."""
        if not task.publish.dead_letter_topic:
            raise ConfigError(
                f"fetch task {task.task_id} leaves no dead letters: loader.onError is stop"
            )
        self.task_id = task.task_id
        self._topic = task.publish.dead_letter_topic
        self._access = access_of(task)

    # A context manager because `DeadLetterTopic` is one, and `letters_of` returns either.
    def __enter__(self) -> FetchLetters:
        return self

    def __exit__(self, *_: object) -> None: ...

    def dead_letters(self) -> list[FetchLetter]:
        """The open dead letters by topic and key, those of one row in the order in which they were
        sent. Raises BusError."""
        found: dict[bytes, FetchLetter] = {}
        own = self._key("")
        with TopicLog(self._access) as log:
            bounds = log.bounds(self._topic)
            for record in log.records(self._topic, first_offsets(bounds), end_offsets(bounds)):
                if record.key is None or not record.key.startswith(own):
                    continue
                # One that is sent again moves to the end.
                found.pop(record.key, None)
                if record.value is not None:
                    place = record.key.removeprefix(own).decode()
                    found[record.key] = _dead_letter(record, place)
        return sorted(found.values(), key=_row_of)

    def drop(self, dead_letters: Sequence[FetchLetter]) -> None:
        """Marks dead letters resolved. Raises BusUnavailable, BusRejected."""
        tombstones = []
        for each in dead_letters:
            # Compaction then removes the letter.
            key = self._key(each.dead_letter.record)
            tombstones.append({"topic": self._topic, "key": key, "value": None})
        refusals = Refusals()
        producer = _producer(self._access, refusals)
        with DeadLetterSender(producer, self._access.servers, refusals) as sender:
            sender.send(tombstones)

    def _key(self, record: str) -> bytes:
        return f"{self.task_id}\n{record}".encode()


def letters_of(task: FetchTask | LoadTask) -> DeadLetterTopic | FetchLetters:
    """The open dead letters of a task; a context manager. Raises ConfigError as the two classes
    do."""
    if isinstance(task, LoadTask):
        return DeadLetterTopic(task)
    return FetchLetters(task)


def _producer(access: Access, refusals: Refusals) -> Producer:
    options: dict[str, Any] = {
        **access.options,
        "bootstrap.servers": access.servers,
        "acks": "all",
        "enable.idempotence": True,
        "error_cb": refusals,
        "logger": LIBRARY_LOG,
    }
    return make_client(Producer, options)


def _dead_letter(record: KafkaRecord, place: str) -> FetchLetter:
    fields = {}
    for name, value in record.headers:
        if name.startswith(PREFIX):
            fields[name.removeprefix(PREFIX)] = value or b""
    time = utc_text(record.time_ms, "milliseconds", "T", "+00:00")
    return FetchLetter(LargeRow(place, fields.pop("reason", b"").decode()), time, fields)
