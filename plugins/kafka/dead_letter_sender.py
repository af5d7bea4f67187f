"""Sends dead letters and what resolves them, and waits until Kafka has acknowledged each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.kafka.acknowledgement_watch import SLICE_SECONDS
from cdcbus.plugins.kafka.client.errors import (
    INVALID,
    RIGHTS,
    Refusals,
    denied,
    drop_unsent,
    fatal_error,
    invalid,
)
from cdcbus.plugins.kafka.delivery_errors import PURGED, RAISE_LIMIT, TOO_LARGE, refusal
from cdcbus.plugins.kafka.producer_options import REQUEST_BYTES

WAIT_SECONDS: Final = 30.0
OnDelivery = Callable[[KafkaError | None, Message], None]
UnsentLetters = set[tuple[int, str]]
"""The size in bytes and the topic of letters that were not acknowledged though brokers answered,
and that may be too large for a request. Sent after all, a letter is none of them any more."""


class DeadLetterSender:
    """Sends through a producer that nobody else uses. A context manager. Not thread-safe."""

    def __init__(
        self,
        producer: Producer,
        servers: str,
        refusals: Refusals,
        unsent: UnsentLetters | None = None,
    ) -> None:
        """`refusals` is the producer's `error_cb`. `unsent`: see UnsentLetters; kept by whoever
        makes a new sender for each attempt."""
        self._producer = producer
        self._servers = servers
        self._refusals = refusals
        self._unsent: UnsentLetters = set() if unsent is None else unsent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Sends records in order; each is what `Producer.produce` takes by name. Returns when all
        are acknowledged; after an error, some may be. Raises BusUnavailable, BusRejected."""
        failures: list[BusError] = []
        dropped: list[Message] = []

        def on_delivery(error: KafkaError | None, sent: Message) -> None:
            if error is not None and error.code() in PURGED:
                dropped.append(sent)
            elif error is not None:
                failures.append(self._failure(error, sent.topic() or "", len(sent)))

        topic = ""
        sizes: UnsentLetters = set()
        # What passed before is no reason.
        self._refusals.reason = ""
        try:
            for record in records:
                topic = record["topic"]
                self._queue(record, on_delivery)
                sizes.add((len(record["value"] or b""), topic))
            if self._producer.flush(WAIT_SECONDS):
                raise self._not_sent(*max(sizes, default=(0, topic)))
            if dropped and not failures:
                # The client has failed for good, of which it tells before or after that.
                self._producer.poll(SLICE_SECONDS)
                raise self._unacknowledged()
        except BusError:
            # Otherwise the client would send them later, after they were tried again.
            drop_unsent(self._producer)
            raise
        except (KafkaException, SystemError) as raised:
            fatal = fatal_error(raised)
            if fatal is None:
                raise self._unacknowledged() from raised
            raise self._failure(fatal, topic, 0) from raised
        if failures:
            raise failures[0]
        self._unsent -= sizes

    def close(self) -> None:
        """Drops what has not been sent, and ends the producer's threads: a page makes one each time
        that it is asked for."""
        drop_unsent(self._producer)
        self._producer.close()

    def _queue(self, record: Mapping[str, Any], on_delivery: OnDelivery) -> None:
        """Gives a record to the client, once that has room for it."""
        deadline = monotonic() + WAIT_SECONDS
        while True:
            try:
                return self._producer.produce(**record, on_delivery=on_delivery)
            except BufferError:
                if monotonic() > deadline:
                    raise self._unacknowledged() from None
                self._producer.poll(1.0)
            except KafkaException as error:
                size_bytes = len(record["value"] or b"")
                raise self._failure(error.args[0], record["topic"], size_bytes) from error

    def _not_sent(self, size_bytes: int, topic: str) -> BusError:
        """The error for records that the client still has. `size_bytes`: of the largest one."""
        error = self._unacknowledged()
        # Silent brokers refuse nothing: they may take it once they answer.
        if size_bytes <= REQUEST_BYTES or not self._is_answered(topic):
            return error
        why = (
            f"the largest one, for topic {topic}, has {size_bytes} bytes, and brokers close the "
            "connection without a word for a request that, once compressed, is larger than their "
            "socket.request.max.bytes (104857600 by default): raise it for all brokers, and the "
            "topic's max.message.bytes"
        )
        # A slow line, or a leader that was away meanwhile, looks the same once.
        if (size_bytes, topic) in self._unsent:
            return BusRejected(f"{error}, though it answers, and this is not the first time: {why}")
        self._unsent.add((size_bytes, topic))
        return BusUnavailable(f"{error}, though it answers; if that repeats, this is why: {why}")

    def _is_answered(self, topic: str) -> bool:
        """Whether brokers answer, once nothing is sent, and all partitions of a topic have a
        leader."""
        drop_unsent(self._producer)
        try:
            found = self._producer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
        except KafkaException:
            return False
        return found.error is None and all(each.leader >= 0 for each in found.partitions.values())

    def _unacknowledged(self) -> BusUnavailable:
        reason = f" ({self._refusals.reason})" if self._refusals.reason else ""
        return BusUnavailable(
            f"Kafka at {self._servers} has not acknowledged dead letters within {WAIT_SECONDS:g} s"
            f"{reason}"
        )

    def _failure(self, error: KafkaError, topic: str, size_bytes: int) -> BusError:
        """The error for a record that Kafka does not take."""
        code = error.code()
        if code in TOO_LARGE:
            sentence = refusal(topic, self._servers, size_bytes, None, "a dead letter")
            return BusRejected(f"{sentence}; {RAISE_LIMIT}")
        if code in INVALID:
            return invalid(self._servers, topic, code)
        if code in RIGHTS:
            return denied(self._servers, f"topic {topic}: {error.str()}", code)
        if error.fatal() or code == KafkaError._FATAL:
            return BusError(
                f"the Kafka client for dead letters has failed, at topic {topic} at "
                f"{self._servers}: {error.str()}; a new one may succeed"
            )
        passes = error.retriable() or code == KafkaError._MSG_TIMED_OUT
        kind = BusUnavailable if passes else BusRejected
        return kind(f"Kafka topic {topic} at {self._servers} does not take a record: {error.str()}")
