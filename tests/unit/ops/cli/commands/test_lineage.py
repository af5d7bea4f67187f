import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler

from cdcbus.ops.cli.main import main
from cdcbus.tasks.config import read_task
from cdcbus.tasks.porter.dist_json import properties_text

EXAMPLES = Path(read_task.__file__).parents[1] / "examples"
TREE = """\
shop.orders at 127.0.0.1:3306
└── topic shop, written by task mysql-to-kafka
    ├── task kafka-to-kafka
    │   └── store.orders at topic store at 127.0.0.1:9092
    ├── task kafka-to-mysql
    │   └── shop_copy.orders at mysql://127.0.0.1:3306/shop_copy
    ├── task kafka-to-oracle
    │   └── CDC.orders at oracle:127.0.0.1:1521/shop
    └── task kafka-to-postgresql
        └── public.orders at postgresql://127.0.0.1:5432/shop
"""


def lineage(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["lineage", *map(str, arguments)])


def test_the_examples_as_a_tree() -> None:
    result = lineage("shop.orders", "--tasks", EXAMPLES)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.rstrip() for line in result.stdout.splitlines()] == TREE.splitlines()


def test_a_task_from_kafka_to_kafka_leads_on_to_the_readers_of_its_topic(tmp_path: Path) -> None:
    file = tmp_path / "warehouse.properties"
    text = (EXAMPLES / "kafka-to-mysql.properties").read_text(encoding="utf-8")
    text = (
        text.replace("taskId=kafka-to-mysql", "taskId=warehouse")
        .replace("topics=shop", "topics=store")
        .replace("=SHOP,", "=STORE,")
    )
    file.write_text(text, encoding="utf-8")
    result = lineage("shop.orders", "--tasks", EXAMPLES, "--tasks", file)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[2:6] == [
        "    ├── task kafka-to-kafka",
        "    │   └── store.orders in topic store",
        "    │       └── task warehouse",
        "    │           └── shop_copy.orders at mysql://127.0.0.1:3306/shop_copy",
    ]


def test_the_examples_as_json() -> None:
    ways = json.loads(lineage("public.customer", "--json", "--tasks", EXAMPLES).stdout)
    assert ways == [
        {
            "source": "SHOP.CUSTOMERS",
            "server": "127.0.0.1:3306",
            "fetch_task": "mysql-to-kafka",
            "topic": "shop",
            "load_task": "kafka-to-postgresql",
            "target": "public.customer",
            "database": "postgresql://127.0.0.1:5432/shop",
            "onward": None,
        }
    ]


def test_files_of_the_folder_and_of_its_tasks_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lineage().stdout == "no tasks found\n"
    (tmp_path / "tasks").mkdir()
    fetch = (EXAMPLES / "mysql-to-kafka.properties").read_text(encoding="utf-8")
    (tmp_path / "tasks" / "a.properties").write_text(fetch, encoding="utf-8")
    assert "no known task reads it" in lineage().stdout
    (tmp_path / "b.properties").write_text(
        (EXAMPLES / "kafka-to-mysql.properties").read_text(encoding="utf-8"), encoding="utf-8"
    )
    assert "shop_copy.*" in lineage().stdout
    assert lineage("nowhere").stdout == "none of 2 tasks has nowhere in a table, topic or target\n"


def test_what_is_no_task_is_left_out_and_named(tmp_path: Path) -> None:
    file = tmp_path / "log.properties"
    file.write_text("level=info\n", encoding="utf-8")
    result = lineage("--tasks", file, "--tasks", EXAMPLES)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"{file} left out: ")
    assert result.stderr.count("\n") == 1
    assert "shop_copy.*" in result.stdout


class Tree:
    """A ZooKeeper client's reading side over a fixed tree."""

    def __init__(self, nodes: dict[str, str]) -> None:
        self.nodes = nodes

    def get_children_async(self, path: str) -> AsyncResult:
        result = AsyncResult(SequentialThreadingHandler())
        names = {
            rest.partition("/")[0]
            for node in self.nodes
            if (rest := node.removeprefix(f"{path}/")) != node
        }
        if names:
            result.set(list(names))
        else:
            result.set_exception(NoNodeError())
        return result

    def get_async(self, path: str) -> AsyncResult:
        result = AsyncResult(SequentialThreadingHandler())
        result.set((self.nodes[path].encode(), None))
        return result

    def stop(self) -> None: ...

    def close(self) -> None: ...


def dist(task_id: str, topic: str) -> str:
    source = {"servers": "k:9092", "topics": topic}
    target = {"loaderName": "JdbcBatch", "source": {"url": "jdbc:mysql://h/db"}}
    return json.dumps(
        {
            "taskId": task_id,
            "consumer": {"consumerName": "KafkaFetch", "source": source},
            "loader": target,
        }
    )


def test_tasks_in_zookeeper_are_known_too_and_files_win(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {
        "/datas/task/9/dist/shop": dist("9", "shop"),
        "/datas/task/9/dist/crm": dist("9", "crm"),
        "/datas/task/kafka-to-mysql/dist/old": dist("kafka-to-mysql", "old"),
        "/datas/task/10/position/x": "",
        "/datas/task/11/dist/x": "no json",
    }
    monkeypatch.setattr("cdcbus.tasks.zookeeper.connection.connect", lambda *_: Tree(nodes))
    result = lineage("--json", "--tasks", EXAMPLES, "--zookeeper", "z:2181")
    found = {(way["topic"], way["load_task"]) for way in json.loads(result.stdout)}
    examples = {
        ("shop", f"kafka-to-{target}") for target in ("kafka", "mysql", "oracle", "postgresql")
    }
    assert found == {*examples, ("shop", "9"), ("crm", "9")}
    assert result.stderr.startswith("/datas/task/11/dist/x left out: line 1, column 1: not JSON")


def test_an_empty_zookeeper_knows_no_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cdcbus.tasks.zookeeper.connection.connect", lambda *_: Tree({}))
    assert lineage("--tasks", tmp_path, "--zookeeper", "z:2181").stdout == "no tasks found\n"


def test_named_sources_are_looked_for_where_a_run_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdcbus.properties").write_text(
        "sources.directory=shared\nporter.source.BUS.servers=k:1\n", encoding="utf-8"
    )
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "DB.properties").write_text("url=jdbc:mysql://h/db\n", encoding="utf-8")
    task = json.loads(dist("9", "shop"))
    task["consumer"]["source"] = {"sourceName": "BUS", "topics": "shop"}
    task["loader"]["source"] = {"sourceName": "DB"}
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "9.properties").write_text(properties_text(task), encoding="utf-8")
    nodes = {"/datas/task/10/dist/shop": json.dumps(task | {"taskId": "10"})}
    monkeypatch.setattr("cdcbus.tasks.zookeeper.connection.connect", lambda *_: Tree(nodes))
    result = lineage("--json", "--zookeeper", "z:2181")
    assert result.stderr == ""
    assert {(way["load_task"], way["database"]) for way in json.loads(result.stdout)} == {
        ("9", "mysql://h:3306/db"),
        ("10", "mysql://h:3306/db"),
    }
