"""Watches that the logs to which a fetch task writes keep what Kafka has acknowledged.

Brokers compare the sequence numbers of a client only with those of its records that a log still
holds: one that has lost all of them takes the next one as if nothing were missing. So this compares
the ends of the logs, which nothing but a loss moves back, with what was acknowledged. Other writers
can hide a loss only where they write as much between two looks, to the same partitions.

Dead letters do not count: their topic can be emptied at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from cdcbus.plugins.contracts import SentLog
from cdcbus.plugins.errors import BusUnavailable, RecordsLost
from cdcbus.plugins.kafka.client.asking import asked, offset_in, start_asking
from cdcbus.plugins.kafka.client.errors import RIGHTS, records_lost
from cdcbus.plugins.kafka.client.making import CurrentAdmin
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topics import id_of, named_topics

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
# Between two looks at all topics, and at their ids.
ALL_SECONDS = 30.0
ANSWER_SECONDS = 10.0
# Without an answer, until that is logged.
SILENT_SECONDS = 60.0
# How long a leader of an earlier epoch is not believed: it may not know of its successor yet; nor a
# broker that knows of fewer partitions than were known. In a restored cluster that is so for good.
FORMER_LEADER_SECONDS = 60.0
# How many answers, each by metadata of its own, must say that records are missing: the producer can
# know of a new partition or leader before the broker does that was asked first.
CONFIRMING_ANSWERS = 3
# Of the topics that were written to last: the note is stored with each position.
MOST_NOTED = 200
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(slots=True)
class _Log:
    """What is known of a topic. `sent`: how many records went to it, with the marks that end
    transactions; `acknowledged`: how many of these Kafka has for certain."""

    topic_id: str = ""
    # More than one answer had it: the first one can come from a broker that knows the former topic.
    is_id_certain: bool = False
    partitions: int = 0
    sent: int = 0
    acknowledged: int = 0
    # How many marks each of its partitions may have that do not count yet.
    open_marks: int = 0
    # How many records its partitions have besides these at least: by others, and from before.
    surplus: int = 0
    # By partition, as Kafka answered last, and when that was.
    ends: Mapping[int, Any] = field(default_factory=dict)
    seen_at: float = 0.0

    @property
    def least(self) -> int:
        """How many records its partitions were given at least."""
        return self.surplus + self.acknowledged


@dataclass(slots=True)
class _Doubt:
    """What shows that a topic lacks records, and how many answers have said so. `ends`: those that
    are too low; empty where it is missing, or another topic."""

    reason: str
    ends: Mapping[int, Any] = field(default_factory=dict)
    answers: int = 0


@dataclass(slots=True)
class _Look:
    """A question about topics, and its answers. `least`: what each was given when it was asked;
    `most`: what this task can have added to each when the answer came. `is_of_due`: of those that
    were written to."""

    logs: Mapping[str, _Log]
    least: Mapping[str, int]
    has_ids: bool
    is_of_due: bool
    topics: dict[str, Any] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    ends: dict[str, dict[int, Any]] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)


class LogWatch:
    """Counts what is sent; from `begin` on also compares. `has_sent_all`: whether Kafka has
    everything that was sent. Queries run on a thread of their own, so that no record waits for
    them, except for the first of a topic."""

    def __init__(
        self,
        config: PublishConfig,
        connecting: Mapping[str, str],
        has_sent_all: Callable[[], bool],
        stop: Event,
    ) -> None:
        self._config = config
        self._admin = CurrentAdmin({**connecting, "bootstrap.servers": config.servers})
        self._has_sent_all = has_sent_all
        self._stop = stop
        self._has_begun = False
        self._logs: dict[str, _Log] = {}
        # Topics to ask about, those written to since all was acknowledged, those in this
        # transaction, and those in the one before.
        self._due: set[str] = set()
        self._unacknowledged: set[str] = set()
        self._open: set[str] = set()
        self._ended: set[str] = set()
        self._doubts: dict[str, _Doubt] = {}
        # Topics that an earlier process has noted, and that no record was sent to since, unless the
        # task names them: the drop of their table may be still to come. `_gone`: those that are
        # missing or other ones by now.
        self._former: set[str] = set()
        self._gone: set[str] = set()
        # The next answer must come by metadata of its own.
        self._has_doubted = False
        self._looking: tuple[Thread, _Look] | None = None
        self._looked_at = self._looked_at_all = 0.0
        self._is_refused = False
        # Since when no topic is answered for; None: the last look was.
        self._silent_since: float | None = None
        self._is_silence_logged = False

    def begin(self, noted: Mapping[str, SentLog]) -> None:
        """Begins with the topics that the task names and those that an earlier process has noted.
        Raises RecordsLost where one of these lacks records, except for a topic named after a table
        that is missing, or was made again: the stream may bring the drop of the table, otherwise
        its next row raises that; BusUnavailable when stopped."""
        self._has_begun = True
        for topic, log in noted.items():
            if log.is_lost:
                raise self._lost(topic, "which this task noted when it stopped")
            self._logs[topic] = _Log(log.topic_id, is_id_certain=True, surplus=log.records)
        named = named_topics(self._config)
        self._former = {*noted}.difference(named)
        self._look_first({*noted, *named} - {self._config.dead_letter_topic})

    def noted(self) -> dict[str, SentLog]:
        """What the next process should find at least."""
        found = {}
        for topic, log in list(self._logs.items())[-MOST_NOTED:]:
            if log.least:
                found[topic] = SentLog(log.topic_id, log.least)
        return found

    def dropped(self, name: str, *, is_schema: bool = False) -> None:
        """Notes that the table was dropped that a topic is named after, or the schema, with all of
        its tables: the topic may be deleted, and begins anew with the next record. Not one that the
        task names."""
        found = {name} & self._logs.keys()
        if is_schema:
            found |= {topic for topic in self._logs if topic.startswith(f"{name}_")}
        for topic in found.difference(named_topics(self._config)):
            del self._logs[topic]
            self._doubts.pop(topic, None)
            # What is on its way there does not count any more.
            for topics in (self._due, self._unacknowledged, self._open, self._ended):
                topics.discard(topic)
            self._former.discard(topic)
            self._gone.discard(topic)

    def sending(self, topic: str, count: int) -> None:
        """Notes records before they are sent. Raises RecordsLost where their topic lacks some."""
        if topic == self._config.dead_letter_topic:
            return
        self._former.discard(topic)
        if topic not in self._logs or topic in self._gone:
            self._look_first([topic])
            self._gone.discard(topic)
        log = self._logs[topic]
        log.sent += count
        for topics in (self._due, self._unacknowledged):
            topics.add(topic)
        # A topic that is given no record gets no mark either.
        if count and self._config.transactional_id and topic not in self._open:
            log.open_marks += 1
            self._open.add(topic)

    def refused(self, topic: str) -> None:
        """Notes that a record was too large for Kafka; maybe one of before `restart` or `dropped`,
        which does not count any more."""
        log = self._logs.get(topic)
        if log is not None and log.sent > log.acknowledged:
            log.sent -= 1

    def committed(self) -> None:
        """Notes the end of a transaction, before anything is sent in the next one: Kafka has what
        was sent. The mark that it leaves in each partition is certain only when the next one has
        ended."""
        for topic in self._ended:
            # In this order, as `_can_have_added` may run meanwhile.
            self._logs[topic].sent += 1
            self._logs[topic].open_marks -= 1
        self._unacknowledged |= self._ended
        self._ended, self._open = self._open, set()
        # Not left to `look`: under load more is on its way each time.
        self._acknowledge()

    def restart(self) -> None:
        """Notes that what was sent and is not acknowledged may never come."""
        for topic in self._unacknowledged:
            self._logs[topic].sent = self._logs[topic].acknowledged
        for topic in self._open | self._ended:
            self._logs[topic].open_marks = 0
        for topics in (self._unacknowledged, self._open, self._ended):
            topics.clear()

    def look(self) -> None:
        """Compares what Kafka has answered, and asks again when it is time. Must be called about
        once a second. Raises RecordsLost."""
        if self._has_sent_all():
            self._acknowledge()
        if self._looking is not None:
            thread, look = self._looking
            if thread.is_alive():
                return
            self._looking = None
            self._compare(look)
        now = monotonic()
        if not self._has_begun or now - self._looked_at < LOOK_SECONDS:
            return
        is_of_all = now - self._looked_at_all >= ALL_SECONDS
        if is_of_all:
            self._looked_at_all = now
            self._due |= self._logs.keys() - self._gone
        if self._due:
            self._looked_at = now
            has_ids = is_of_all or bool(self._doubts)
            look = self._question(self._due, has_ids=has_ids, is_of_due=not is_of_all)
            self._due = set()
            self._looking = start_asking(partial(self._ask, look), "log-watch"), look

    def _acknowledge(self) -> None:
        for topic in self._unacknowledged:
            self._logs[topic].acknowledged = self._logs[topic].sent
        self._due |= self._unacknowledged
        self._unacknowledged.clear()

    def _look_first(self, topics: Iterable[str]) -> None:
        """Looks at topics before anything is sent to them, and waits for the answer."""
        for topic in topics:
            self._logs.setdefault(topic, _Log())
        if not self._has_begun:
            return
        # The last rows of a task that stops still go to their topics.
        stop = Event() if self._stop.is_set() else self._stop
        for number in range(CONFIRMING_ANSWERS):
            if number:
                topics = [topic for topic in topics if topic in self._doubts]
                if not topics:
                    break
                stop.wait(LOOK_SECONDS)
            self._look_now(topics, stop)

    def _look_now(self, topics: Iterable[str], stop: Event) -> None:
        look = self._question(topics, has_ids=True, is_of_due=False)
        asked(lambda: self._ask(look), self._config.servers, stop)
        self._compare(look)

    def _question(self, topics: Iterable[str], *, has_ids: bool, is_of_due: bool) -> _Look:
        logs = {topic: self._logs[topic] for topic in topics}
        least = {topic: log.least for topic, log in logs.items()}
        return _Look(logs, least, has_ids, is_of_due)

    def _ask(self, look: _Look) -> None:
        """Fills in what Kafka answers."""
        with suppress(KafkaException, BusUnavailable):
            admin = self._admin.client(is_new=self._has_doubted)
            self._has_doubted = False
            if look.has_ids:
                described = admin.describe_topics(
                    TopicCollection([*look.logs]), request_timeout=ANSWER_SECONDS
                )
                look.topics = self._answered(described, Future.result, look.missing)
            partitions = []
            for topic, log in look.logs.items():
                count = log.partitions
                if topic in look.topics:
                    count = len(look.topics[topic].partitions)
                partitions += [TopicPartition(topic, number) for number in range(count)]
            if not partitions:
                return
            answers = admin.list_offsets(
                dict.fromkeys(partitions, _LATEST), request_timeout=ANSWER_SECONDS
            )
            ends = self._answered(answers, offset_in, set())
            for partition, end in ends.items():
                look.ends.setdefault(partition.topic, {})[partition.partition] = end
            look.most = {
                topic: _can_have_added(look.logs[topic], len(found))
                for topic, found in look.ends.items()
            }
            if len(ends) < len(partitions):
                # Without new metadata the client would query the old leader for minutes.
                admin.list_topics(timeout=ANSWER_SECONDS)

    def _answered(
        self,
        answers: Mapping[Any, Future[Any]],
        read: Callable[[Future[Any]], Any],
        missing: set[Any],
    ) -> dict[Any, Any]:
        """The answers that came. A topic that is `missing`, or without a leader, is no loss
        yet."""
        found = {}
        for asked_of, answer in answers.items():
            try:
                found[asked_of] = read(answer)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    missing.add(asked_of)
                if code in RIGHTS and not self._is_refused:
                    self._is_refused = True
                    LOG.warning(
                        "Kafka at %s does not let this user look at topics (%s): a loss of "
                        "acknowledged records may not be noticed; give it the ACL: Describe on "
                        "the topics",
                        self._config.servers,
                        error.args[0].str(),
                    )
        return found

    def _compare(self, look: _Look) -> None:
        """Takes over what Kafka has answered. Raises RecordsLost."""
        now = monotonic()
        self._note_silence(look, now)
        # Of one whose table was dropped since, nothing is known any more.
        skipped = {topic for topic, log in look.logs.items() if log is not self._logs.get(topic)}
        for topic in look.missing & (self._former | self._gone) - skipped:
            skipped.add(topic)
            self._doubt_that_it_is_the_one(topic, "the topic was deleted")
        for topic, found in look.topics.items():
            if topic in skipped:
                continue
            log, topic_id, count = look.logs[topic], id_of(found), len(found.partitions)
            is_other = bool(log.topic_id and topic_id and topic_id != log.topic_id)
            if is_other and log.least and log.is_id_certain:
                skipped.add(topic)
                self._doubt_that_it_is_the_one(topic, "the topic was deleted and created again")
                continue
            if is_other:
                # What was sent since was sent to this one.
                log.surplus, log.ends = 0, {}
                self._doubts.pop(topic, None)
                # These were asked for what the former one had.
                look.ends.pop(topic, None)
            elif topic_id:
                log.is_id_certain = log.topic_id == topic_id
            log.topic_id = topic_id or log.topic_id
            is_old = now - log.seen_at >= FORMER_LEADER_SECONDS
            if is_other or is_old or count > log.partitions:
                log.partitions = count
        unanswered = set()
        for topic, log in look.logs.items():
            if topic in skipped:
                continue
            ends = look.ends.get(topic, {})
            is_former = _are_of_former_leader(log.ends, ends)
            if not ends or (is_former and now - log.seen_at < FORMER_LEADER_SECONDS):
                unanswered.add(topic)
                continue
            for number, end in ends.items():
                before = log.ends.get(number)
                if before is not None and end.offset < before.offset:
                    raise self._lost(
                        topic,
                        f"partition {number} had {before.offset} and has {end.offset} by now",
                    )
            if len(ends) < log.partitions:
                unanswered.add(topic)
                continue
            if self._is_doubtful(topic, look):
                continue
            given = sum(end.offset for end in ends.values())
            log.ends, log.seen_at = ends, now
            log.surplus = max(log.surplus, given - look.most[topic])
            if look.is_of_due:
                # Behind the others, by which `noted` chooses.
                self._logs[topic] = self._logs.pop(topic)
        # Among all topics there can be some that were deleted for good.
        if look.is_of_due:
            self._due |= unanswered
        self._due |= self._doubts.keys()

    def _note_silence(self, look: _Look, now: float) -> None:
        """Warns where Kafka has answered for no topic for SILENT_SECONDS: once, until it answers.
        A right that the user lacks is warned of by itself."""
        if look.ends or self._is_refused:
            self._silent_since, self._is_silence_logged = None, False
            return
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since >= SILENT_SECONDS and not self._is_silence_logged:
            self._is_silence_logged = True
            LOG.warning(
                "Kafka at %s has not said for %d s where its topics end: a loss of acknowledged "
                "records is noticed only once it does; check that its brokers run and that the "
                "topics exist",
                self._config.servers,
                now - self._silent_since,
            )

    def _is_doubtful(self, topic: str, look: _Look) -> bool:
        """Whether the ends of a topic are too low by answers that are not confirmed yet. Raises
        RecordsLost once they are."""
        ends, least, doubt = look.ends[topic], look.least[topic], self._doubts.get(topic)
        given = sum(end.offset for end in ends.values())
        # Where leaders say their epoch, only by these: other writers can have added as many records
        # meanwhile as are missing.
        has_epochs = all(end.leader_epoch is not None for end in ends.values())
        is_refuted = given >= least and not has_epochs
        if doubt is not None and (is_refuted or _are_newer(ends, doubt.ends)):
            doubt = None
        if doubt is None:
            self._doubts.pop(topic, None)
            if given >= least:
                return False
            doubt = _Doubt(f"{given} instead of at least {least}", ends)
            self._doubts[topic] = doubt
        doubt.answers += topic in look.topics
        if doubt.answers >= CONFIRMING_ANSWERS:
            raise self._lost(topic, doubt.reason)
        self._has_doubted = True
        return True

    def _doubt_that_it_is_the_one(self, topic: str, reason: str) -> None:
        """Counts an answer by which a topic is missing, or another one. Once that is confirmed:
        raises RecordsLost, or warns while its table may have been dropped."""
        doubt = self._doubts.get(topic)
        if doubt is None or doubt.ends:
            doubt = self._doubts[topic] = _Doubt(reason)
        doubt.reason = reason
        doubt.answers += 1
        self._has_doubted = True
        if doubt.answers < CONFIRMING_ANSWERS:
            return
        if topic not in self._former:
            raise self._lost(topic, reason)
        del self._doubts[topic]
        self._gone.add(topic)
        LOG.warning(
            "Kafka at %s lacks %d records of topic %s that it had acknowledged (%s). Unless the "
            "drop of its table comes first, the next row for it stops this task. To send them "
            "again, set the position to a place before them: cdcbus offset reset ID --to PLACE; "
            "to go on without them, and without this warning, set the one that is stored",
            self._config.servers,
            self._logs[topic].least,
            topic,
            reason,
        )

    def _lost(self, topic: str, reason: str) -> RecordsLost:
        return records_lost(self._config.servers, topic, reason)


def _can_have_added(log: _Log, partitions: int) -> int:
    """How many records a task has added to a topic by now, at most."""
    # A mark that counts meanwhile is in both.
    marks = log.open_marks * partitions
    return log.sent + marks


def _are_of_former_leader(before: Mapping[int, Any], now: Mapping[int, Any]) -> bool:
    """Whether the leader of a partition is of an earlier epoch than one that answered before."""
    for number, end in now.items():
        known = before[number].leader_epoch if number in before else None
        if None not in (known, end.leader_epoch) and end.leader_epoch < known:
            return True
    return False


def _are_newer(now: Mapping[int, Any], before: Mapping[int, Any]) -> bool:
    """Whether a partition was added, or the leader of one is of a later epoch."""
    return len(now) > len(before) or _are_of_former_leader(now, before)
