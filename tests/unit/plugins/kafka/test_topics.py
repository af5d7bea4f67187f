"""Which topic a table's rows go to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable, ConfigError
from cdcbus.plugins.kafka import topics
from cdcbus.plugins.kafka.config import NewTopics, PublishConfig
from cdcbus.plugins.kafka.topic_names import topic_of
from cdcbus.plugins.kafka.topics import Topics, named_topics
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.config.keys.topics import NEW_TOPICS, TOPIC, TOPIC_RULES, is_misread, plain_tables
from cdcbus.tasks.config.keys.types import ValueType
from tests.support.servers.silent_server import silent_server


def topic(rules: str, table: str) -> str:
    return topic_of(
        TableId(*table.split(".", 1)),
        PublishConfig("", "rest", "canalRow", topic_rules=TOPIC_RULES.read(rules)),
    )


@pytest.mark.parametrize(
    ("rules", "table", "expected"),
    [
        # canal's own examples
        (r"test\.test", "test.test", "test_test"),
        (r".*\..*", "Shop.Orders", "shop_orders"),
        ("test", "test.anything", "test"),
        (r"test\..*", "test.t1", "test_t1"),
        (r"test,test1\.test1", "test1.test1", "test1_test1"),
        (r"test,test1\.test1", "test1.other", "rest"),
        (r"test:test\.test", "test.test", "test"),
        (r"test0:test,test1:test1\.test", "test.x", "test0"),
        # case, order, ends
        (r"a:SHOP\.ORDERS", "shop.Orders", "a"),
        (r"a:shop\.orders", "shop.orders2", "rest"),
        (r"a:shop,b:shop\.orders", "shop.orders", "b"),  # rules for tables come first
        (r"a:shop\.o.*,b:shop\.orders", "shop.orders", "a"),
        (r"a:shop\.orders; b:shop\.stock", "shop.stock", "b"),
        ("", "shop.orders", "rest"),
        # a plain name's dot is no wildcard
        ("a:shop.orders", "shop.orders", "a"),
        ("shop.orders", "Shop.Orders", "shop_orders"),
        ("a:shop.orders", "shop.orders2", "rest"),
        ("a:shop,b:shop.orders", "shop.orders", "b"),
        ("a:shop.a-b", "shop.a-b", "a"),
        ("shop.orders_[0-9]+", "shop.orders_7", "rest"),
        ("a:my[.]db", "my.db.orders", "rest"),
        # dots that end a name are of a pattern for schemas
        ("a:shop_.", "shop_7.orders", "a"),
        ("a:db..", "db42.orders", "a"),
    ],
)
def test_the_first_rule_that_fits_names_the_topic(rules: str, table: str, expected: str) -> None:
    assert topic(rules, table) == expected


def test_a_schema_whose_name_has_a_dot_is_named_by_a_pattern() -> None:
    rules = TOPIC_RULES.read("a:my[.]db")
    config = PublishConfig("", "rest", "canalRow", topic_rules=rules)
    assert topic_of(TableId("my.db", "orders"), config) == "a"


def test_a_table_of_a_schema_whose_name_has_a_dot_is_named_as_it_is() -> None:
    rules = TOPIC_RULES.read("a:my.db.orders")
    config = PublishConfig("", "rest", "canalRow", topic_rules=rules)
    assert topic_of(TableId("my.db", "orders"), config) == "a"
    assert topic_of(TableId("my.db", "stock"), config) == "rest"
    assert not is_misread(rules[0])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("shop.orders_[0-9]+", True),
        # One backslash in a .properties file, which is none.
        ("shop..*", True),
        ("a:.*..*", True),
        ("shop.orders$", True),
        ("shop_.*", False),
        ("a:(shop|stock).?", False),
        ("my[.]db", False),
        (r"shop\.o.d.rs", False),
        ("shop.orders", False),
        ("shop", False),
        ("shop_.", False),
        ("shop_.[0-9]", False),
        ("db..", False),
    ],
)
def test_a_rule_for_schemas_that_looks_like_one_for_tables_is_noticed(
    rule: str, expected: bool
) -> None:
    [found] = TOPIC_RULES.read(rule)
    assert is_misread(found) is expected


def test_plain_names_of_tables_are_told_from_patterns() -> None:
    text = r"a: shop.1 , my.db; b:shop\.orders, shop_., db.., shop.o+, shop.x$, shop, a.b.c, a..b"
    assert plain_tables(text) == ["shop.1", "my.db", "a.b.c"]


@pytest.mark.parametrize("table", ["shop.größe", "shop.a b", "shop." + "x" * 250])
def test_a_name_that_kafka_does_not_allow_is_refused(table: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid name for a Kafka topic"):
        topic(r".*\..*", table)


def test_the_topics_that_a_task_file_names_are_told_once() -> None:
    rules = TOPIC_RULES.read(r"a:shop\.orders,a:shop\.stock,stock\..*,b:x")
    assert named_topics(PublishConfig("", "rest", "canalRow", topic_rules=rules)) == [
        "rest",
        "a",
        "b",
    ]
    assert named_topics(PublishConfig("", "rest", "canalRow", dead_letter_topic="letters")) == [
        "rest",
        "letters",
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TOPIC_RULES, r"a b:shop\.orders"),
        (TOPIC_RULES, "a:"),
        (TOPIC_RULES, "a:shop[("),
        (NEW_TOPICS, "6"),
        (NEW_TOPICS, "0:1"),
        (NEW_TOPICS, "6:0"),
        (NEW_TOPICS, "6:-1"),
        (TOPIC, "orders, stock"),
        (TOPIC, ".."),
    ],
)
def test_what_is_no_rule_topic_or_shape_is_refused(kind: ValueType[object], text: str) -> None:
    with pytest.raises(ValueError, match=r"^no"):
        kind.read(text)


class Answer:
    """Of the brokers, about any topic."""

    def __init__(self, code: int) -> None:
        self.error = KafkaError(code)
        self.topics = self

    def __getitem__(self, _: str) -> Answer:
        return self


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, BusUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, BusRejected),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BusRejected),
    ],
)
def test_a_topic_whose_leader_is_missing_just_now_is_waited_for(
    code: int, error: type[BusError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "NEW_SECONDS", 0.1)
    answer: Any = Answer(code)
    with pytest.raises(error, match="topic shop"):
        Topics(PublishConfig("k:9092", "shop", "canalRow"), {}, lambda _: answer).need(["shop"])


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, BusUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, BusRejected),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BusRejected),
    ],
)
@pytest.mark.parametrize("new_topics", [None, NewTopics(1, 1)])
def test_a_known_topic_of_which_brokers_say_nothing_has_no_partitions_by_number(
    code: int, error: type[BusError], new_topics: NewTopics | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 0 of them, what is sent to each would go nowhere, without a word."""
    monkeypatch.setattr(topics, "ANSWER_SECONDS", 0.1)
    known: Any = SimpleNamespace(
        topics={"shop": SimpleNamespace(error=None, partitions={0: None, 1: None})}
    )
    answers = [known]
    config = PublishConfig("k:9092", "shop", "canalRow", new_topics=new_topics)
    found = Topics(config, {}, lambda _: answers[0])
    assert found.partitions("shop") == 2
    answers[0] = Answer(code)
    with pytest.raises(error, match="topic shop"):
        found.partitions("shop")


def test_brokers_that_do_not_know_a_new_topic_yet_are_asked_again_for_its_partitions() -> None:
    unknown: Any = Answer(KafkaError.UNKNOWN_TOPIC_OR_PART)
    known: Any = SimpleNamespace(topics={"shop": SimpleNamespace(error=None, partitions={0: None})})
    answers = iter([known, unknown, unknown, known])
    found = Topics(PublishConfig("k:9092", "shop", "canalRow"), {}, lambda _: next(answers))
    assert found.partitions("shop") == 1


def test_a_topic_that_was_just_created_need_not_be_known_at_once() -> None:
    unknown: Any = Answer(KafkaError.UNKNOWN_TOPIC_OR_PART)
    known: Any = SimpleNamespace(topics={"shop": SimpleNamespace(error=None)})
    answers = iter([unknown, unknown, known])
    Topics(PublishConfig("k:9092", "shop", "canalRow"), {}, lambda _: next(answers)).need(["shop"])
    assert next(answers, None) is None


def test_a_topic_that_silent_brokers_do_not_make_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "ANSWER_SECONDS", 0.5)
    unknown = SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    found: Any = SimpleNamespace(topics={"new": unknown})
    with silent_server() as address:
        config = PublishConfig(address, "new", "canalRow", new_topics=NewTopics(1, 1))
        with pytest.raises(BusUnavailable, match="does not make topic new"):
            Topics(config, {}, lambda _: found).need(["new"])
