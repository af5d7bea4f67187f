"""docs/operating.md: from nothing to a running task, runs that end, and porter's runbook."""

from __future__ import annotations

import pytest

from cdcbus import __version__
from tests.integration.docs.conftest import PageReader
from tests.integration.docs.reading import Reader, until_said
from tests.support.changes.shop import Shop
from tests.support.processes.bus import fetch_text, load_text
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def runbook(page: Reader, fetch: str) -> None:
    """Types the commands of porter's runbook, with the tasks that the node has."""
    own = page.own
    node = page.environ["CDCBUS_NODE_ID"]
    page.type(f"cdcbus task import {fetch} --force")
    page.run("cdcbus task import FILE", 1, FILE=fetch)  # it is there
    page.run("cdcbus task import FILE --force", FILE=fetch)
    page.run("cdcbus task restart ID", ID=own("1084"))
    page.run("cdcbus task stop ID", ID=own("1084"))
    page.run("cdcbus task start ID", ID=own("1084"))
    assert "WORKING" in page.run("cdcbus task status ID", ID=own("1084"))
    assert " reads " in page.run("cdcbus task logs ID", ID=own("1084"))

    page.type(f"cdcbus task stop {own('1084')}")
    page.run("cdcbus offset reset ID --to PLACE", typed="y\n", ID=own("1084"), PLACE="earliest")
    before = page.run("cdcbus offset show ID", ID=own("1084"))
    page.run(
        "cdcbus offset reset ID --to PLACE --topic TOPIC --partition N",
        typed="y\n",
        ID=own("1084"),
        PLACE="latest",
        TOPIC=own("shop"),
        N="1",
    )
    place = f'\'{{"offset":1,"partition":0,"topic":"{own("shop")}"}}\''
    page.run("cdcbus offset set ID JSON", typed="y\n", ID=own("1084"), JSON=place)
    assert page.type(f"cdcbus offset show {own('1084')}") != before
    assert "earliest" in page.run("cdcbus offset history ID", ID=own("1084"))
    page.run("cdcbus offset undo ID", typed="y\n", ID=own("1084"))
    page.run("cdcbus task clone 242 15242 --to-node 205", typed="y\n")
    page.run("cdcbus offset copy 242 15242", typed="y\n")
    page.run("cdcbus alarm silence ID --for 2h", ID=own("1084"))
    assert __version__ in page.run("cdcbus node list")
    page.run("cdcbus node drain NODE", NODE=node)
    page.run("cdcbus node resume NODE", NODE=node)
    page.run("cdcbus node limit NODE SWIMLANES", NODE=node, SWIMLANES="20")


def test_operating(read: PageReader, shop: Shop) -> None:
    """Some forty processes of Python, one after the other, as an operator starts them."""
    at, name = shop.addresses, shop.name
    shop.cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    # of this test alone, as the target knows tasks by their ids
    ids = {each: f"{name}-{each}" for each in ("1084", "15242", "242")}

    def copied(count: int) -> None:
        statement = f"SELECT * FROM {name}.orders"
        wait_until(lambda: len(shop.postgresql(statement)) == count, f"{count} rows at the target")

    with read("docs/operating.md", **{rf"\b{each}\b": ours for each, ours in ids.items()}) as page:
        to_kafka, to_postgresql = f"{name}-to-kafka", f"{name}-to-postgresql"
        fetch = page.write(
            "shop-to-kafka.properties", fetch_text(to_kafka, at.source, at.kafka, name)
        )
        page.write("shop-to-postgresql.properties", load_text(to_postgresql, at, name))
        # two more that load the topic: for the runbook, which has other ids
        page.write("1084.properties", load_text(ids["1084"], at, name))
        page.write("242.properties", load_text(ids["242"], at, name))
        page.write("tasks/new.properties", load_text(f"{name}-new", at, name))

        page.run("cdcbus prepare")
        page.run("cdcbus task import shop-to-kafka.properties")
        page.run("cdcbus schema apply shop-to-postgresql --schemas", typed="y\n")
        page.run("cdcbus task check shop-to-kafka shop-to-postgresql")
        with page.begin("cdcbus node run"):
            page.run("cdcbus task start shop-to-kafka shop-to-postgresql")
            assert to_postgresql in page.run("cdcbus task list")
            page.type(f"cdcbus task stop {to_kafka} {to_postgresql}")
            page.type(page.own("cdcbus task import 1084.properties 242.properties"))
            page.type(page.own("cdcbus task start 1084"))

            with page.begin("cdcbus task run FILE", FILE=str(fetch)) as said:
                until_said(said, "reads the binlog")
                shop.cursor.execute("INSERT INTO orders VALUES (1)")
                copied(1)
            shop.cursor.execute("INSERT INTO orders VALUES (2)")
            page.run("cdcbus task run FILE --until WHERE", FILE=str(fetch), WHERE="now")
            copied(2)
            shop.cursor.execute("INSERT INTO orders VALUES (3)")
            page.run("cdcbus task run shop-to-kafka.properties --until now && ")
            copied(3)
            # for the runbook, which copies its position
            page.type(page.own("cdcbus task run 242.properties --until now"))
            with page.begin(
                "cdcbus task run FILE --positions", FILE="tasks/new.properties"
            ) as said:
                until_said(said, " reads ")
            page.run("cdcbus task run shop-to-kafka.properties --positions")
            page.run("cdcbus task run shop-to-postgresql.properties --positions")

            page.run("cdcbus doctor 242 tasks/new.properties")
            runbook(page, str(fetch))
        page.run("cdcbus node rm NODE", typed="y\n", NODE=name)
