"""A writer whose brokers do not answer: what it says, and when it gives up."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, Timer
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.files.taken_texts import begin_task
from cdcbus.plugins.kafka import producer as writers
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.task_status import State, TaskStatus
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.tasks.config.placeholders import interpolate
from tests.support.servers.secure_servers import Authority
from tests.support.waiting import wait_until

# Nothing listens at the first port: each connection is refused at once.
NOWHERE = PublishConfig(servers="127.0.0.1:1", topic="shop", converter="canalRow")
WARNING = "no Kafka broker answers"


def writer(stop: Event) -> KafkaPublisher:
    return KafkaPublisher(NOWHERE, make_converter("canalRow"), stop)


def test_a_stop_ends_a_question_that_no_broker_answers() -> None:
    stop = Event()
    Timer(0.2, stop.set).start()
    began = time.monotonic()
    with pytest.raises(BusUnavailable, match=r"stopped before a Kafka broker at 127\.0\.0\.1:1"):
        writer(stop).shape("shop")
    assert time.monotonic() - began < writers.CONNECT_SECONDS / 2


def test_a_question_that_no_broker_answers_is_only_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(BusUnavailable, match=WARNING):
        writer(Event()).shape("shop", 1)
    assert not caplog.records


def test_waiting_records_are_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = writer(Event())
    publisher._produce("shop", [{"key": b"1", "value": b"{}"}])

    def warned() -> int:
        # Long enough for several connections.
        publisher.client.flush(3)
        return sum(WARNING in record.getMessage() for record in caplog.records)

    assert warned() == 1
    assert warned() == 1
    monkeypatch.setattr(writers, "WARN_SECONDS", 0.0)
    assert warned() > 1
    publisher.client.purge()


def test_a_task_is_retrying_while_no_broker_acknowledges_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "STUCK_SECONDS", 0.6)
    stop, status = Event(), TaskStatus("7")
    publisher = KafkaPublisher(NOWHERE, make_converter("canalRow"), stop, status=status)
    publisher._produce("shop", [{"key": b"1", "value": b"{}"}])

    def flush() -> None:
        with suppress(BusError):  # it tells of the purged record
            publisher.flush()

    flushing = Thread(target=flush)
    flushing.start()
    wait_until(lambda: status.now[0] is State.RETRYING, "the state")
    assert "Kafka at 127.0.0.1:1, which has acknowledged nothing" in status.now[1]
    assert "1 records wait" in status.now[1]
    # as if they were acknowledged
    publisher.client.purge()
    flushing.join()
    status.observe(is_behind=False)
    assert status.now[0] is State.WORKING


def test_a_login_that_is_refused_later_is_said_to_be_and_is_read_again_at_another_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writers, "STUCK_SECONDS", 0.0)
    password = tmp_path / "password"
    password.write_text("former")
    begin_task()
    interpolate(f"${{file:{password}}}", {})
    status = TaskStatus("7")
    publisher = KafkaPublisher(NOWHERE, make_converter("canalRow"), Event(), status=status)
    publisher.client, publisher.sent = cast(Producer, Taking(1)), 1

    def refuse() -> None:
        publisher._on_error(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
        publisher._on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    refuse()
    publisher._raise_failure()
    assert "127.0.0.1:1 refuses the login by now (wrong password)" in caplog.text
    assert "restart the task" in caplog.text
    assert "sent when" not in caplog.text
    wait_until(lambda: not publisher.waited(0) and status.now[0] is State.RETRYING, "the state")
    assert "1 records wait; it refuses the login (wrong password)" in status.now[1]
    os.utime(password, ns=(1, 1))
    refuse()
    # The same once more.
    publisher._raise_failure()
    password.write_text("present")
    refuse()
    with pytest.raises(BusRejected, match=f"needs another start, as {password} was written"):
        publisher._raise_failure()


def test_statistics_are_only_made_where_somebody_takes_them() -> None:
    """They wait in the memory of a client that nobody serves, such as that of a partition without
    new records."""
    options = {"test.mock.num.brokers": "1", "statistics.interval.ms": "20"}
    config = replace(NOWHERE, kafka_options=options)
    silent = KafkaPublisher(config, make_converter("canalRow"), Event())
    queued: list[int] = []
    asked = KafkaPublisher(config, make_converter("canalRow"), Event(), on_queued=queued.append)
    wait_until(lambda: len(asked.client) > 20, "statistics")
    # The library's log says that the broker is a mock.
    assert len(silent.client) <= 1
    asked.serve()
    assert queued


def test_a_start_takes_what_a_client_without_records_had_to_say_of_brokers_that_are_away() -> None:
    idle = writer(Event())
    wait_until(lambda: len(idle.client) > 5, "errors")
    idle.start()
    assert len(idle.client) < 5


class Taking:
    """A client that takes all records, and of which as many wait at each look."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting

    def __len__(self) -> int:
        return self.waiting

    def produce_batch(self, _topic: str, records: list[Record]) -> int:
        return len(records)

    def poll(self, _seconds: float) -> int:
        return 0


class Talking(Taking):
    """One that counts what it has to say, until it is served."""

    said = 0

    def __len__(self) -> int:
        return self.waiting + self.said

    def poll(self, _seconds: float) -> int:
        self.said = 0
        return 0


@pytest.mark.parametrize(("waiting", "said"), [(0, [1, 1, 1]), (1, [1, 2, 3])])
def test_what_a_client_has_to_say_counts_as_no_record(
    monkeypatch: pytest.MonkeyPatch, waiting: int, said: list[int]
) -> None:
    """Neither as one that waits, nor, as more of it comes, as one that is acknowledged."""
    monkeypatch.setattr(writers, "STUCK_SECONDS", 0.0)
    config = replace(NOWHERE, transactional_id="shop")
    publisher = KafkaPublisher(config, make_converter("canalRow"), Event())
    client = Talking(waiting)
    monkeypatch.setattr(publisher, "client", client)
    publisher._acknowledgements.taken = 1
    failed: list[str] = []
    for client.said in said:
        try:
            publisher.waited(0.0)
        except BusUnavailable as error:
            failed.append(str(error))
    assert len(failed) == (2 if waiting else 0)
    assert all("has acknowledged none of 1 records" in sentence for sentence in failed)
    assert publisher.is_stuck == bool(waiting)


@pytest.mark.parametrize("waiting", [1, 3])
def test_records_that_take_the_place_of_acknowledged_ones_count_as_acknowledged(
    monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr(writers, "STUCK_SECONDS", 0.0)
    status = TaskStatus("7")
    publisher = KafkaPublisher(NOWHERE, make_converter("canalRow"), Event(), status=status)
    monkeypatch.setattr(publisher, "client", Taking(waiting))
    publisher._acknowledgements.taken = waiting
    for _ in range(3):
        publisher._produce("shop", [{"key": b"1", "value": b"{}"}])
        publisher.waited(0.0)
    states = [status.now[0]]
    publisher.waited(0.0)
    states.append(status.now[0])
    assert [state is State.RETRYING for state in states] == [False, True]


def test_a_client_that_fails_without_a_reason_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What confluent-kafka raises where a callback has swallowed the reason."""
    publisher = writer(Event())

    def fails(_seconds: float) -> int:
        raise SystemError("flush returned NULL without setting an exception")

    monkeypatch.setattr(publisher, "client", SimpleNamespace(flush=fails))
    with pytest.raises(
        BusError, match=r"has failed, at 127\.0\.0\.1:1, .*a new one begins"
    ) as lost:
        publisher.flush()
    # One that ends the task for good would be a BusRejected.
    assert type(lost.value) is BusError


def test_a_client_whose_certificates_were_renewed_is_replaced(tmp_path: Path) -> None:
    """librdkafka reads them once: brokers would refuse it for good when the old ones have
    expired."""
    authority = Authority.new(tmp_path, "ca")
    options = {"security.protocol": "ssl", "ssl.ca.location": str(authority.ca)}
    publisher = KafkaPublisher(
        replace(NOWHERE, kafka_options=options), make_converter("canalRow"), Event()
    )
    publisher._produce("shop", [{"key": b"1", "value": b"{}"}])
    publisher.client.flush(1)
    publisher._raise_failure()
    renewed = authority.ca.stat().st_mtime_ns + 1
    os.utime(authority.ca, ns=(renewed, renewed))
    with pytest.raises(BusUnavailable, match="takes the certificates that were renewed"):
        publisher.flush()
    before, text = publisher.client, authority.ca.read_bytes()
    # A file that is being written is waited for.
    authority.ca.write_bytes(text[:100])
    with pytest.raises(BusUnavailable, match="no new Kafka client can be made"):
        publisher.start()
    authority.ca.write_bytes(text)
    publisher.start()
    assert publisher.client is not before
    publisher._raise_failure()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError._SSL, "cannot be logged in to: certificate has expired; a new client takes"),
        (KafkaError._TRANSPORT, "no Kafka broker answers"),
    ],
)
def test_a_client_that_has_sent_nothing_is_replaced_once_its_certificates_were_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    """Its brokers are only asked about topics."""
    ca = Authority.new(tmp_path, "ca").ca
    options = {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    publisher = KafkaPublisher(
        replace(NOWHERE, kafka_options=options), make_converter("canalRow"), Event()
    )

    def ask(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    silent = SimpleNamespace(list_topics=ask, poll=lambda _: 0, purge=lambda **_: None)
    before = cast(Producer, silent)
    monkeypatch.setattr(publisher, "client", before)
    publisher._on_error(KafkaError(code, "certificate has expired"))
    os.utime(ca, ns=(1, 1))
    with pytest.raises(BusUnavailable, match=says):
        publisher.shape("shop")
    publisher.start()
    assert publisher.client is not before


def test_records_for_a_broker_that_left_the_cluster_are_sent_again_by_a_new_client() -> None:
    publisher = writer(Event())
    before = publisher.client
    message = cast(Message, SimpleNamespace(topic=lambda: "shop"))
    publisher._on_failed_delivery(KafkaError(KafkaError._DESTROY), message)
    with pytest.raises(BusUnavailable, match="a broker has left the Kafka cluster"):
        publisher._raise_failure()
    publisher.start()
    assert publisher.client is not before
    publisher._raise_failure()
