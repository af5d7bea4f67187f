"""What wakes those who wait for records: one question to each Kafka again and again, for all tasks
of this process that wait.

A streaming query that looks for records itself costs a tenth of a core for each task, and finds
them late. So it does not go on before there is something to read, and that of a task whose topics
are quiet ends, and begins anew when they have more.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from cdcbus.consumer.config import TopicConfig
from cdcbus.consumer.offsets.start_offsets import Lane

PARTITIONS_SECONDS = 30.0  # they are asked for as seldom as this
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often Kafka is asked: `pause_seconds` after each answer, where that comes fast. It
    counts as no answer after `answer_seconds`."""

    pause_seconds: float
    answer_seconds: float


# A broker that is away is not to hold up the tasks whose lanes are elsewhere.
AWAIT, REST = Pace(0.01, 1.0), Pace(0.25, 10.0)
ASKING_PART = 0.1  # of the time, where many lanes are asked for


@dataclass(slots=True, eq=False)
class _Sleeper:
    """`offsets`: where its lanes end, as far as it knows. `is_open`: it reads those too that are
    added to its topics."""

    offsets: Mapping[Lane, int]
    is_open: bool
    woken: Event = field(default_factory=Event)


def ends_of(admin: AdminClient, lanes: Collection[Lane], answer_seconds: float) -> dict[Lane, Any]:
    """Where lanes end, for who reads what is committed: `offset`, and in which `leader_epoch`;
    of those only that Kafka tells. A leader that is another one than the client believes is
    known the next time. Raises KafkaException."""
    wanted, found = {TopicPartition(*lane): _LATEST for lane in lanes}, dict[Lane, Any]()
    answers = admin.list_offsets(
        wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=answer_seconds
    )
    for lane, answer in answers.items():
        with suppress(KafkaException):
            found[lane.topic, lane.partition] = answer.result()
    if len(found) < len(wanted):
        # else it asks in the old leader's name for minutes
        admin.list_topics(timeout=answer_seconds)
    return found


def is_quiet(source: TopicConfig, offsets: Mapping[Lane, int]) -> bool:
    """Whether the lanes end at these offsets, and there are no more of them. False also where
    Kafka does not answer as it should: what is wrong is for the query to find out."""
    return not _watch_of(source, REST).awake(
        [_Sleeper(offsets, not source.partitions)], with_partitions=True
    )


@contextmanager
def asleep(source: TopicConfig, offsets: Mapping[Lane, int], pace: Pace) -> Iterator[Event]:
    """An event that is set, during the block, when the lanes are quiet no longer, or Kafka does
    not tell. It is asked at once, then at this pace."""
    watch, sleeper = _watch_of(source, pace), _Sleeper(dict(offsets), not source.partitions)
    watch.add(sleeper)
    try:
        yield sleeper.woken
    finally:
        watch.remove(sleeper)


class _Watch:
    """One Kafka, and who waits for it. It is asked as long as anybody does."""

    def __init__(self, options: Mapping[str, Any], pace: Pace) -> None:
        self.admin = AdminClient(dict(options), logger=_LIBRARY_LOG)
        self._pace = pace
        self._sleepers: frozenset[_Sleeper] = frozenset()
        self._is_asking = False
        self._changing = Lock()
        self._asked_for_partitions = 0.0

    def add(self, sleeper: _Sleeper) -> None:
        with self._changing:
            self._sleepers |= {sleeper}
            if not self._is_asking:
                self._is_asking = True
                Thread(target=self._ask_on, name="idle-watch", daemon=True).start()

    def remove(self, sleeper: _Sleeper) -> None:
        with self._changing:
            self._sleepers -= {sleeper}

    def awake(self, sleepers: Collection[_Sleeper], with_partitions: bool) -> list[_Sleeper]:
        """Those who have something to do."""
        ends, counts = dict[Lane, int](), dict[str, int]()
        lanes = {lane for sleeper in sleepers for lane in sleeper.offsets}
        topics = sorted({topic for topic, _ in lanes})
        with suppress(KafkaException):
            ends = {
                lane: end.offset
                for lane, end in ends_of(self.admin, lanes, self._pace.answer_seconds).items()
            }
            if with_partitions:
                described = self.admin.describe_topics(
                    TopicCollection(topics), request_timeout=self._pace.answer_seconds
                )
                counts = {
                    topic: len(answer.result().partitions) for topic, answer in described.items()
                }
        return [
            sleeper
            for sleeper in sleepers
            if _has_more(sleeper, ends, counts if with_partitions else None)
        ]

    def _ask_on(self) -> None:
        pause = Event()
        while True:
            with self._changing:
                sleepers = self._sleepers
                self._is_asking = bool(sleepers)
            if not sleepers:
                return
            began = monotonic()
            with_partitions = began - self._asked_for_partitions > PARTITIONS_SECONDS
            if with_partitions:
                self._asked_for_partitions = began
            for sleeper in self.awake(sleepers, with_partitions):
                sleeper.woken.set()
            took = monotonic() - began
            pause.wait(min(max(took / ASKING_PART, self._pace.pause_seconds), REST.pause_seconds))


def _has_more(
    sleeper: _Sleeper, ends: Mapping[Lane, int], counts: Mapping[str, int] | None
) -> bool:
    if any(ends.get(lane) != offset for lane, offset in sleeper.offsets.items()):
        return True
    topics = [topic for topic, _ in sleeper.offsets]
    return (
        sleeper.is_open
        and counts is not None
        and any(counts.get(topic) != topics.count(topic) for topic in topics)
    )


_WATCHES: dict[tuple[Pace, tuple[tuple[str, str], ...]], _Watch] = {}
_MAKING = Lock()


def admin_of(source: TopicConfig, pace: Pace) -> AdminClient:
    """The client that is kept for a Kafka."""
    return _watch_of(source, pace).admin


def _watch_of(source: TopicConfig, pace: Pace) -> _Watch:
    options = {**source.look_up_options, "bootstrap.servers": source.servers}
    key = pace, tuple(sorted(options.items()))
    with _MAKING:
        if key not in _WATCHES:
            _WATCHES[key] = _Watch(options, pace)
        return _WATCHES[key]
