from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from cdcbus.plugins.errors import ConfigError, SourceUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.control import source_of
from cdcbus.tasks.control.beside import tasks_beside
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.control.source_of import (
    consumer_task,
    feeds_of,
    further_feeds,
    mapped_tables,
    record_type,
    source_connection,
    unreadable_reason,
)
from cdcbus.tasks.control.uses import Uses
from cdcbus.tasks.direct.run import run_direct

FETCH = """\
taskId={id}
consumer.consumerName=CanalFetch
consumer.source.address=db1:3306
consumer.source.username=u
consumer.source.password={password}
consumer.source.database=lane{id}
consumer.source.filter={filter}
loader.loaderName=KAFKA_SYNC
loader.source.servers=k:9092
loader.source.topic={topic}
{more}
"""
LOAD = """\
taskId=load
consumer.consumerName=KafkaFetch
consumer.source.servers=k:9092
consumer.source.topics={topics}
loader.loaderName=JdbcBatch
loader.source.url=jdbc:postgresql://pg:5432/copy
loader.source.userName=u
loader.source.password=p
"""


@pytest.fixture
def bus(tmp_path: Path) -> BusSettings:
    return read_bus_settings({}, environ={}, folder=tmp_path)


def put(
    folder: Path,
    id_: str,
    topic: str,
    filter_: str = r"shop\\..*",
    more: str = "",
    password: str = "p",
) -> str:
    file = folder / f"{id_}.properties"
    file.write_text(FETCH.format(id=id_, topic=topic, filter=filter_, more=more, password=password))
    return str(file)


def load(folder: Path, topics: str) -> str:
    file = folder / "load.properties"
    file.write_text(LOAD.format(topics=topics))
    return str(file)


def found(word: str, bus: BusSettings, source: str | None = None) -> dict[str, set[str]]:
    feeds = feeds_of(word, consumer_task(word, bus, Uses.WRITE), bus, source)
    return {feed.fetch.task_id: set(feed.topics) for feed in feeds}


def test_the_one_fetch_task_of_the_folder_that_writes_the_topic_is_taken(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "shop")
    put(tmp_path, "b", "other")
    (tmp_path / "broken.properties").write_text("taskId=")
    assert found(load(tmp_path, "shop"), bus) == {"a": {"shop"}}


def test_each_topic_may_have_a_fetch_task_of_its_own(tmp_path: Path, bus: BusSettings) -> None:
    put(tmp_path, "a", "one")
    put(tmp_path, "b", "two")
    assert found(load(tmp_path, "one,two"), bus) == {"a": {"one"}, "b": {"two"}}


def test_a_topic_named_after_a_table_is_known_as_the_tasks_own(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "rest", more="loader.source.dynamicTopic=shop\\\\..*")
    assert found(load(tmp_path, "shop_orders"), bus) == {"a": {"shop_orders"}}


def test_none_is_an_error_that_names_the_option(tmp_path: Path, bus: BusSettings) -> None:
    put(tmp_path, "a", "other")
    with pytest.raises(ConfigError, match=r"topic shop, and no fetch task .* --source FILE"):
        found(load(tmp_path, "shop"), bus)


def test_several_are_an_error_that_names_them_and_the_option(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "shop")
    put(tmp_path, "b", "shop")
    with pytest.raises(ConfigError, match=r"a\.properties and .*b\.properties .* --source FILE"):
        found(load(tmp_path, "shop"), bus)


def test_the_named_one_is_taken_among_several(tmp_path: Path, bus: BusSettings) -> None:
    put(tmp_path, "a", "shop")
    named = put(tmp_path, "b", "shop")
    assert found(load(tmp_path, "shop"), bus, named) == {"b": {"shop"}}


def further(word: str, bus: BusSettings, source: str) -> list[str]:
    task = consumer_task(word, bus, Uses.WRITE)
    feeds = feeds_of(word, task, bus, source)
    found = further_feeds(task, feeds, tasks_beside(word, bus).tasks.values())
    return [fetch.task_id for fetch in found]


def test_those_that_write_the_topics_beside_the_named_one_are_known(
    tmp_path: Path, bus: BusSettings
) -> None:
    named = put(tmp_path, "a", "one")
    put(tmp_path, "b", "one")
    put(tmp_path, "c", "two")
    put(tmp_path, "d", "three")
    assert further(load(tmp_path, "one,two"), bus, named) == ["b", "c"]


def test_a_direct_load_from_one_of_them_is_refused(tmp_path: Path, bus: BusSettings) -> None:
    named = put(tmp_path, "a", "shop")
    put(tmp_path, "b", "shop")
    with pytest.raises(ConfigError, match="--source leaves out fetch task b"):
        run_direct(load(tmp_path, "shop"), bus, source=named)


def test_a_copy_of_the_named_one_is_no_further_one(tmp_path: Path, bus: BusSettings) -> None:
    put(tmp_path, "a", "shop")
    other = tmp_path / "other"
    other.mkdir()
    assert further(load(tmp_path, "shop"), bus, put(other, "a", "shop")) == []


def test_one_that_writes_a_topic_of_that_name_elsewhere_is_no_further_one(
    tmp_path: Path, bus: BusSettings
) -> None:
    named = put(tmp_path, "a", "shop")
    file = Path(put(tmp_path, "b", "shop"))
    text = file.read_text()
    file.write_text(text.replace("servers=k:9092", "servers=elsewhere:9092"))
    word = load(tmp_path, "shop")
    assert further(word, bus, named) == []
    file.write_text(text.replace("servers=k:9092", "servers=k2:9092, K:9092"))
    assert further(word, bus, named) == ["b"]


def test_a_consumer_task_is_no_source(tmp_path: Path, bus: BusSettings) -> None:
    word = load(tmp_path, "shop")
    with pytest.raises(ConfigError, match="does not read a binlog"):
        found(word, bus, word)


def test_a_fetch_task_has_no_target(tmp_path: Path, bus: BusSettings) -> None:
    with pytest.raises(ConfigError, match="does not write to a database"):
        consumer_task(put(tmp_path, "a", "shop"), bus, Uses.WRITE)


def test_a_secret_that_is_missing_counts_only_for_the_task_that_is_taken(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "shop")
    put(tmp_path, "b", "other", password="${env:NOT_THERE}")
    assert found(load(tmp_path, "shop"), bus) == {"a": {"shop"}}
    with pytest.raises(ConfigError, match="NOT_THERE"):
        found(load(tmp_path, "other"), bus)


@pytest.mark.parametrize(
    ("written", "record"),
    [
        ("int(10) unsigned zerofill", "int unsigned"),
        ("tinyint(1)", "tinyint(1)"),
        ("bigint(20)", "bigint"),
        ("multipoint", "geometry"),
        ("decimal(10,2) unsigned", "decimal(10,2) unsigned"),
        ("enum('a','b')", "enum('a','b')"),
    ],
)
def test_a_columns_type_is_spelled_as_in_records(written: str, record: str) -> None:
    assert record_type(TableColumn("c", written)) == record


class Source:
    """Addresses of servers, some of which are `away`, and the tables of those that are there.
    `unreadable`: those that the user may not read; `broken`: those that the server cannot open;
    `dropping`: those that are dropped next."""

    TABLES = ("orders", "parts", "secret")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *away: str) -> None:
        self.tried: list[str] = []
        self.away, self.closed = away, 0
        self.unreadable, self.dropping, self.dropped = set[str](), set[str](), set[str]()
        self.broken = set[str]()
        monkeypatch.setattr(servers, "connect", self._connect)
        monkeypatch.setattr(servers, "identity", lambda connection: f"server-{connection.host}")
        monkeypatch.setattr(source_of, "SchemaReader", lambda _: self)

    def _connect(self, config: SourceConfig, _: float) -> Source:
        [(host, _port)] = config.addresses
        self.tried.append(host)
        if host in self.away:
            raise SourceUnavailable(f"{host} is away")
        self.host = host
        return self

    def close(self) -> None:
        self.closed += 1

    def tables(self) -> list[TableId]:
        return [TableId("shop", name) for name in self.TABLES if name not in self.dropped]

    def schemas(
        self, tables: list[TableId]
    ) -> tuple[dict[TableId, TableSchema], dict[TableId, str]]:
        self.dropped |= self.dropping
        hidden = self.dropped | self.unreadable | self.broken
        broken = {
            each: f"{each} cannot be opened: 1194" for each in tables if each.table in self.broken
        }
        tables = [each for each in tables if each.table not in hidden]
        columns = tuple(TableColumn(name, "int", is_nullable=False) for name in ("id", "a"))
        schema = TableSchema(columns, (UniqueKey("PRIMARY", ("id",)),))
        return dict.fromkeys(tables, schema), broken


def addresses(*hosts: str) -> SourceConfig:
    return SourceConfig(tuple((host, 3306) for host in hosts), "u")


def test_the_first_address_that_lets_the_task_in_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, "a")
    with source_connection(addresses("a", "b", "c"), 1.0):
        assert (source.tried, source.closed) == (["a", "b"], 0)
    assert source.closed == 1


def test_where_no_address_does_the_last_one_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    Source(monkeypatch, "a", "b")
    with (
        pytest.raises(SourceUnavailable, match="b is away"),
        source_connection(addresses("a", "b"), 1.0),
    ):
        pass


def test_a_wanted_server_is_looked_for_among_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, "b")
    with source_connection(addresses("a", "b", "c"), 1.0, "server-c"):
        assert (source.tried, source.closed) == (["a", "b", "c"], 1)
    assert source.closed == 2


@pytest.mark.parametrize("away", [(), ("b",)])
def test_where_no_address_leads_to_the_wanted_server_none_is_taken(
    monkeypatch: pytest.MonkeyPatch, away: tuple[str, ...]
) -> None:
    source = Source(monkeypatch, *away)
    with (
        pytest.raises(ConfigError, match=r"\(a:3306, b:3306\) leads to server server-c"),
        source_connection(addresses("a", "b"), 1.0, "server-c"),
    ):
        pass
    assert source.closed == 2 - len(away)


def tables_of(folder: Path, bus: BusSettings, more: str = "", filter_: str = r"shop\\..*") -> Any:
    put(folder, "a", "shop", filter_)
    word = load(folder, "shop")
    with Path(word).open("a") as file:
        file.write(more)
    [feed] = feeds_of(word, consumer_task(word, bus, Uses.WRITE), bus, None)
    connection: Any = None
    return mapped_tables(feed, connection)


def test_tables_that_both_tasks_let_pass_are_mapped_with_their_columns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: BusSettings
) -> None:
    Source(monkeypatch)
    mapped = tables_of(tmp_path, bus, "consumer.excludes=shop.secret\n", r"shop\\.(parts|secret)")
    [parts] = mapped.tables
    assert (str(parts.source.id), str(parts.target)) == ("shop.parts", "shop.parts")
    assert (parts.topic, parts.columns) == ("shop", {"id": "id", "a": "a"})


def test_tables_that_tasks_keep_for_themselves_are_nobody_s_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: BusSettings
) -> None:
    own = ("cdcbus_position", "cdcbus_row_0", "CDCBUS_mark_a")
    monkeypatch.setattr(Source, "TABLES", (*Source.TABLES, *own))
    Source(monkeypatch)
    found = {str(each.source.id) for each in tables_of(tmp_path, bus).tables}
    assert found == {f"shop.{name}" for name in set(Source.TABLES) - set(own)}


def test_a_table_that_is_listed_but_cannot_be_read_is_told_from_one_just_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: BusSettings
) -> None:
    source = Source(monkeypatch)
    source.unreadable, source.dropping = {"parts"}, {"secret"}
    mapped = tables_of(tmp_path, bus, "mapper[0].schema=shop,copy\n")
    assert [str(each.source.id) for each in mapped.tables] == ["shop.orders"]
    assert mapped.unreadable == {TableId("shop", "parts"): [TableId("copy", "parts")]}


def test_a_table_that_the_server_cannot_open_is_not_one_that_lacks_a_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: BusSettings
) -> None:
    source = Source(monkeypatch)
    source.unreadable, source.broken = {"parts"}, {"secret"}
    mapped = tables_of(tmp_path, bus)
    both = [TableId("shop", "parts"), TableId("shop", "secret")]
    assert list(mapped.unreadable) == both
    assert unreadable_reason(both[1:], mapped.unopened) == "shop.secret cannot be opened: 1194"
    opened, hidden = unreadable_reason(both, mapped.unopened).split("; ")
    assert opened == "shop.secret cannot be opened: 1194"
    assert "shop.parts" in hidden and "shop.secret" not in hidden and "GRANT SELECT" in hidden


def test_a_feed_that_lets_no_table_pass_is_refused_with_what_to_correct(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: BusSettings
) -> None:
    Source(monkeypatch)
    with pytest.raises(ConfigError, match=r"lets no table of its source pass into topic shop"):
        tables_of(tmp_path, bus, filter_=r"other\\..*")


def test_a_fetch_task_that_changes_rows_is_refused_rather_than_taken_for_the_source(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "shop", r"shop\\..*")
    with (tmp_path / "a.properties").open("a") as file:
        file.write("mapper[0].mask.a=hash\n")
    word = load(tmp_path, "shop")
    [feed] = feeds_of(word, consumer_task(word, bus, Uses.WRITE), bus, None)
    with pytest.raises(
        ConfigError, match=r"a\.properties has mapper.* move mapper and processor to"
    ):
        mapped_tables(feed, cast(Any, None))
