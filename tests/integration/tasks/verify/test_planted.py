"""`cdcbus verify` on real servers whose tables were made equal, and then not: without the tasks, so
each plant stays where it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.producer.server.connection import identity, latest_position
from cdcbus.tasks.verify import compare, scan
from cdcbus.tasks.verify.sides import SourceSide
from cdcbus.tasks.verify.sql.checksums import Digest
from cdcbus.tasks.verify.sql.pairs import Pair
from tests.integration.tasks.verify.planted import ALL_TYPES, FULL, ONLY_AS_ROWS, PLANTS, cells
from tests.integration.tasks.verify.text_columns import exact
from tests.integration.tasks.verify.verifying import (
    arrive,
    both,
    source_of,
    store,
    verify,
    verify_still,
)
from tests.support.changes.shop import Shop
from tests.support.servers.few_rights import PASSWORD, user_with

pytestmark = [pytest.mark.integration, pytest.mark.source]
PARTITIONS = 1


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_equal_tables_are_equal_and_a_missing_row_is_not(shop: Shop, target: str) -> None:
    shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(20)")
    rows = ", ".join(f"({number}, 'n{number}')" for number in range(1000))
    shop.cursor.execute(f"INSERT INTO orders VALUES {rows}")
    both(shop, target)(f"INSERT INTO {shop.name}.orders VALUES {rows}")
    equal = verify_still(shop, target)
    assert (equal.code, equal.table["result"]) == (0, "equal"), equal.output
    assert equal.table["sourceRows"] == equal.table["targetRows"] == 1000
    both(shop, target)(f"DELETE FROM {shop.name}.orders WHERE id = 7")
    missing = verify_still(shop, target)
    assert (missing.code, missing.table["missing"]) == (1, 1), missing.output
    assert missing.table["examples"] == [{"kind": "missing", "key": {"id": "7"}}]


def test_equal_rows_are_no_proof_while_a_fetch_task_beside_cannot_be_read(shop: Shop) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    for run in (shop.cursor.execute, shop.postgresql):
        run(f"INSERT INTO {shop.name}.orders VALUES (1), (2)")
    shop.fetch(source_of(shop))
    shop.load("postgresql")
    arrive(shop)
    broken = shop.folder / "broken.properties"
    broken.write_text("consumer.consumerName=CanalFetch\nloader.loaderName=KAFKA_SYNC\n")
    words = ["verify", str(shop.folder / f"{shop.name}-postgresql.properties"), "--json"]
    words += ["--zookeeper", shop.addresses.zookeeper]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2, found.output
    [table] = json.loads(found.stdout)["tables"]
    assert (table["result"], table["sourceRows"]) == ("error", 2)
    assert str(broken) in table["error"]
    broken.unlink()
    assert CliRunner().invoke(main, words).exit_code == 0


def test_tables_whose_names_differ_in_case_are_not_taken_for_one(shop: Shop) -> None:
    """Not where the target has both; where it has one, each replaces rows of the other."""
    shop.cursor.execute("SELECT @@lower_case_table_names")
    if shop.cursor.fetchone() != (0,):
        pytest.skip("the source has no such tables")
    for table in ("Orders", "orders"):
        shop.cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, {table}_only INT)")
        shop.cursor.execute(f"INSERT INTO {table} VALUES (1, 2)")
    fetch, load = shop.fetch(source_of(shop)), shop.load("postgresql")
    words = [str(load.file), "--source", str(fetch.file)]
    made = CliRunner().invoke(main, ["schema", "apply", *words, "--yes"])
    assert made.exit_code == 0, made.output
    for table in ("Orders", "orders"):
        shop.postgresql(f'INSERT INTO {shop.name}."{table}" VALUES (1, 2)')
    equal = verify_still(shop, "postgresql")
    assert (equal.code, len(equal.tables)) == (0, 2), equal.output
    shop.postgresql(f'DROP TABLE {shop.name}."Orders"')
    merged = verify_still(shop, "postgresql")
    assert merged.code == 2, merged.output
    for report in merged.tables:
        assert "differ in case only" in report["error"]
    there = ["--zookeeper", shop.addresses.zookeeper]
    loaded = CliRunner().invoke(main, ["snapshot", "run", "--direct", *words, *there])
    assert "differ in case only" in loaded.output
    planned = CliRunner().invoke(main, ["schema", "plan", *words])
    assert f'CREATE TABLE "{shop.name}"."Orders"' in planned.output


@pytest.mark.parametrize("rule", ["null", "epoch"])
def test_zero_dates_are_compared_as_each_target_stores_them(shop: Shop, rule: str) -> None:
    # Of the last column no text is the same on both sides, so rows are compared.
    columns = "id INT PRIMARY KEY, day DATE, at {}, x DOUBLE{}"
    shop.create(
        "orders", columns.format("DATETIME", "(20,5)"), columns.format("TIMESTAMP", " PRECISION")
    )
    row = "(1, '0000-00-00', '2024-00-00 00:00:00', 1)"
    shop.cursor.execute("SET sql_mode = ''")
    shop.cursor.execute(f"INSERT INTO orders VALUES {row}")
    shop.mariadb(f"SET STATEMENT sql_mode = '' FOR INSERT INTO {shop.name}.orders VALUES {row}")
    instead = "NULL" if rule == "null" else "'1970-01-01'"
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES (1, {instead}, {instead}, 1)")
    for target in ("mariadb", "postgresql"):
        found = verify_still(shop, target, loader__zeroDate=rule)
        assert found.code == 0, found.output


def test_former_rows_of_a_versioned_table_are_compared_too(shop: Shop) -> None:
    """As the target gets them from the binlog."""
    shop.cursor.execute("SELECT VERSION()")
    if "MariaDB" not in str(shop.cursor.fetchone()):
        pytest.skip("MySQL has no system versioning")
    columns = "id INT PRIMARY KEY, n INT"
    shop.cursor.execute(f"CREATE TABLE orders ({columns}) WITH SYSTEM VERSIONING")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 1), (2, 2)")
    shop.cursor.execute("UPDATE orders SET n = 3 WHERE id = 1")
    shop.cursor.execute("SET time_zone = '+00:00'")
    times = "row_start, row_end"
    shop.cursor.execute(f"SELECT id, n, {times} FROM orders FOR SYSTEM_TIME ALL")
    shop.postgresql(
        f"CREATE TABLE {shop.name}.orders (id INT, n INT, row_start timestamptz(6), row_end "
        "timestamptz(6), PRIMARY KEY (id, row_end))"
    )
    for number, n, *moments in shop.cursor.fetchall():
        begun, ended = (f"'{each}+00'" for each in moments)
        shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES ({number}, {n}, {begun}, {ended})")
    equal = verify_still(shop, "postgresql")
    assert (equal.code, equal.table["sourceRows"]) == (0, 3), equal.output
    shop.postgresql(f"DELETE FROM {shop.name}.orders WHERE n = 1")
    found = verify_still(shop, "postgresql")
    assert (found.code, found.table["missing"]) == (1, 1), found.output


def test_a_table_of_which_the_user_may_not_read_a_column_is_an_error(shop: Shop) -> None:
    """Else it would be equal without that column. No target table is made of it, either."""
    shop.create("orders", "id INT PRIMARY KEY, name INT, password INT")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 2, 3)")
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES (1, 2, NULL)")
    everywhere = "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
    columns = f"SELECT (id, name) ON {shop.name}.orders"
    with user_with(shop.cursor, shop.name, everywhere, columns):
        shop.fetch(replace(source_of(shop), user=shop.name, password=PASSWORD))
        found = verify_still(shop, "postgresql")
        load = shop.folder / f"{shop.name}-postgresql.properties"
        fetch = shop.folder / f"{shop.name}-fetch.properties"
        planned = CliRunner().invoke(main, ["schema", "plan", str(load), "--source", str(fetch)])
    wanted = f"GRANT SELECT ON `{shop.name}`.`orders` TO that user"
    assert wanted in found.table["error"]
    assert planned.exit_code
    assert wanted in " ".join(planned.output.split())


def fill(shop: Shop, target: str, types: dict[str, tuple[str, str]]) -> None:
    """Row 0 is all NULL, the others are full."""
    place = int(target == "postgresql")
    mysql = ", ".join(f"{name} {kind}" for name, (kind, _) in types.items())
    postgresql = ", ".join(f"{name} {kind}" for name, (_, kind) in types.items())
    shop.create("wide", mysql, postgresql)
    names = [name for name in types if name != "id"]

    def rows(place: int) -> str:
        full = ", ".join(cells(FULL[name])[place] for name in names)
        return ", ".join(
            [f"(0, {', '.join(['NULL'] * len(names))})"]
            + [f"({18446744073709551615 - n if n < 3 else n}, {full})" for n in range(1, 60)]
        )

    heads = f"(id, {', '.join(names)})"
    shop.cursor.execute(f"INSERT INTO wide {heads} VALUES {rows(0)}")
    both(shop, target)(f"INSERT INTO {shop.name}.wide {heads} VALUES {rows(place)}")


def planted(types: dict[str, tuple[str, str]]) -> list[str]:
    return [name for name, (column, *_) in PLANTS.items() if column in types]


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
@pytest.mark.parametrize(
    "types", [ALL_TYPES, ALL_TYPES | ONLY_AS_ROWS], ids=["by checksums", "by rows"]
)
def test_each_planted_difference_is_found_and_nothing_else(
    shop: Shop, target: str, types: dict[str, tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    proved: list[bool] = []
    prove = Digest.is_equal

    def noted(one: Digest, other: Digest) -> bool:
        proved.append(prove(one, other))
        return proved[-1]

    monkeypatch.setattr(Digest, "is_equal", noted)
    fill(shop, target, types)
    equal = verify_still(shop, target)
    assert (equal.code, equal.table["result"]) == (0, "equal"), equal.output
    assert equal.table["sourceRows"] == 60
    assert proved == [True] or types is not ALL_TYPES
    place = int(target == "postgresql")
    wanted = {}
    for number, name in enumerate(planted(types), 10):
        column, *values = PLANTS[name]
        value = values[place] or values[0]
        both(shop, target)(f"UPDATE {shop.name}.wide SET {column} = {value} WHERE id = {number}")
        wanted[str(number)] = [column]
        found = verify_still(shop, target, "--where", f"id BETWEEN {number} AND {number}")
        assert found.code == 1, (name, found.output)
        assert found.table["sourceRows"] == 1
        [example] = found.table["examples"]
        assert (example["key"], example["columns"]) == ({"id": str(number)}, [column]), name
    found = verify_still(shop, target)
    assert found.table["different"] == len(wanted), found.output
    assert found.table["missing"] == found.table["extra"] == 0


def test_a_source_that_goes_away_meanwhile_is_told_as_such(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    read = SourceSide.digest

    def killed(side: SourceSide, pairs: Sequence[Pair], where: str, most: int) -> Digest:
        connection: Any = side._connection
        shop.cursor.execute(f"KILL {connection.thread_id()}")
        return read(side, pairs, where, most)

    monkeypatch.setattr(SourceSide, "digest", killed)
    found = verify_still(shop, "postgresql")
    assert found.code == 2, found.output
    assert "cannot be read to its end: the server has gone away" in found.table["error"]


def test_rows_that_became_one_at_the_target_are_found(shop: Shop) -> None:
    """By its collation, by its digits, by its blanks."""
    kept = f"VARCHAR(9) {exact(shop)}"
    shop.cursor.execute(f"CREATE TABLE folded (name {kept} PRIMARY KEY)")
    shop.mariadb(f"CREATE TABLE {shop.name}.folded (name VARCHAR(9) PRIMARY KEY)")
    shop.cursor.execute("CREATE TABLE rounded (at DATETIME(3) PRIMARY KEY, n INT)")
    shop.mariadb(f"CREATE TABLE {shop.name}.rounded (at DATETIME(0) PRIMARY KEY, n INT)")
    shop.cursor.execute(f"CREATE TABLE cut (name {kept} PRIMARY KEY)")
    shop.mariadb(f"CREATE TABLE {shop.name}.cut (name CHAR(9) PRIMARY KEY)")
    shop.cursor.execute("INSERT INTO folded VALUES ('a'), ('A')")
    shop.mariadb(f"INSERT INTO {shop.name}.folded VALUES ('a')")
    moments = "('2024-01-01 00:00:00.100', 1), ('2024-01-01 00:00:00.200', 1)"
    shop.cursor.execute(f"INSERT INTO rounded VALUES {moments}")
    shop.mariadb(f"INSERT INTO {shop.name}.rounded VALUES ('2024-01-01 00:00:00', 1)")
    shop.cursor.execute("INSERT INTO cut VALUES ('a'), ('a ')")
    shop.mariadb(f"INSERT INTO {shop.name}.cut VALUES ('a')")
    found = verify_still(shop, "mariadb")
    tables = {each["table"].partition(".")[2]: each for each in found.tables}
    assert tables["folded"]["missing"] == 1
    assert tables["rounded"]["merged"] == 1
    assert tables["cut"]["merged"] == 1
    assert found.code == 1


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_rows_without_a_key_are_counted(shop: Shop, target: str) -> None:
    shop.create("log", "word VARCHAR(9), n INT")
    rows = "('a', 1), ('a', 1), ('b', 2), (NULL, NULL)"
    shop.cursor.execute(f"INSERT INTO log VALUES {rows}")
    run = both(shop, target)
    run(f"INSERT INTO {shop.name}.log VALUES {rows}")
    assert verify_still(shop, target).table["result"] == "equal"
    run(f"INSERT INTO {shop.name}.log VALUES ('a', 1)")
    run(f"DELETE FROM {shop.name}.log WHERE word IS NULL")
    found = verify_still(shop, target)
    assert (found.table["extra"], found.table["missing"], found.code) == (1, 1, 1)


def test_mapped_masked_and_computed_columns_are_compared_as_they_are_written(shop: Shop) -> None:
    shop.cursor.execute("CREATE TABLE person (id INT PRIMARY KEY, mail VARCHAR(40), a INT, b INT)")
    shop.postgresql(
        f"CREATE TABLE {shop.name}.people (no int PRIMARY KEY, mail text, whole text, b int)"
    )
    shop.cursor.execute("INSERT INTO person VALUES (1, 'x@y', 3, 4)")
    keys = {
        "mapper[0]__table": "person,people",
        "mapper[0]__column__id": "no",
        "mapper[0]__mask__mail": "fixed:***",
        "mapper[0]__ignore": "a",
        "mapper[0]__expression__whole": "{a}-{b}",
    }
    shop.postgresql(f"INSERT INTO {shop.name}.people VALUES (1, '***', '3-4', 4)")
    equal = verify_still(shop, "postgresql", **keys)
    assert equal.code == 0, equal.output
    shop.postgresql(f"UPDATE {shop.name}.people SET whole = '3-5'")
    found = verify_still(shop, "postgresql", "--show-values", **keys)
    [example] = found.table["examples"]
    assert example["source"] == {"whole": "3-4"}
    assert example["target"] == {"whole": "3-5"}


def test_source_tables_that_share_a_target_are_compared_together(shop: Shop) -> None:
    for table in ("one", "two"):
        shop.cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)")
    shop.postgresql(f"CREATE TABLE {shop.name}.both_ (id int PRIMARY KEY, n int)")
    keys = {"mapper[0]__table": "one,both_", "mapper[1]__table": "two,both_"}
    shop.cursor.execute("INSERT INTO one VALUES (1, 1), (2, 2)")
    shop.cursor.execute("INSERT INTO two VALUES (30, 3), (4, 4)")
    shop.postgresql(f"INSERT INTO {shop.name}.both_ VALUES (1, 1), (2, 2), (30, 3), (4, 4)")
    equal = verify_still(shop, "postgresql", **keys)
    assert (equal.code, equal.table["sourceRows"]) == (0, 4), equal.output
    shop.postgresql(f"DELETE FROM {shop.name}.both_ WHERE id = 30")
    assert verify_still(shop, "postgresql", **keys).table["missing"] == 1


def test_rows_that_have_not_arrived_are_behind_not_different(shop: Shop) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    arrive(shop)
    shop.cursor.execute("INSERT INTO orders VALUES (1)")
    found = verify(shop, "postgresql", patience="1")
    assert (found.code, found.table["result"]) == (1, "behind"), found.output
    assert (found.table["behind"], found.table["missing"]) == (1, 0)


@pytest.mark.parametrize("options", [(), ("--repair", "--yes")], ids=["verify", "repair"])
def test_another_server_than_the_fetch_tasks_is_not_compared(
    shop: Shop, options: tuple[str, ...]
) -> None:
    """As after a failover, when the source's address leads to the former server, even if the fetch
    task has all that is there."""
    shop.create("orders", "id INT PRIMARY KEY")
    connection: Any = shop.cursor.connection
    shop.cursor.execute("INSERT INTO orders VALUES (1)")
    end = latest_position(connection)
    store(shop, replace(end, server_uuid="another"))
    found = verify(shop, "postgresql", *options, patience="1")
    assert (found.code, found.tables) == (2, [])
    assert "leads to server another" in found.output
    store(shop, replace(end, server_uuid=identity(connection)))
    assert verify(shop, "postgresql", patience="1").table["result"] == "different"


@pytest.mark.parametrize("kind", ["postgresql", "fetch"])
def test_rows_that_another_task_may_have_written_are_neither_counted_nor_deleted(
    shop: Shop, kind: str
) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES (1)")
    assert verify_still(shop, "postgresql").table["extra"] == 1
    text = (shop.folder / f"{shop.name}-{kind}.properties").read_text()
    other = text.replace(f"taskId={shop.name}-{kind}", f"taskId={shop.name}-other")
    assert other != text
    (shop.folder / "other.properties").write_text(other)
    shop.cursor.execute("INSERT INTO orders VALUES (2)")
    found = verify_still(shop, "postgresql", "--repair", "--yes")
    assert (found.table["extra"], found.table["missing"], found.table["ofOthers"]) == (0, 1, 1)
    assert found.table["otherTasks"] == [f"{shop.name}-other"]
    assert "go to it, too" in found.table["notRepaired"]


def test_a_task_that_reads_one_of_two_partitions_knows_nothing_of_the_others_rows(
    shop: Shop, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(f"{shop.name}-two", 2)
    shop.create("orders", "id INT PRIMARY KEY")
    shop.fetch(source_of(shop), loader__source__topic=topic)
    keys = {"consumer__source__topics": topic, "consumer__source__partition": "1"}
    assert verify_still(shop, "postgresql", **keys).table["result"] == "equal"
    shop.cursor.execute("INSERT INTO orders VALUES (1)")
    found = verify_still(shop, "postgresql", "--repair", "--yes", patience="0", **keys)
    assert (found.code, found.table["result"]) == (1, "behind"), found.output
    assert (found.table["isPartial"], found.table["missing"]) == (True, 0)
    keys["consumer__source__partition"] = "0,1"
    assert verify_still(shop, "postgresql", **keys).table["result"] == "different"


def test_the_patience_runs_once_while_the_tasks_are_stopped(shop: Shop) -> None:
    for name in ("one", "two", "three"):
        shop.create(name, "id INT PRIMARY KEY")
    arrive(shop)
    for name in ("one", "two", "three"):
        shop.cursor.execute(f"INSERT INTO {name} VALUES (1)")
    found = verify(shop, "postgresql", patience="4")
    assert [table["result"] for table in found.tables] == ["behind"] * 3
    waited = [table["seconds"] for table in found.tables]
    assert waited[0] > 4 > waited[1] + waited[2], waited


def test_what_cannot_be_told_exits_with_2(shop: Shop) -> None:
    shop.cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    absent = verify_still(shop, "postgresql")
    assert (absent.code, absent.table["result"]) == (2, "error")
    shop.postgresql(f"CREATE TABLE {shop.name}.orders (id int PRIMARY KEY)")
    assert verify_still(shop, "postgresql").code == 0
    for options in (["--table", "other"], ["--where", "id = sleep(1)"], ["--sample", "5"]):
        assert verify_still(shop, "postgresql", *options).code == 2
    assert verify_still(shop, "postgresql", "--table", "ORDERS").code == 0


def test_a_sample_looks_at_some_chunks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 10)
    shop.create("orders", "id BIGINT PRIMARY KEY")
    rows = ", ".join(f"({number * 10**12})" for number in range(2000))
    shop.cursor.execute(f"INSERT INTO orders VALUES {rows}")
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES {rows}")
    found = verify_still(shop, "postgresql", "--sample", "50%")
    assert (found.code, found.table["chunks"] + found.table["chunksSkipped"]) == (0, 201)
    assert 50 < found.table["chunks"] < 150
    assert 500 < found.table["sourceRows"] < 1500
    shop.postgresql(f"DELETE FROM {shop.name}.orders WHERE id IN (0, {199 * 10**12})")
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES (-1), ({10**18}), (5)")
    assert (found := verify_still(shop, "postgresql")).table["missing"] == 2, found.output
    assert found.table["extra"] == 3


def test_a_column_of_a_type_that_is_not_known_is_named(shop: Shop) -> None:
    shop.create("tags", "id INT PRIMARY KEY, words TEXT, n INT", "id int, words text[], n int")
    shop.cursor.execute("INSERT INTO tags VALUES (1, '{a}', 1)")
    shop.postgresql(f"INSERT INTO {shop.name}.tags VALUES (1, '{{b}}', 1)")
    found = verify_still(shop, "postgresql")
    assert (found.table["result"], found.table["notCompared"]) == ("equal", ["words"])


def fill_numbers(shop: Shop) -> None:
    rows = ", ".join(f"({number})" for number in range(1, 501))
    shop.cursor.execute(f"INSERT INTO orders VALUES {rows}")


def test_a_table_that_the_source_does_not_show_is_not_equal(shop: Shop) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    names = f"{shop.name}.orders,{shop.name}.gone"
    found = verify_still(shop, "postgresql", consumer__includes=names)
    results = {each["table"].lower(): each["result"] for each in found.tables}
    assert results == {f"{shop.name}.orders": "equal", f"{shop.name}.gone": "error"}
    assert found.code == 2


def test_many_rows_that_differ_end_the_reading(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MOST_SUSPECTS", 50)
    monkeypatch.setattr(scan, "CHUNK_ROWS", 20)
    shop.create("orders", "id BIGINT PRIMARY KEY")
    fill_numbers(shop)
    found = verify_still(shop, "postgresql", "--throttle", "1000")
    assert (found.code, found.table["isCut"], found.table["missing"]) == (1, True, 50)
    assert found.table["sourceRows"] == 60


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_target_with_far_more_rows_is_not_read_to_its_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """And its connection, which has more of them on the way, is used again."""
    monkeypatch.setattr(compare, "MOST_SUSPECTS", 50)
    shop.create("orders", "id BIGINT PRIMARY KEY, word VARCHAR(99)")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    rows = ", ".join(f"({number}, '{'x' * 90}')" for number in range(2, 20_000))
    both(shop, target)(f"INSERT INTO {shop.name}.orders VALUES {rows}")
    found = verify_still(shop, target)
    assert (found.code, found.table["isCut"], found.table["extra"]) == (1, True, 50)
    assert found.table["targetRows"] < 100


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_key_that_lost_its_last_blanks_at_the_target_is_the_sources(
    shop: Shop, target: str
) -> None:
    """Which does not find it without them."""
    shop.cursor.execute(f"CREATE TABLE cut (name VARCHAR(9) {exact(shop)} PRIMARY KEY, n INT)")
    run = both(shop, target)
    run(f"CREATE TABLE {shop.name}.cut (name VARCHAR(3) PRIMARY KEY, n INT)")
    shop.cursor.execute("INSERT INTO cut VALUES ('abc   ', 1), ('abd  ', 1), ('abe ', 1)")
    run(f"INSERT INTO {shop.name}.cut VALUES ('abc   ', 1), ('abd  ', 2)")
    found = verify_still(shop, target, "--prune", "--dry-run")
    counts = [found.table[each] for each in ("different", "missing", "extra")]
    assert (counts, found.table.get("planned")) == ([1, 1, 0], None), found.output


def test_the_source_is_read_no_faster_than_wanted(shop: Shop) -> None:
    shop.create("orders", "id BIGINT PRIMARY KEY")
    fill_numbers(shop)
    shop.postgresql(f"INSERT INTO {shop.name}.orders SELECT generate_series(1, 500)")
    found = verify_still(shop, "postgresql", "--throttle", "500")
    assert (found.code, found.table["seconds"] >= 1) == (0, True)


def test_tasks_of_zookeeper_are_found_by_their_ids(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = source_of(shop), shop.addresses.postgresql
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    monkeypatch.setenv("TARGET_PASSWORD", target.password)
    shop.create("orders", "id INT PRIMARY KEY")
    shop.cursor.execute("INSERT INTO orders VALUES (1)")
    load = shop.load("postgresql", loader__source__password="${env:TARGET_PASSWORD}")
    fetch = shop.fetch(source, consumer__source__password="${env:SOURCE_PASSWORD}")
    zookeeper = ["--zookeeper", shop.addresses.zookeeper]
    for each in (fetch, load):
        made = CliRunner().invoke(main, ["task", "import", str(each.file), *zookeeper])
        assert made.exit_code == 0, made.output
    arrive(shop)
    found = CliRunner().invoke(main, ["verify", load.task_id, "--patience", "0", *zookeeper])
    for each in (fetch, load):
        gone = CliRunner().invoke(main, ["task", "rm", each.task_id, "--yes", *zookeeper])
        assert gone.exit_code == 0, gone.output
    assert found.exit_code == 1, found.output
    assert f"{shop.name}.orders: different, 1 row at the source" in found.stdout
    assert "missing id='1'" in found.stdout


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_what_the_target_generates_is_compared_and_what_it_lacks_is_named(
    shop: Shop, target: str
) -> None:
    run = both(shop, target)
    shop.cursor.execute(
        "CREATE TABLE made (id INT PRIMARY KEY, n INT, twice INT AS (n * 2), note VARCHAR(9))"
    )
    run(
        f"CREATE TABLE {shop.name}.made (id INT PRIMARY KEY, n INT, "
        "twice INT GENERATED ALWAYS AS (n * 2) STORED)"
    )
    shop.cursor.execute("INSERT INTO made (id, n, note) VALUES (1, 2, 'a'), (2, 3, 'b')")
    run(f"INSERT INTO {shop.name}.made (id, n) VALUES (1, 2), (2, 3)")
    keys = {"loader__schemaChange": "ignore"}
    equal = verify_still(shop, target, **keys)
    assert (equal.code, equal.table["result"]) == (0, "equal"), equal.output
    assert equal.table["notCompared"] == ["note"]
    run(f"ALTER TABLE {shop.name}.made DROP COLUMN twice")
    run(f"ALTER TABLE {shop.name}.made ADD twice INT GENERATED ALWAYS AS (n + 2) STORED")
    found = verify_still(shop, target, **keys)
    assert (found.code, found.table["different"]) == (1, 1), found.output
    assert found.table["examples"][0]["columns"] == ["twice"]
