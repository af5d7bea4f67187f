from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.read_task import read_task
from cdcbus.tasks.config.template import example_text

ENVIRON = {"SOURCE_PASSWORD": "a", "TARGET_PASSWORD": "b"}
FETCH_WORDS = (
    "--route mysql->kafka --id 7 --source db1:3306 --source-user u --servers "
    "k1:9092,k2:9092 --topic t"
)
LOAD_WORDS = (
    "--id 8 --servers k1:9092 --topic t,u --tables SHOP.A,SHOP.B --target db2:5 "
    "--target-database d --target-user v"
)
FETCH = [*FETCH_WORDS.split(), "--tables", ""]
LOAD = LOAD_WORDS.split()
SCHEMAS = ["--source-schema", "SHOP", "--target-schema", "s"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new(*arguments: str, answers: str = "") -> Result:
    return CliRunner().invoke(main, ["task", "new", *arguments], input=answers)


def clean_task(file: str) -> FetchTask | LoadTask:
    read = read_task(Path(file), ENVIRON)
    assert (read.warnings, read.notes) == ([], [])
    return read.task


def test_a_fetch_task_of_options_alone() -> None:
    result = new(*FETCH)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        result.stdout
        == "7.properties written; next: set SOURCE_PASSWORD, then cdcbus task check 7.properties\n"
    )
    task = clean_task("7.properties")
    assert isinstance(task, FetchTask)
    assert (task.task_id, task.source.addresses, task.source.user, task.source.password) == (
        "7",
        (("db1", 3306),),
        "u",
        "a",
    )
    assert (task.publish.servers, task.publish.topic, task.publish.partition_keys) == (
        "k1:9092,k2:9092",
        "t",
        {},
    )
    assert (task.tables.regexes, task.source.server_id) == ((), None)


def test_tables_to_fetch_become_regular_expressions() -> None:
    assert new(*FETCH[:-1], "shop.a$b, crm.*").exit_code == 0
    task = clean_task("7.properties")
    assert isinstance(task, FetchTask)
    assert task.tables.regexes == (r"shop\.a\$b", r"crm\..*")
    assert task.swimlane == "shop"


@pytest.mark.parametrize(
    ("kind", "address", "file"),
    [
        ("mysql", "mysql://", "8.properties"),
        ("postgresql", "postgresql://", "of my own.properties"),
        ("oracle", "oracle:thin:@//", "8.properties"),
    ],
)
def test_a_consumer_task_of_options_alone(kind: str, address: str, file: str) -> None:
    assert new("--route", f"kafka->{kind}", *LOAD, *SCHEMAS, file).exit_code == 0
    task = clean_task(file)
    assert isinstance(task, LoadTask)
    assert (task.source.topics, task.source.group, sorted(task.includes)) == (
        ("t", "u"),
        "cdcbus-8",
        ["SHOP.A", "SHOP.B"],
    )
    assert isinstance(task.target, JdbcTarget)
    assert (task.target.url, task.target.user, task.target.password) == (
        f"jdbc:{address}db2:5/d",
        "v",
        "b",
    )
    assert task.rules == (MapperRule(("SHOP", "s")),)
    assert f"cdcbus task check {file}  " in Path(file).read_text()


def test_a_task_from_kafka_to_kafka_of_options_alone() -> None:
    words = (
        "--route kafka->kafka --id 9 --servers k1:9092 --topic t,u --tables SHOP.A --target "
        "k2:9092 --target-topic v"
    )
    result = new(*words.split(), *SCHEMAS)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "9.properties written; next: cdcbus task check 9.properties\n"
    task = clean_task("9.properties")
    assert isinstance(task, LoadTask)
    assert isinstance(task.target, PublishConfig)
    assert (task.source.servers, task.source.topics, sorted(task.includes)) == (
        "k1:9092",
        ("t", "u"),
        ["SHOP.A"],
    )
    assert (task.target.servers, task.target.topic, task.target.partition_keys) == (
        "k2:9092",
        "v",
        {},
    )
    assert task.rules == (MapperRule(("SHOP", "s")),)


def test_a_task_from_kafka_to_kafka_writes_to_the_brokers_that_it_reads_unless_told_otherwise() -> (
    None
):
    result = new("--route", "kafka->kafka", answers="\nk:9092\nt\n\n\nv\n\n")
    assert result.exit_code == 0
    task = clean_task("kafka-to-kafka.properties")
    assert isinstance(task, LoadTask)
    assert isinstance(task.target, PublishConfig)
    assert (task.source.servers, task.target.servers, task.target.topic, task.rules) == (
        "k:9092",
        "k:9092",
        "v",
        (),
    )


def test_without_another_schema_no_target_schema_is_asked_for() -> None:
    assert new("--route", "kafka->mysql", *LOAD, "--source-schema", "").exit_code == 0
    task = clean_task("8.properties")
    assert isinstance(task, LoadTask)
    assert task.rules == (MapperRule(),)


def test_answers_have_defaults_and_wrong_ones_are_asked_again() -> None:
    result = new(
        answers="kafka->postgresql\n\nnot an address\nk:9092\nt\nSHOP\nshop.orders\n\nd\n\n\n\n"
    )
    assert result.exit_code == 0
    assert "Error: expected host:port" in result.stderr
    assert "Error: expected SCHEMA.TABLE or SCHEMA.*" in result.stderr
    task = clean_task("kafka-to-postgresql.properties")
    assert isinstance(task, LoadTask)
    assert isinstance(task.target, JdbcTarget)
    assert (task.source.servers, task.target.url, task.target.user) == (
        "k:9092",
        "jdbc:postgresql://127.0.0.1:5432/d",
        "cdc",
    )
    assert task.rules == (MapperRule(("shop", "public")),)


def test_without_a_person_a_missing_answer_names_its_option() -> None:
    result = new("--route", "mysql->kafka", "--id", "7")
    assert result.exit_code == 2
    assert "no answer to: MySQL or MariaDB server to read" in result.stderr
    assert "give --source" in result.stderr
    assert [*Path().iterdir()] == []


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--topic", "a,b"], "expected one topic's name"),
        (["--topic", "a #b"], "expected one topic's name"),
        (["--id", "a/b"], "expected a name"),
        (["--source", "a:0"], "expected host:port"),
        (["--tables", "orders"], "expected SCHEMA.TABLE or SCHEMA.*"),
        (["--source-user", "a #b"], "expected a name without blanks"),
        (["--target", "h:1"], "--target has no meaning for mysql->kafka"),
    ],
)
def test_a_wrong_option_is_wrong_usage(wrong: list[str], sentence: str) -> None:
    result = new(*FETCH, *wrong)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_what_check_would_warn_of_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = example_text("mysql-to-kafka") + "mapper[0].auto=true\n"
    monkeypatch.setattr("cdcbus.tasks.editing.new_task.example_text", lambda route: odd)
    result = new(*FETCH)
    assert result.exit_code == 1
    assert "mapper[0].auto: without meaning" in result.stderr
    assert [*Path().iterdir()] == []


def test_a_file_is_only_overwritten_by_force() -> None:
    Path("7.properties").write_text("mine")
    for arguments in (FETCH, [*FETCH, "7.properties"]):
        result = new(*arguments)
        assert (result.exit_code, Path("7.properties").read_text()) == (1, "mine")
        assert result.stderr.startswith("7.properties: the file exists already")
    assert new("7.properties").stderr.startswith("7.properties: the file exists already")
    assert new(*FETCH, "--force").exit_code == 0
    assert clean_task("7.properties").task_id == "7"
