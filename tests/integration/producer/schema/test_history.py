"""Rows are decoded with the columns that their table had when they were written, although the
server does not send them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent, UnusableHistory
from cdcbus.producer.config import FilterConfig
from cdcbus.producer.schema.history_codec import FOLLOWED
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Batch
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from tests.integration.producer.reading import fetch_task, global_variable, position, read
from tests.integration.producer.running import Running, canal
from tests.integration.producer.schema.course import BEFORE, SWAPPED, SWAPS, Course

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.mark.parametrize("swap", SWAPS)
def test_columns_of_one_type_that_exchange_their_places(course: Course, swap: str) -> None:
    """Whether the task runs at the time, starts between, lags behind, or goes back."""
    for is_lagging in (False, True):
        start = course.run(
            "DELETE FROM t",
            "ALTER TABLE t RENAME COLUMN a TO x, RENAME COLUMN b TO y",
            "DROP TABLE t",
        )
        course.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        course.catch_up()
        edge = course.run("INSERT INTO t VALUES (1, 10, 20)")
        if not is_lagging:
            assert course.catch_up() == [BEFORE]
        course.run(swap)
        if not is_lagging:
            assert course.catch_up() == []
        end = course.run("INSERT INTO t VALUES (2, 30, 40)")
        assert course.catch_up() == ([BEFORE, SWAPPED] if is_lagging else [SWAPPED])
        assert course.between(edge, end) == [SWAPPED]
        assert course.between(start, end) == [BEFORE, SWAPPED]


def test_a_reader_that_lags_behind_three_alters_in_a_row(course: Course) -> None:
    course.run(
        "INSERT INTO t VALUES (1, 10, 20)",
        "ALTER TABLE t ADD c INT FIRST",
        "INSERT INTO t VALUES (9, 2, 10, 20)",
        "ALTER TABLE t DROP b, RENAME COLUMN c TO b",
        "INSERT INTO t VALUES (20, 3, 10)",
        "ALTER TABLE t CHANGE b a INT UNSIGNED, CHANGE a b BIGINT",
        "INSERT INTO t VALUES (4000000000, 4, -1)",
    )
    expected: list[dict[str, str | None]] = [
        {"id": "1", "a": "10", "b": "20"},
        {"c": "9", "id": "2", "a": "10", "b": "20"},
        {"b": "20", "id": "3", "a": "10"},
        {"a": "4000000000", "id": "4", "b": "-1"},
    ]
    assert course.catch_up() == expected
    assert course.between(course.start, course.read_to)[1:] == expected


UNLOGGED = (
    "DROP TABLE t",
    "SET sql_log_bin = 0",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
    "SET sql_log_bin = 1",
)


def test_a_start_in_front_of_a_swap_that_nobody_followed_stops_where_the_binlog_does_not_show_how_the_table_was_made(
    course: Course,
) -> None:
    course.start = course.run(*UNLOGGED)
    edge = course.run("INSERT INTO t VALUES (1, 10, 20)")
    course.run(SWAPS[0])
    end = course.run("INSERT INTO t VALUES (2, 30, 40)")
    with pytest.raises(UnreadableEvent) as stopped:
        read(course.task, course.start, end)
    sentence = str(stopped.value)
    assert "the row has 3 columns of types int, int, int" in sentence
    assert "the table now has 3: id int" in sentence
    assert "binlog_row_metadata=FULL" in sentence
    assert [change.after for change in read(course.task, edge, end)] == [SWAPPED]


def test_a_start_in_front_of_a_swap_that_nobody_followed_takes_the_table_from_its_text(
    course: Course,
) -> None:
    course.run("INSERT INTO t VALUES (1, 10, 20)", SWAPS[0])
    end = course.run("INSERT INTO t VALUES (2, 30, 40)")
    assert [change.after for change in read(course.task, course.start, end)][1:] == [
        BEFORE,
        SWAPPED,
    ]


def test_a_table_that_the_server_cannot_open_holds_up_no_other_and_is_read_once_it_is_mended(
    course: Course, caplog: pytest.LogCaptureFixture
) -> None:
    part = "CREATE TABLE part (id INT) ENGINE=MyISAM"
    course.run(part, "CREATE TABLE whole (id INT) ENGINE=MERGE UNION=(part) INSERT_METHOD=LAST")
    start = course.run("DROP TABLE part")
    end = course.run("INSERT INTO t VALUES (1, 10, 20)")
    assert [change.after for change in read(course.task, start, end)] == [BEFORE]
    assert ".whole cannot be opened, so its columns are not known: the server says 1168" in (
        caplog.text
    )
    course.run(part)
    end = course.run("INSERT INTO whole VALUES (7)")
    assert [change.after for change in read(course.task, start, end)] == [BEFORE, {"id": "7"}]


def test_a_start_far_behind_is_fine_where_no_ddl_of_the_table_came_since(course: Course) -> None:
    course.run(
        "CREATE TABLE other (a INT)",
        "ALTER TABLE other ADD t INT",
        "INSERT INTO t VALUES (1, 10, 20)",
        "ALTER TABLE t ADD INDEX (a)",
    )
    assert [change.after for change in read(course.task, course.start, position(course.cursor))][
        1:
    ] == [BEFORE]


GHOSTS = {
    "gh-ost": (
        "CREATE TABLE `{0}`.`_t_gho` LIKE `{0}`.`t`",
        "ALTER TABLE `{0}`.`_t_gho` RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "INSERT INTO _t_gho SELECT * FROM t",
        "RENAME TABLE `{0}`.`t` TO `{0}`.`_t_del`, `{0}`.`_t_gho` TO `{0}`.`t`",
        "DROP TABLE IF EXISTS `{0}`.`_t_del`",
    ),
    "pt-online-schema-change": (
        "CREATE TABLE `{0}`.`_t_new` (`id` int NOT NULL, `a` int DEFAULT NULL, `b` int DEFAULT "
        "NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB",
        "ALTER TABLE `{0}`.`_t_new` CHANGE a b INT, CHANGE b a INT",
        "INSERT LOW_PRIORITY IGNORE INTO `{0}`.`_t_new` SELECT * FROM t",
        "RENAME TABLE `{0}`.`t` TO `{0}`.`_t_old`, `{0}`.`_t_new` TO `{0}`.`t`",
        "DROP TABLE IF EXISTS `_t_old`",
    ),
}


@pytest.mark.parametrize("is_alone", [False, True], ids=["all tables", "one table"])
@pytest.mark.parametrize("is_lagging", [False, True], ids=["live", "lagging"])
@pytest.mark.parametrize("tool", GHOSTS)
def test_online_schema_changes(
    source: Database, course: Course, name: str, tool: str, *, is_lagging: bool, is_alone: bool
) -> None:
    if is_alone:
        course = Course(
            course.cursor,
            fetch_task(
                source, name, tables=FilterConfig(includes=frozenset({f"{name}.T".upper()}))
            ),
        )
    course.run("INSERT INTO t VALUES (1, 10, 20)")
    rows = course.catch_up()
    for statement in GHOSTS[tool]:
        course.run(statement.format(name))
        if not is_lagging:
            rows += course.catch_up()
    course.run("INSERT INTO t VALUES (2, 30, 40)")
    if is_lagging:
        course.run("ALTER TABLE t DROP a")
    rows += course.catch_up()
    assert rows[0] == BEFORE
    assert rows[-1] == SWAPPED
    again = course.between(course.start, course.read_to)
    assert again[0 if is_alone else 1 :] == rows


@pytest.mark.parametrize("renames", ["RENAME TABLE u TO t", "RENAME TABLE u TO t, x TO y"])
def test_a_temporary_table_is_renamed_to_the_name_of_a_real_one(
    course: Course, renames: str, *, is_mariadb: bool
) -> None:
    """MariaDB writes that, and nothing else of the table."""
    if not is_mariadb:
        pytest.skip("MySQL renames no temporary table so, and writes nothing of them")
    course.run(
        "CREATE TABLE u (id INT PRIMARY KEY, b INT, a INT)",
        "CREATE TABLE x (id INT)",
        "INSERT INTO u VALUES (1, 20, 10)",
    )
    course.catch_up()
    course.run(
        "CREATE TEMPORARY TABLE u (n INT)",
        renames,
        "DROP TEMPORARY TABLE t",
        "INSERT INTO t VALUES (1, 10, 20)",
        "INSERT INTO u VALUES (2, 40, 30)",
    )
    assert course.catch_up() == [
        {"id": "1", "a": "10", "b": "20"},
        {"id": "2", "b": "40", "a": "30"},
    ]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("DO 1", id="a view"),
        pytest.param("DROP TABLE x", id="of what is not there"),
        pytest.param("ALTER DEFINER=nobody@localhost VIEW t AS SELECT * FROM u", id="of nobody"),
    ],
)
def test_a_table_is_renamed_and_has_a_view_of_its_former_name(course: Course, after: str) -> None:
    """Nothing else tells of the table: its CREATE TABLE is not in the binlog."""
    course.run(*UNLOGGED)
    course.entries.clear()
    course.read_to = course.run("CREATE TABLE x (n INT)")
    course.run(
        "INSERT INTO t VALUES (1, 10, 20)",
        "RENAME TABLE t TO u",
        "CREATE VIEW t AS SELECT u.* FROM u, x",
        "INSERT INTO u VALUES (2, 30, 40)",
    )
    course.run(after)
    assert course.catch_up() == [BEFORE, {"id": "2", "a": "30", "b": "40"}]


@pytest.mark.parametrize("is_lagging", [False, True], ids=["live", "lagging"])
def test_tables_that_are_copied_swapped_and_made_again(course: Course, *, is_lagging: bool) -> None:
    statements = [
        "CREATE TABLE u LIKE t",
        "INSERT INTO u VALUES (1, 10, 20)",
        "ALTER TABLE u RENAME COLUMN a TO x, RENAME COLUMN b TO a",
        "RENAME TABLE t TO v, u TO t, v TO u",
        "INSERT INTO t VALUES (2, 10, 20)",
        "INSERT INTO u VALUES (3, 10, 20)",
        "CREATE TABLE IF NOT EXISTS t (c INT PRIMARY KEY, d INT, e INT)",
        "INSERT INTO t VALUES (4, 10, 20)",
        "CREATE TEMPORARY TABLE u (x INT, y INT, z INT)",
        "ALTER TABLE u RENAME COLUMN x TO q",
        "DROP TEMPORARY TABLE u",
        "INSERT INTO u VALUES (5, 10, 20)",
        "DROP TABLE t, u",
        "CREATE TABLE t (c INT PRIMARY KEY, d INT, e INT)",
        "INSERT INTO t VALUES (6, 10, 20)",
        "ALTER TABLE t RENAME w",
        "INSERT INTO w VALUES (7, 10, 20)",
        "DROP TABLE w",
    ]
    rows = []
    for statement in statements:
        course.run(statement)
        rows += [] if is_lagging else course.catch_up()
    rows += course.catch_up()
    names = ["id,a,b", "id,x,a", "id,a,b", "id,x,a", "id,a,b", "c,d,e", "c,d,e"]
    expected = [
        dict(zip(columns.split(","), (str(id_), "10", "20"), strict=True))
        for id_, columns in enumerate(names, 1)
    ]
    assert rows == expected
    assert course.between(course.start, course.read_to)[1:] == expected


UNREADABLE = "ALTER TABLE {0} ADD c INT, ADD d INT, ORDER BY a, b"


def test_ddl_of_tables_that_are_left_out_never_stops(
    source: Database, course: Course, name: str
) -> None:
    course.task = fetch_task(source, name, tables=FilterConfig(regexes=(rf"{name}\.t",)))
    course.run(
        "CREATE TABLE hidden (a INT, b INT)",
        UNREADABLE.format("hidden"),
        "ALTER TABLE hidden ADD t2 INT",
        "INSERT INTO t VALUES (1, 10, 20)",
    )
    assert course.catch_up() == [BEFORE]
    assert all("hidden" not in entry for entry in course.entries)


def test_sequences_that_were_made_and_dropped_before_the_task_came_there(
    course: Course, *, is_mariadb: bool
) -> None:
    if not is_mariadb:
        pytest.skip("MySQL has none")
    course.run(
        "CREATE SEQUENCE s START WITH 7",
        "INSERT INTO t VALUES (1, NEXT VALUE FOR s, 20)",
        "ALTER SEQUENCE s RESTART 30",
        "CREATE OR REPLACE SEQUENCE s INCREMENT 5 CACHE 2",
        "RENAME TABLE s TO q",
        "INSERT INTO t VALUES (2, NEXT VALUE FOR q, 20)",
        "DROP SEQUENCE q",
        "CREATE TABLE s (id INT PRIMARY KEY)",
        "INSERT INTO s VALUES (5)",
        "DROP TABLE s",
    )
    assert course.catch_up() == [
        {"id": "1", "a": "7", "b": "20"},
        {"id": "2", "a": "1", "b": "20"},
        {"id": "5"},
    ]


@pytest.mark.parametrize("words", ["TABLE", "TABLE IF NOT EXISTS"])
@pytest.mark.parametrize("is_known", [True, False], ids=["a restart", "a first start"])
def test_a_new_table_is_followed_from_its_text(
    course: Course, words: str, *, is_known: bool
) -> None:
    """Also where it was altered before the task came there, which is what a tool for migrations
    does with its own table."""
    if not is_known:
        course.entries.clear()
    course.run(
        f"CREATE {words} u (id INT PRIMARY KEY /*!50000 , b INT */ /*!990000 , x INT */)",
        "INSERT INTO u VALUES (1, 20)",
        "ALTER TABLE u ADD /*! a INT */ FIRST",
        "INSERT INTO u VALUES (10, 2, 20)",
        "ALTER TABLE u DROP b",
    )
    assert course.catch_up() == [{"id": "1", "b": "20"}, {"a": "10", "id": "2", "b": "20"}]


def test_ddl_that_is_not_understood_is_answered_by_the_server(course: Course) -> None:
    course.run(UNREADABLE.format("t"), "INSERT INTO t VALUES (1, 10, 20, 30, 40)")
    assert course.catch_up() == [{"id": "1", "a": "10", "b": "20", "c": "30", "d": "40"}]


def test_ddl_that_is_not_understood_and_was_followed_by_more_stops_at_rows(course: Course) -> None:
    edge = course.run(UNREADABLE.format("t"))
    course.run("INSERT INTO t VALUES (1, 10, 20, 30, 40)")
    after = course.run("ALTER TABLE t RENAME COLUMN c TO d, RENAME COLUMN d TO c")
    end = course.run("INSERT INTO t VALUES (2, 10, 20, 30, 40)")
    with pytest.raises(
        UnreadableEvent, match=r"t: the row has 5 columns .* the table now has 5: .*d int.*c int"
    ) as stopped:
        course.catch_up()
    assert str(stopped.value).startswith(edge.file)
    assert course.between(after, end) == [{"id": "2", "a": "10", "b": "20", "d": "30", "c": "40"}]


def test_an_alter_that_the_binlog_does_not_show_stops(course: Course) -> None:
    course.run(
        "SET sql_log_bin = 0",
        "ALTER TABLE t ADD c INT",
        "SET sql_log_bin = 1",
        "INSERT INTO t VALUES (1, 10, 20, 30)",
    )
    with pytest.raises(
        UnreadableEvent,
        match=r"the row has 4 columns .* has 3: .* sql_log_bin=0, delete memory/.*\.t$",
    ):
        course.catch_up()


def test_a_changed_sign_that_the_binlog_does_not_show_stops(
    course: Course, source: Database, name: str
) -> None:
    made = "CREATE TABLE n (id SERIAL, a INT UNSIGNED, b BOOL, c DECIMAL(5,2) ZEROFILL, d YEAR)"
    course.run(made)
    course.catch_up()
    with global_variable(source, "binlog_row_metadata", "MINIMAL"):
        course.run("INSERT INTO n VALUES (1, 2, 1, 3, 2026)")
        same = course.catch_up()
        course.run(
            "SET sql_log_bin = 0",
            "ALTER TABLE n MODIFY a INT, MODIFY d YEAR NULL",
            "SET sql_log_bin = 1",
        )
        start = course.read_to
        course.run("INSERT INTO n VALUES (2, -1, 1, 3, 2026)")
        with pytest.raises(
            UnreadableEvent,
            match=r"of types bigint unsigned, int, tinyint, .* has 5: .* a int(\(10\))? unsigned, .*"
            r"sql_log_bin=0, delete memory/.*\.n$",
        ):
            course.catch_up()
        del course.entries[f"{name}.n"]
        course.read_to = start
        [after] = course.catch_up()
    assert [row["a"] for row in (*same, after)] == ["2", "-1"]
    assert {**same[0], "id": "2", "a": "-1"} == after


def test_a_part_of_the_binlog_that_was_passed_over_is_followed_too(course: Course) -> None:
    course.run("INSERT INTO t VALUES (1, 10, 20)", SWAPS[0])
    edge = course.run("FLUSH BINARY LOGS")
    course.run("INSERT INTO t VALUES (2, 30, 40)")
    end = course.run("ALTER TABLE t ADD c INT")
    assert course.between(edge, end) == [SWAPPED]


def test_with_full_metadata_nothing_is_stored(source: Database, course: Course) -> None:
    course.entries.clear()
    with global_variable(source, "binlog_row_metadata", "FULL"):
        start = position(course.cursor)
        end = course.run(SWAPS[0], "INSERT INTO t VALUES (2, 30, 40)")
        assert course.between(start, end) == [SWAPPED]
    assert course.entries == {}


def test_taking_many_tables_can_be_given_up(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader gets empty batches meanwhile; nothing is stored before all tables are known."""
    monkeypatch.setattr("cdcbus.producer.schema.history.TABLES_AT_ONCE", 1)
    course.run("CREATE TABLE u LIKE t", "CREATE TABLE v LIKE t")
    start = course.run("CREATE TABLE w LIKE t")
    course.entries.clear()
    with BinlogSource(course.task, MemorySchemas(course.entries)) as source:
        batches = source.batches(source.locate(start))
        for _ in range(4):
            assert next(batches) == Batch([], None, [])
        assert course.entries == {}
        next(batches)
        assert len(course.entries) == 5


def test_a_history_of_another_server_is_read_anew(course: Course) -> None:
    followed = json.loads(course.entries[FOLLOWED])
    course.entries[FOLLOWED] = json.dumps({**followed, "server": "another"})
    course.run(SWAPS[0])
    course.read_to = course.run("DO 1")
    course.run("INSERT INTO t VALUES (2, 30, 40)")
    assert course.catch_up() == [SWAPPED]
    assert json.loads(course.entries[FOLLOWED])["server"] == followed["server"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"table":["x","t"],"versions":[]}',
        '{"table":["x","y"],"versions":[{"columns":[["a"]]}]}',
    ],
)
def test_a_damaged_entry_is_said(course: Course, name: str, text: str) -> None:
    course.entries[f"{name}.t"] = text
    course.run("INSERT INTO t VALUES (1, 10, 20)")
    with pytest.raises(
        UnusableHistory, match=rf"memory/{name}\.t is not the schema history .* delete this node"
    ):
        course.catch_up()
    del course.entries[f"{name}.t"]
    course.read_to = position(course.cursor)
    course.run("INSERT INTO t VALUES (2, 10, 20)")
    assert course.catch_up() == [{"id": "2", "a": "10", "b": "20"}]


def test_a_running_task_goes_back_to_an_older_position(
    course: Course,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    source: Database,
    positions: PositionStore,
    store: Callable[[str], None],
    zookeeper_client: KazooClient,
) -> None:
    """As an operator sets it with zkCli, also one in front of a swap."""
    make_topic(name)
    start = position(course.cursor)
    store(start.to_json())
    schemas = ZooKeeperSchemas(zookeeper_client, name, name)

    def data() -> list[dict[str, str]]:
        return [record["data"][0] for record in canal(kafka, name)]

    running = Running(fetch_task(source, name, servers=kafka), positions)
    running.schemas = schemas
    with running:
        running.until_stored(course.run("INSERT INTO t VALUES (1, 10, 20)"))
        running.until_stored(course.run(SWAPS[0], "INSERT INTO t VALUES (2, 30, 40)"))
        store(start.to_json())
        running.until(lambda: len(data()) >= 4)
        running.until_stored(position(course.cursor))
    assert data() == [BEFORE, SWAPPED, BEFORE, SWAPPED]
    assert f"{name}.t" in schemas.load()
