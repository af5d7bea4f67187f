"""Warnings about target tables whose key does not tell the source's rows apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.transform import target_plans
from cdcbus.consumer.transform.lossy_tables import describe_cut_cells
from cdcbus.consumer.transform.target_plans import TargetPlans
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.cells.expression import constant
from cdcbus.plugins.transform.rules import MapperRule
from tests.support.stand_ins.memory_target import MemoryTarget

ORDERS = TableId("shop", "orders")
NAMES = ("id", "day", "v")
Warned = Callable[..., list[str]]


def table(*key: str, names: tuple[str, ...] = NAMES) -> Table:
    return Table(ORDERS, tuple(map(Column, names)), key)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    """What is logged when records of these source tables come one after the other."""

    def warned(key: tuple[str, ...], *sources: Table, rule: MapperRule | None = None) -> list[str]:
        columns = {name: TargetColumn(name, "text") for name in (*NAMES, "shard")}
        loader = MemoryTarget({ORDERS: TargetTable(ORDERS, columns, key)})
        topics = TopicConfig("kafka:9092", ("shop",))
        rules = (rule,) if rule else ()
        task = LoadTask("7", topics, "canalRow", "JdbcBatch", JdbcTarget(""), rules=rules)
        plans = TargetPlans(task, loader)
        for source in sources:
            plans.of(source)
        return [message.split(". ")[0] for message in caplog.messages]

    return warned


def test_a_source_whose_key_gets_another_column_is_warned_of_once(warned: Warned) -> None:
    wider = table("id", "day")
    assert warned(("id",), table("id"), wider, wider, table("id", "day")) == [
        "task 7: target table shop.orders has the key (id), and shop.orders the key (id, day): "
        "rows of shop.orders that differ only in day become one row there"
    ]


def test_a_source_whose_key_is_another_one_is_warned_of(warned: Warned) -> None:
    [message] = warned(("id",), table("day"))
    assert "differ only in day" in message


def test_a_source_that_loses_its_key_is_warned_of(warned: Warned) -> None:
    assert warned(("id",), table("id"), table()) == [
        "task 7: target table shop.orders has the key (id), and shop.orders has lost its own: "
        "rows of shop.orders that are equal in id become one row there"
    ]


def test_a_truncate_whose_record_has_no_columns_does_not_lose_the_key(warned: Warned) -> None:
    assert warned(("id",), table("id"), table(names=())) == []


@pytest.mark.parametrize(
    ("key", "source"),
    [
        # The same, fewer columns than the target's, another spelling.
        (("id",), table("id")),
        (("id", "day"), table("id")),
        (("id",), table("ID")),
        # Rows of a target without a key are found by all their columns.
        ((), table("id", "day")),
        # Some formats name no key, and some not all columns.
        (("id",), table()),
        (("id",), table("id", "day", names=("id", "v"))),
    ],
)
def test_keys_that_keep_rows_apart_are_not_warned_of(
    warned: Warned, key: tuple[str, ...], source: Table
) -> None:
    assert warned(key, source) == []


def test_names_are_compared_as_the_mapper_makes_them(warned: Warned) -> None:
    renaming = MapperRule(columns={"day": "shard"})
    assert warned(("id", "shard"), table("id", "day"), rule=renaming) == []


def test_a_computed_column_of_the_key_may_tell_rows_apart(warned: Warned) -> None:
    computing = MapperRule(computed={"shard": constant("a")})
    assert warned(("id", "shard"), table("id", "day"), rule=computing) == []


def typed(*types: str) -> Table:
    columns = (Column("id", "int"), *map(Column, ("day", "v"), types))
    return Table(ORDERS, columns, ("id",))


def plans(*columns: TargetColumn) -> TargetPlans:
    target = TargetTable(ORDERS, {column.name: column for column in columns}, ("id",))
    topics = TopicConfig("kafka:9092", ("shop",))
    task = LoadTask("7", topics, "canalRow", "JdbcBatch", JdbcTarget(""))
    return TargetPlans(task, MemoryTarget({ORDERS: target}))


def test_columns_that_hold_less_than_the_source_s_are_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = plans(
        TargetColumn("id", "integer"),
        TargetColumn("day", "date"),
        TargetColumn("v", "numeric", length=10, scale=2),
    )
    for types in [("date", "decimal(10,2)"), *[("datetime", "decimal(12,4)")] * 2]:
        made.of(typed(*types))
    [message] = caplog.messages
    assert message.startswith(
        "task 7: target table shop.orders keeps fewer digits, no time of day, or no trailing "
        "blanks of cells of shop.orders: day (datetime), v (decimal(12,4)). Give"
    )


@pytest.mark.parametrize(("dialect", "is_warned"), [("mysql", True), ("postgresql", False)])
def test_a_fraction_that_becomes_a_whole_number_without_an_error_is_warned_of(
    dialect: str, is_warned: bool
) -> None:
    """PostgreSQL refuses such a cell."""
    target = TargetTable(ORDERS, {"v": TargetColumn("v", "bigint")}, (), dialect=dialect)
    found = describe_cut_cells(ORDERS, target, [Column("v", "decimal(10,2)")])
    assert bool(found) is is_warned


def test_columns_that_round_their_key_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Rows of such a key are refused."""
    made = plans(*(TargetColumn(name, "date") for name in ("id", "day", "v")))
    made.of(Table(ORDERS, (Column("id", "datetime"),), ("id",)))
    assert caplog.messages == []


def test_tables_are_looked_at_in_turn_and_altered_ones_come_back_with_their_next_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_plans, "LOOK_EACH_SECONDS", 0.0)
    monkeypatch.setattr(target_plans, "LOOK_SECONDS", 0.0)
    names = [TableId("shop", name) for name in ("a", "b", "c")]
    columns = {"id": TargetColumn("id", "text")}
    loader = MemoryTarget({name: TargetTable(name, columns, ("id",)) for name in names})
    plans = TargetPlans(
        LoadTask("7", TopicConfig("", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget("")), loader
    )
    for name in names:
        plans.of(Table(name, (Column("id"),), ("id",)))
    looked: list[str] = []
    is_altered = loader.is_altered

    def asked(table: TargetTable) -> bool:
        looked.append(table.id.table)
        if table.id.table == "b" and looked.count("b") == 1:
            raise TargetUnavailable("away")
        return is_altered(table)

    monkeypatch.setattr(loader, "is_altered", asked)
    loader.tables[names[0]] = replace(loader.tables[names[0]], key=())
    for _ in range(5):
        plans.look_again()
    assert looked == ["a", "b", "c", "b", "c"]
    plans.of(Table(names[0], (Column("id"),), ("id",)))
    for _ in range(3):
        plans.look_again()
    assert looked[5:] == ["b", "c", "a"]


@pytest.mark.parametrize("is_of_two_threads", [True, False])
def test_new_columns_are_planned_on_the_target_as_it_is_whoever_looks(
    monkeypatch: pytest.MonkeyPatch, is_of_two_threads: bool
) -> None:
    """Also at the next attempt where the target does not answer, and on another thread."""
    name, key = TableId("shop", "a"), ("id",)
    narrow = TargetTable(name, {"id": TargetColumn("id", "text")}, key)
    wide = replace(narrow, columns={**narrow.columns, "v": TargetColumn("v", "text")})
    loader = MemoryTarget({name: narrow})
    plans = TargetPlans(
        LoadTask("7", TopicConfig("", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget("")), loader
    )
    plans.of(Table(name, (Column("id"),), key))
    found: list[TargetTable] = []

    def planned() -> None:
        [plan] = plans.of(Table(name, (Column("id"), Column("v")), key))
        found.append(plan.target)

    def asked(_: TargetTable) -> bool:
        """The cached table is another one only after that."""
        if is_of_two_threads and not found:
            monkeypatch.setattr(loader, "is_altered", answered)
            planned()
        elif not is_of_two_threads:
            monkeypatch.setattr(loader, "is_altered", answered)
            raise TargetUnavailable("away")
        return answered(narrow)

    def answered(_: TargetTable) -> bool:
        loader.tables[name] = wide
        return True

    monkeypatch.setattr(loader, "is_altered", asked)
    if not is_of_two_threads:
        with pytest.raises(TargetUnavailable):
            planned()
    planned()
    assert found == [wide] * (2 if is_of_two_threads else 1)


def test_tables_known_before_their_first_row_are_looked_at_then_and_in_turn_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is read for this row is not read twice, nor for the first rows of many shards."""
    monkeypatch.setattr(target_plans, "LOOK_EACH_SECONDS", 0.0)
    names = [TableId("shop", name) for name in ("a", "b", "c")]
    columns = {"id": TargetColumn("id", "text")}
    loader = MemoryTarget({name: TargetTable(name, columns, ("id",)) for name in names})
    includes = frozenset({"shop.a", "shop.b"})
    shards = [f"shop_{number}" for number in range(2, 5)]
    rules = tuple(MapperRule(schema=(shard, "shop")) for shard in shards)
    topics, target = TopicConfig("", ("shop",)), JdbcTarget("")
    plans = TargetPlans(
        LoadTask("7", topics, "canalRow", "JdbcBatch", target, includes=includes, rules=rules),
        loader,
    )
    looked: list[str] = []

    def asked(table: TargetTable) -> bool:
        looked.append(table.id.table)
        return False

    monkeypatch.setattr(loader, "is_altered", asked)
    plans.check()
    plans.look_again()
    assert looked == []
    for schema, name in (("shop", "a"), ("shop", "c"), ("shop_2", "c"), ("shop_2", "c")):
        plans.of(Table(TableId(schema, name), (Column("id"),), ("id",)))
    assert looked == ["a", "c"]
    for shard, seconds in (("shop_3", 3600.0), ("shop_4", 0.0)):
        monkeypatch.setattr(target_plans, "FRESH_SECONDS", seconds)
        plans.of(Table(TableId(shard, "c"), (Column("id"),), ("id",)))
    assert looked[2:] == ["c"]
    plans.look_again()
    assert looked[3:] == ["a", "c"]
