"""Dead letters: records that could not be applied, kept in a Kafka topic until somebody replays or
drops them.

A letter is the original record, with its bytes and headers, and headers of ours that say where it
comes from and why. Its key names the task and the record, so that a letter that is put twice counts
once; an empty value under that key resolves it. The topic is compacted, so that open letters never
expire.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple, cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.plugins.epoch import without_epoch
from cdcbus.plugins.errors import (
    BusRejected,
    BusUnavailable,
    ConfigError,
    DataError,
    TargetRejected,
)
from cdcbus.plugins.kafka.client_errors import Refusals
from cdcbus.plugins.positions import TopicPartition

LOG = logging.getLogger(__name__)
_LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")
WAIT_SECONDS: Final = 30.0
NEAR_BYTES: Final = 1 << 20  # what is fetched at once anyway
PREFIX: Final = "cdcbus."
REPLAYED: Final = f"{PREFIX}replayed"
REPLAYED_OFFSET: Final = f"{REPLAYED}.offset"
PROGRESS_SECONDS: Final = 5.0

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
    """A letter as the topic holds it: `key`, `value` and `headers` are the original record's;
    `time` is when it was put. `origin` is the offset at which the record came first, another one
    than the letter's where it has been replayed before: its row's state is of then."""

    dead_letter: DeadLetter
    time: str
    key: bytes | None
    value: bytes
    headers: Headers
    origin: int


def _by_row(each: OpenDeadLetter) -> tuple[object, ...]:
    topic, partition, offset, *_ = each.dead_letter
    return topic, partition, each.key or b"", each.origin, offset


def refuse(
    dead_letters: list[DeadLetter] | None,
    partition: TopicPartition,
    offset: int,
    error: DataError | TargetRejected,
) -> None:
    """Makes a letter of a record. Raises the error, naming the record, where there are to be no
    letters."""
    if dead_letters is None:
        raise type(error)(f"record {partition}@{offset}: {error}") from error
    dead_letters.append(DeadLetter(*partition, offset, str(error)))


class DeadLetterTopic:
    """The dead letters of one task. A context manager; thread-safe."""

    def __init__(self, task: LoadTask) -> None:
        """Connects at first use. Raises ConfigError for settings that the Kafka client does not
        know."""
        self._task_id, self._config, self._servers = (
            task.task_id,
            task.dead_letters,
            task.source.servers,
        )
        self._converter = task.converter
        self._refusals = Refusals()
        self._options: dict[str, Any] = {
            **task.source.look_up_options,
            "bootstrap.servers": task.source.servers,
            "error_cb": self._refusals,
            "logger": _LIBRARY_LOG,
        }
        self._open: set[str] = set()
        self._lock = Lock()
        try:
            self._producer = Producer(
                {
                    **self._options,
                    "acks": "all",
                    "enable.idempotence": True,
                    "compression.type": "lz4",
                }
            )
        except KafkaException as error:
            raise ConfigError(
                f"settings of the Kafka client (kafka.*): {error.args[0].str()}"
            ) from error

    @property
    def task_id(self) -> str:
        return self._task_id

    def __enter__(self) -> DeadLetterTopic:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._producer.purge()

    def open(self) -> None:
        """Makes the topic where it is missing, and counts the task's open letters: needed before
        the first `put`. Raises BusError."""
        self._make_topic()
        self._open = {dead_letter.dead_letter.record for dead_letter in self.dead_letters()}

    def put(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Returns when Kafka has acknowledged a letter for each. Raises DataError beyond the
        limit, and then puts none; BusError."""
        with self._lock:
            new = {dead_letter.record for dead_letter in dead_letters}
            if len(self._open | new) > self._config.limit:
                # some may have been resolved
                self._open = {each.dead_letter.record for each in self.dead_letters()}
            records = self._open | new
            if len(records) > self._config.limit:
                raise DataError(
                    f"task {self._task_id}: {len(records)} dead letters would be open, "
                    f"loader.deadletterLimit is {self._config.limit}; "
                    f"the last is record {dead_letters[-1].record}: {dead_letters[-1].reason}. "
                    "Look at them with "
                    "`cdcbus dlq list`, replay or drop them"
                )
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            messages = [
                self._message(dead_letter, now, original)
                for dead_letter, original in zip(
                    dead_letters, self._originals(dead_letters), strict=True
                )
            ]
            self._send(messages)
            self._open = records
        for dead_letter in dead_letters:
            LOG.warning(
                "task %s: dead letter %s: %s", self._task_id, dead_letter.record, dead_letter.reason
            )

    def dead_letters(self) -> list[OpenDeadLetter]:
        """The task's open letters, by topic, partition and key, those of one row in the order in
        which they first came. Raises BusError."""
        found: dict[bytes, OpenDeadLetter | None] = {}
        for message in self._all(self._config.topic):
            key = message.key() or b""
            if key.startswith(self._key("").encode()):
                found[key] = None if message.value() is None else _open_dead_letter(message)
        return sorted((each for each in found.values() if each), key=_by_row)

    def replay(self, dead_letters: Iterable[OpenDeadLetter]) -> None:
        """Puts the original records to the ends of their partitions, in order, each acknowledged
        before its letter is resolved. A crash in between leaves letters that have been replayed.
        Raises BusError."""
        dead_letters = sorted(
            dead_letters,
            key=lambda each: (each.dead_letter.topic, each.dead_letter.partition, each.origin),
        )
        now = datetime.now(UTC).isoformat(timespec="milliseconds").encode()
        self._send(
            [
                {
                    "topic": each.dead_letter.topic,
                    "partition": each.dead_letter.partition,
                    "key": each.key,
                    "value": without_epoch(each.value, self._converter),
                    "headers": [
                        *each.headers,
                        (REPLAYED, now),
                        (REPLAYED_OFFSET, str(each.origin).encode()),
                    ],
                }
                for each in dead_letters
            ]
        )
        self.drop(dead_letters)

    def outdated(
        self, dead_letters: Iterable[OpenDeadLetter], tell: Callable[[str], None] = LOG.info
    ) -> dict[str, str]:
        """Of the letters that a replay would put after a newer record with the same key: why, by
        the letter's record.

        Reads each partition once, from the oldest of its letters to the end, and tells how far
        it is. Records that are replayed together keep their order. Records that Kafka does not
        hold any more may have been newer. Raises BusError."""
        found: dict[str, str] = {}
        partitions: defaultdict[TopicPartition, list[OpenDeadLetter]] = defaultdict(list)
        for each in dead_letters:
            partition = TopicPartition(each.dead_letter.topic, each.dead_letter.partition)
            partitions[partition].append(each)
        with self._consumer() as consumer:
            for partition, its in sorted(partitions.items()):
                try:
                    begin, end = consumer.get_watermark_offsets(
                        confluent_kafka.TopicPartition(*partition), timeout=WAIT_SECONDS
                    )
                except KafkaException as error:
                    raise self._refusals.unanswered(consumer, self._servers, error) from error
                newest = self._newest(consumer, partition, its, end, tell)
                for each in its:
                    if reason := _why_outdated(each, newest.get(each.key), begin, end):
                        found[each.dead_letter.record] = reason
        return found

    def _newest(
        self,
        consumer: Consumer,
        partition: TopicPartition,
        dead_letters: Sequence[OpenDeadLetter],
        end: int,
        tell: Callable[[str], None],
    ) -> dict[bytes | None, tuple[int, int]]:
        """Of each letter's key the newest record that is not replayed with them: its origin and
        its offset."""
        keys, replayed = {each.key for each in dead_letters}, {each.origin for each in dead_letters}
        newest: dict[bytes | None, tuple[int, int]] = {}
        told = monotonic()
        consumer.assign([confluent_kafka.TopicPartition(*partition, min(replayed) + 1)])
        for message in self._read(consumer, partition.topic):
            key, offset = message.key(), message.offset() or 0
            key = None if key is None else _bytes(key)
            if key in keys and (origin := _origin(message)) not in replayed:
                newest[key] = max(newest.get(key, (-1, -1)), (origin, offset))
            if monotonic() - told > PROGRESS_SECONDS:
                tell(f"looking for newer records in {partition}: at offset {offset} of {end}")
                told = monotonic()
        return newest

    def drop(self, dead_letters: Iterable[OpenDeadLetter]) -> None:
        """Resolves letters. Raises BusError."""
        self._send(
            [
                {
                    "topic": self._config.topic,
                    "key": self._key(each.dead_letter.record).encode(),
                    "value": None,
                }
                for each in dead_letters
            ]
        )

    def _key(self, record: str) -> str:
        return f"{self._task_id}\n{record}"

    def _message(self, dead_letter: DeadLetter, now: str, original: Message) -> Mapping[str, Any]:
        ours = {"task": self._task_id, **dead_letter._asdict(), "time": now}
        headers: Headers = [
            *(original.headers() or []),
            *((f"{PREFIX}{name}", str(value).encode()) for name, value in ours.items()),
        ]
        if original.key() is not None:
            headers.append((f"{PREFIX}key", _bytes(original.key())))
        return {
            "topic": self._config.topic,
            "key": self._key(dead_letter.record).encode(),
            "value": original.value(),
            "headers": headers,
        }

    def _send(self, messages: Sequence[Mapping[str, Any]]) -> None:
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            for message in messages:
                self._producer.produce(**message, on_delivery=on_delivery)
            left = self._producer.flush(WAIT_SECONDS)
        except (KafkaException, BufferError) as error:
            raise BusUnavailable(
                f"dead letters cannot be put to Kafka at {self._servers}: {error}"
            ) from error
        if left:
            # else they would be sent later, after the batch has been tried again
            self._producer.purge()
            raise BusUnavailable(
                f"Kafka at {self._servers} has not acknowledged dead letters within "
                f"{WAIT_SECONDS:g} s"
            )
        if failures:
            kind = (
                BusUnavailable
                if failures[0].retriable() or failures[0].code() == KafkaError._MSG_TIMED_OUT
                else BusRejected
            )
            raise kind(
                f"Kafka at {self._servers} does not take {len(failures)} records: "
                f"{failures[0].str()}"
            )

    def _make_topic(self) -> None:
        topic = self._config.topic
        admin = AdminClient(self._options)
        try:
            if topic in admin.list_topics(timeout=WAIT_SECONDS).topics:
                return
            new = NewTopic(topic, 1, -1, config={"cleanup.policy": "compact"})
            admin.create_topics([new])[topic].result(WAIT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if error.args[0].retriable() or error.args[0].code() in (
                KafkaError._TRANSPORT,
                KafkaError._TIMED_OUT,
            ):
                raise self._refusals.unanswered(admin, self._servers, error) from error
            raise BusRejected(
                f"topic {topic} for dead letters cannot be made at {self._servers}: "
                f"{error.args[0].str()}; create it with "
                "cleanup.policy=compact, or name another in loader.deadletterTopic"
            ) from error

    # Reading

    def _originals(self, dead_letters: Sequence[DeadLetter]) -> list[Message]:
        """The records themselves. Raises BusError when one is not there any more."""
        found: dict[str, Message] = {}
        ordered = sorted({dead_letter.record: dead_letter for dead_letter in dead_letters}.values())
        with self._consumer() as consumer:
            for _, partition in groupby(ordered, key=itemgetter(0, 1)):
                found |= self._originals_of(consumer, partition)
        return [found[dead_letter.record] for dead_letter in dead_letters]

    def _originals_of(
        self, consumer: Consumer, dead_letters: Iterable[DeadLetter]
    ) -> dict[str, Message]:
        """Of letters of one partition, by offset. What lies between near ones is read as well:
        to go to another place costs a fetch."""
        found: dict[str, Message] = {}
        records: Iterator[Message] = iter(())
        for dead_letter in dead_letters:
            message = _skip_to(records, dead_letter.offset)
            if message is None:
                consumer.assign(
                    [
                        confluent_kafka.TopicPartition(
                            dead_letter.topic, dead_letter.partition, dead_letter.offset
                        )
                    ]
                )
                records = self._read(consumer, dead_letter.topic)
                message = next(records, None)
            if message is None or message.offset() != dead_letter.offset:
                raise BusUnavailable(
                    f"record {dead_letter.record}, a dead letter, cannot be read once more from "
                    f"Kafka at {self._servers}"
                )
            found[dead_letter.record] = message
        return found

    def _all(self, topic: str) -> Iterator[Message]:
        """Every record of a topic, partition by partition."""
        with self._consumer() as consumer:
            try:
                for number in (
                    consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions
                ):
                    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0)])
                    yield from self._read(consumer, topic)
            except KafkaException as error:
                raise self._refusals.unanswered(consumer, self._servers, error) from error

    def _read(self, consumer: Consumer, topic: str) -> Iterator[Message]:
        """To the end of the assigned partition."""
        deadline = monotonic() + WAIT_SECONDS
        while (message := consumer.poll(max(0.0, deadline - monotonic()))) is not None:
            error = message.error()
            if error is None:
                deadline = monotonic() + WAIT_SECONDS
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return  # there are no letters yet
            else:
                raise self._refusals.unanswered(consumer, self._servers, KafkaException(error))
        raise BusUnavailable(
            f"topic {topic} at {self._servers} cannot be read to its end within {WAIT_SECONDS:g} s"
        )

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        options = {
            "group.id": f"cdcbus-{self._task_id}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        # A fetch at a partition's end is waited for before another place can be read.
        options |= {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
        consumer = Consumer({**self._options, **options})
        try:
            yield consumer
        finally:
            consumer.close()


def dead_letters_of(task: LoadTask) -> AbstractContextManager[DeadLetterTopic | None]:
    """Where the task puts dead letters, once that is opened; None where it stops instead. Raises
    ConfigError."""
    return nullcontext() if task.on_error is OnError.STOP else DeadLetterTopic(task)


def _skip_to(records: Iterator[Message], offset: int) -> Message | None:
    """The first record at or behind an offset; None where it is not near."""
    skipped = 0
    for message in records:
        if (message.offset() or 0) >= offset:
            return message
        skipped += 1024 + len(message)  # a small one takes its time, too
        if skipped > NEAR_BYTES:
            break
    return None


def _open_dead_letter(message: Message) -> OpenDeadLetter:
    headers: Headers = [
        (name, None if value is None else _bytes(value))
        for name, value in cast(Headers, message.headers() or [])
    ]
    ours = {
        name.removeprefix(PREFIX): value or b""
        for name, value in headers
        if name.startswith(PREFIX)
    }
    dead_letter = DeadLetter(
        ours["topic"].decode(), int(ours["partition"]), int(ours["offset"]), ours["reason"].decode()
    )
    # Only the last of each name is ours: a record that was replayed and refused again brings those
    # of its first time.
    own = [header for header in headers if not header[0].startswith(PREFIX)]
    origin = int(ours.get("replayed.offset", dead_letter.offset))
    return OpenDeadLetter(
        dead_letter, ours["time"].decode(), ours.get("key"), _bytes(message.value()), own, origin
    )


def _origin(message: Message) -> int:
    """The offset at which the record came first."""
    headers = dict(cast(Headers, message.headers() or []))
    return int(headers.get(REPLAYED_OFFSET) or message.offset() or 0)


def _why_outdated(
    dead_letter: OpenDeadLetter, newest: tuple[int, int] | None, begin: int, end: int
) -> str:
    """Empty where the letter's record is known to be the newest of its key. The partition has
    the offsets from `begin` to `end`."""
    partition = TopicPartition(dead_letter.dead_letter.topic, dead_letter.dead_letter.partition)
    if newest is not None and newest[0] > dead_letter.origin:
        why = (
            "with the same key is newer"
            if dead_letter.key is not None
            else "is newer, and without keys none tells which row it is of"
        )
        return f"record {partition.topic}/{partition.partition}/{newest[1]} {why}"
    if end <= dead_letter.dead_letter.offset:
        return f"{partition} ends at {end}, so it is another log than the one that had the record"
    if begin > dead_letter.origin + 1:
        return f"{partition} begins at {begin} by now, and what it had before may have been newer"
    return ""


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
