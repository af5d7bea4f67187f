"""What a fetch task notices of the logs that it writes to, on brokers in memory."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)

from cdcbus.plugins.contracts import SentLog
from cdcbus.plugins.errors import RecordsLost
from cdcbus.plugins.kafka.client import making
from cdcbus.plugins.kafka.config import PublishConfig, TopicRule
from cdcbus.producer.publish import log_watch
from cdcbus.producer.publish.log_watch import CONFIRMING_ANSWERS, MOST_NOTED, LogWatch

CONFIG = PublishConfig("k:1", "shop", "canalRow", dead_letter_topic="letters")
IN_TRANSACTIONS = replace(CONFIG, transactional_id="task-1")


def answer(found: object) -> Future[Any]:
    """One that has come."""
    future: Future[Any] = Future()
    if isinstance(found, int):
        future.set_exception(KafkaException(KafkaError(found)))
    else:
        future.set_result(found)
    return future


@dataclass
class Brokers:
    """`errors`: what they answer instead about a topic, or a partition, by its name and number."""

    ends: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    ids: dict[str, str] = field(default_factory=dict)
    # How many answers about a topic still have another id.
    former_ids: dict[str, tuple[int, str]] = field(default_factory=dict)
    epoch: int | None = 5
    # How many answers still come from a broker that knows of this many partitions only.
    behind: tuple[int, int] = (0, 0)
    # How many clients still ask a former leader, and the ends and the epoch that it knows.
    cut_off: tuple[int, Mapping[str, list[int]], int | None] = (0, {}, 0)
    # Topics whose leader changes: then the client answers without an error.
    without_offset: set[str] = field(default_factory=set)
    errors: dict[str | tuple[str, int], int] = field(default_factory=dict)
    # What comes in while they answer.
    meanwhile: Any = None
    asked: int = 0
    clients: int = 0

    def describe_topics(self, topics: TopicCollection, **_: float) -> dict[str, Future[Any]]:
        return {topic: answer(self._described(topic)) for topic in topics.topic_names}

    def _described(self, topic: str) -> object:
        count = len(self.ends[topic])
        answers, known = self.behind
        if answers:
            count = min(count, known)
            self.behind = answers - 1, known
        partitions = [SimpleNamespace(id=number) for number in range(count)]
        topic_id = self.ids.get(topic, f"id of {topic}")
        answers, former = self.former_ids.get(topic, (0, ""))
        if answers:
            topic_id = former
            self.former_ids[topic] = answers - 1, former
        found = SimpleNamespace(topic_id=topic_id, partitions=partitions)
        return self.errors.get(topic, found)

    def list_offsets(
        self, partitions: Mapping[TopicPartition, object], **_: float
    ) -> dict[TopicPartition, Future[Any]]:
        self.asked += 1
        if self.meanwhile:
            self.meanwhile()
        return {each: answer(self._end(each.topic, each.partition)) for each in partitions}

    def _end(self, topic: str, number: int) -> object:
        ends = self.ends[topic]
        if number >= len(ends):
            return KafkaError.UNKNOWN_TOPIC_OR_PART
        found = SimpleNamespace(offset=ends[number], leader_epoch=self.epoch)
        clients, former, epoch = self.cut_off
        if clients and number < len(former[topic]):
            found = SimpleNamespace(offset=former[topic][number], leader_epoch=epoch)
        if topic in self.without_offset:
            found.offset = OFFSET_INVALID
        return self.errors.get((topic, number), self.errors.get(topic, found))

    def list_topics(self, **_: float) -> None:
        """Does nothing."""

    def client(self, *_: object, **__: object) -> Brokers:
        """A new one, with metadata of its own."""
        self.clients += 1
        clients, former, epoch = self.cut_off
        self.cut_off = max(clients - 1, 0), former, epoch
        return self


class Watched:
    """A watch, and the brokers that it watches. `waiting`: records that are not acknowledged."""

    def __init__(
        self,
        brokers: Brokers,
        noted: Mapping[str, SentLog] | None = None,
        config: PublishConfig = CONFIG,
    ) -> None:
        self.brokers = brokers
        self.waiting: list[tuple[str, int]] = []
        self.watch = LogWatch(config, {}, lambda: not self.waiting, Event())
        self.watch.begin(noted or {})

    def queue(self, count: int = 1, topic: str = "shop", partition: int = 0) -> None:
        self.watch.sending(topic, count)
        self.waiting += [(topic, partition)] * count

    def acknowledge(self) -> None:
        for topic, partition in self.waiting:
            self.brokers.ends[topic][partition] += 1
        self.waiting.clear()

    def send(self, count: int = 1, topic: str = "shop", partition: int = 0) -> None:
        self.queue(count, topic, partition)
        self.acknowledge()

    def look(self) -> None:
        """Asks, and compares the answer; again where it is doubted."""
        # An answer that is on its way is of before.
        if self.watch._looking is not None:
            self.watch._looking[0].join()
        self.watch.look()
        for _ in range(CONFIRMING_ANSWERS + 1):
            if self.watch._looking is not None:
                self.watch._looking[0].join()
            self.watch.look()
            if not self.watch._doubts:
                break


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(making, "AdminClient", made.client)
    monkeypatch.setattr(log_watch, "LOOK_SECONDS", 0.0)
    return made


@pytest.mark.parametrize("following", [0, 2, 3, 50])
def test_a_log_that_has_lost_all_and_goes_on_is_noticed(brokers: Brokers, following: int) -> None:
    """Also where it has grown beyond its former end since."""
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.ends["shop"] = [0, 0]
    task.send(following, partition=1)
    task.send(1)
    with pytest.raises(RecordsLost, match=r"lacks records of topic shop .*offset reset"):
        task.look()


def test_a_loss_before_the_first_look_is_noticed(brokers: Brokers) -> None:
    brokers.ends["shop"] = [7, 0]
    task = Watched(brokers)
    task.send(3)
    brokers.ends["shop"] = [7, 0]
    task.send(2)
    with pytest.raises(RecordsLost, match="9 instead of at least 12"):
        task.look()


def test_a_partition_that_ends_earlier_is_noticed_though_others_grow(brokers: Brokers) -> None:
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.ends["shop"] = [2, 1_000]
    task.send(partition=1)
    with pytest.raises(RecordsLost, match="partition 0 had 3 and has 2 by now"):
        task.look()


def test_records_in_a_partition_that_was_added_since_are_not_missed(brokers: Brokers) -> None:
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.ends["shop"].append(0)
    # The broker that is asked can learn of it later than the producer.
    brokers.behind = CONFIRMING_ANSWERS - 1, 2
    task.send(2, partition=2)
    task.look()
    assert task.watch.noted()["shop"].records == 5
    brokers.ends["shop"] = [0, 3, 0]
    task.send()
    with pytest.raises(RecordsLost):
        task.look()


def test_a_partition_of_which_a_broker_does_not_know_is_not_missed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    task = Watched(brokers)
    task.send(3, partition=1)
    task.look()
    brokers.behind = CONFIRMING_ANSWERS + 1, 1
    for _ in range(CONFIRMING_ANSWERS + 1):
        task.look()
    # As where it is another topic, before there were ids.
    monkeypatch.setattr(log_watch, "FORMER_LEADER_SECONDS", 0.0)
    brokers.behind = 9, 1
    with pytest.raises(RecordsLost, match="0 instead of at least 3"):
        task.look()


@pytest.mark.parametrize("epoch", [5, None])
def test_a_leader_that_was_cut_off_before_its_successor_has_answered_is_not_believed(
    brokers: Brokers, epoch: int | None
) -> None:
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.cut_off = CONFIRMING_ANSWERS - 1, deepcopy(brokers.ends), epoch
    brokers.epoch = epoch and epoch + 1
    task.send(2)
    task.look()
    task.look()
    assert task.watch.noted()["shop"].records == 5
    brokers.ends["shop"] = [3, 0]
    with pytest.raises(RecordsLost):
        Watched(brokers, task.watch.noted())


def test_a_doubted_topic_that_does_not_answer_is_no_loss_and_costs_no_clients(
    brokers: Brokers,
) -> None:
    task = Watched(brokers)
    task.send(3)
    brokers.ends["shop"] = [2, 0]
    task.watch.look()
    assert task.watch._looking is not None
    task.watch._looking[0].join()
    brokers.errors["shop"] = KafkaError.LEADER_NOT_AVAILABLE
    task.watch.look()
    before = brokers.clients
    for _ in range(5):
        task.look()
    assert brokers.clients - before <= 1
    brokers.errors.clear()
    with pytest.raises(RecordsLost, match="2 instead of at least 3"):
        task.look()


def test_what_others_write_while_a_loss_is_confirmed_does_not_hide_it(brokers: Brokers) -> None:
    def write_as_another() -> None:
        brokers.ends["shop"][1] += 2

    brokers.meanwhile = write_as_another
    with pytest.raises(RecordsLost, match="2 instead of at least 3"):
        Watched(brokers, {"shop": SentLog("", 3)})


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_missed_where_nothing_is_lost(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever the order of records, acknowledgements, answers, drops, and new attempts."""
    if seed % 2:
        monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    chance = random.Random(seed)
    task = Watched(brokers)
    task.look()

    def queue() -> None:
        topic = chance.choice(("shop", "log"))
        # The producer knows of each partition first.
        task.queue(chance.randrange(3), topic, chance.randrange(len(brokers.ends[topic])))

    def refuse() -> None:
        if task.waiting:
            topic, _ = task.waiting.pop(chance.randrange(len(task.waiting)))
            task.watch.refused(topic)

    def write_as_another() -> None:
        brokers.ends["shop"][0] += 1

    def be_silent() -> None:
        about = chance.choice(("shop", ("shop", 0)))
        brokers.errors[about] = KafkaError.LEADER_NOT_AVAILABLE

    def begin_anew() -> None:
        if chance.randrange(2):
            task.waiting.clear()  # by a new client
        task.watch.restart()

    def add_partition() -> None:
        brokers.ends["log"].append(0)

    def fall_behind() -> None:
        if not task.watch._doubts:
            brokers.behind = chance.randrange(CONFIRMING_ANSWERS), chance.randint(1, 3)

    def make_again() -> None:
        task.watch.dropped("log")
        before = brokers.ids.get("log", "id of log")
        brokers.ends["log"], brokers.ids["log"] = [0] * len(brokers.ends["log"]), f"{before}, again"
        brokers.cut_off = 0, {}, 0
        # As of a broker that does not know of it yet.
        brokers.former_ids["log"] = chance.randrange(2), before
        task.watch.sending("log", 0)

    def name_another_topic() -> None:
        if not task.watch._doubts:
            brokers.former_ids["shop"] = chance.randrange(CONFIRMING_ANSWERS), "former"

    def cut_off() -> None:
        if not (task.watch._doubts or brokers.cut_off[0]):
            brokers.cut_off = chance.randrange(CONFIRMING_ANSWERS), deepcopy(brokers.ends), epoch()
            brokers.epoch = epoch() + 1

    def epoch() -> int:
        return brokers.epoch or 0

    def come_meanwhile() -> None:
        queue()
        if chance.randrange(2):
            task.acknowledge()

    steps = [queue] * 8 + [task.acknowledge, task.look] * 4
    steps += [write_as_another, be_silent, brokers.errors.clear, begin_anew, add_partition]
    steps += [refuse, fall_behind, cut_off, make_again, name_another_topic]
    for _ in range(2_000):
        brokers.meanwhile = come_meanwhile if chance.randrange(2) else None
        chance.choice(steps)()
        noted = task.watch.noted()
        assert all(log.records <= sum(brokers.ends[topic]) for topic, log in noted.items())
    brokers.meanwhile = None
    brokers.errors.clear()
    brokers.behind, brokers.cut_off = (0, 0), (0, {}, 0)
    brokers.former_ids.clear()
    task.send()
    task.look()
    brokers.ends["shop"][0] -= 1
    task.send()
    with pytest.raises(RecordsLost):
        task.look()


def test_a_mark_of_a_transaction_is_expected_once_the_next_one_has_ended(brokers: Brokers) -> None:
    task = Watched(brokers, config=IN_TRANSACTIONS)
    task.send()
    task.watch.committed()  # its mark is on its way
    task.look()
    brokers.ends["shop"][0] += 1
    task.send()
    task.watch.committed()
    task.look()
    assert task.watch.noted()["shop"].records == 3
    brokers.ends["shop"][0] = 2
    task.send()
    with pytest.raises(RecordsLost):
        task.look()


def test_a_transaction_leaves_a_mark_only_where_it_has_records(brokers: Brokers) -> None:
    task = Watched(brokers, config=IN_TRANSACTIONS)
    for topic in ("log", "shop", "shop", "shop"):
        task.send(topic=topic)
        task.watch.committed()
        brokers.ends[topic][0] += 1
    task.watch.sending("log", 0)
    task.look()
    assert task.watch.noted()["log"].records == 2


def test_a_mark_that_was_seen_before_it_is_certain_does_not_count_twice(brokers: Brokers) -> None:
    task = Watched(brokers, config=IN_TRANSACTIONS)
    for number in range(3):
        task.send()
        task.watch.committed()
        task.look()
        brokers.ends["shop"][0] += 1
        task.watch.sending("shop", 0)
        task.look()
        assert task.watch.noted()["shop"].records == 1 + 2 * number


def test_what_a_transaction_has_brought_is_noted_though_more_is_always_on_its_way(
    brokers: Brokers,
) -> None:
    """As where transactions of the source are larger than what is read at once."""
    task = Watched(brokers, config=IN_TRANSACTIONS)
    for number in range(3):
        task.acknowledge()
        task.watch.committed()
        brokers.ends["shop"][0] += number > 0  # its mark
        task.queue(5)
        task.look()
    # Of two transactions, and the mark of the first one.
    assert task.watch.noted()["shop"].records == 11
    brokers.ends["shop"] = [0, 10]
    task.queue()
    with pytest.raises(RecordsLost):
        task.look()


@pytest.mark.parametrize("seed", range(20))
def test_marks_that_come_at_any_time_are_no_loss(brokers: Brokers, seed: int) -> None:
    """Those of a transaction come before the next one has ended."""
    choose = random.Random(seed)
    brokers.ends["shop"] = [0] * choose.randint(1, 3)
    marks: list[tuple[int, int]] = []  # by transaction and partition

    def come() -> None:
        for mark in [mark for mark in marks if choose.random() < 0.5]:
            marks.remove(mark)
            brokers.ends["shop"][mark[1]] += 1

    brokers.meanwhile = come
    task = Watched(brokers, config=IN_TRANSACTIONS)
    for number in range(60):
        written = {choose.randrange(len(brokers.ends["shop"])) for _ in range(choose.randint(0, 3))}
        for partition in written:
            task.send(choose.randint(1, 3), partition=partition)
            if choose.random() < 0.5:  # more is on its way meanwhile
                task.queue(choose.randint(1, 3), partition=partition)
            task.look()
            task.acknowledge()
        while any(mark[0] < number for mark in marks):
            come()
        marks += [(number, partition) for partition in written]
        come()
        if choose.random() < 0.9:
            task.watch.committed()
        else:  # aborted
            task.watch.restart()
        task.look()
    brokers.ends["shop"][0] //= 2
    task.send()
    with pytest.raises(RecordsLost):
        task.look()


def test_records_that_were_dropped_or_refused_are_not_missed(brokers: Brokers) -> None:
    task = Watched(brokers)
    task.queue(5)
    task.waiting.clear()
    task.watch.restart()
    task.send(2)
    task.queue(1)
    task.waiting.clear()
    task.watch.refused("shop")
    task.look()
    assert task.watch.noted()["shop"].records == 2


def test_a_refusal_that_comes_after_a_new_attempt_does_not_count_twice(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Watched(brokers)
    task.send(5)
    task.look()
    task.queue()
    task.watch.restart()
    task.waiting.clear()
    task.watch.refused("shop")
    monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    task.look()
    assert task.watch.noted()["shop"].records == 5


def test_an_answer_without_an_offset_is_no_loss(brokers: Brokers) -> None:
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.without_offset.add("shop")
    task.send()
    task.look()
    brokers.without_offset.clear()
    task.look()
    assert task.watch.noted()["shop"].records == 4


def test_a_topic_that_is_gone_is_asked_about_with_all_others_only(brokers: Brokers) -> None:
    brokers.ends["gone"] = [3, 0]
    task = Watched(brokers, {"gone": SentLog("", 3)})
    brokers.errors["gone"] = KafkaError.UNKNOWN_TOPIC_OR_PART
    task.look()
    asked = brokers.asked
    task.look()
    assert brokers.asked == asked
    assert task.watch.noted() == {"gone": SentLog("id of gone", 3)}


def test_what_was_acknowledged_before_a_new_attempt_is_missed(brokers: Brokers) -> None:
    task = Watched(brokers)
    brokers.errors["shop"] = KafkaError._TIMED_OUT
    task.send(3)
    task.look()
    task.queue()
    task.waiting.clear()
    task.watch.restart()
    brokers.errors.clear()
    brokers.ends["shop"] = [0, 2]
    with pytest.raises(RecordsLost, match="2 instead of at least 3"):
        task.look()


def test_a_topic_is_asked_about_once_more_when_its_records_are_acknowledged(
    brokers: Brokers,
) -> None:
    task = Watched(brokers)
    task.look()
    task.queue(3)
    task.look()
    task.waiting.clear()  # as acknowledged, and lost
    with pytest.raises(RecordsLost, match="0 instead of at least 3"):
        task.look()


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TIMED_OUT])
def test_silence_is_no_loss_and_the_topic_is_asked_about_again(brokers: Brokers, code: int) -> None:
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.errors["shop"] = code
    brokers.ends["shop"] = [0, 0]
    task.send()
    task.look()
    brokers.errors.clear()
    with pytest.raises(RecordsLost):
        task.look()


def test_a_topic_that_is_not_written_to_is_asked_about_with_all_others_only(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Watched(brokers)
    task.look()
    asked = brokers.asked
    task.look()
    assert brokers.asked == asked
    brokers.ends["shop"] = [0, 0]
    task.send()
    task.look()
    assert brokers.asked > asked
    brokers.ends["shop"] = [0, 0]
    monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    with pytest.raises(RecordsLost):
        task.look()


def test_a_topic_of_dead_letters_can_be_emptied(brokers: Brokers) -> None:
    brokers.ends["letters"] = [5, 5]
    task = Watched(brokers)
    task.send(topic="letters")
    task.look()
    brokers.ends["letters"] = [0, 0]
    task.send(topic="letters")
    task.look()
    assert not task.watch.noted()


@pytest.mark.parametrize("is_used", [True, False])
def test_a_topic_of_another_id_has_lost_what_it_was_given(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, is_used: bool
) -> None:
    monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    task = Watched(brokers)
    task.send(is_used)
    task.look()
    brokers.ids["shop"] = "other"
    brokers.ends["shop"] = [9, 0, 0]
    if is_used:
        with pytest.raises(RecordsLost, match="deleted and created again"):
            task.look()
    else:
        task.look()
        task.send()
        task.look()
        assert task.watch.noted() == {"shop": SentLog("other", 10)}


def test_an_id_that_too_few_answers_have_is_not_believed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of brokers that do not know of the topic yet, whose name another one had before."""
    monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    brokers.former_ids["orders"] = 1, "former"
    task = Watched(brokers)
    for _ in range(3):
        task.send(topic="orders")
        task.look()
        brokers.former_ids["orders"] = CONFIRMING_ANSWERS - 1, "former"
    assert task.watch.noted() == {"orders": SentLog("id of orders", 3)}
    brokers.ids["orders"] = "other"
    with pytest.raises(RecordsLost, match=r"topic orders .*deleted and created again"):
        task.look()


GONE = [KafkaError.UNKNOWN_TOPIC_OR_PART, "other"]


def be_gone(brokers: Brokers, how: int | str) -> None:
    """Topic orders is missing, or another one, whoever has made it."""
    if isinstance(how, int):
        brokers.errors["orders"] = how
    else:
        brokers.ids["orders"] = how


def make(brokers: Brokers) -> None:
    """The other one exists."""
    brokers.errors.clear()
    brokers.ids["orders"] = "other"


@pytest.mark.parametrize("how", GONE)
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_topic_begins_anew_after_the_drop_of_its_table(
    brokers: Brokers, caplog: pytest.LogCaptureFixture, is_asked: bool, how: int | str
) -> None:
    """Also where an answer about the former one is still on its way."""
    brokers.ends["orders"] = [3, 0]
    be_gone(brokers, how)
    task = Watched(brokers, {"orders": SentLog("id of orders", 3)})
    (line,) = caplog.messages
    assert "lacks 3 records of topic orders that it had acknowledged (the topic was" in line
    assert task.watch.noted() == {"orders": SentLog("id of orders", 3)}
    if is_asked:
        task.watch.look()
    task.watch.dropped("orders")
    assert not task.watch.noted()
    make(brokers)
    brokers.ends["orders"] = [0]
    task.send(topic="orders")
    task.look()
    assert task.watch.noted() == {"orders": SentLog("other", 1)}


@pytest.mark.parametrize("how", GONE)
def test_a_topic_that_is_gone_lacks_records_at_its_next_row_unless_its_table_was_dropped(
    brokers: Brokers, how: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watch, "ALL_SECONDS", 0.0)
    brokers.ends["orders"] = [9, 0]
    be_gone(brokers, how)
    task = Watched(brokers, {"orders": SentLog("id of orders", 3)})
    task.watch.dropped("stock")
    task.send()
    task.look()
    make(brokers)
    with pytest.raises(RecordsLost, match=r"topic orders .*deleted and created again"):
        task.queue(topic="orders")


def test_a_topic_that_brokers_have_forgotten_for_a_moment_only_lacks_nothing(
    brokers: Brokers,
) -> None:
    brokers.ends["orders"] = [3, 0]
    be_gone(brokers, KafkaError.UNKNOWN_TOPIC_OR_PART)
    task = Watched(brokers, {"orders": SentLog("id of orders", 3)})
    brokers.errors.clear()
    task.send(topic="orders")
    task.look()
    assert task.watch.noted() == {"orders": SentLog("id of orders", 4)}


def test_a_topic_that_was_made_again_before_the_drop_of_its_table_came_lacks_records(
    brokers: Brokers,
) -> None:
    """Rows of the former table went to the new topic, too."""
    task = Watched(brokers, {"orders": SentLog("id of orders", 0)})
    task.send(3, topic="orders")
    task.look()
    make(brokers)
    with pytest.raises(RecordsLost, match="deleted and created again"):
        task.watch._look_first(["orders"])


@pytest.mark.parametrize("config", [CONFIG, IN_TRANSACTIONS])
def test_what_is_on_its_way_to_the_topic_of_a_dropped_table_does_not_count(
    brokers: Brokers, config: PublishConfig
) -> None:
    task = Watched(brokers, config=config)
    task.send(2, topic="orders")
    task.watch.committed()
    task.queue(2, topic="orders")
    task.look()
    task.watch.dropped("orders")
    task.watch.refused("orders")
    task.look()
    make(brokers)
    brokers.ends["orders"] = [0, 0]
    task.waiting.clear()
    task.send(topic="orders")
    for number in range(3):
        task.watch.committed()
        task.send(topic="orders")
        task.look()
        brokers.ends["orders"][0] += bool(config.transactional_id)
        assert task.watch.noted()["orders"].records >= 1 + number
    task.watch.restart()
    task.look()


def test_the_drop_of_a_schema_is_one_of_all_its_tables_but_not_of_what_the_task_names(
    brokers: Brokers,
) -> None:
    topics = ("a", "a_t1", "a_t2", "b_t1", "ab")
    task = Watched(brokers, config=replace(CONFIG, topic_rules=(TopicRule("x", False, "a_t2"),)))
    for topic in topics:
        task.send(topic=topic)
    task.look()
    task.watch.dropped("a", is_schema=True)
    assert task.watch.noted().keys() == {"a_t2", "b_t1", "ab"}


def test_a_topic_that_the_task_names_and_creates_again_lacks_records(brokers: Brokers) -> None:
    with pytest.raises(RecordsLost, match=r"topic shop .*deleted and created again"):
        Watched(brokers, {"shop": SentLog("former", 3)})


def test_a_leader_that_does_not_know_of_its_successor_is_not_believed_at_once(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Watched(brokers)
    task.send(3)
    task.look()
    brokers.epoch = 4
    brokers.ends["shop"] = [2, 0]
    task.watch.sending("shop", 0)
    task.look()
    monkeypatch.setattr(log_watch, "FORMER_LEADER_SECONDS", 0.0)
    with pytest.raises(RecordsLost):
        task.look()


def test_the_next_process_finds_what_is_missing_before_it_sends(brokers: Brokers) -> None:
    task = Watched(brokers)
    task.look()
    task.send(3)
    task.watch.look()
    noted = task.watch.noted()
    assert noted == {"shop": SentLog("id of shop", 3)}
    Watched(brokers, noted)
    brokers.ends["shop"] = [2, 0]
    with pytest.raises(RecordsLost, match="2 instead of at least 3"):
        Watched(brokers, noted)
    brokers.ends["shop"] = [3, 0]
    with pytest.raises(RecordsLost, match="deleted and created again"):
        Watched(brokers, {"shop": SentLog("former", 3)})
    # Of an earlier version of Kafka.
    Watched(brokers, {"shop": SentLog("", 3)})


def test_a_topic_that_was_noted_as_lacking_records_does_whatever_it_has_by_now(
    brokers: Brokers,
) -> None:
    brokers.ends["shop"] = [1_000, 0]
    with pytest.raises(RecordsLost, match="lacks records of topic shop"):
        Watched(brokers, {"shop": SentLog.lost()})


def test_topics_that_were_written_to_last_are_noted(brokers: Brokers) -> None:
    task = Watched(brokers)
    for number in range(MOST_NOTED + 5):
        task.send(topic=f"t{number}")
    task.look()
    for number in (0, 1):
        task.send(topic=f"t{number}")
    task.look()
    noted = task.watch.noted()
    assert len(noted) == MOST_NOTED
    assert {"t0", "t1"} <= noted.keys()
    assert "t2" not in noted


def test_a_user_who_may_not_look_is_told_once(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.errors["shop"] = KafkaError.TOPIC_AUTHORIZATION_FAILED
    task = Watched(brokers)
    for _ in range(3):
        task.send()
        task.look()
    (line,) = caplog.messages
    assert "does not let this user look at topics" in line


def test_brokers_that_do_not_answer_for_long_are_warned_of_once(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = Watched(brokers)
    task.send()
    task.look()
    brokers.errors["shop"] = KafkaError._TIMED_OUT
    task.look()
    assert not caplog.messages
    monkeypatch.setattr(log_watch, "SILENT_SECONDS", 0.0)
    for round_ in range(2):
        brokers.errors["shop"] = KafkaError._TIMED_OUT
        for _ in range(3):
            task.send()
            task.look()
        assert len(caplog.messages) == round_ + 1
        brokers.errors.clear()
        task.look()
    assert "has not said for 0 s where its topics end" in caplog.messages[0]
