"""The position of a fetch task, stored once Kafka has acknowledged everything before it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from cdcbus.plugins.contracts import Mark, PositionStore, SentLog
from cdcbus.plugins.errors import BusError, PositionConflict, PositionError, RecordsLost
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.saved_aside import SavedAside
from cdcbus.plugins.transform.rule_digests import changed
from cdcbus.producer.config import CLUSTER, DECIDE_TOPICS, FetchTask
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish.delivery import Deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher

LOG = logging.getLogger(__name__)


def mark_of(task: FetchTask, publisher: KafkaPublisher) -> Mark:
    """What the task notes with a position."""
    return Mark(rules=task.rules_at(publisher.cluster_id), sent=publisher.logs.noted())


def noted_logs(
    task: FetchTask, positions: PositionStore, publisher: KafkaPublisher
) -> Mapping[str, SentLog]:
    """What the task noted of its topics with the stored position; nothing where somebody has set
    it, or the topics are those of another cluster. Where the task may now have other topics: only
    of those that it names, as the others can be for anything. Raises the errors of a position
    store."""
    positions.load()
    written = positions.written
    if written is None or not positions.is_own:
        return {}
    is_changed = changed(written.mark.rules, task.rules_at(publisher.cluster_id))
    if CLUSTER in is_changed:
        return {}
    noted = written.mark.sent
    if DECIDE_TOPICS.isdisjoint(is_changed):
        return noted
    names = named_topics(task.publish)
    return {topic: log for topic, log in noted.items() if topic in names or log.is_lost}


@contextmanager
def noting_losses(
    task: FetchTask, positions: PositionStore, publisher: KafkaPublisher, deliver: Deliveries
) -> Iterator[None]:
    """Stores with the position that a topic lacks records, where that is raised: its log grows
    until the task stops, and by others, so that what it was given would hide that from the next
    start. The position is then the one that Kafka has: an operator who sets the stored one goes on
    from there."""
    try:
        yield
    except RecordsLost as lost:
        try:
            _note_loss(lost.topic, task, positions, publisher, deliver)
        except PositionConflict:
            pass  # somebody has set it meanwhile, as the loss asks for
        except PositionError as error:
            LOG.warning(
                "task %s: the next start may not notice that topic %s lacks records, and then goes "
                "on without them: %s",
                task.task_id,
                lost.topic,
                error,
            )
        raise


def _note_loss(
    topic: str,
    task: FetchTask,
    positions: PositionStore,
    publisher: KafkaPublisher,
    deliver: Deliveries,
) -> None:
    stored, written = positions.load(), positions.written
    # What was lost before a place that somebody has set does not count.
    if stored is None or written is None or not positions.is_own:
        return
    mark, lost = written.mark, SentLog.lost()
    if mark.sent.get(topic) == lost:
        return
    try:
        newer = deliver.committed(stored)
    except (BusError, PositionError) as error:
        LOG.warning("task %s: rows before its end may come again: %s", task.task_id, error)
    else:
        stored = newer.to_json() if newer else stored
    # The other rules have not led to this place, perhaps.
    rules = {**mark.rules, CLUSTER: task.rules_at(publisher.cluster_id)[CLUSTER]}
    positions.save(stored, replace(mark, rules=rules, sent={**mark.sent, topic: lost}))


class Checkpoint:
    """Stores the last transaction edge before which everything is published, when due: first Kafka
    has the rows, then ZooKeeper is written. Only the last save is waited for. A context manager:
    leaving it ends the writing, so that the next attempt reads what is stored."""

    def __init__(
        self,
        task: FetchTask,
        positions: PositionStore,
        deliver: Deliveries,
        publisher: KafkaPublisher,
        start: BinlogPosition,
        progress: Progress,
        report: Callable[[Progress], None],
    ) -> None:
        self.reached = deliver.reached
        self.settle = deliver.settle
        self.acknowledged = deliver.acknowledged
        self.confirmed = deliver.confirmed
        self.progress = progress
        self._interval_seconds = task.position_interval_seconds
        self._positions = positions
        self._deliver = deliver
        self._report = report
        self._stored = progress.position = start
        self._mark = partial(mark_of, task, publisher)
        self._look = publisher.logs.look
        self._sent = publisher.logs.noted
        written = positions.written
        self._noted = written.mark.sent if written and positions.is_own else {}
        self._aside = SavedAside(positions.path)
        # Positions that may be stored, though ZooKeeper has not confirmed it.
        self._unsure: list[str] = []
        self._due = 0.0

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.rest()

    @property
    def stored(self) -> BinlogPosition:
        """The position that is stored."""
        return self._stored

    def store_if_due(self, *, is_due: bool = False) -> bool:
        """Stores at most once per interval, or now if it `is_due`. Returns whether it did."""
        now = time.monotonic()
        if now < self._due and not is_due:
            return False
        self._due = now + self._interval_seconds
        edge = self._published()
        # While ZooKeeper does not respond, the last save is still in progress: rows continue, and
        # the newest edge is stored once ZooKeeper has answered.
        if self._aside.is_free():
            self._store_aside(edge)
        self._report(self.progress)
        return True

    def _store_aside(self, edge: BinlogPosition | None) -> None:
        text, following = self._next(edge)
        if following is not None:
            self._unsure.append(text)
        # Before the save begins: any Kafka commit from here on may find one of these positions
        # stored, or none of them.
        self._deliver.storing(self._unsure)
        if following is not None:
            self._aside.save(partial(self._save, following, text, self._mark()))

    def store(self) -> None:
        """Stores the edge once Kafka has every record sent before it, and returns when it is
        stored. Raises PositionConflict, even if there is nothing new to store, BusRejected and
        BusUnavailable."""
        edge = self._published()
        # First, as the save in progress may be of this very edge.
        self._aside.settle()
        text, edge = self._next(edge)
        if edge is not None:
            self._save(edge, text, self._mark())
        self._report(self.progress)

    def _published(self) -> BinlogPosition | None:
        if self._positions.is_edited():
            raise PositionConflict(
                f"{self._positions.path} was set by somebody else; resuming from there"
            )
        edge = self._deliver.published()
        self._look()
        return edge

    def _next(self, edge: BinlogPosition | None) -> tuple[str, BinlogPosition | None]:
        """The position to store, as text and parsed; ("", None) if it is stored already, with what
        the topics were given: rows of a snapshot do not move it."""
        if edge is None or (self._is_stored(edge) and self._sent() == self._noted):
            return "", None
        edge = replace(edge, batch_id=self._stored.batch_id + 1)
        return edge.to_json(), edge

    def _is_stored(self, edge: BinlogPosition) -> bool:
        # The number of a save is not part of the place.
        return replace(edge, batch_id=self._stored.batch_id) == self._stored

    def _save(self, edge: BinlogPosition, text: str, mark: Mark) -> None:
        self._positions.save(text, mark)
        # Saves follow each other: no earlier position can still be stored after this one.
        self._unsure = []
        # A place that is stored again is no headway.
        self.progress.stored += not self._is_stored(edge)
        self._stored = self.progress.position = edge
        self._noted = mark.sent
