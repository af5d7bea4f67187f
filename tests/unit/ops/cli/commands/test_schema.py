"""What `cdcbus schema` prints, asks and runs, of plans that are given to it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.plugins.errors import ConfigError, TargetRejected
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.control import source_of
from cdcbus.tasks.schema import plan as plans
from cdcbus.tasks.schema.compare import Difference
from cdcbus.tasks.schema.create_table import PLAIN_BACKSLASHES
from cdcbus.tasks.schema.definition import TableDefinition
from cdcbus.tasks.schema.plan import SchemaPlan, TablePlan, refuse_impossible

ORDERS, PARTS = TableId("shop", "orders"), TableId("shop", "parts")
MISSING = TablePlan(
    TableDefinition(ORDERS, (ORDERS,), (), None, notes=("a note",)),
    False,
    ("CREATE TABLE shop.orders (\n  id int\n)",),
)
WHOLE = TablePlan(TableDefinition(PARTS, (PARTS,), (), None), True)
NARROW = TablePlan(
    TableDefinition(PARTS, (PARTS,), (), None),
    True,
    (),
    (
        Difference("a", "is missing", True, "ALTER TABLE parts ADD a int, ADD b int"),
        Difference("b", "is missing", True, "ALTER TABLE parts ADD a int, ADD b int"),
        Difference("", "has no key", False),
    ),
)
IMPOSSIBLE = TablePlan(
    TableDefinition(ORDERS, (ORDERS,), (), None, problems=("a name is too long",)), False
)


class World:
    """A plan for a task, and what was run of it. `broken`: a statement that the target refuses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan = SchemaPlan("postgresql", (MISSING, WHOLE))
        self.ran: list[str] = []
        self.broken = ""
        self.asked: dict[str, bool] = {}
        monkeypatch.setattr(source_of, "consumer_task", lambda *_: None)
        monkeypatch.setattr(source_of, "feeds_of", lambda *_: [])
        monkeypatch.setattr(plans, "make_plan", self._make)
        monkeypatch.setattr(plans, "apply_plan", self._apply)

    def _make(self, *_: object, **asked: bool) -> SchemaPlan:
        self.asked = asked
        return self.plan

    def _apply(self, _: object, plan: SchemaPlan) -> Iterator[str]:
        for sql in plan.statements:
            if sql == self.broken:
                raise TargetRejected("the target refuses it")
            self.ran.append(sql)
            yield sql

    def call(self, *words: str, answer: str = "") -> Result:
        return CliRunner().invoke(main, ["schema", *words], input=answer)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_printed_plan_is_sql_with_remarks_and_runs_nothing(world: World) -> None:
    printed = world.call("plan", "x.properties")
    assert printed.exit_code == 0
    assert printed.stdout == (
        "-- shop.orders, from shop.orders: is missing\n"
        "-- a note\n"
        "CREATE TABLE shop.orders (\n  id int\n);\n\n"
        "-- shop.parts, from shop.parts: exists\n"
        "-- has all that the source has\n\n"
    )
    assert world.ran == []


def test_a_remedy_for_several_columns_is_printed_once_and_as_a_remark(world: World) -> None:
    world.plan = SchemaPlan("postgresql", (NARROW,))
    lines = world.call("plan", "x.properties").stdout.splitlines()
    assert lines[1:] == [
        "-- LOSES: column a is missing",
        "-- LOSES: column b is missing",
        "-- differs: has no key",
        "--   ALTER TABLE parts ADD a int, ADD b int;",
        "",
    ]


@pytest.mark.parametrize(
    ("table", "code"), [(MISSING, 1), (NARROW, 1), (IMPOSSIBLE, 1), (WHOLE, 0)]
)
def test_a_check_fails_where_rows_would_be_lost(world: World, table: TablePlan, code: int) -> None:
    world.plan = SchemaPlan("postgresql", (table,))
    assert world.call("plan", "--check", "x.properties").exit_code == code
    assert world.call("plan", "x.properties").exit_code == 0


def test_a_table_that_the_source_does_not_show_is_named(world: World) -> None:
    world.plan = SchemaPlan("postgresql", (WHOLE,), unseen=("SHOP.TYPO",))
    found = world.call("plan", "--check", "x.properties")
    assert (found.exit_code, found.stdout.count("\n")) == (1, 4)
    assert "-- source table SHOP.TYPO belongs to the task" in found.stdout
    assert json.loads(world.call("plan", "--json", "x.properties").stdout)["unseen"] == [
        "SHOP.TYPO"
    ]


def test_a_table_that_the_source_cannot_open_is_told_by_its_own_sentence(world: World) -> None:
    unopened = {"shop.a": "source table shop.a cannot be opened: 1194"}
    world.plan = SchemaPlan("postgresql", (WHOLE,), unseen=("shop.a", "shop.b"), unopened=unopened)
    found = world.call("plan", "--check", "x.properties")
    assert found.exit_code == 1
    assert "-- source table shop.a cannot be opened: 1194\n" in found.stdout
    assert "-- source table shop.b belongs to the task" in found.stdout


def test_a_task_without_any_table_is_told_apart_from_one_whose_tables_exist(world: World) -> None:
    world.plan = SchemaPlan("postgresql", ())
    assert "-- no source table goes to this task" in world.call("plan", "x.properties").stdout
    assert world.call("plan", "--check", "x.properties").exit_code == 1
    assert "nothing to do: no source table" in world.call("apply", "x.properties").stderr


def test_a_plan_as_json_has_all_of_it(world: World) -> None:
    world.plan = SchemaPlan("postgresql", (MISSING, NARROW), ("shop",), ("CREATE SCHEMA shop",))
    found = json.loads(world.call("plan", "--json", "x.properties").stdout)
    assert found["missingSchemas"] == ["shop"]
    assert found["statements"] == ["CREATE SCHEMA shop", *MISSING.statements]
    missing, narrow = found["tables"]
    assert (missing["target"], missing["exists"], missing["loses"]) == ("shop.orders", False, True)
    assert missing["notes"] == ["a note"]
    assert [each["is_lost"] for each in narrow["differences"]] == [True, True, False]


def test_what_is_asked_for_beside_tables_is_told(world: World) -> None:
    world.call("plan", "x.properties")
    assert world.asked == {"with_indexes": False, "with_schemas": False}
    world.call("plan", "--indexes", "--schemas", "x.properties")
    assert world.asked == {"with_indexes": True, "with_schemas": True}


@pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("n\n", 0), ("", 0)])
def test_nothing_is_run_without_a_yes(world: World, answer: str, count: int) -> None:
    done = world.call("apply", "x.properties", answer=answer)
    assert "Run 1 statement?" in done.stderr
    assert len(world.ran) == count
    assert (done.exit_code == 0) is bool(count)


def test_the_option_yes_asks_nothing_and_each_statement_is_told(world: World) -> None:
    done = world.call("apply", "--yes", "x.properties")
    assert world.ran == list(MISSING.statements)
    assert done.stderr == "done: CREATE TABLE shop.orders\n"


def test_where_all_tables_exist_nothing_is_asked(world: World) -> None:
    world.plan = SchemaPlan("postgresql", (WHOLE, NARROW))
    done = world.call("apply", "x.properties")
    assert (done.exit_code, world.ran) == (0, [])
    assert "nothing to do: all tables exist" in done.stderr


def test_it_ends_at_the_first_statement_that_fails(world: World) -> None:
    table = TablePlan(MISSING.definition, False, ("CREATE A", "CREATE B", "CREATE C"))
    world.plan, world.broken = SchemaPlan("postgresql", (table,)), "CREATE B"
    done = world.call("apply", "--yes", "x.properties")
    assert world.ran == ["CREATE A"]
    assert done.exit_code != 0
    assert "the target refuses it" in done.stderr


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SchemaPlan("oracle", (MISSING,)), "Oracle are not created from here"),
        (SchemaPlan("mysql", (IMPOSSIBLE,)), r"shop\.orders cannot be created: a name is too long"),
        (SchemaPlan("mysql", (MISSING,), ("shop",)), "no schema shop: .* --schemas"),
    ],
)
def test_a_plan_that_cannot_be_run_whole_is_not_begun(
    world: World, plan: SchemaPlan, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        refuse_impossible(plan)
    world.plan = plan
    assert world.call("apply", "--yes", "x.properties").exit_code != 0
    assert world.ran == []


def test_a_table_that_could_not_be_made_but_is_there_is_no_hindrance() -> None:
    there = TablePlan(IMPOSSIBLE.definition, True)
    refuse_impossible(SchemaPlan("mysql", (there,), ("shop",), ("CREATE SCHEMA shop",)))


def test_schemas_that_are_missing_are_told_and_come_before_tables(world: World) -> None:
    world.plan = SchemaPlan("postgresql", (MISSING,), ("shop",))
    assert world.call("plan", "x.properties").stdout.startswith("-- schema shop is missing:")
    world.plan = SchemaPlan("postgresql", (MISSING,), ("shop",), ("CREATE SCHEMA shop",))
    assert world.call("plan", "x.properties").stdout.startswith("CREATE SCHEMA shop;\n")


@pytest.mark.parametrize(
    ("dialect", "sql", "head"),
    [
        ("mysql", "CREATE '\\n'", [PLAIN_BACKSLASHES]),
        ("mysql", "CREATE 'n'", []),
        ("postgresql", "CREATE '\\n'", []),
    ],
)
def test_mysql_is_told_to_read_backslashes_as_they_are_where_there_are_any(
    dialect: str, sql: str, head: list[str]
) -> None:
    plan = SchemaPlan(dialect, (TablePlan(MISSING.definition, False, (sql,)),))
    assert plan.statements == [*head, sql]
