from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import FetchTask, FilterConfig, RowTransform, SourceConfig
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.config.keys.topics import TOPIC_RULES
from cdcbus.tasks.lineage import writers
from cdcbus.tasks.lineage.readers import Reader
from cdcbus.tasks.lineage.topics import topics_of
from cdcbus.tasks.lineage.ways import Way, ways

Task = FetchTask | LoadTask
TO_PUBLIC = MapperRule(schema=("SHOP", "public"))


def fetch(
    task_id: str, *regexes: str, topic: str = "shop", includes: str = "", excludes: str = ""
) -> Task:
    tables = FilterConfig(regexes, frozenset(includes.split()), frozenset(excludes.split()))
    return FetchTask(
        task_id,
        "shop",
        SourceConfig((("db1", 3306),), "u", "secret"),
        tables,
        PublishConfig("k:9092", topic, "oggJson"),
    )


def ruled(rules: str, *regexes: str, topic: str = "rest") -> Task:
    """A fetch task with topics by table."""
    task = fetch("1", *regexes, topic=topic)
    assert isinstance(task, FetchTask)
    return replace(task, publish=replace(task.publish, topic_rules=TOPIC_RULES.read(rules)))


def load(
    task_id: str,
    *rules: MapperRule,
    topics: str = "shop",
    includes: str = "",
    excludes: str = "",
    url: str = "",
) -> Task:
    target = JdbcTarget(url or "jdbc:postgresql://pg:5432/copy?password=secret", "u", "secret")
    tables = frozenset(includes.split()), frozenset(excludes.split())
    return LoadTask(
        task_id,
        TopicConfig("k:9092", tuple(topics.split())),
        "oggJson",
        "JdbcBatch",
        target,
        *tables,
        rules,
    )


def shown(found: list[Way]) -> list[str]:
    return [
        f"{way.source} {way.fetch_task or '-'} {way.topic} {way.load_task or '-'} "
        f"{way.target or '-'}"
        for way in found
    ]


def test_a_table_is_followed_from_source_to_target() -> None:
    found = ways([fetch("1", r"shop\.orders"), load("2", TO_PUBLIC)])
    assert found == [
        Way(
            "shop.orders",
            "db1:3306",
            "1",
            "shop",
            "2",
            "public.orders",
            "postgresql://pg:5432/copy",
        )
    ]


def test_a_table_has_the_spelling_of_its_source() -> None:
    assert shown(
        ways([fetch("1", r"shop\.orders"), load("2", TO_PUBLIC, includes="SHOP.ORDERS")])
    ) == ["shop.orders 1 shop 2 public.orders"]


def test_a_filter_shows_the_tables_that_its_readers_name() -> None:
    tasks = [
        fetch("1", r"shop\..*"),
        load("2", TO_PUBLIC, includes="SHOP.A SHOP.B"),
        load("3", excludes="SHOP.B"),
    ]
    assert shown(ways(tasks)) == [
        "SHOP.A 1 shop 2 public.A",
        "SHOP.A 1 shop 3 SHOP.A",
        "SHOP.B 1 shop 2 public.B",
        r"shop\..* 1 shop 3 shop.*",
    ]


def test_a_rule_for_one_table_names_it() -> None:
    own = MapperRule(schema=("SHOP", "public"), table=("CUSTOMERS", "customer"))
    assert shown(ways([fetch("1"), load("2", own, TO_PUBLIC)])) == [
        "*.* 1 shop 2 *.*",
        "SHOP.* 1 shop 2 public.*",
        "SHOP.CUSTOMERS 1 shop 2 public.customer",
    ]


def test_what_nobody_reads_ends_at_the_topic() -> None:
    tasks = [fetch("1", r"shop\.a", r"shop\.b"), load("2", includes="SHOP.A")]
    assert shown(ways(tasks)) == ["shop.a 1 shop 2 shop.a", "shop.b 1 shop - -"]
    assert shown(ways([fetch("1")])) == ["*.* 1 shop - -"]
    tasks = [fetch("1", r"shop\.t_.*"), load("2", includes="SHOP.A")]
    assert shown(ways(tasks)) == ["SHOP.A - shop 2 SHOP.A", r"shop\.t_.* 1 shop - -"]


def test_a_topic_that_nobody_fills_begins_at_its_readers() -> None:
    tasks = [fetch("1", r"shop\.a"), load("2", TO_PUBLIC, topics="shop old", includes="SHOP.A")]
    assert shown(ways(tasks)) == ["SHOP.A - old 2 public.A", "shop.a 1 shop 2 public.a"]
    assert shown(ways([load("2")])) == ["*.* - shop 2 *.*"]


def test_a_table_that_no_filter_lets_pass_begins_at_its_reader() -> None:
    tasks = [
        fetch("1", r"shop\..*"),
        load("2", includes="SHOP.A CRM.B"),
        load("3", TO_PUBLIC, MapperRule(schema=("CRM", "c"))),
    ]
    assert shown(ways(tasks)) == [
        "CRM.B - shop 2 CRM.B",
        "SHOP.A 1 shop 2 SHOP.A",
        "SHOP.A 1 shop 3 public.A",
        r"shop\..* 1 shop 3 public.*",
    ]


def test_includes_count_only_where_the_filter_lets_them_pass() -> None:
    assert shown(ways([fetch("1", r"shop\..*", includes="SHOP.A B.C")])) == ["SHOP.A 1 shop - -"]
    assert shown(ways([fetch("1", r"shop\.a", r"shop\.b", excludes="SHOP.B")])) == [
        "shop.a 1 shop - -"
    ]


def test_two_fetch_tasks_of_one_topic_keep_their_tables() -> None:
    tasks = [fetch("1", r"shop\..*"), fetch("2", r"crm\..*"), load("3", includes="SHOP.A CRM.B")]
    assert shown(ways(tasks)) == ["CRM.B 2 shop 3 CRM.B", "SHOP.A 1 shop 3 SHOP.A"]


def test_a_word_is_looked_for_in_table_topic_and_target_in_any_case() -> None:
    tasks = [
        fetch("1", r"shop\.a", topic="X"),
        fetch("2", r"crm\.b", topic="Y"),
        load("3", TO_PUBLIC, topics="X Y"),
    ]
    for word in ("SHOP.A", "op", "x", "PUBLIC"):
        assert shown(ways(tasks, word)) == ["shop.a 1 X 3 public.a"], word
    assert len(ways(tasks, ".")) == 2
    assert ways(tasks, "pg:5432") == []


def test_the_name_of_a_table_is_followed_through_a_filter_that_does_not_name_it() -> None:
    tasks = [fetch("1", r"shop\..*"), load("2", TO_PUBLIC)]
    assert shown(ways(tasks, "shop.orders")) == ["shop.orders 1 shop 2 public.orders"]
    assert ways(tasks, "crm.orders") == []
    assert ways([fetch("1"), load("2")], "public.orders") == []


def test_an_address_that_cannot_be_read_does_not_hide_the_way() -> None:
    assert shown(ways([fetch("1", r"a\.b"), load("2", url="jdbc:nothing:secret")])) == [
        "a.b 1 shop 2 a.b"
    ]
    assert ways([load("2", url="jdbc:nothing:secret")])[0].database == ""


def test_a_table_that_goes_to_several_targets_has_a_way_to_each() -> None:
    rules = (MapperRule(table=("orders", "a")), MapperRule(table=("orders", "b")))
    assert shown(ways([fetch("1", r"shop\.orders"), load("2", *rules)])) == [
        "shop.orders 1 shop 2 shop.a",
        "shop.orders 1 shop 2 shop.b",
    ]


def test_a_pattern_is_followed_for_tables_that_are_known_and_shown_as_any_otherwise() -> None:
    rule = MapperRule(schema=("shop", "public"), table=("orders_[0-9]+", "orders"))
    assert shown(ways([fetch("1", r"shop\.orders_1"), load("2", rule)])) == [
        "shop.orders_1 1 shop 2 public.orders"
    ]
    assert shown(ways([load("2", rule)])) == ["shop.* - shop 2 shop.*"]


# Topics by table


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("orders:shop\\.orders", ["shop.orders 1 orders - -", r"shop\..* 1 rest - -"]),
        ("orders:shop.orders", ["shop.orders 1 orders - -", r"shop\..* 1 rest - -"]),
        ("orders:shop\\.orders, all:shop", [r"shop.orders 1 orders - -", r"shop\..* 1 all - -"]),
        ("shop", [r"shop\..* 1 shop - -"]),
        ("shop\\..*", [r"shop\..* 1 shop_* - -"]),
        ("crm:crm\\..*, b:crm", [r"shop\..* 1 rest - -"]),
        ("few:shop\\.o[0-9]+", [r"shop\..* 1 few - -", r"shop\..* 1 rest - -"]),
        ("orders:crm\\.orders", [r"shop\..* 1 rest - -"]),
    ],
)
def test_tables_go_to_the_topics_of_their_rules(rules: str, expected: list[str]) -> None:
    assert shown(ways([ruled(rules, r"shop\..*")])) == expected


def test_a_task_of_all_schemas_may_write_to_the_topic_of_each_rule() -> None:
    assert shown(ways([ruled("stock:stock_[0-9]+, crm")])) == [
        "*.* 1 crm - -",
        "*.* 1 rest - -",
        "*.* 1 stock - -",
    ]


def test_readers_get_what_goes_to_their_topic_only() -> None:
    tasks = [
        ruled("orders:shop\\.orders", r"shop\..*"),
        load("2", TO_PUBLIC, topics="orders"),
        load("3", topics="rest", includes="SHOP.ORDERS SHOP.A"),
    ]
    assert shown(ways(tasks)) == [
        "SHOP.A 1 rest 3 SHOP.A",
        "SHOP.ORDERS - rest 3 SHOP.ORDERS",
        "shop.orders 1 orders 2 public.orders",
    ]


def test_a_topic_named_after_a_table_is_followed_from_either_end() -> None:
    tasks = [
        ruled("shop\\..*", r"shop\..*"),
        load("2", TO_PUBLIC, topics="shop_orders"),
        load("3", topics="shop_a", includes="SHOP.A"),
    ]
    assert shown(ways(tasks)) == [
        "shop.a 1 shop_a 3 shop.a",
        "shop.orders 1 shop_orders 2 public.orders",
        r"shop\..* 1 shop_* - -",
    ]
    assert shown(ways(tasks, "shop.items")) == ["shop.items 1 shop_items - -"]
    assert shown(ways([*tasks, load("4", topics="other_t")], "other_t")) == ["*.* - other_t 4 *.*"]


# From Kafka to Kafka


def forward(
    task_id: str,
    *rules: MapperRule,
    topic: str,
    dynamic: str = "",
    topics: str = "shop",
    includes: str = "",
) -> Task:
    task = load(task_id, *rules, topics=topics, includes=includes)
    assert isinstance(task, LoadTask)
    config = PublishConfig(
        "k:9092", topic, "canalRow", topic_rules=TOPIC_RULES.read(dynamic) if dynamic else ()
    )
    return replace(task, loader="KAFKA_SYNC", target=config)


def chains(found: list[Way]) -> list[str]:
    return [" > ".join(shown([*way.hops()])) for way in found]


TO_STORE = MapperRule(schema=("SHOP", "store"))


def test_a_table_is_followed_through_the_topics_that_it_is_sent_on_to() -> None:
    tasks = [
        fetch("1", r"shop\.a"),
        forward("2", TO_STORE, topic="x"),
        forward("3", topic="y", topics="x"),
        load("4", topics="y"),
    ]
    whole = "shop.a 1 shop 2 store.a > store.a 2 x 3 store.a > store.a 3 y 4 store.a"
    for word in ("", "shop.a", "STORE", "y"):
        assert chains(ways(tasks, word)) == [whole], word
    assert chains(ways(tasks[1:])) == [
        "SHOP.* - shop 2 store.* > store.* 2 x 3 store.* > store.* 3 y 4 store.*"
    ]


def test_a_table_that_is_sent_on_has_a_way_to_each_reader_that_takes_it() -> None:
    readers = (
        load("4", topics="x", includes="STORE.A"),
        load("5", topics="x", includes="STORE.B"),
        load("6", topics="x"),
    )
    tasks = [fetch("1", r"shop\.a"), forward("2", TO_STORE, topic="x"), *readers]
    assert chains(ways(tasks)) == [
        "STORE.B - x 5 STORE.B",
        "shop.a 1 shop 2 store.a > store.a 2 x 4 store.a",
        "shop.a 1 shop 2 store.a > store.a 2 x 6 store.a",
    ]


def test_a_pattern_that_is_sent_on_leads_to_the_tables_that_its_readers_name() -> None:
    readers = load("4", topics="x", includes="STORE.A CRM.B"), load("5", topics="store_c")
    tasks = [
        fetch("1", r"shop\..*"),
        forward("2", TO_STORE, topic="x", dynamic="store\\.c"),
        *readers,
    ]
    assert chains(ways(tasks)) == [
        "CRM.B - x 4 CRM.B",
        r"shop\..* 1 shop 2 store.* > STORE.A 2 x 4 STORE.A",
        r"shop\..* 1 shop 2 store.* > store.c 2 store_c 5 store.c",
    ]


def test_tasks_that_send_in_a_circle_are_followed_once() -> None:
    tasks = [
        fetch("1", r"shop\.a"),
        forward("2", topic="x"),
        forward("3", topic="shop", topics="x"),
    ]
    assert "shop.a 1 shop 2 shop.a > shop.a 2 x 3 shop.a" in chains(ways(tasks))


def mapped(task_id: str, *regexes: str, rules: tuple[MapperRule, ...]) -> Task:
    """A fetch task with a mapper of its own."""
    task = fetch(task_id, *regexes)
    assert isinstance(task, FetchTask)
    return replace(task, transform=RowTransform(rules))


def test_names_that_a_fetch_task_gives_are_those_that_its_readers_include() -> None:
    rules = (MapperRule(("shop", "STORE"), ("orders", "SALES")), MapperRule(("shop", "STORE")))
    tasks = [
        mapped("1", r"shop\..*", rules=rules),
        load("2", includes="STORE.SALES STORE.PARTS SHOP.ORDERS"),
    ]
    assert shown(ways(tasks)) == [
        "SHOP.ORDERS - shop 2 SHOP.ORDERS",
        "shop.PARTS 1 shop 2 STORE.PARTS",
        "shop.orders 1 shop 2 STORE.SALES",
    ]


def test_a_row_may_go_out_under_two_names_to_two_readers() -> None:
    rules = (MapperRule(table=("orders", "a")), MapperRule(table=("orders", "b")))
    tasks = [
        mapped("1", r"shop\.orders", rules=rules),
        load("2", includes="SHOP.A"),
        load("3", includes="SHOP.B"),
    ]
    assert shown(ways(tasks)) == [
        "shop.orders 1 shop 2 shop.a",
        "shop.orders 1 shop 3 shop.b",
    ]


def test_tasks_that_share_no_topic_cost_nothing_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bus has hundreds: with each looking at each, 500 tasks took half a minute."""
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*values: Any) -> Any:
            nonlocal calls
            calls += 1
            return function(*values)

        return count

    monkeypatch.setattr(writers, "topics_of", counted(topics_of))
    monkeypatch.setattr(TableFilter, "accepts", counted(TableFilter.accepts))
    monkeypatch.setattr(Reader, "takes", counted(Reader.takes))

    def cost_of(pairs: int) -> int:
        nonlocal calls
        calls = 0
        tasks: list[Task] = []
        for number in range(pairs):
            tasks.append(fetch(f"f{number}", rf"s{number}\..*", topic=f"t{number}"))
            tasks.append(load(f"l{number}", topics=f"t{number}", includes=f"S{number}.ORDERS"))
        assert len(ways(tasks)) == pairs
        return calls

    assert cost_of(40) == 4 * cost_of(10) > 0
