"""`cdcbus task import`: what is refused before ZooKeeper is asked, and porter's JSON as a task
file."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main

DIST = {
    "taskId": "1",
    "consumer": {"consumerName": "KafkaFetch", "source": {"servers": "k:9092", "topics": "A"}},
    "loader": {
        "loaderName": "JdbcBatch",
        "source": {"url": "jdbc:mysql://h/db", "password": "s3cret"},
    },
}
LOAD = "consumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics=a\nloader.loaderName=JdbcBatch\n"
REFUSED = "nothing is stored; correct the errors above\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return dist(tmp_path, DIST)


def dist(folder: Path, config: object) -> Path:
    path = folder / "1.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def task(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(LOAD + text, encoding="utf-8")
    return path


def imported(*arguments: object) -> Result:
    """No ZooKeeper is there: who asks it fails with another sentence."""
    environ = {"CDCBUS_ZOOKEEPER": "nonsense:port", "CDCBUS_SECRET_KEYFILE": ""}
    result = CliRunner().invoke(main, ["task", "import", *map(str, arguments)], env=environ)
    assert "s3cret" not in result.output
    return result


def test_a_json_file_becomes_a_task_file_and_its_secret_is_for_its_owner(
    file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.properties"
    result = imported(file, "--output", output)
    assert (result.exit_code, result.stdout) == (0, "")
    text = output.read_text(encoding="utf-8")
    assert text.startswith("taskId=1\n\n# ---- read --")
    assert "loader.source.password=s3cret\n" in text
    assert output.stat().st_mode & 0o777 == 0o600
    assert (
        f"warning: {output}:11: loader.source.password: the secret is written in the file"
        in result.stderr
    )


def test_a_file_that_is_there_is_only_overwritten_by_force(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.properties"
    output.write_text("mine")
    result = imported(file, "--output", output)
    assert (result.exit_code, output.read_text()) == (1, "mine")
    assert "--force" in result.stderr
    assert imported(file, "--output", output, "--force").exit_code == 0
    assert output.read_text(encoding="utf-8").startswith("taskId=1\n")
    assert output.stat().st_mode & 0o777 == 0o600


def test_an_unknown_field_is_reported(tmp_path: Path) -> None:
    output = tmp_path / "out.properties"
    result = imported(dist(tmp_path, DIST | {"taskName": "orders"}), "--output", output)
    assert result.exit_code == 0
    assert "taskName=orders\n" in output.read_text(encoding="utf-8")
    assert "taskName: unknown key" in result.stderr
    assert (
        imported(
            dist(tmp_path, DIST | {"taskName": "orders"}), "--output", output, "--force", "--strict"
        ).exit_code
        == 1
    )


def test_a_task_with_errors_is_written_to_a_file_and_exits_1(tmp_path: Path) -> None:
    output = tmp_path / "out.properties"
    result = imported(dist(tmp_path, {"taskId": "1"}), "--output", output)
    assert (result.exit_code, output.read_text()) == (1, "taskId=1\n")
    assert f"error: {output}: consumer.consumerName: missing" in result.stderr


def test_only_one_json_file_becomes_a_task_file(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.properties"
    assert imported(file, file, "--output", output).exit_code == 2
    result = imported(task(tmp_path, "t.properties", "taskId=1"), "--output", output)
    assert (result.exit_code, "t.properties: line 1, column 1: not JSON" in result.stderr) == (
        1,
        True,
    )
    assert not output.exists()


def test_a_json_file_is_checked_as_it_is(file: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").write_bytes(file.read_bytes())
    for path in (file, tmp_path / "dist"):
        result = CliRunner().invoke(main, ["task", "check", "--offline", str(path)])
        assert result.exit_code == 0
        assert result.stdout.startswith(f"{path}: 0 errors, 1 warning, 0 notes\n")
        assert "loader.source.password" in result.stdout and "s3cret" not in result.output


@pytest.mark.parametrize("words", [[], ["--output", "out.properties"]])
@pytest.mark.parametrize(
    ("content", "sentence"), [(b"{", "not JSON"), (b"\xff{}", "not UTF-8"), (b"[]", "not a task")]
)
def test_what_is_no_task_is_one_sentence(
    tmp_path: Path, content: bytes, sentence: str, words: list[str]
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    result = imported(path, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{path}: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    missing = tmp_path / "missing"
    assert re.match(
        rf"{missing}: (the task file )?cannot be read: No such file",
        imported(missing, *words).stderr,
    )


def test_one_task_with_an_error_keeps_all_out_and_all_is_told(tmp_path: Path) -> None:
    good = task(
        tmp_path,
        "good.properties",
        "taskId=1\nloader.source.url=jdbc:mysql://h/db\nmapper[0].auto=1\n",
    )
    bad = task(tmp_path, "bad.properties", "taskId=a/b\n")
    result = imported(bad, good)
    assert result.exit_code == 1
    assert f"error: {bad}:5: taskId: wrong value 'a/b'" in result.stderr
    assert f"error: {bad}: loader.source.url: missing" in result.stderr
    assert f"warning: {good}:7: mapper[0].auto" in result.stderr
    assert result.stderr.endswith(REFUSED)
    assert imported(good).stderr.splitlines()[-1].startswith("not a ZooKeeper address")
    assert imported("--strict", good).stderr.endswith(REFUSED)


def test_a_secret_is_refused_without_a_key_and_by_strict_with_one(
    tmp_path: Path, file: Path
) -> None:
    inline = task(
        tmp_path,
        "t.properties",
        "taskId=2\nloader.source.url=jdbc:mysql://h/db\nloader.source.password=s3cret\n",
    )
    for path, place in ((inline, f"{inline}:7"), (file, f"{file}")):
        result = imported(path)
        sentence = result.stderr.splitlines()[-1]
        assert result.exit_code == 1
        assert sentence.startswith(
            f"{place}: loader.source.password: a secret is not stored in ZooKeeper in plain text"
        )
        assert "secret.keyFile" in sentence and "${env:NAME}" in sentence
        assert imported("--strict", path).stderr.endswith(REFUSED)


def test_two_files_of_one_task_are_refused(tmp_path: Path) -> None:
    text = "taskId=1\nloader.source.url=jdbc:mysql://h/db\n"
    result = imported(task(tmp_path, "a.properties", text), task(tmp_path, "b.properties", text))
    assert result.exit_code == 1
    assert "task 1 is also in another of the files" in result.stderr


def test_a_folder_for_another_tools_settings_is_made(tmp_path: Path) -> None:
    """As the name of a file has a suffix."""
    settings = tmp_path / "config.properties"
    settings.write_text(
        "producer=kafka\nkafka.bootstrap.servers=k:9092\nkafka_topic=shop\nhost=db\nuser=u\n"
        "client_id=shop\n"
    )
    for folder in ("tasks", "tasks.d/"):
        imported(settings, "--output", f"{tmp_path}/{folder}")
        assert [each.name for each in (tmp_path / folder).iterdir()] == ["shop.properties"]
    for file in ("own.properties", "shop.conf"):
        imported(settings, "--output", tmp_path / file)
        assert (tmp_path / file).is_file()
    assert (
        "the folder cannot be made" in imported(settings, "--output", tmp_path / "a" / "b").stderr
    )
