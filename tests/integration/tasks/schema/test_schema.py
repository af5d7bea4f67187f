"""`cdcbus schema plan` and `apply` between the real source and both targets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pymysql.cursors import Cursor
from sqlalchemy import URL, create_engine

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.contracts import ZeroDate
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.tasks.schema.plan import _target
from tests.support.changes.shop import Shop, open_shop
from tests.support.processes.bus import fetch_text, load_text, open_bus

pytestmark = pytest.mark.integration

ORDERS = """\
CREATE TABLE orders (
    id INT UNSIGNED AUTO_INCREMENT, region CHAR(2) NOT NULL DEFAULT 'eu', note VARCHAR(40) COMMENT 'what''s said',
    price DECIMAL(10,2) NOT NULL DEFAULT 1.50, seen DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3),
    flags BIT(5) DEFAULT b'101', twice INT AS (price * 2) STORED, path TEXT,
    PRIMARY KEY (region, id), KEY by_id (id), KEY by_path (path(10)), UNIQUE KEY by_note (note, id)
) COMMENT='all ''orders'''"""


@pytest.fixture
def shop(
    name: str, stack: Addresses, source: Database, source_cursor: Cursor, tmp_path: Path
) -> Iterator[Shop]:
    source_cursor.execute(ORDERS)
    with open_shop(name, stack, source_cursor, tmp_path) as opened:
        opened.fetch(source)
        yield opened


def run(verb: str, task: TaskProcess, *options: str, code: int = 0, answer: str = "") -> Result:
    result = CliRunner().invoke(main, ["schema", verb, str(task.file), *options], input=answer)
    assert result.exit_code == code, result.output
    return result


def planned(task: TaskProcess, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("plan", task, "--json", *options).stdout)
    return found


def told(task: TaskProcess) -> list[str]:
    (table,) = planned(task)["tables"]
    return [f"{each['column']} {each['what']}" for each in table["differences"] if each["is_lost"]]


def primary_key(shop: Shop) -> list[str]:
    sql = (
        "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, at)"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n"
        f" WHERE i.indisprimary AND i.indrelid = '{shop.name}.orders'::regclass ORDER BY k.at"
    )
    return [row[0] for row in shop.postgresql(sql)]


def test_a_table_that_only_the_task_names_is_told(shop: Shop) -> None:
    load = shop.load("postgresql", **{"consumer.includes": f"{shop.name}.orders,{shop.name}.typo"})
    assert planned(load)["unseen"] == [f"{shop.name}.typo".upper()]
    run("plan", load, "--check", code=1)


def test_the_default_of_a_timestamp_is_the_same_moment_in_any_time_zone(shop: Shop) -> None:
    shop.cursor.execute(
        "ALTER TABLE orders ADD at TIMESTAMP(3) NOT NULL DEFAULT '2024-01-01 01:02:03'"
    )
    made = "; ".join(planned(shop.load("postgresql"))["statements"])
    shop.postgresql(f"SET TIME ZONE 'Asia/Tokyo'; {made}")
    shop.postgresql(f"INSERT INTO {shop.name}.orders (id) VALUES (1)")
    sql = f"SELECT at = '2024-01-01 01:02:03+00' FROM {shop.name}.orders"
    assert shop.postgresql(sql) == [(True,)]


def test_the_table_gets_key_defaults_comments_and_indexes(shop: Shop) -> None:
    load = shop.load("postgresql")
    run("apply", load, "--yes", "--indexes")
    assert primary_key(shop) == ["region", "id"]
    shop.postgresql(f"INSERT INTO {shop.name}.orders (id) VALUES (1)")
    row = shop.postgresql(
        f"SELECT region, price, flags::text, seen IS NULL FROM {shop.name}.orders"
    )
    assert [(a, str(b), c, d) for a, b, c, d in row] == [("eu", "1.50", "00101", False)]
    said = shop.postgresql(f"SELECT obj_description('{shop.name}.orders'::regclass)")
    assert said == [("all 'orders'",)]
    names = shop.postgresql(f"SELECT indexname FROM pg_indexes WHERE schemaname = '{shop.name}'")
    assert {row[0] for row in names} == {
        "orders_pkey",
        "orders_by_id",
        "orders_by_path",
        "orders_by_note",
    }


def test_indexes_get_names_that_no_other_index_and_no_table_has(shop: Shop) -> None:
    shop.cursor.execute("ALTER TABLE orders ADD KEY item (flags), ADD KEY item_note (note)")
    shop.cursor.execute(
        "CREATE TABLE orders_item (id INT PRIMARY KEY, note INT, KEY note (note), KEY id (id))"
    )
    load = shop.load("postgresql")
    run("apply", load, "--yes", "--indexes")
    assert planned(load, "--indexes")["statements"] == []
    sql = f"SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = '{shop.name}'"
    columns = [(table, made.rpartition("(")[2].strip(")")) for table, made in shop.postgresql(sql)]
    assert {("orders", "flags"), ("orders", "note"), ("orders_item", "note")} <= {*columns}


def test_mariadb_gets_the_sources_own_columns(shop: Shop) -> None:
    run("apply", shop.load("mariadb"), "--yes", "--indexes")
    columns = (
        "column_name, column_type, collation_name, is_nullable, column_default, column_comment"
    )
    asked = (
        f"SELECT {columns} FROM information_schema.columns WHERE table_schema = '{shop.name}' "
        "AND column_name <> 'twice' ORDER BY ordinal_position"
    )
    shop.cursor.execute(asked)
    assert list(shop.mariadb(asked)) == list(shop.cursor.fetchall())


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_indexes_may_come_later_and_only_once(shop: Shop, target: str) -> None:
    load = shop.load(target)
    run("apply", load, "--yes")
    statements = planned(load, "--indexes")["statements"]
    names = [sql.partition(" ON ")[0].split()[-1].strip('"`') for sql in statements]
    expected = {
        "mariadb": ["by_id", "by_note", "by_path"],
        "postgresql": ["orders_by_id", "orders_by_note", "orders_by_path"],
    }
    assert sorted(names) == expected[target]
    run("apply", load, "--yes", "--indexes")
    assert planned(load, "--indexes")["statements"] == []


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_an_index_of_the_same_columns_is_not_made_again(shop: Shop, target: str) -> None:
    load = shop.load(target)
    run("apply", load, "--yes")
    execute = shop.postgresql if target == "postgresql" else shop.mariadb
    # Columns that an index only includes change nothing of its purpose.
    included = " INCLUDE (price)" if target == "postgresql" else ""
    execute(f"CREATE INDEX mine ON {shop.name}.orders (id){included}")
    execute(f"CREATE INDEX not_unique ON {shop.name}.orders (note, id)")
    said = " ".join(planned(load, "--indexes")["statements"])
    assert "by_id" not in said
    assert "by_note" in said


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_second_apply_finds_nothing_to_do(shop: Shop, target: str) -> None:
    load = shop.load(target)
    run("plan", load, "--check", code=1)
    run("apply", load, "--yes")
    assert "nothing to do" in run("apply", load, "--yes").output
    run("plan", load, "--check")


def test_keys_on_the_same_prefixes_as_the_sources_lose_nothing(shop: Shop) -> None:
    for ddl in (
        "url VARCHAR(300), PRIMARY KEY (url(10))",
        "id INT PRIMARY KEY, m TEXT, UNIQUE (m(5))",
    ):
        shop.cursor.execute("CREATE OR REPLACE TABLE pages (" + ddl + ")")
        shop.mariadb(f"DROP TABLE IF EXISTS {shop.name}.pages")
        load = shop.load("mariadb")
        run("apply", load, "--yes", "--indexes")
        assert "LOSES" not in run("plan", load, "--check").output
    shop.mariadb(f"ALTER TABLE {shop.name}.pages ADD UNIQUE (m(4))")
    assert "unique key of an expression, a prefix" in run("plan", load, "--check", code=1).output


def test_keys_on_prefixes_alone_can_be_looked_at(shop: Shop) -> None:
    shop.cursor.execute("CREATE TABLE pages (m TEXT, n TEXT, PRIMARY KEY (m(5)), UNIQUE (n(5)))")
    load = shop.load("mariadb")
    run("apply", load, "--yes", "--indexes")
    assert "pages" in run("plan", load).output


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_an_index_of_the_name_and_other_columns_is_told(shop: Shop, target: str) -> None:
    load = shop.load(target)
    run("apply", load, "--yes", "--indexes")
    said = run("plan", load, "--indexes").stdout
    assert "has its name" not in said
    name = {"postgresql": "orders_by_note", "mariadb": "by_note"}[target]
    execute: Any = shop.postgresql if target == "postgresql" else shop.mariadb
    of = "" if target == "postgresql" else f" ON {shop.name}.orders"
    where = f"{shop.name}." if target == "postgresql" else ""
    execute(f"DROP INDEX {where}{name}{of}")
    execute(f"CREATE INDEX {name} ON {shop.name}.orders (price)")
    [table] = planned(load, "--indexes")["tables"]
    assert table["statements"] == []
    assert f"index {name} is missing, and another one has its name, on price" in str(table)


def test_an_index_of_some_rows_is_another_one(shop: Shop) -> None:
    load = shop.load("postgresql")
    run("apply", load, "--yes")
    shop.postgresql(f"CREATE INDEX orders_by_note ON {shop.name}.orders (note, id) WHERE id > 1")
    [table] = planned(load, "--indexes")["tables"]
    assert "orders_by_note" not in str(table["statements"])
    assert "orders_by_note is missing, and another one has its name" in str(table["differences"])


def test_a_missing_schema_is_made_where_that_is_asked_for(shop: Shop) -> None:
    load = shop.load("postgresql", **{"mapper[0]__schema": f"{shop.name},{shop.name}_copy"})
    try:
        refused = run("apply", load, "--yes", code=1)
        assert f"no schema {shop.name}_copy" in refused.output
        run("apply", load, "--yes", "--schemas")
        assert shop.postgresql(f"SELECT count(*) FROM {shop.name}_copy.orders") == [(0,)]
    finally:
        shop.postgresql(f"DROP SCHEMA IF EXISTS {shop.name}_copy CASCADE")


def test_the_database_that_the_address_names_is_made_too(shop: Shop) -> None:
    shop.mariadb(f"DROP DATABASE {shop.name}")
    run("apply", shop.load("mariadb"), "--yes", "--schemas")
    assert list(shop.mariadb(f"SELECT count(*) FROM {shop.name}.orders")) == [(0,)]


def test_apply_asks_and_does_nothing_when_told_no(shop: Shop) -> None:
    load = shop.load("postgresql")
    run("apply", load, code=130, answer="n\n")
    assert not planned(load)["tables"][0]["exists"]


def test_a_table_that_is_too_small_says_what_it_loses(shop: Shop) -> None:
    shop.postgresql(
        f"CREATE TABLE {shop.name}.orders (id int PRIMARY KEY, region varchar(1), note varchar(40), "
        "price numeric(8,2) NOT NULL, seen timestamp(0), twice int, path text NOT NULL, own int)"
    )
    load = shop.load("postgresql")
    assert set(told(load)) == {
        "flags is missing",
        "id integer is too narrow for int unsigned: bigint",
        "region character varying(1) is too narrow for char(2): varchar(2)",
        "price numeric(8,2) is too narrow for decimal(10,2): numeric(10,2)",
        "seen timestamp without time zone(0) is too narrow for datetime(3): "
        "timestamp(3) without time zone",
        "path is NOT NULL, and NULL may come",
        " unique key id: different source rows may be one there",
    }
    said = run("plan", load, "--check", code=1).output
    assert f'ALTER TABLE "{shop.name}"."orders" ADD COLUMN "flags" bit(5);' in said
    assert "differs: column own is in the target only" in said


def test_a_table_without_a_key_or_of_other_types_is_told(shop: Shop) -> None:
    shop.mariadb(
        f"CREATE TABLE {shop.name}.orders (id INT UNSIGNED, region CHAR(2), note VARCHAR(40) "
        "CHARACTER SET latin1, price BIGINT, seen TIME(3), flags BIT(5), twice INT, path BLOB)"
    )
    assert set(told(shop.load("mariadb"))) == {
        " has no key; the source's is region, id",
        "note has not all characters of utf8mb4: latin1_swedish_ci",
        "price bigint(20) rounds what is in decimal(10,2)",
        "seen time(3) does not hold datetime(3)",
        "path blob does not hold text",
    }


def test_what_the_mapper_changes_is_changed_in_the_table(shop: Shop) -> None:
    load = shop.load(
        "postgresql",
        **{
            "mapper[0]__schema": f"{shop.name},{shop.name}",
            "mapper[0]__table": "orders,sales",
            "mapper[0]__column__note": "remark",
            "mapper[0]__ignore": "path,twice",
            "mapper[0]__mask__price": "hash",
            "mapper[0]__constant__origin": "shop",
        },
    )
    run("apply", load, "--yes")
    columns = shop.postgresql(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE "
        f"attrelid = '{shop.name}.sales'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert columns == [
        ("id", "bigint"),
        ("region", "character(2)"),
        ("remark", "character varying(40)"),
        ("price", "character(64)"),
        ("seen", "timestamp(3) without time zone"),
        ("flags", "bit(5)"),
        ("origin", "text"),
    ]


def test_a_key_that_the_mapper_leaves_out_is_a_problem(shop: Shop) -> None:
    load = shop.load(
        "postgresql", **{"mapper[0]__table": "orders,orders", "mapper[0]__ignore": "region"}
    )
    said = run("apply", load, "--yes", code=1).output
    assert "leaves out region, which is part of the key" in said


def test_tables_that_come_together_are_one(shop: Shop) -> None:
    shop.cursor.execute("CREATE TABLE orders_2 LIKE orders")
    load = shop.load(
        "postgresql",
        **{"mapper[0]__schema": f"{shop.name},{shop.name}", "mapper[0]__table": "orders.*,sales"},
    )
    (table,) = planned(load)["tables"]
    assert table["sources"] == [f"{shop.name}.orders", f"{shop.name}.orders_2"]
    shop.cursor.execute("ALTER TABLE orders_2 MODIFY note TEXT, DROP KEY by_note")
    said = run("apply", load, "--yes", code=1).output
    assert "column note is varchar(40)" in said


def test_a_table_of_several_sources_suits_them_all(shop: Shop) -> None:
    """Rows of the second one differ in case only, and have characters that the first one lacks."""
    for name, collation in (("w1", "latin1_swedish_ci"), ("w2", "utf8mb4_bin")):
        shop.cursor.execute(
            f"CREATE TABLE {name} (code VARCHAR(20) PRIMARY KEY, n INT, UNIQUE KEY (n)) "
            f"DEFAULT CHARSET {collation.partition('_')[0]} COLLATE {collation}"
        )
    load = shop.load(
        "mariadb", **{"mapper[0]__schema": f"{shop.name},{shop.name}", "mapper[0]__table": "w.*,w"}
    )
    run("apply", load, "--yes", "--indexes")
    shop.mariadb(f"INSERT INTO {shop.name}.w VALUES ('a', 1), ('A', 1), ('Ж', 1)")
    run("plan", load, "--check", "--indexes")
    shop.mariadb(f"DELETE FROM {shop.name}.w")
    shop.mariadb(f"ALTER TABLE {shop.name}.w ADD UNIQUE (n)")
    said = run("plan", load, "--check", code=1).output
    assert "unique key n: rows of several sources may have equal values" in said
    shop.mariadb(f"ALTER TABLE {shop.name}.w MODIFY code VARCHAR(20) COLLATE utf8mb4_general_ci")
    run("plan", load, "--check", code=1)
    [table] = [each for each in planned(load)["tables"] if each["target"].endswith(".w")]
    lost = [each["what"] for each in table["differences"] if each["is_lost"]]
    surely = "is in a key, and treats texts as equal that differ at the source"
    assert f"{surely} (rows of {shop.name}.w2)" in lost


def test_a_refused_statement_ends_it_with_a_sentence(shop: Shop) -> None:
    load = shop.load("postgresql")
    shop.postgresql(f"CREATE TYPE {shop.name}.orders AS (a int)")
    said = run("apply", load, "--yes", code=1).output
    last = said.strip().splitlines()[-1]
    assert f'statement CREATE TABLE "{shop.name}"."orders": SQLSTATE 42P07' in last


def test_a_task_in_zookeeper_is_planned_by_its_id(
    shop: Shop,
    source: Database,
    stack: Addresses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    monkeypatch.setenv("TARGET_PASSWORD", stack.postgresql.password)
    with open_bus(stack.zookeeper, shop.name, tmp_path) as bus:
        bus.load(fetch_text("1084", source, stack.kafka, shop.name))
        bus.load(load_text("1085", stack, shop.name))
        bus("schema", "apply", "1085", "--yes")
        bus("schema", "plan", "1085", "--check")
        refused = bus("schema", "plan", "1084", code=1)
    assert "does not write to a database" in refused.output


def test_a_key_in_mariadb_by_mysqls_binary_collation_loses_rows_of_a_source_that_keeps_blanks(
    shop: Shop,
) -> None:
    shop.cursor.execute("DROP TABLE orders")
    key = "CREATE TABLE {} (word VARCHAR(9) COLLATE utf8mb4_{} PRIMARY KEY)"
    shop.cursor.execute(key.format("orders", "nopad_bin"))
    shop.mariadb(f"CREATE DATABASE IF NOT EXISTS {shop.name}")
    shop.mariadb(key.format(f"{shop.name}.orders", "0900_bin"))
    assert told(shop.load("mariadb")) == [
        "word is in a key, and treats texts as equal that differ at the source"
    ]


def test_oracle_is_text_only(shop: Shop) -> None:
    load = shop.load("postgresql", loader__source__url="jdbc:oracle:thin:@//none:1521/X")
    assert '"id" NUMBER(10) NOT NULL' in run("plan", load).output
    assert "not created from here" in run("apply", load, "--yes", code=1).output


@pytest.mark.parametrize("collation", ["utf8mb4_0900_bin", "utf8mb4_ja_0900_as_cs"])
def test_in_mariadb_trailing_blanks_count_in_what_stands_for_mysqls_collations(
    stack: Addresses, collation: str
) -> None:
    """In a key, two rows of the source would become one. MariaDB's utf8mb4_0900_bin ignores
    them."""
    there = stack.mariadb
    url = URL.create("mysql+pymysql", there.user, there.password, there.host, there.port)
    engine = create_engine(url)
    with engine.connect() as connection:
        target = _target(connection, "mysql", ZeroDate.REJECT)
        charset, found = target.collation_of(collation)
        compared = f"SELECT CONVERT('a ' USING {charset}) COLLATE {found} = 'a'"
        assert connection.exec_driver_sql(compared).scalar_one() == 0
    engine.dispose()


def test_mysql_gets_what_stands_for_mariadbs_own(shop: Shop, mysql_9: Database, name: str) -> None:
    shop.cursor.execute("DROP TABLE orders")
    shop.cursor.execute(
        "CREATE TABLE own (id UUID PRIMARY KEY, six INET6, four INET4, packed TEXT COMPRESSED, "
        "said TEXT DEFAULT 'x', upper VARCHAR(10) COLLATE utf8mb4_uca1400_as_cs, "
        "exact VARCHAR(10) COLLATE utf8mb4_nopad_bin, "
        "word VARCHAR(10) COLLATE utf8mb4_unicode_nopad_ci, made DATETIME DEFAULT '0000-00-00', "
        r"path VARCHAR(20) DEFAULT 'a\\b', kind ENUM('x\\y', 'it''s') DEFAULT 'x\\y', "
        "at TIMESTAMP NOT NULL, raw VARBINARY(4) DEFAULT x'00ff') COLLATE utf8mb4_general_ci"
    )
    load = shop.load(
        "mariadb",
        loader__source__url=f"jdbc:mysql://{mysql_9.host}:{mysql_9.port}/{name}",
        loader__source__userName=mysql_9.user,
        loader__source__password=mysql_9.password,
    )
    connection = MysqlConnection(
        host=mysql_9.host,
        port=mysql_9.port,
        user=mysql_9.user,
        password=mysql_9.password,
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        try:
            run("apply", load, "--yes", "--schemas")
            run("plan", load, "--check")
            cursor.execute(
                "SELECT column_name, column_type, collation_name FROM information_schema.columns "
                f"WHERE table_schema = '{name}' ORDER BY ordinal_position"
            )
            assert list(cursor.fetchall()) == [
                ("id", "char(36)", "utf8mb4_general_ci"),
                ("six", "varchar(39)", "utf8mb4_general_ci"),
                ("four", "varchar(15)", "utf8mb4_general_ci"),
                ("packed", "text", "utf8mb4_general_ci"),
                ("said", "text", "utf8mb4_general_ci"),
                ("upper", "varchar(10)", "utf8mb4_0900_as_cs"),
                ("exact", "varchar(10)", "utf8mb4_0900_bin"),
                ("word", "varchar(10)", "utf8mb4_0900_bin"),
                ("made", "datetime", None),
                ("path", "varchar(20)", "utf8mb4_general_ci"),
                ("kind", r"enum('x\\y','it''s')", "utf8mb4_general_ci"),
                ("at", "timestamp", None),
                ("raw", "varbinary(4)", None),
            ]
            cursor.execute(f"INSERT INTO {name}.own (id, at) VALUES ('1', '2020-01-01')")
            cursor.execute(f"SELECT path, kind, HEX(raw) FROM {name}.own")
            assert list(cursor.fetchall()) == [("a\\b", "x\\y", None)]
        finally:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
