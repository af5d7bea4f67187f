"""README.md, typed from top to bottom by somebody with servers, tables and passwords; what it says
of a stack of one's own is typed in one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from psycopg import sql
from rich.console import Console

from cdcbus.ops.stack import addresses
from cdcbus.ops.stack import stack as servers
from cdcbus.ops.stack.addresses import Addresses
from tests.integration.docs.conftest import PageReader
from tests.integration.docs.reading import Reader, until_said
from tests.integration.producer.reading import position
from tests.support.changes.shop import Shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1


@pytest.fixture
def target(name: str, stack: Addresses) -> Iterator[psycopg.Connection]:
    """An empty database of the test's name in PostgreSQL."""
    server = stack.postgresql
    login = f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}"
    with psycopg.connect(f"{login}/{server.database}", autocommit=True) as own_database:
        own_database.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            with psycopg.connect(f"{login}/{name}", autocommit=True) as connection:
                yield connection
        finally:
            own_database.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


@pytest.fixture
def home() -> Iterator[Path]:
    """The folder of a stack, which the databases' user may enter; gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="cdcbus-docs-"))
    home.chmod(0o755)
    try:
        yield home
    finally:
        servers.down(home, purge=True, console=Console(quiet=True))
        shutil.rmtree(home, ignore_errors=True)


def test_readme(read: PageReader, shop: Shop, target: psycopg.Connection, home: Path) -> None:
    """More than 20 s, as it starts some thirty processes of Python one after the other, as a reader would."""
    at, name = shop.addresses, shop.name
    shop.cursor.execute("CREATE TABLE visitors (id INT PRIMARY KEY, name VARCHAR(20), `at` DATE)")
    shop.cursor.execute("INSERT INTO visitors VALUES (1, 'Ada', '1843-07-10'), (2, NULL, NULL)")
    source, pg = at.source, at.postgresql
    own = {
        r"cdc@127\.0\.0\.1:3306/shop": f"{source.user}@{source.host}:{source.port}/{name}",
        r"cdc@127\.0\.0\.1:5432/copy": f"{pg.user}@{pg.host}:{pg.port}/{name}",
        r"\b1084\b": f"{name}-to-kafka",
    }

    def copied(table: str = "visitors") -> list[tuple[object, ...]]:
        statement = sql.SQL("SELECT id, name, at::text FROM {} ORDER BY id")
        return target.execute(statement.format(sql.Identifier(table))).fetchall()

    with read("README.md", **own) as page:
        said = page.run("cdcbus init --yes")
        assert copied() == [(1, "Ada", "1843-07-10"), (2, None, None)], said
        assert "public.visitors: equal, 2 rows" in said and source.password not in said
        assert not list(page.folder.glob("*.passwords")), "the environment has them"
        page.run("cdcbus task import shop-to-kafka.properties")
        with page.begin("cdcbus node run"):
            page.run("cdcbus task start shop-to-kafka shop-to-postgresql")
            shop.cursor.execute("UPDATE visitors SET name = 'Charles' WHERE id = 2")
            wait_until(lambda: copied()[1][1] == "Charles", "the change at the target")
            verified = page.run("cdcbus verify shop-to-postgresql.properties")
            assert "public.visitors: equal, 2 rows" in verified
            page.type(f"cdcbus task stop {name}-to-kafka {name}-to-postgresql")

        page.run("cdcbus task check shop-to-kafka.properties")
        page.run("cdcbus task check 1084")
        with page.begin("cdcbus task run shop-to-kafka.properties") as fetching:
            until_said(fetching, "reads the binlog")
            shop.cursor.execute("CREATE TABLE guests LIKE visitors")
            page.run("cdcbus schema apply shop-to-postgresql.properties --schemas", typed="y\n")
            with page.begin("cdcbus task run shop-to-postgresql.properties"):
                shop.cursor.execute("INSERT INTO guests VALUES (1, 'Eve', NULL)")
                wait_until(lambda: copied("guests") == [(1, "Eve", None)], "the new table's row")
            assert '"logfileName"' in page.run("cdcbus offset show shop-to-kafka")
            assert '"logfileName"' in page.run("zkCli.sh -server 127.0.0.1:2181 get")
            before = position(shop.cursor)
            shop.cursor.execute("FLUSH BINARY LOGS")
            file = position(shop.cursor).file
            line = page.own(page.line("zkCli.sh -server 127.0.0.1:2181 set"))
            page.type(line.replace("mysql-bin.000003", file))
            until_said(fetching, f"{file}:4")
            assert before.file != file
            shop.cursor.execute("INSERT INTO guests VALUES (2, 'Zoe', NULL)")
            with page.begin("kafka-console-consumer.sh") as records:
                until_said(records, '"Zoe"')
            with page.begin("cdcbus topic tail shop") as rows:
                until_said(rows, "Zoe")
        assert name in page.type(f"cdcbus topic lag {name}-to-postgresql")
        assert "tail" in page.run("cdcbus topic --help")
        stack_of_ones_own(page, home)
    with read("CONTRIBUTING.md") as guide:
        guide.run("cdcbus stack up --home FOLDER", FOLDER=str(home))


def stack_of_ones_own(page: Reader, home: Path) -> None:
    """Types the commands for servers of one's own, and leaves none."""
    page.environ["CDCBUS_STACK_HOME"] = str(home)
    assert "Commands to paste" in page.run("cdcbus stack up")
    plan = addresses.load(home)
    assert plan is not None
    page.environ["CDCBUS_ZOOKEEPER"] = plan.addresses().zookeeper
    page.type(f"cdcbus task import {page.own('shop-to-kafka.properties')}")
    assert page.own("[shop-to-kafka]") in page.run("cdcbus stack zkcli ls")
    kafka, topic = plan.addresses().kafka, page.own("shop")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    producer = kafka_producer(kafka)
    producer.produce(topic, b"a record")
    producer.flush()
    with page.begin("cdcbus stack kafka-console-consumer") as records:
        until_said(records, "a record")
    page.run("cdcbus stack down --purge")
    assert not home.exists()
