"""docs/first-copy.md: the dialogue that it shows, question by question, and the command for
scripts."""

from __future__ import annotations

import re

import pytest

from tests.integration.docs.conftest import PageReader
from tests.integration.ops.init.dialogue import dialogue
from tests.support.changes.shop import Shop
from tests.unit.test_docs import BLOCK, text

pytestmark = pytest.mark.integration


def test_the_dialogue_is_the_one_that_is_shown(read: PageReader, shop: Shop) -> None:
    at, name = shop.addresses, shop.name
    for table in ("customers", "orders", "log"):
        shop.cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    answers = {
        "MySQL or MariaDB server to read, HOST:PORT": f"{at.source.host}:{at.source.port}",
        "User there": at.source.user,
        "Password of cdc (not shown)": at.source.password,
        "Schema to copy": name,
        "Tables, separated by commas (all 3 of": f"{name}.*",
        "Kafka brokers, HOST:PORT[,...]": at.kafka,
        "Write to (postgresql, mysql)": "postgresql",
    }
    (body,) = (
        body
        for _, body in BLOCK.findall(text("docs/first-copy.md"))
        if body.startswith("$ cdcbus init")
    )
    lines = body.splitlines()[1:]
    with read("docs/first-copy.md") as page:
        page.line("cdcbus init")
        environ = {k: v for k, v in page.environ.items() if not k.endswith("_PASSWORD")}
        with dialogue(["init"], page.folder, environ) as person:
            for line in lines:
                if line.startswith("✓"):
                    address = at.kafka if "Kafka" in line else f"{at.source.host}:{at.source.port}"
                    person.wait_for(re.sub(r"127\.0\.0\.1:\d+", address, line))
                else:
                    question = next(each for each in answers if line.startswith(each))
                    person.answer(question, answers.pop(question))
            assert not answers
            person.wait_for("HOST:PORT")
            person.interrupt()
            assert person.end() == 130
        user, server = f"{at.source.user}@{at.source.host}", f"{at.mariadb.user}@{at.mariadb.host}"
        page.environ["TARGET_PASSWORD"] = at.mariadb.password
        command = page.own(page.line("cdcbus init --yes"))
        command = command.replace("cdc@db1:3306", f"{user}:{at.source.port}")
        command = command.replace("cdc@db2:3306/copy", f"{server}:{at.mariadb.port}/{name}")
        command = command.replace("kafka1:9092", at.kafka)
        said = page.type(command.replace("zk1:2181", page.environ["CDCBUS_ZOOKEEPER"]))
        assert f"{name}.orders: equal" in said and f"{name}.log" not in said
