"""The pages with few commands: alarms, the binlog, clusters, HTTP, security."""

from __future__ import annotations

import json

import pytest

from cdcbus.producer.server.privileges import read_grants
from tests.integration.docs.conftest import PageReader
from tests.integration.docs.reading import commands
from tests.support.changes.shop import Shop
from tests.support.processes.bus import resting_text
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1


def test_alarms(read: PageReader, shop: Shop) -> None:
    with read("docs/alarms.md", **{r"\b1084\b": f"{shop.name}-1"}) as page:
        page.write("cdcbus.properties", "alarm.exec.command=tee sent.json\n")
        task = page.write(
            "1084.properties", resting_text(f"{shop.name}-1", shop.addresses.kafka, shop.name)
        )
        page.type(f"cdcbus task import {task}")
        page.run("cdcbus alarm silence 1084 --for 2h")
        page.run("cdcbus alarm test")
        assert json.loads((page.folder / "sent.json").read_text())["kind"]
        page.run("cdcbus alarm list")
        assert "NEW" in page.run("cdcbus task status ID", ID=f"{shop.name}-1")


def test_binlog(read: PageReader, shop: Shop) -> None:
    """The table of heartbeats, and the right to write it, for a user without CREATE."""
    user = f"{shop.name}u"
    shop.cursor.execute(f"CREATE USER {user}")
    try:
        with read("docs/binlog.md", **{r"TO cdc": f"TO {user}"}) as page:
            for line in commands("docs/binlog.md"):
                if line.startswith(("CREATE", "GRANT")):
                    shop.cursor.execute(page.own(page.line(line)))
        shop.cursor.execute(f"SHOW GRANTS FOR {user}")
        assert "cdcbus_heartbeat" in str(shop.cursor.fetchall())
    finally:
        shop.cursor.execute(f"DROP USER {user}")


def test_clusters(read: PageReader) -> None:
    """Starts three JVMs and stops them: some ten seconds."""
    with read("docs/clusters.md") as page:
        page.run("cdcbus stack up --spark 2")
        try:
            status = page.run("cdcbus stack status")
            assert "spark-worker-2" in status and "spark.master=spark://" in status
        finally:
            page.run("cdcbus stack up --spark 0")
        assert "spark" not in page.type("cdcbus stack status")


def test_http(read: PageReader, shop: Shop) -> None:
    task_id = "242"
    with read("docs/http.md") as page:
        token = page.run("openssl rand -hex 24").strip()
        page.environ |= {"TOKEN": token, "CDCBUS_HTTP_TOKEN": token}
        task = page.write("242.properties", resting_text(task_id, shop.addresses.kafka, shop.name))
        producer = kafka_producer(shop.addresses.kafka)
        for _ in range(600):
            producer.produce(shop.name, b"{}")
        producer.flush()
        page.type(f"cdcbus task import {task}")
        page.type("cdcbus offset reset 242 --to latest --yes")
        with page.going("cdcbus node run"):
            address = page.own("http://127.0.0.1:8190/api/tasks")
            wait_until(lambda: page.type(f"curl -s {address} || true") != "", "the node's pages")
            tasks = page.run("curl http://127.0.0.1:8190/api/tasks")
            assert '"242"' in tasks
            started = page.run('curl -X POST -H "Authorization: Bearer $TOKEN" -H "X-Operator')
            assert '"error"' not in started
            page.type("cdcbus task stop 242")
            reset = page.run('curl -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type')
            assert '"error"' not in reset
        assert "ada" in page.run("cdcbus audit")


def test_security(read: PageReader, shop: Shop) -> None:
    user = f"{shop.name}u"
    with read("docs/security.md", **{r"\bcdc\b": user}) as page:
        page.type("cdcbus node rm nobody", 1)  # so that there is something in the tree
        page.write("cdcbus.properties", "zookeeper.auth=ada:a-secret\n")
        page.run("cdcbus config protect", typed="y\n")

        mysql = page.own(page.line("CREATE USER cdc"))
        try:
            shop.cursor.execute(mysql)
            shop.cursor.execute(page.own(page.line("GRANT REPLICATION SLAVE")))
            shop.cursor.execute(page.own(page.line("GRANT SELECT ON")))
            shop.cursor.execute(f"SHOW GRANTS FOR {user}")
            grants = read_grants(row[0] for row in shop.cursor.fetchall())
            assert grants.lacking == [] and grants.readable == [f"{shop.name}.*"]
        finally:
            shop.cursor.execute(f"DROP USER IF EXISTS {user}")
        try:
            shop.mariadb(mysql)
            shop.mariadb(page.own(page.line("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE")))
        finally:
            shop.mariadb(f"DROP USER IF EXISTS {user}")
        shop.postgresql(page.own(page.line("CREATE ROLE cdc")))
        try:
            shop.postgresql(page.own(page.line("GRANT USAGE, CREATE ON SCHEMA")))
            shop.postgresql(page.own(page.line("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE")))
        finally:
            shop.postgresql(f"DROP OWNED BY {user}")
            shop.postgresql(f"DROP ROLE {user}")
