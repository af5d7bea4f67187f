"""The task files of tasks/examples, with the addresses and names of the stack: `cdcbus task
check` has nothing to say about them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.tasks.config import read_task
from tests.integration.producer.reading import global_variable
from tests.support.changes.shop import open_shop

pytestmark = pytest.mark.integration

EXAMPLES = Path(read_task.__file__).parents[1] / "examples"
TABLES = {
    "orders": "id INT PRIMARY KEY",
    "order_items": "order_id INT, line INT, PRIMARY KEY (order_id, line)",
}


def adapted(text: str, name: str, stack: Addresses) -> str:
    """The example for this stack; `name` stands for each schema, topic and database."""
    source, mariadb, postgresql = (
        f"{each.host}:{each.port}" for each in (stack.source, stack.mariadb, stack.postgresql)
    )
    text = re.sub(r"(?m)^(taskId=)(.*)$", rf"\1{name}-\2", text)
    text = text.replace("source.address=127.0.0.1:3306", f"source.address={source}").replace(
        "127.0.0.1:9092", stack.kafka
    )
    text = text.replace("127.0.0.1:3306/shop_copy", f"{mariadb}/{name}").replace(
        "127.0.0.1:5432/shop", f"{postgresql}/{stack.postgresql.database}"
    )
    text = text.replace("SHOP,shop_copy", f"SHOP,{name}").replace("SHOP,public", f"SHOP,{name}")
    text = text.replace("topic=store", f"topic={name}-store")
    return re.sub(r"\bSHOP\b", name.upper(), re.sub(r"\bshop\b", name, text))


def test_the_examples_are_clean(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_topic(name)
    make_topic(f"{name}-store")
    monkeypatch.setenv("SOURCE_PASSWORD", stack.source.password)
    monkeypatch.setenv("TARGET_PASSWORD", stack.mariadb.password)
    assert (
        stack.mariadb.password == stack.postgresql.password
        and stack.source.user == stack.mariadb.user == stack.postgresql.user == "cdc"
    )
    files = []
    # the stack has no Oracle
    for example in sorted(
        set(EXAMPLES.glob("*.properties")) - {EXAMPLES / "kafka-to-oracle.properties"}
    ):
        files.append(tmp_path / example.name)
        files[-1].write_text(
            adapted(example.read_text(encoding="utf-8"), name, stack), encoding="utf-8"
        )
    with (
        open_shop(name, stack, source_cursor, tmp_path) as shop,
        global_variable(stack.source, "binlog_row_metadata", "FULL"),
    ):
        for table, columns in TABLES.items():
            shop.create(table, columns)
        shop.create("customers", "id INT PRIMARY KEY, mail VARCHAR(40)")
        shop.postgresql(f"CREATE TABLE {name}.customer (id INT PRIMARY KEY, email VARCHAR(40))")
        result = CliRunner().invoke(
            main,
            [
                "task",
                "check",
                "--strict",
                "--json",
                "--zookeeper",
                stack.zookeeper,
                *map(str, files),
            ],
        )
    checked = json.loads(result.stdout)
    assert [each["file"] for each in checked] == [str(file) for file in files] and len(files) >= 3
    assert [each["findings"] for each in checked] == [[]] * len(files)
    assert [
        seen for each in checked for seen in each["connections"] if seen["outcome"] != "ok"
    ] == []
    assert result.exit_code == 0
