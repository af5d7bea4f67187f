"""The dead letters of both kinds of task. Those of a fetch task are for rows too large for Kafka:
they do not hold the record, but say where to find the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.ops.services.topics import (
    Access,
    KafkaRecord,
    TopicLog,
    access_of,
    end_offsets,
    first_offsets,
)
from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import BusUnavailable, ConfigError
from cdcbus.producer.config import FetchTask

WAIT_SECONDS = 30.0
NO_ANSWER = f"no answer within {WAIT_SECONDS:g} s"
PREFIX = "cdcbus."
NO_REPLAY = (
    "the letters of a fetch task hold no records, as these are too large for Kafka. Raise the "
    "topic's max.message.bytes and set the "
    "position back before the row (`cdcbus dlq show` says where it is), or copy the row by hand; "
    "then `cdcbus dlq drop` the letter"
)


class LargeRow(NamedTuple):
    """`record` names the place of the row: TOPIC/FILE:PLACE/ROW/NUMBER, the event's first row in
    its transaction and the number after it."""

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
        """Marks dead letters resolved. Raises BusUnavailable."""
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = _producer(self._access)
        for each in dead_letters:
            # A tombstone: compaction then removes the letter.
            self._queue(producer, self._key(each.dead_letter.record), on_delivery)
        # `flush` returns how many records were not delivered in time.
        if producer.flush(WAIT_SECONDS) or failures:
            raise self._unavailable(failures[0].str() if failures else NO_ANSWER)

    def _queue(
        self,
        producer: Producer,
        key: bytes,
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        """Gives a tombstone to the client, once that has room for it."""
        deadline = monotonic() + WAIT_SECONDS
        while True:
            try:
                return producer.produce(self._topic, key=key, value=None, on_delivery=on_delivery)
            except BufferError:
                if monotonic() > deadline:
                    raise self._unavailable(NO_ANSWER) from None
                producer.poll(1.0)

    def _unavailable(self, reason: str) -> BusUnavailable:
        return BusUnavailable(
            f"Kafka at {self._access.servers} does not accept the records that resolve the "
            f"dead letters in {self._topic}: {reason}"
        )

    def _key(self, record: str) -> bytes:
        return f"{self.task_id}\n{record}".encode()


def letters_of(task: FetchTask | LoadTask) -> DeadLetterTopic | FetchLetters:
    """The open dead letters of a task; a context manager. Raises ConfigError as the two classes
    do."""
    if isinstance(task, LoadTask):
        return DeadLetterTopic(task)
    return FetchLetters(task)


def _producer(access: Access) -> Producer:
    try:
        return Producer(
            {
                **access.options,
                "bootstrap.servers": access.servers,
                "acks": "all",
                "enable.idempotence": True,
            }
        )
    except KafkaException as error:
        raise ConfigError(
            f"settings of the Kafka client (kafka.*): {error.args[0].str()}"
        ) from error


def _dead_letter(record: KafkaRecord, place: str) -> FetchLetter:
    fields = {}
    for name, value in record.headers:
        if name.startswith(PREFIX):
            fields[name.removeprefix(PREFIX)] = value or b""
    time = utc_text(record.time_ms, "milliseconds", "T", "+00:00")
    return FetchLetter(LargeRow(place, fields.pop("reason", b"").decode()), time, fields)
