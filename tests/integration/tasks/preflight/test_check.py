"""`cdcbus task check` on real servers: what is sound is all ok, each fault is told, and nothing
is changed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymysql.constants import COMMAND
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses, Database, free_port
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.positions import BinlogPosition, KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.producer.source.heartbeat import create_table
from tests.integration.producer.reading import connect, global_variable
from tests.support.changes.shop import Shop, open_shop
from tests.support.servers.few_rights import PASSWORD, user_with
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name, 2)
    with (
        open_shop(name, stack, source_cursor, tmp_path) as shop,
        global_variable(stack.source, "binlog_row_metadata", "FULL"),
    ):
        shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
        yield shop


def check(shop: Shop, task: TaskProcess, zookeeper: str = "") -> dict[str, tuple[str, str]]:
    """Each subject -> (outcome, sentence) of its worst result; positions must be as before."""
    before = shop.position(task)
    file = shop.folder / f"{task.task_id}.properties"
    result = CliRunner().invoke(
        main,
        [
            "task",
            "check",
            "--json",
            "--zookeeper",
            zookeeper or shop.addresses.zookeeper,
            str(file),
        ],
    )
    assert shop.position(task) == before
    (checked,) = json.loads(result.stdout)
    seen = {
        each["subject"]: (each["outcome"], f"{each['found']} {each['cure']}")
        for each in reversed(checked["connections"])
    }
    seen |= {
        each["subject"]: (each["outcome"], f"{each['found']} {each['cure']}")
        for each in checked["connections"]
        if each["cure"]
    }
    assert (
        checked["ok"]
        == (result.exit_code == 0)
        == ("error" not in {outcome for outcome, _ in seen.values()})
    )
    return seen


def odd(seen: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {subject: outcome for subject, (outcome, _) in seen.items() if outcome != "ok"}


# Fetch tasks


def fetch(shop: Shop, **keys: str) -> TaskProcess:
    return shop.fetch(shop.addresses.source, **keys)


def test_a_sound_fetch_task_is_all_ok(shop: Shop) -> None:
    seen = check(
        shop, fetch(shop, **{f"loader__source__partitionKey__{shop.name.upper()}__ORDERS": "ID"})
    )
    assert odd(seen) == {}
    assert seen["source tables"][1].startswith(f"1 read: {shop.name}.orders")
    assert seen[f"partitionKey {shop.name.upper()}.ORDERS"][1].startswith("columns id")
    assert seen[f"Kafka topic {shop.name}"][1].startswith("2 partitions, replication factor 1")
    assert "by consumer.offset, as nothing is stored" in seen["start"][1]


def test_a_stored_position_and_what_is_behind_it(shop: Shop) -> None:
    shop.cursor.execute("SHOW MASTER STATUS")
    ((file, pos, *_),) = shop.cursor.fetchall()
    task = fetch(shop)
    shop.zookeeper.create(
        shop.path(task), BinlogPosition(file, pos).to_json().encode(), makepath=True
    )
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'a')")
    sentence = check(shop, task)["start"][1]
    assert f"at {file}:{pos} by the stored position {shop.path(task)}" in sentence
    assert "; 0 bytes behind" not in sentence


def test_a_purged_file(shop: Shop) -> None:
    task = fetch(shop)
    shop.zookeeper.create(
        shop.path(task), BinlogPosition("mysql-bin.000000", 4).to_json().encode(), makepath=True
    )
    seen = check(shop, task)
    assert odd(seen) == {"start": "error"}
    assert "does not hold mysql-bin.000000:4" in seen["start"][1]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({"loader__source__topic": "no-such-topic"}, {"Kafka topic no-such-topic": "error"}),
        ({"consumer__source__password": "wrong"}, {"source": "error"}),
        ({"consumer__source__address": "no-such-host.invalid:3306"}, {"source": "error"}),
        ({"consumer__source__slaveId": "1"}, {"server id 1": "warning"}),
        ({"consumer__source__filter": "nothing"}, {"source tables": "warning"}),
        ({"mapper[0]__ignore": "naamee"}, {"mapper": "warning"}),
        ({"consumer__offset": ""}, {"start": "error"}),
        ({"loader__source__partitionKey__NO__SUCH": "ID"}, {"partitionKey NO.SUCH": "warning"}),
        (
            {"consumer__source__password": "wrong", "loader__source__topic": "no"},
            {"source": "error", "Kafka topic no": "error"},
        ),
    ],
)
def test_a_fault_of_a_fetch_task(shop: Shop, keys: dict[str, str], wanted: dict[str, str]) -> None:
    assert odd(check(shop, fetch(shop, **keys))) == wanted


def test_a_partition_key_with_columns_outside_of_the_primary_key(shop: Shop) -> None:
    key = f"partitionKey {shop.name.upper()}.ORDERS"
    seen = check(
        shop, fetch(shop, **{f"loader__source__partitionKey__{shop.name.upper()}__ORDERS": "NAME"})
    )
    assert odd(seen) == {key: "warning"}
    assert (
        "changes of one row may be in two partitions, as these are not in the primary key: name"
        in seen[key][1]
    )


def test_a_partition_key_column_that_the_table_lacks(shop: Shop) -> None:
    key = f"partitionKey {shop.name.upper()}.ORDERS"
    seen = check(
        shop, fetch(shop, **{f"loader__source__partitionKey__{shop.name.upper()}__ORDERS": "UUID"})
    )
    assert odd(seen) == {key: "error"}
    assert "no column UUID" in seen[key][1]


def test_a_table_without_key(shop: Shop) -> None:
    shop.cursor.execute("CREATE TABLE bare (n INT)")
    shop.cursor.execute("CREATE TABLE by_hash (t TEXT NOT NULL, UNIQUE (t))")
    shop.cursor.execute("CREATE TABLE in_memory (n INT NOT NULL UNIQUE) ENGINE=MEMORY")
    shop.cursor.execute("CREATE TABLE unique_only (n INT NOT NULL UNIQUE)")
    outcome, sentence = check(shop, fetch(shop))["source tables"]
    assert outcome == "warning"
    assert f"without primary key: {shop.name}.bare, {shop.name}.by_hash;" in sentence


def test_a_table_that_the_server_changes_without_logging_it(shop: Shop) -> None:
    shop.cursor.execute(
        "CREATE TABLE items (id INT PRIMARY KEY, orders INT, FOREIGN KEY (orders) REFERENCES "
        "orders (id) ON DELETE CASCADE)"
    )
    seen = check(shop, fetch(shop))
    assert odd(seen) == {"foreign keys": "warning"}
    assert f"changes or deletes: {shop.name}.items; they stay" in seen["foreign keys"][1]


def test_rows_without_metadata(shop: Shop) -> None:
    with global_variable(shop.addresses.source, "binlog_row_metadata", "MINIMAL"):
        assert odd(check(shop, fetch(shop))) == {"binlog_row_metadata": "warning"}


def test_settings_of_an_address_that_is_read_after_a_failover(shop: Shop) -> None:
    """The target's server writes no binlog; the source by another name does."""
    source, other = shop.addresses.source, shop.addresses.mariadb
    both = f"{source.host}:{source.port},localhost:{source.port}"
    seen = check(shop, fetch(shop, consumer__source__address=both))
    assert odd(seen) == {}
    assert f"settings at localhost:{source.port}" in seen

    both = f"{source.host}:{source.port},{other.host}:{other.port}"
    seen = check(shop, fetch(shop, consumer__source__address=both))
    place = f"{other.host}:{other.port}"
    assert odd(seen) == {
        f"log_bin at {place}": "error",
        f"binlog_format at {place}": "error",
        f"binlog_row_metadata at {place}": "warning",
    }


@contextmanager
def user(shop: Shop, *grants: str) -> Iterator[dict[str, str]]:
    """The keys of a user of the source with these grants."""
    with user_with(shop.cursor, shop.name, *grants):
        yield {"consumer__source__username": shop.name, "consumer__source__password": PASSWORD}


def test_missing_grants(shop: Shop) -> None:
    with user(shop, f"SELECT ON {shop.name}.*") as keys:
        wanted = {
            "grant REPLICATION SLAVE": "error",
            "grant REPLICATION CLIENT": "error",
            "start": "error",
        }
        assert odd(check(shop, fetch(shop, **keys))) == wanted


def test_the_grants_that_the_documents_name_are_enough(shop: Shop) -> None:
    with user(
        shop, "REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON {shop.name}.*"
    ) as keys:
        assert odd(check(shop, fetch(shop, **keys))) == {}


def test_partial_row_images_are_a_warning_where_the_task_takes_them(shop: Shop) -> None:
    with global_variable(shop.addresses.source, "binlog_row_image", "MINIMAL"):
        assert odd(check(shop, fetch(shop))) == {"binlog_row_image": "error", "start": "error"}
        assert odd(check(shop, fetch(shop, consumer__source__rowImage="any"))) == {
            "binlog_row_image": "warning"
        }


def test_heartbeats_that_the_source_would_take_or_not(shop: Shop) -> None:
    table = f"{shop.name}.cdcbus_heartbeat"
    keys, subject = {"consumer__source__heartbeatTable": table}, f"heartbeats in {table}"
    seen = check(shop, fetch(shop, **keys))
    assert odd(seen) == {}
    assert seen[subject][1].startswith("the table does not exist yet; a start creates it")
    shop.cursor.execute(create_table(TableId(shop.name, "cdcbus_heartbeat")))
    with user(
        shop, "REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON {shop.name}.*"
    ) as login:
        seen = check(shop, fetch(shop, **keys, **login))
        assert odd(seen) == {subject: "warning"}
        assert f"The user needs SELECT, INSERT, UPDATE on {table}" in seen[subject][1]


@contextmanager
def replica(source: Database, number: int) -> Iterator[None]:
    """A registered replica of the source."""
    with connect(source) as connection:
        raw: Any = connection
        raw._execute_command(
            COMMAND.COM_REGISTER_SLAVE, struct.pack("<IBBBHII", number, 0, 0, 0, 3306, 0, 0)
        )
        raw._read_packet()
        yield


def test_another_replica_with_the_same_server_id(shop: Shop) -> None:
    with replica(shop.addresses.source, 77_123):
        assert odd(check(shop, fetch(shop, consumer__source__slaveId="77123"))) == {
            "server id 77123": "error"
        }
        assert odd(check(shop, fetch(shop, consumer__source__slaveId="77124"))) == {}


# Consumer tasks


def includes(shop: Shop) -> dict[str, str]:
    return {"consumer__includes": f"{shop.name.upper()}.ORDERS"}


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_sound_consumer_task_is_all_ok(shop: Shop, target: str) -> None:
    seen = check(shop, shop.load(target, **includes(shop)))
    assert odd(seen) == {}
    assert seen[f"start {shop.name}[1]"][1].startswith(
        "at offset 0 by the start rule, as nothing is stored, 0 records behind"
    )
    assert "key id" in seen[f"target table {shop.name}.orders"][1]


def test_a_check_makes_no_offset_table(shop: Shop) -> None:
    seen = check(shop, shop.load("mariadb", **includes(shop)))
    assert seen["target table cdcbus_position"] == ("ok", "does not exist yet; a start creates it ")
    assert shop.mariadb(f"SHOW TABLES FROM {shop.name} LIKE 'cdcbus%'") == []


def test_a_user_who_can_make_no_offset_table(shop: Shop) -> None:
    shop.mariadb(f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'of-user'")
    try:
        shop.mariadb(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {shop.name}.* TO '{shop.name}'@'%'")
        keys = {
            "loader__source__userName": shop.name,
            "loader__source__password": "of-user",
            **includes(shop),
        }
        assert odd(check(shop, shop.load("mariadb", **keys))) == {
            "target table cdcbus_position": "warning"
        }
    finally:
        shop.mariadb(f"DROP USER '{shop.name}'@'%'")


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({"consumer__source__topics": "no-such-topic"}, {"Kafka topic no-such-topic": "error"}),
        ({"consumer__source__partition": "7"}, {"Kafka topic NAME": "error"}),
        ({"loader__source__password": "wrong"}, {"target": "error"}),
        ({"consumer__includes": "SHOP.NONE"}, {"target table SHOP.NONE": "error"}),
        ({"consumer__source__firstConsumeFrom": ""}, {"start": "error"}),
        ({"consumer__offset": "5000"}, {"start": "error"}),
    ],
)
def test_a_fault_of_a_consumer_task(
    shop: Shop, keys: dict[str, str], wanted: dict[str, str]
) -> None:
    named = {subject.replace("NAME", shop.name): outcome for subject, outcome in wanted.items()}
    assert odd(check(shop, shop.load("postgresql", **keys))) == named


def test_a_target_table_without_key_and_one_with_a_second(shop: Shop) -> None:
    shop.postgresql(f"CREATE TABLE {shop.name}.bare (n int)")
    shop.postgresql(f"CREATE TABLE {shop.name}.twice (id int PRIMARY KEY, mail text UNIQUE)")
    names = f"{shop.name}.bare,{shop.name}.twice".upper()
    seen = check(shop, shop.load("postgresql", consumer__includes=names))
    assert odd(seen) == {f"target table {shop.name}.bare": "warning"}
    assert (
        "further unique keys: (mail); rows that exchange"
        in seen[f"target table {shop.name}.twice"][1]
    )


@pytest.fixture
def send(shop: Shop) -> Iterator[Callable[[bytes], None]]:
    """Sends a record to partition 1."""
    producer = kafka_producer(shop.addresses.kafka)

    def send(value: bytes) -> None:
        producer.produce(shop.name, value, partition=1)
        assert producer.flush(30) == 0

    yield send
    producer.flush(0)


def row(table: TableId, **cells: str) -> bytes:
    columns = tuple(Column(name, "int unsigned") for name in cells)
    return CanalRow().to_bytes(RowChange(Table(table, columns, ("id",)), Op.INSERT, None, cells))


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_column_that_comes_and_the_target_lacks(
    shop: Shop, send: Callable[[bytes], None], target: str
) -> None:
    send(row(TableId(shop.name, "orders"), id="1", name="a", paid="1"))
    task, subject = shop.load(target), f"target table {shop.name}.orders"
    seen = check(shop, task)  # its file names no tables: those of the records are looked at
    assert odd(seen) == {subject: "error"}
    assert (
        f"has no column paid for column paid of {shop.name}.orders, which record {shop.name}[1]@0 "
        "has" in seen[subject][1]
    )
    alter = seen[subject][1][seen[subject][1].index("ALTER") :].partition(";")[0]
    (shop.postgresql if target == "postgresql" else shop.mariadb)(alter)
    assert odd(check(shop, task)) == {}


def test_a_column_that_a_rule_withholds_and_no_row_has(
    shop: Shop, send: Callable[[bytes], None]
) -> None:
    send(row(TableId(shop.name, "orders"), id="1", name="a"))
    task = shop.load("postgresql", **{"mapper[0]__mask__naamee": "hash"})
    seen = check(shop, task)
    subject = "mapper, by the newest records"
    assert odd(seen) == {subject: "warning"}
    assert f"there is no column naamee in {shop.name}.orders" in seen[subject][1]


def test_a_column_that_came_before_the_start_only(
    shop: Shop, send: Callable[[bytes], None]
) -> None:
    send(row(TableId(shop.name, "orders"), id="1", name="a", paid="1"))
    task, subject = (
        shop.load("postgresql", consumer__source__firstConsumeFrom="latest"),
        f"target table {shop.name}.orders",
    )
    assert odd(check(shop, task)) == {subject: "warning"}
    assert (
        odd(check(shop, shop.load("postgresql", consumer__excludes=f"{shop.name.upper()}.ORDERS")))
        == {}
    )


def test_rows_of_a_table_that_the_target_lacks(shop: Shop, send: Callable[[bytes], None]) -> None:
    send(row(TableId(shop.name, "none"), id="1"))
    assert odd(check(shop, shop.load("postgresql"))) == {f"target table {shop.name}.none": "error"}


def test_records_of_another_form(shop: Shop, send: Callable[[bytes], None]) -> None:
    send(row(TableId(shop.name, "orders"), id="1", name="a"))
    send(b"{}")
    seen = check(shop, shop.load("postgresql"))
    assert odd(seen) == {f"records of {shop.name}": "error"}
    assert f"record {shop.name}[1]@1: " in seen[f"records of {shop.name}"][1]


def test_transaction_marks_end_no_look_at_the_records(shop: Shop) -> None:
    producer = kafka_producer(shop.addresses.kafka, {"transactional.id": shop.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(shop.name, row(TableId(shop.name, "orders"), id="1", name="a"), partition=0)
    producer.commit_transaction(30)
    seen = check(shop, shop.load("postgresql"))
    assert seen[f"records of {shop.name}"] == ("ok", "the newest 1 can be read ")


def test_an_offset_that_would_be_reset_is_a_warning(shop: Shop) -> None:
    task = shop.load("postgresql", consumer__source__allowOffsetReset="true", **includes(shop))
    stored = kafka_positions_to_json(
        [KafkaPosition(shop.name, 0, 99), KafkaPosition(shop.name, 1, -1)]
    )
    shop.zookeeper.create(shop.path(task), stored.encode(), makepath=True)
    outcome, sentence = check(shop, task)["start"]
    assert outcome == "warning"
    assert f"offset 100 of {shop.name}[0] is not held" in sentence


def test_one_number_for_several_partitions_is_a_warning(shop: Shop) -> None:
    task = shop.load("postgresql", consumer__offset="-1", **includes(shop))
    outcome, sentence = check(shop, task)["start"]
    assert outcome == "warning"
    assert "consumer.offset is one number; it is used for every partition" in sentence


def test_without_zookeeper_the_rest_is_looked_at(shop: Shop) -> None:
    zookeeper = f"127.0.0.1:{free_port(())}"
    assert odd(check(shop, shop.load("postgresql", **includes(shop)), zookeeper)) == {
        f"ZooKeeper {zookeeper}": "warning"
    }


def test_a_chroot_that_is_not_there_is_not_made(shop: Shop) -> None:
    check(shop, fetch(shop), f"{shop.addresses.zookeeper}/{shop.name}")
    assert not shop.zookeeper.exists(f"/{shop.name}")
