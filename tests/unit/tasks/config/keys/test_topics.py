"""canal's partitionHash, and what new topics get, as they are written."""

from __future__ import annotations

import pytest

from cdcbus.plugins.kafka.config import KeyRule, NewTopics
from cdcbus.tasks.config.keys.topics import KEY_RULES, NEW_TOPICS

HASH = "loader.source.partitionHash"


def test_canal_s_line_is_read_as_it_is() -> None:
    assert KEY_RULES.read("db.tb_[0-9]+:id^name; db.stock:$pk$, db.log") == (
        KeyRule("db.tb_[0-9]+", ("id", "name"), setting=HASH),
        KeyRule(r"db\.stock", setting=HASH),
        KeyRule(r"db\.log", is_by_table=True, setting=HASH),
    )


@pytest.mark.parametrize("text", ["db.tb_[0-9:id", "db.t:", ":id", "db.t:id,:"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no rule"):
        KEY_RULES.read(text)


def test_topics_may_get_other_numbers_and_the_first_that_fits_counts() -> None:
    topics = NEW_TOPICS.read("6:3, orders_.*:12:2; orders_a:1:1")
    assert [topics.of(name) for name in ("ORDERS_A", "orders", "shop")] == [
        NewTopics(12, 2),
        NewTopics(6, 3),
        NewTopics(6, 3),
    ]


@pytest.mark.parametrize("text", ["6", "orders:6:3", "6:3,7:3", "6:3,[:1:1", "6:3,orders:0:1"])
def test_what_does_not_say_how_all_topics_are_made_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        NEW_TOPICS.read(text)
