"""`cdcbus config show`, and the settings file where commands use it."""

import json
import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bus.properties"


def call(file: Path, text: str, *words: str, **environ: str) -> Result:
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, [*words, "--config", str(file)], env=environ)


def test_each_key_is_shown_with_where_it_comes_from(file: Path) -> None:
    result = call(
        file,
        "zookeeper.auth=cdc:s3cret\nhttp.bind=off",
        "config",
        "show",
        CDCBUS_ZOOKEEPER="z:1",
        CDCBUS_SPARK_MASTER="",
    )
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}
    assert rows["zookeeper"] == ["z:1", "environment variable CDCBUS_ZOOKEEPER"]
    assert rows["zookeeper.auth"] == ["***", f"{file}:1"]
    assert rows["spark.master"] == ["local[*]", "default"]
    assert rows["http.bind"] == ["off", f"{file}:2"]
    assert "s3cret" not in result.output


def test_alarm_channels_and_sources_of_the_file_are_shown_without_their_secrets(file: Path) -> None:
    text = (
        "alarm.smtp.host=mail\nalarm.smtp.password=s3cret\nalarm.webhook.url=https://h/s3cret\nalarm.exec.command=/bin/alarm --all\n"
        "porter.source.A.url=jdbc:mysql://h/db?password=s3cret\nporter.source.A.password=s3cret\nporter.source.A.userName=cdc\n"
    )
    result = call(file, text, "config", "show")
    assert result.exit_code == 0
    rows = {line.split()[0]: re.split(" {2,}", line)[1:] for line in result.stdout.splitlines()[1:]}
    assert rows["alarm.smtp.host"] == ["mail", f"{file}:1"]
    assert rows["alarm.smtp.password"] == ["***", f"{file}:2"]
    assert rows["alarm.webhook.url"] == ["***", f"{file}:3"]
    assert rows["alarm.exec.command"] == ["/bin/alarm --all", f"{file}:4"]
    assert rows["porter.source.A.url"] == ["***", f"{file}:5"]
    assert rows["porter.source.A.password"] == ["***", f"{file}:6"]
    assert rows["porter.source.A.userName"] == ["cdc", f"{file}:7"]
    as_json = call(file, text, "config", "show", "--json")
    assert json.loads(as_json.stdout)[-1] == {
        "key": "porter.source.A.userName",
        "value": "cdc",
        "origin": f"{file}:7",
        "answer": "",
    }
    assert "s3cret" not in result.output + as_json.output


def test_what_is_unset_and_taken_from_elsewhere_is_shown_with_its_value(file: Path) -> None:
    result = call(file, "zookeeper.sessionSeconds=30", "config", "show")
    rows = {line.split()[0]: re.split(" {2,}", line)[1:] for line in result.stdout.splitlines()}
    assert rows["zookeeper.leaseSeconds"] == [
        "20",
        "default: two thirds of zookeeper.sessionSeconds",
    ]
    assert rows["node.id"] == [socket.gethostname(), "default: the host name"]
    assert rows["alarm.smtp.from"] == [
        f"cdcbus@{socket.gethostname()}",
        "default: cdcbus@ and the host name",
    ]
    result = call(file, "zookeeper.leaseSeconds=5\nnode.id=n1", "config", "show")
    rows = {line.split()[0]: re.split(" {2,}", line)[1:] for line in result.stdout.splitlines()}
    assert rows["zookeeper.leaseSeconds"] == ["5", f"{file}:1"]
    assert rows["node.id"] == ["n1", f"{file}:2"]


def test_as_json(file: Path) -> None:
    result = call(file, "", "config", "show", "--json", "--zookeeper", "o:1")
    assert json.loads(result.stdout)[0] == {
        "key": "zookeeper",
        "value": "o:1",
        "origin": "option --zookeeper",
        "answer": "",
    }


def test_a_setting_that_cannot_be_used_exits_1_and_hides_none(file: Path) -> None:
    result = call(file, "zookeeper.auth=${env:CDCBUS_NOT_SET}", "config", "show")
    assert result.exit_code == 1
    assert "***" not in result.stdout and "${env:CDCBUS_NOT_SET}" in result.stdout
    assert result.stderr.startswith(
        f"{file}:1: zookeeper.auth: environment variable 'CDCBUS_NOT_SET' is not set"
    )


def test_what_is_odd_in_the_file_goes_to_stderr(file: Path) -> None:
    result = call(file, "zookeper=a:1", "config", "show")
    assert result.exit_code == 0
    assert (
        result.stderr
        == f"warning: {file}:1: zookeper: unknown key, without effect; did you mean zookeeper?\n"
    )


@pytest.mark.parametrize(
    "words", [["offset", "show", "1"], ["source", "list"], ["source", "show", "A"]]
)
def test_commands_take_the_address_from_the_file(file: Path, words: list[str]) -> None:
    result = call(file, "zookeeper=nonsense:port", *words, CDCBUS_ZOOKEEPER="")
    assert result.exit_code == 1
    assert result.stderr.startswith("not a ZooKeeper address: 'nonsense:port'")


def test_a_task_asks_zookeeper_for_a_source_without_a_file(file: Path, tmp_path: Path) -> None:
    task = tmp_path / "task.properties"
    task.write_text("taskId=1\nloader.source.sourceName=CDCBUS_NOWHERE\n", encoding="utf-8")
    result = call(file, "zookeeper=nonsense:port", "task", "run", str(task), CDCBUS_ZOOKEEPER="")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(
        f"{task}:2: loader.source.sourceName: not a ZooKeeper address: 'nonsense:port'"
    )


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["offset", "show", "1", "--config", str(tmp_path / "none")])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "the settings file cannot be read" in result.stderr


@pytest.mark.parametrize("words", [["A", "password"], ["a/b", "url=x"], ["A"]])
def test_a_source_without_pairs_or_a_name_is_wrong_usage(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["source", "add", *words])
    assert result.exit_code == 2
    assert "Usage: cdcbus source add" in result.stderr
