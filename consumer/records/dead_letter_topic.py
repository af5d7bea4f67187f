"""The Kafka topic of dead letters: puts, lists, replays and drops them. The topic is compacted, so
that open letters never expire."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.consumer.records.dead_letters import (
    DeadLetter,
    OpenDeadLetter,
    digest_of,
    letter_headers,
    letter_key,
    read_letter,
    replayed_record,
)
from cdcbus.consumer.records.outdated import find_outdated
from cdcbus.consumer.records.record_reader import RecordReader
from cdcbus.plugins.epoch import without_epoch
from cdcbus.plugins.errors import BusRejected, DataError
from cdcbus.plugins.kafka.client.certificates import written_at
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.dead_letter_sender import WAIT_SECONDS, DeadLetterSender, UnsentLetters
from cdcbus.plugins.kafka.topics import COMPACTED, warn_of_expiry

LOG = logging.getLogger(__name__)
# The most that librdkafka can be told; it counts bytes before they are compressed.
MOST_BYTES = 1_000_000_000


class DeadLetterTopic:
    """The dead letters of one task. A context manager; thread-safe."""

    def __init__(self, task: LoadTask, unsent: UnsentLetters | None = None) -> None:
        """Connects at first use. `unsent`: see UnsentLetters; kept by whoever makes a new topic for
        each attempt. Raises ConfigError for settings that the Kafka client does not know."""
        self._task_id = task.task_id
        self._config = task.dead_letters
        self._servers = task.source.servers
        self._converter = task.converter
        self._options: dict[str, Any] = {
            **task.source.look_up_options,
            "bootstrap.servers": task.source.servers,
            "logger": LIBRARY_LOG,
        }
        self._reader = RecordReader(
            {**self._options, "group.id": f"cdcbus-{task.task_id}"}, self._servers
        )
        # The digests of the open letters, as far as known, by their `record`.
        self._open: dict[str, str] = {}
        self._lock = Lock()
        self._sending_options = {
            **self._options,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            # A broker would not make a compacted one.
            "allow.auto.create.topics": False,
            # The brokers decide which records are too large: that one was in Kafka before.
            "message.max.bytes": MOST_BYTES,
        }
        self._unsent: UnsentLetters = set() if unsent is None else unsent
        self._certificates: dict[str, int] = {}
        self._sender = self._new_sender()

    def _new_sender(self) -> DeadLetterSender:
        certificates, refusals = written_at(self._sending_options), Refusals()
        producer = make_client(Producer, {**self._sending_options, "error_cb": refusals})
        self._certificates = certificates
        return DeadLetterSender(producer, self._servers, refusals, self._unsent)

    def _send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Sends by a client with the certificates that are on disk: one reads them only when it is
        made. Raises as `DeadLetterSender.send`, and BusUnavailable where none can be made."""
        if written_at(self._sending_options) != self._certificates:
            former, self._sender = self._sender, self._new_sender()
            former.close()
        self._sender.send(records)

    @property
    def task_id(self) -> str:
        return self._task_id

    def __enter__(self) -> DeadLetterTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.close()

    def open(self) -> None:
        """Creates the topic where it is missing, and counts the task's open letters. Must be called
        before the first `put`. Raises BusError."""
        refusals = Refusals()
        with make_client(AdminClient, {**self._options, "error_cb": refusals}) as admin:
            self._make_topic(admin, refusals)
        self._open = self._open_digests()

    def put(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Puts a letter for each, and returns when Kafka has acknowledged them. Raises DataError
        beyond the limit, and then puts none; BusError."""
        with self._lock:
            now = _now()
            originals = self._reader.originals(dead_letters)
            named = []
            messages = []
            digests = {}
            for dead_letter, original in zip(dead_letters, originals, strict=True):
                digest = digest_of(original.key(), original.value())
                letter = self._named(dead_letter, digest)
                named.append(letter)
                messages.append(self._message(letter, now, original))
                digests[letter.record] = digest
            self._check_limit(named)
            self._send(messages)
            self._open |= digests
        for dead_letter in named:
            LOG.warning(
                "task %s: dead letter %s: %s", self._task_id, dead_letter.record, dead_letter.reason
            )

    def _named(self, dead_letter: DeadLetter, digest: str) -> DeadLetter:
        """The letter, with its record's digest in its name where an open one of another record
        would be replaced otherwise."""
        distinct = dead_letter._replace(digest=digest)
        # The other one may have been resolved since this one was put under that name.
        is_put = distinct.record in self._open
        if is_put or self._open.get(dead_letter.record, digest) != digest:
            return distinct
        return dead_letter

    def _check_limit(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Raises DataError if too many letters will be open."""
        new = {dead_letter.record for dead_letter in dead_letters}
        limit = self._config.limit
        if len(self._open.keys() | new) > limit:
            # An operator may have resolved some meanwhile.
            self._open = self._open_digests()
        records = self._open.keys() | new
        if len(records) > limit:
            last = dead_letters[-1]
            raise DataError(
                f"task {self._task_id}: {len(records)} dead letters would be open, "
                f"loader.deadletterLimit is {limit}; the last is record {last.record}: "
                f"{last.reason}. Look at them with `cdcbus dlq list`, replay or drop them"
            )

    def _open_digests(self) -> dict[str, str]:
        return {each.dead_letter.record: each.digest for each in self.dead_letters()}

    def dead_letters(self) -> list[OpenDeadLetter]:
        """The task's open letters, sorted by topic, partition and key; those of one row in the
        order in which they first came. Raises BusError."""
        found: dict[bytes, OpenDeadLetter | None] = {}
        own = letter_key(self._task_id, "")
        for message in self._reader.all_records(self._config.topic):
            key = message.key() or b""
            if key.startswith(own):
                # A later record takes the place of an earlier one; without a value it resolves it.
                found[key] = None if message.value() is None else read_letter(message)
        return sorted(filter(None, found.values()), key=_by_row)

    def replay(self, dead_letters: Iterable[OpenDeadLetter]) -> None:
        """Appends the original records to their partitions, in order, all acknowledged before the
        letters are resolved. A crash in between leaves letters open that have been replayed. Raises
        BusError."""
        ordered = sorted(dead_letters, key=_by_origin)
        now = _now()
        records = []
        for each in ordered:
            # With its old epoch the record would be left out as sent too late.
            value = without_epoch(each.value, self._converter)
            records.append(replayed_record(each, value, now))
        self._send(records)
        self.drop(ordered)

    def outdated(
        self, dead_letters: Iterable[OpenDeadLetter], report: Callable[[str], None] = LOG.info
    ) -> dict[str, str]:
        """Finds letters that a replay would put after a newer record with the same key; returns the
        reason, by the letter's record. Raises BusError."""
        return find_outdated(self._reader, dead_letters, report)

    def drop(self, dead_letters: Iterable[OpenDeadLetter]) -> None:
        """Resolves letters. Raises BusError."""
        tombstones = []
        for each in dead_letters:
            key = letter_key(self._task_id, each.dead_letter.record)
            tombstones.append({"topic": self._config.topic, "key": key, "value": None})
        self._send(tombstones)

    def _message(self, dead_letter: DeadLetter, now: str, original: Message) -> Mapping[str, Any]:
        return {
            "topic": self._config.topic,
            "key": letter_key(self._task_id, dead_letter.record),
            "value": original.value(),
            "headers": letter_headers(self._task_id, dead_letter, now, original),
        }

    def _make_topic(self, admin: AdminClient, refusals: Refusals) -> None:
        topic = self._config.topic
        try:
            if topic in admin.list_topics(timeout=WAIT_SECONDS).topics:
                warn_of_expiry(admin, topic)
                return
            new = NewTopic(topic, 1, -1, config=COMPACTED)
            admin.create_topics([new], request_timeout=WAIT_SECONDS)[topic].result()
        except KafkaException as error:
            failed = error.args[0]
            if failed.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            silent = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
            if failed.retriable() or failed.code() in silent:
                raise refusals.unanswered(admin, self._servers, error) from error
            raise BusRejected(
                f"topic {topic} for dead letters cannot be made at {self._servers}: "
                f"{failed.str()}; create it with cleanup.policy=compact, or name another in "
                "loader.deadletterTopic"
            ) from error


def dead_letters_of(task: LoadTask) -> AbstractContextManager[DeadLetterTopic | None]:
    """The task's dead letter topic, not yet opened; None where the task stops instead. Raises
    ConfigError."""
    return nullcontext() if task.on_error is OnError.STOP else DeadLetterTopic(task)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _by_row(each: OpenDeadLetter) -> tuple[object, ...]:
    topic, partition, offset = each.dead_letter[:3]
    return topic, partition, each.key or b"", each.origin, offset


def _by_origin(each: OpenDeadLetter) -> tuple[str, int, int]:
    return each.dead_letter.topic, each.dead_letter.partition, each.origin
