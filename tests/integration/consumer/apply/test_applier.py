"""Partitions on real targets, without Spark: keys that other rows still hold, parents and children,
columns that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, event

from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.config import LoadTask, SchemaChange, TopicConfig
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Records
from cdcbus.consumer.transform import target_plans
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Moves, TableBatch, Writes
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import (
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetUnavailable,
    UnmappedColumn,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer
from tests.support.topics.records import records_of

pytestmark = pytest.mark.integration
CANAL = CanalRow()


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


@pytest.fixture
def task(server: TargetServer) -> LoadTask:
    rules = (MapperRule(schema=("shop", server.schema)),)
    return LoadTask(
        "7", TopicConfig("", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""), rules=rules
    )


@contextmanager
def applying(
    server: TargetServer, task: LoadTask, dead_letters: list[DeadLetter] | None = None
) -> Iterator[PartitionApplier]:
    loader = make_loader("JdbcBatch", server.target())
    try:
        applier = PartitionApplier(
            task, CANAL, loader, None, None if dead_letters is None else dead_letters.extend
        )
        applier.applied_offsets()  # as each start asks
        yield applier
    finally:
        loader.close()


def changes(
    table: str, columns: str, key: str, *rows: tuple[Op, Row | None, Row | None]
) -> list[RowChange]:
    names = tuple(
        Column(name, mysql_type)
        for name, mysql_type in (column.split(" ") for column in columns.split(", "))
    )
    source = Table(TableId("shop", table), names, (key,))
    return [RowChange(source, op, before, after) for op, before, after in rows]


def records(changes: Sequence[RowChange]) -> Records:
    return records_of([(number, CANAL.to_bytes(change)) for number, change in enumerate(changes)])


def place(key: str, place: str) -> dict[str, str | None]:
    return {"id": key, "place": place}


def test_a_unique_value_wanders_through_rows_within_a_batch(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute("CREATE TABLE {schema}.places (id INT PRIMARY KEY, place INT UNIQUE)")
    held = {str(number): str(number) for number in range(50)}
    steps: list[tuple[Op, Row | None, Row | None]] = [
        (Op.INSERT, None, place(*each)) for each in held.items()
    ]
    for number in range(49):  # neighbours exchange their places
        one, other = str(number), str(number + 1)
        for key, new in ((one, "-1"), (other, held[one]), (one, held[other])):
            steps.append((Op.UPDATE, place(key, held[key]), place(key, new)))
            held[key] = new
    made = records(changes("places", "id int, place int", "id", *steps))
    expected = sorted((int(key), int(at)) for key, at in held.items())
    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), made[:50], 50, 1)
        applier.apply(TopicPartition("shop", 0), made[50:], len(made), 1)
        assert server.rows("SELECT id, place FROM {schema}.places ORDER BY id") == expected
        applier.apply(TopicPartition("shop", 0), made, len(made), 1)  # all of it once more
    assert server.rows("SELECT id, place FROM {schema}.places ORDER BY id") == expected


def test_foreign_keys_hold_whatever_comes_first(server: TargetServer, task: LoadTask) -> None:
    server.execute("CREATE TABLE {schema}.parents (id INT PRIMARY KEY)")
    server.execute(
        "CREATE TABLE {schema}.children (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) "
        "REFERENCES {schema}.parents (id))"
    )
    parents = [(Op.INSERT, None, {"id": str(number)}) for number in range(20)]
    children = [
        (Op.INSERT, None, {"id": str(number), "parent": str(number)}) for number in range(20)
    ]
    made = [
        # comes first
        *changes(
            "children", "id int, parent int", "id", (Op.DELETE, {"id": "100", "parent": None}, None)
        ),
        *changes("parents", "id int", "id", *parents),
        *changes("children", "id int, parent int", "id", *children),
        *changes(
            "children", "id int, parent int", "id", (Op.DELETE, {"id": "3", "parent": "3"}, None)
        ),
        *changes("parents", "id int", "id", (Op.DELETE, {"id": "3"}, None)),
    ]
    for weights in ({}, {"PARENTS": 1, "CHILDREN": 2}):
        server.execute("DELETE FROM {schema}.children")
        server.execute("DELETE FROM {schema}.parents")
        with applying(server, replace(task, weights=weights)) as applier:
            for part in (made, made):
                applier.apply(TopicPartition("shop", 0), records(part), len(part), 1)
        assert server.rows("SELECT id FROM {schema}.children ORDER BY id") == [
            (number,) for number in range(20) if number != 3
        ]
        assert server.rows("SELECT id FROM {schema}.parents ORDER BY id") == [
            (number,) for number in range(20) if number != 3
        ]


@pytest.mark.parametrize("server", ["postgresql"], indirect=True)
@pytest.mark.parametrize("count", [1, 300])
def test_what_is_checked_at_the_commit_only_makes_a_partition_wait_as_well(
    server: TargetServer, task: LoadTask, count: int
) -> None:
    server.execute("CREATE TABLE {schema}.parents (id INT PRIMARY KEY)")
    foreign_key = (
        "FOREIGN KEY (parent) REFERENCES {schema}.parents (id) DEFERRABLE INITIALLY DEFERRED"
    )
    server.execute(
        f"CREATE TABLE {{schema}}.children (id INT PRIMARY KEY, parent INT, {foreign_key})"
    )
    parents = changes("parents", "id int", "id", (Op.INSERT, None, {"id": "7"}))
    rows = [(Op.INSERT, None, {"id": str(number), "parent": None}) for number in range(count)]
    first = changes("children", "id int, parent int", "id", *rows)
    orphan = changes(
        "children", "id int, parent int", "id", (Op.INSERT, None, {"id": str(count), "parent": "7"})
    )
    made = records([*first, *orphan])
    with applying(server, task) as applier:
        with pytest.raises(
            PartitionWaits,
            match=rf"^record shop\[0\]@{count}: .*SQLSTATE 23503.*; it waits for records",
        ) as waiting:
            applier.apply(TopicPartition("shop", 0), made, count + 1, 1)
        assert (waiting.value.end, server.rows("SELECT COUNT(*) FROM {schema}.children")) == (
            count,
            [(count,)],
        )
        with pytest.raises(TargetRejected, match=rf"^record shop\[0\]@{count}: .*SQLSTATE 23503"):
            applier.apply(TopicPartition("shop", 0), made[count:], count + 1, 1, count + 1)
        applier.apply(TopicPartition("shop", 1), records(parents), 1, 1)
        applier.apply(TopicPartition("shop", 0), made[count:], count + 1, 1)
    assert server.rows("SELECT COUNT(*), MAX(parent) FROM {schema}.children") == [(count + 1, 7)]


@pytest.mark.parametrize("count", [1, 300])
def test_a_table_that_is_altered_meanwhile_makes_no_letters_of_good_rows(
    server: TargetServer, task: LoadTask, count: int
) -> None:
    server.execute("CREATE TABLE {schema}.places (id INT PRIMARY KEY, place INT)")
    dead_letters: list[DeadLetter] = []

    def inserts(start: int, new: str) -> Records:
        rows = [
            (Op.INSERT, None, place(str(number), new)) for number in range(start, start + count)
        ]
        return records(changes("places", "id int, place varchar(9)", "id", *rows))

    with applying(server, task, dead_letters) as applier:
        applier.apply(TopicPartition("shop", 0), inserts(0, "1"), count, 1)
        server.execute("ALTER TABLE {schema}.places DROP COLUMN place")
        with pytest.raises(
            TargetUnavailable, match=r"places has been altered meanwhile, and is looked at again$"
        ):
            applier.apply(TopicPartition("shop", 0), inserts(count, "2"), 2 * count, 1)
        with pytest.raises(UnmappedColumn, match="place"):
            applier.apply(TopicPartition("shop", 0), inserts(count, "2"), 2 * count, 1)
        server.execute("ALTER TABLE {schema}.places ADD COLUMN place VARCHAR(9)")
        applier.apply(TopicPartition("shop", 0), inserts(count, "x"), 2 * count, 1)
    assert server.rows("SELECT COUNT(*) FROM {schema}.places WHERE place = 'x'") == [(count,)]
    assert dead_letters == []


@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_key_that_is_altered_meanwhile_doubles_no_rows(
    server: TargetServer, task: LoadTask, count: int
) -> None:
    """MySQL and MariaDB insert without an error where no key of theirs is equal."""
    server.execute("CREATE TABLE {schema}.places (id INT, place INT NOT NULL, PRIMARY KEY (id))")

    def of_rows(op: Op, old: str | None, new: str) -> Records:
        rows = []
        for number in range(count):
            before = None if old is None else place(str(number), old)
            rows.append((op, before, place(str(number), new)))
        return records(changes("places", "id int, place int", "id", *rows))

    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), of_rows(Op.INSERT, None, "1"), count, 1)
        dropped = "DROP PRIMARY KEY"
        if isinstance(server, PostgresqlServer):
            dropped = "DROP CONSTRAINT places_pkey"
        server.execute(f"ALTER TABLE {{schema}}.places {dropped}, ADD PRIMARY KEY (id, place)")
        updates = of_rows(Op.UPDATE, "1", "2")
        try:
            applier.apply(TopicPartition("shop", 0), updates, 2 * count, 1, count)
        except TargetUnavailable as error:
            assert str(error).endswith("looked at again")
            applier.apply(TopicPartition("shop", 0), updates, 2 * count, 1, count)
    assert server.rows("SELECT COUNT(*), MIN(place) FROM {schema}.places") == [(count, 2)]


def lengthen_key(server: TargetServer) -> None:
    """Makes the key (id) of `places` (id, place), and adds a row for which only that makes room."""
    dropped = "DROP PRIMARY KEY"
    if isinstance(server, PostgresqlServer):
        dropped = "DROP CONSTRAINT places_pkey"
    server.execute(f"ALTER TABLE {{schema}}.places {dropped}, ADD PRIMARY KEY (id, place)")
    server.execute("INSERT INTO {schema}.places VALUES (1, 2, 5)")


def test_a_key_that_has_got_a_column_meanwhile_spares_the_rows_of_others(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute(
        "CREATE TABLE {schema}.places (id INT, place INT NOT NULL, v INT, PRIMARY KEY (id))"
    )
    columns = "id int, place int, v int"
    ours: Row = {"id": "1", "place": "1", "v": "1"}
    inserted = records(changes("places", columns, "id", (Op.INSERT, None, ours)))
    deleted = records(changes("places", columns, "id", (Op.DELETE, ours, None)))
    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), inserted, 1, 1)
        lengthen_key(server)
        with pytest.raises(TargetUnavailable, match="another key meanwhile, and is looked at"):
            applier.apply(TopicPartition("shop", 0), deleted, 2, 1, 1)
        applier.apply(TopicPartition("shop", 0), deleted, 2, 1, 1)
    assert server.rows("SELECT id, place, v FROM {schema}.places") == [(1, 2, 5)]


@pytest.mark.parametrize("may_insert", [True, False])
@pytest.mark.parametrize("count", [1, 300])
def test_an_update_that_hits_more_rows_than_it_has_keys_is_rolled_back(
    server: TargetServer, count: int, may_insert: bool
) -> None:
    server.execute(
        "CREATE TABLE {schema}.places (id INT, place INT NOT NULL, v INT, PRIMARY KEY (id))"
    )
    for number in range(count):
        server.execute(f"INSERT INTO {{schema}}.places VALUES ({number + 1}, 1, 1)")
    rows = [(str(number + 1), "7") for number in range(count)]
    # A table whose new rows lack a needed column: existing ones are updated.
    writes = Writes(("id", "v"), rows, may_insert, expected=count)
    loader = make_loader("JdbcBatch", server.target())
    with closing(loader):
        table = loader.table(TableId(server.schema, "places"))
        assert table is not None
        lengthen_key(server)
        with (
            pytest.raises(TargetUnavailable, match="another key meanwhile"),
            loader.transaction() as transaction,
        ):
            transaction.write(TableBatch(table, writes=[writes]))
    assert server.rows("SELECT COUNT(*), MAX(v) FROM {schema}.places") == [(count + 1, 5)]


@pytest.mark.parametrize(
    "batch",
    [
        {"deletes": [("1",), ("2",), ("8",), ("9",)], "passing": 2},
        {"deletes": [("1",), ("2",), ("8",), ("9",), ("10",)]},
        {"writes": [Writes(("id", "v"), [(str(each), "7") for each in range(1, 99)], False)]},
        {
            "writes": [
                Writes(("id", "v"), [(each, "7") for each in ("1", "2", "8", "9")], expected=2)
            ]
        },
    ],
    ids=["passing", "missing", "updates", "new rows"],
)
def test_keys_without_a_row_do_not_hide_the_second_row_of_others(
    server: TargetServer, batch: dict[str, Any]
) -> None:
    server.execute(
        "CREATE TABLE {schema}.places (id INT, place INT NOT NULL, v INT, PRIMARY KEY (id))"
    )
    server.execute("INSERT INTO {schema}.places VALUES (1, 1, 1), (2, 1, 1)")
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        table = loader.table(TableId(server.schema, "places"))
        assert table is not None
        lengthen_key(server)
        server.execute("INSERT INTO {schema}.places VALUES (2, 2, 5)")
        with (
            pytest.raises(TargetUnavailable, match="another key meanwhile"),
            loader.transaction() as transaction,
        ):
            transaction.write(TableBatch(table, **batch))
    assert server.rows("SELECT COUNT(*), SUM(v) FROM {schema}.places") == [(4, 12)]


def test_keys_without_a_row_cost_two_queries(server: TargetServer) -> None:
    """Some targets lack a part of the rows all the time."""
    server.execute("CREATE TABLE {schema}.places (id INT PRIMARY KEY)")
    server.execute("INSERT INTO {schema}.places VALUES (1), (2)")
    asked: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        asked.append(statement)

    with closing(make_loader("JdbcBatch", server.target())) as loader:
        table = loader.table(TableId(server.schema, "places"))
        assert table is not None
        with loader.transaction() as transaction:
            event.listen(Engine, "before_cursor_execute", note)
            try:
                transaction.write(TableBatch(table, deletes=[("1",), ("2",), ("8",)]))
            finally:
                event.remove(Engine, "before_cursor_execute", note)
    last = max(place for place, sql in enumerate(asked) if sql.lstrip().startswith("DELETE"))
    assert len(asked[last + 1 :]) == 2
    assert server.rows("SELECT * FROM {schema}.places") == []


@pytest.mark.parametrize("may_repeat", [True, False])
@pytest.mark.parametrize("new", ["2", "3"], ids=["of a row", "of no row"])
def test_a_key_change_that_finds_more_rows_than_it_has_keys_is_rolled_back(
    server: TargetServer, new: str, may_repeat: bool
) -> None:
    server.execute(
        "CREATE TABLE {schema}.places (id INT, place INT NOT NULL, v INT, PRIMARY KEY (id))"
    )
    server.execute("INSERT INTO {schema}.places VALUES (1, 1, 1), (2, 1, 1)")
    moves = Moves([(("1",), (new,))], may_repeat)
    update = Writes(("id", "v"), [(new, "7")], may_insert=False)
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        table = loader.table(TableId(server.schema, "places"))
        assert table is not None
        lengthen_key(server)
        with (
            pytest.raises(TargetUnavailable, match="another key meanwhile"),
            loader.transaction() as transaction,
        ):
            transaction.write(TableBatch(table, moves=moves, writes=[update]))
        assert loader.table(table.id) != table
    left = [(1, 1, 1), (1, 2, 5), (2, 1, 1)]
    assert server.rows("SELECT id, place, v FROM {schema}.places ORDER BY id, place") == left


def times(server: TargetServer, digits: int) -> str:
    kind = "timestamp" if isinstance(server, PostgresqlServer) else "datetime"
    return f"{kind}({digits})"


NARROW, WIDE = "2024-01-01 10:00:00", "2024-01-01 10:00:00.123456"
WIDE_FLOAT = "0.123456789012"


def alter_types(server: TargetServer) -> None:
    """Makes a key column, and another one, wider."""
    change = "ALTER COLUMN {} TYPE {}" if isinstance(server, PostgresqlServer) else "MODIFY {} {}"
    for name, type_ in (("at", times(server, 6)), ("v", "double precision")):
        null = " NOT NULL" if name == "at" and "MODIFY" in change else ""
        server.execute(f"ALTER TABLE {{schema}}.t {change.format(name, type_)}{null}")


Look = Callable[[PartitionApplier], object]
LOOKS: dict[str, Look] = {
    "the source's rows": lambda _: None,
    "a look of the driver": PartitionApplier.lost_tables,
    "a look of an executor": lambda applier: applier.begin(TopicPartition("shop", 0), {}),
}


@pytest.fixture
def prompt_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_plans, "LOOK_EACH_SECONDS", 0.0)


@pytest.mark.usefixtures("prompt_looks")
@pytest.mark.parametrize("by", LOOKS)
def test_a_table_that_is_altered_meanwhile_gets_whole_keys_and_cells_though_none_is_refused(
    server: TargetServer, task: LoadTask, by: str
) -> None:
    narrow = "real" if isinstance(server, PostgresqlServer) else "float"
    server.execute(f"CREATE TABLE {{schema}}.t (at {times(server, 0)} PRIMARY KEY, v {narrow})")
    wide = "at datetime(6), v double"
    columns = "at datetime, v float" if by == "the source's rows" else wide
    first = changes("t", columns, "at", (Op.INSERT, None, {"at": NARROW, "v": "1.5"}))
    second = changes("t", wide, "at", (Op.INSERT, None, {"at": WIDE, "v": WIDE_FLOAT}))
    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), records(first), 1, 1)
        alter_types(server)
        LOOKS[by](applier)
        applier.apply(TopicPartition("shop", 0), records(second), 2, 1, 1)
        again = changes("t", wide, "at", (Op.DELETE, {"at": NARROW, "v": "1.5"}, None))
        applier.apply(TopicPartition("shop", 0), records(again), 3, 1, 2)
    [(at, v)] = server.rows("SELECT at, v FROM {schema}.t")
    assert (str(at), v) == (WIDE, float(WIDE_FLOAT))


@pytest.mark.parametrize("wish", [SchemaChange.IGNORE, SchemaChange.STOP, SchemaChange.EVOLVE])
def test_a_column_that_is_added_at_the_target_first_is_not_dropped(
    server: TargetServer, task: LoadTask, wish: SchemaChange, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    first = changes("t", "id int", "id", (Op.INSERT, None, {"id": "1"}))
    second = changes("t", "id int, v int", "id", (Op.INSERT, None, {"id": "2", "v": "5"}))
    with applying(server, replace(task, schema_change=wish)) as applier:
        applier.apply(TopicPartition("shop", 0), records(first), 1, 1)
        server.execute("ALTER TABLE {schema}.t ADD COLUMN v INT")
        applier.apply(TopicPartition("shop", 0), records(second), 2, 1, 1)
    assert server.rows("SELECT id, v FROM {schema}.t ORDER BY id") == [(1, None), (2, 5)]
    assert "lacks columns" not in caplog.text


@pytest.mark.parametrize("known_by", ["the start", "another source table"])
def test_a_table_that_is_altered_before_a_source_table_s_first_row_is_seen_as_it_is(
    server: TargetServer, task: LoadTask, known_by: str
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    rules = (*task.rules, MapperRule(schema=("shop_2", server.schema)))
    wish = replace(task, includes=frozenset({"SHOP.T"}), rules=rules)
    if known_by == "another source table":
        wish = replace(wish, includes=frozenset())
    [one] = changes("t", "id int", "id", (Op.INSERT, None, {"id": "1"}))
    other = replace(one, table=replace(one.table, id=TableId("shop_2", "t")))
    second = changes("t", "id int, v int", "id", (Op.INSERT, None, {"id": "2", "v": "5"}))
    with applying(server, replace(wish, schema_change=SchemaChange.IGNORE)) as applier:
        applier.check_targets()
        if known_by == "another source table":
            applier.apply(TopicPartition("shop", 0), records([other]), 1, 1)
        server.execute("ALTER TABLE {schema}.t ADD COLUMN v INT")
        applier.apply(TopicPartition("shop", 0), records(second), 2, 1, 1)
    assert server.rows("SELECT v FROM {schema}.t WHERE id = 2") == [(5,)]


@pytest.mark.usefixtures("prompt_looks")
def test_a_table_that_no_longer_keeps_rows_with_their_offset_is_refused_at_the_next_look(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    made = changes("t", "id int", "id", (Op.INSERT, None, {"id": "1"}))
    more = changes("t", "id int", "id", (Op.INSERT, None, {"id": "2"}))
    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), records(made), 1, 1)
        other = "SET UNLOGGED" if isinstance(server, PostgresqlServer) else "ENGINE=MyISAM"
        server.execute(f"ALTER TABLE {{schema}}.t {other}")
        assert applier.lost_tables() == []
        with pytest.raises(TargetMisconfigured, match=r"\bt\b"):
            applier.apply(TopicPartition("shop", 0), records(more), 2, 1, 1)
    assert server.rows("SELECT id FROM {schema}.t") == [(1,)]


@pytest.mark.usefixtures("prompt_looks")
def test_tables_that_are_as_before_stay_known(server: TargetServer, task: LoadTask) -> None:
    """A definition that never equals itself would have each look, and each plan, made anew."""
    server.execute(
        "CREATE TABLE {schema}.t (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT 'x' NOT NULL, "
        "n NUMERIC(9,2), UNIQUE (v, n))"
    )
    made = changes("t", "id int, v varchar(9)", "id", (Op.INSERT, None, {"id": "1", "v": "a"}))
    loader = make_loader("JdbcBatch", server.target())
    with closing(loader):
        applier = PartitionApplier(task, CANAL, loader, None, None)
        applier.applied_offsets()
        applier.apply(TopicPartition("shop", 0), records(made), 1, 1)
        before = loader.table(TableId(server.schema, "t"))
        for _ in range(3):
            assert applier.lost_tables() == []
        assert loader.table(TableId(server.schema, "t")) is before


@pytest.mark.parametrize("count", [1, 300])
def test_a_trigger_that_refuses_makes_no_letters(
    server: TargetServer, task: LoadTask, count: int
) -> None:
    """Nor does a full disk, or a server that is going down: see test_target_errors."""
    server.execute("CREATE TABLE {schema}.places (id INT PRIMARY KEY, place VARCHAR(9))")
    if isinstance(server, PostgresqlServer):
        body = "BEGIN RAISE EXCEPTION 'closed for the night'; END"
        server.execute(
            f"CREATE FUNCTION {{schema}}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"
        )
        server.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON {schema}.places FOR EACH ROW EXECUTE FUNCTION "
            "{schema}.refuse()"
        )
    else:
        server.execute(
            "CREATE TRIGGER {schema}.refuse BEFORE INSERT ON {schema}.places FOR EACH ROW SIGNAL "
            "SQLSTATE '45000'"
        )
    dead_letters: list[DeadLetter] = []
    inserts = records(
        changes(
            "places",
            "id int, place varchar(9)",
            "id",
            *((Op.INSERT, None, place(str(n), "x")) for n in range(count)),
        )
    )
    with applying(server, task, dead_letters) as applier:
        with pytest.raises(TargetError, match=r"places: .*trigger"):
            applier.apply(TopicPartition("shop", 0), inserts, count, 1)
        if isinstance(server, PostgresqlServer):
            server.execute("DROP TRIGGER refuse ON {schema}.places")
        else:
            server.execute("DROP TRIGGER {schema}.refuse")
        applier.apply(TopicPartition("shop", 0), inserts, count, 1)
    assert server.rows("SELECT COUNT(*) FROM {schema}.places") == [(count,)]
    assert dead_letters == []


def test_a_take_over_frees_what_the_process_before_holds(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute("CREATE TABLE {schema}.places (id INT PRIMARY KEY, place VARCHAR(9))")
    row = records(
        changes("places", "id int, place varchar(9)", "id", (Op.INSERT, None, place("1", "ours")))
    )
    before = make_loader("JdbcBatch", server.target())
    with applying(server, task) as applier, closing(before):
        table = before.table(TableId(server.schema, "places"))
        assert table is not None
        with pytest.raises(TargetUnavailable), before.transaction() as transaction:
            transaction.write(
                TableBatch(table, writes=[Writes(("id", "place"), [("1", "theirs")])])
            )
            applier.applied_offsets()
            applier.take_over([AppliedOffset("shop", 0, 0, 1)])
            applier.apply(TopicPartition("shop", 0), row, 1, 1)
    assert server.rows("SELECT * FROM {schema}.places") == [(1, "ours")]


def test_the_rows_that_the_target_refuses_are_found_among_thousands(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY, v VARCHAR(3) NOT NULL)")
    rows: list[tuple[Op, Row | None, Row | None]] = [
        (Op.INSERT, None, {"id": str(number), "v": "ok"}) for number in range(3000)
    ]
    wrong = {17: "too long", 1800: None, 2999: "much too long"}
    for number, v in wrong.items():
        rows[number] = (Op.INSERT, None, {"id": str(number), "v": v})
    made, dead_letters = (
        records(changes("t", "id int, v varchar(40)", "id", *rows)),
        list[DeadLetter](),
    )
    with (
        applying(server, task) as applier,
        pytest.raises(TargetRejected, match=r"^record shop\[0\]@17: "),
    ):
        applier.apply(TopicPartition("shop", 0), made, 3000, 1)
    assert server.rows("SELECT COUNT(*) FROM {schema}.t") == [(0,)]
    with applying(server, task, dead_letters) as applier:
        report = applier.apply(TopicPartition("shop", 0), made, 3000, 1)
    assert [dead_letter.offset for dead_letter in dead_letters] == [17, 1800, 2999]
    assert all(
        "too long" not in dead_letter.reason.replace("too long for", "")
        for dead_letter in dead_letters
    )
    assert server.rows("SELECT COUNT(*) FROM {schema}.t") == [(2997,)]
    assert [(each.inserted, each.failed) for each in report.tables.values()] == [(2997, 3)]


def test_after_the_alter_that_it_asks_for_the_same_records_are_applied(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    made = records(
        changes("t", "id int, v varchar(9)", "id", (Op.INSERT, None, {"id": "1", "v": "x"}))
    )
    with applying(server, task) as applier:
        with pytest.raises(UnmappedColumn) as refused:
            applier.apply(TopicPartition("shop", 0), made, 1, 1)
        server.execute(str(refused.value).partition("add it (")[2].partition("), rename")[0])
        applier.apply(TopicPartition("shop", 0), made, 1, 1)
    assert server.rows("SELECT id, v FROM {schema}.t") == [(1, "x")]


def test_evolve_adds_columns_and_widens_them(server: TargetServer, task: LoadTask) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY, v VARCHAR(2))")
    rows = [(Op.INSERT, None, {"id": str(number), "v": "wide", "w": "1.5"}) for number in range(2)]
    made = records(changes("t", "id int, v varchar(9), w decimal(9,2)", "id", *rows))
    with applying(server, replace(task, schema_change=SchemaChange.EVOLVE)) as applier:
        applier.apply(TopicPartition("shop", 0), made, 2, 1)
    assert server.rows("SELECT id, v, CAST(w AS CHAR(4)) FROM {schema}.t ORDER BY id") == [
        (0, "wide", "1.50"),
        (1, "wide", "1.50"),
    ]


@pytest.mark.parametrize("wish", [SchemaChange.EVOLVE, SchemaChange.STOP])
def test_a_name_that_the_target_would_cut_is_refused_with_another_remedy_than_to_add_it(
    server: TargetServer, task: LoadTask, wish: SchemaChange
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    name = "表" * 22  # 66 bytes
    made = records(changes("t", f"id int, {name} int", "id", (Op.INSERT, None, {"id": "1"})))
    with applying(server, replace(task, schema_change=wish)) as applier:
        if isinstance(server, PostgresqlServer):
            with pytest.raises(UnmappedColumn, match=rf"to column {name} .* 63 bytes: rename it"):
                applier.apply(TopicPartition("shop", 0), made, 1, 1)
            assert server.rows("SELECT * FROM {schema}.t") == []
            server.execute("INSERT INTO {schema}.t VALUES (1)")  # no other column was added
        elif wish is SchemaChange.EVOLVE:
            applier.apply(TopicPartition("shop", 0), made, 1, 1)
            assert server.rows("SELECT * FROM {schema}.t") == [(1, None)]
