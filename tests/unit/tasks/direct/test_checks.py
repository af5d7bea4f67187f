from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import create_engine

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import Op, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.tasks.control.source_of import Feed, MappedTable
from cdcbus.tasks.direct.checks import (
    check_alone,
    check_empty,
    check_further,
    check_partitions,
    check_table,
    check_tasks,
    distinguishes_rows,
)

SOURCE = TableId("shop", "orders")


def mapped(rule: MapperRule, *uniques: UniqueKey) -> MappedTable:
    names = ("id", "part", "code")
    columns = tuple(TableColumn(name, "int", is_nullable=name == "code") for name in names)
    [route] = Mapper((rule,)).routes(SOURCE)
    copied = {name: found for name in names if (found := route.wanted(name)) is not None}
    return MappedTable(Table(SOURCE, (), ()), TableSchema(columns, uniques), "shop", route, copied)


def target(*key: str) -> TargetTable:
    columns = {name: TargetColumn(name, "int4") for name in ("number", "id", "part", "code")}
    return TargetTable(SOURCE, columns, key)


PRIMARY = UniqueKey("PRIMARY", ("id", "part"))


@pytest.mark.parametrize(
    ("rule", "uniques", "key", "tells"),
    [
        (MapperRule(), [PRIMARY], ("id", "part"), True),
        (MapperRule(), [PRIMARY], ("part", "id", "code"), True),
        (MapperRule(), [PRIMARY], ("id",), False),
        (MapperRule(columns={"id": "number"}), [PRIMARY], ("number", "part"), True),
        (MapperRule(columns={"id": "number"}), [PRIMARY], ("id", "part"), False),
        (MapperRule(), [UniqueKey("code", ("code",))], ("code",), False),
        (MapperRule(), [UniqueKey("part", ("part",), is_whole=False)], ("part",), False),
        (MapperRule(), [PRIMARY, UniqueKey("part", ("part",))], ("part",), True),
    ],
)
def test_the_target_distinguishes_rows_where_its_key_holds_one_of_the_source(
    rule: MapperRule, uniques: list[UniqueKey], key: tuple[str, ...], tells: bool
) -> None:
    assert distinguishes_rows(mapped(rule, *uniques), target(*key)) is tells


LOAD = LoadTask("7", TopicConfig("k:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))


def feed(*, takes_partial: bool) -> Feed:
    source = SourceConfig((("db", 3306),), "u", takes_partial=takes_partial)
    publish = PublishConfig("k:9092", "shop", "canalRow")
    fetch = FetchTask("8", "lane", source, FilterConfig(), publish)
    return Feed(fetch, LOAD, "fetch.properties", frozenset(("shop",)))


def test_a_task_whose_updates_cannot_make_up_for_a_row_is_refused() -> None:
    check_tasks(LOAD, [feed(takes_partial=False)])
    with pytest.raises(ConfigError, match=r"loader\.insertOnUpdateError=true"):
        check_tasks(replace(LOAD, insert_on_update_error=False), [])
    with pytest.raises(ConfigError, match=r"fetch\.properties takes rows without some"):
        check_tasks(LOAD, [feed(takes_partial=False), feed(takes_partial=True)])


def test_a_task_that_would_follow_only_some_of_the_copied_rows_is_refused() -> None:
    some = replace(LOAD, source=replace(LOAD.source, partitions=(0,)))
    check_partitions(LOAD, "shop", [0, 1])
    check_partitions(some, "shop", [0])
    with pytest.raises(ConfigError, match=r"task 7 leaves out partition 1, 2 of topic shop "):
        check_partitions(some, "shop", [0, 1, 2])


@pytest.mark.parametrize("skipped", [Op.INSERT, Op.UPDATE])
def test_tasks_that_leave_out_what_a_load_needs_are_refused(skipped: Op) -> None:
    left_out = frozenset((skipped, Op.DELETE))
    with pytest.raises(ConfigError, match=rf"task 7 leaves out {skipped} "):
        check_tasks(replace(LOAD, skipped_operations=left_out), [])
    one = feed(takes_partial=False)
    one = replace(one, fetch=replace(one.fetch, left_out=left_out))
    with pytest.raises(ConfigError, match=rf"fetch\.properties leaves out {skipped} "):
        check_tasks(LOAD, [one])
    check_tasks(replace(LOAD, skipped_operations=frozenset((Op.DELETE, Op.TRUNCATE))), [])


def test_a_fetch_task_that_is_left_out_would_leave_rows_missing() -> None:
    other = replace(feed(takes_partial=False).fetch, task_id="9")
    check_further(LOAD, [])
    with pytest.raises(ConfigError, match=r"--source leaves out fetch task 9.*--table"):
        check_further(LOAD, [other])


def test_a_table_that_a_fetch_task_that_is_left_out_sends_too_is_refused() -> None:
    other = replace(feed(takes_partial=False).fetch, task_id="9")
    check_alone(LOAD, SOURCE, [])
    with pytest.raises(ConfigError, match=r"rows of fetch task 9, .* target table shop\.orders"):
        check_alone(LOAD, SOURCE, [other])
    parts = replace(other, tables=FilterConfig((r"shop\.parts",)))
    check_alone(LOAD, SOURCE, [parts])


def selected(*, has_key: bool = True) -> SelectedTable:
    uniques = (UniqueKey("PRIMARY", ("id",)),) if has_key else ()
    schema = TableSchema((TableColumn("id", "int", is_nullable=False),), uniques)
    return selected_table(SOURCE, schema, has_metadata=True)


def test_a_table_that_is_fit_at_both_sides_is_taken() -> None:
    check_table(mapped(MapperRule(), PRIMARY), selected(), target("id", "part"))


@pytest.mark.parametrize(
    ("found", "there", "message"),
    [
        (selected(), None, "does not exist: cdcbus schema apply makes it"),
        (selected(), replace(target("id"), unsafe="It has a trigger."), "It has a trigger"),
        (selected(has_key=False), target("id"), r"table shop\.orders has no primary key"),
        (selected(), target(), r"target table shop\.orders has no primary key"),
        (selected(), target("id"), r"\(id\) holds no key of shop\.orders"),
    ],
)
def test_a_table_whose_rows_could_be_lost_or_come_twice_is_refused(
    found: SelectedTable, there: TargetTable | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_table(mapped(MapperRule(), PRIMARY), found, there)


def test_tables_with_rows_are_named_and_refused() -> None:
    tables = [replace(target("id"), id=TableId("", name)) for name in ("empty", "full", "fuller")]
    with create_engine("sqlite://").connect() as connection:
        for each in tables:
            connection.exec_driver_sql(f"CREATE TABLE {each.id.table} (id int)")
        check_empty(connection, tables)
        connection.exec_driver_sql("INSERT INTO full VALUES (NULL)")
        connection.exec_driver_sql("INSERT INTO fuller VALUES (1), (2)")
        with pytest.raises(ConfigError, match="target table full, fuller has rows already"):
            check_empty(connection, tables, lambda table: table.table)
