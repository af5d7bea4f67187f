import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli import main

DIST = {
    "taskId": "1",
    "consumer": {"consumerName": "KafkaFetch", "source": {"servers": "k:9092", "topics": "A"}},
    "loader": {"loaderName": "JdbcBatch", "source": {"url": "jdbc:mysql://h/db", "password": "s3cret"}},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return dist(tmp_path, DIST)


def dist(folder: Path, config: object) -> Path:
    path = folder / "1.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def imported(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["task", "import", *map(str, arguments)])


def test_the_file_is_printed_and_the_findings_apart_from_it(file: Path) -> None:
    result = imported(file)
    assert result.exit_code == 0
    assert result.stdout.startswith("taskId=1\n\n# ---- read --")
    assert "loader.source.password=s3cret\n" in result.stdout
    assert "1.properties:11: loader.source.password: the secret stands in the file" in result.stderr
    assert "s3cret" not in result.stderr


def test_a_file_that_is_there_is_only_overwritten_by_force(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.properties"
    printed = imported(file).stdout
    assert imported(file, "--output", output).stdout == ""
    assert output.read_text(encoding="utf-8") == printed
    output.write_text("mine")
    result = imported(file, "--output", output)
    assert (result.exit_code, output.read_text()) == (1, "mine")
    assert "--force" in result.stderr
    assert imported(file, "--output", output, "--force").exit_code == 0
    assert output.read_text(encoding="utf-8") == printed


def test_an_unknown_field_is_reported(tmp_path: Path) -> None:
    result = imported(dist(tmp_path, DIST | {"taskName": "orders"}))
    assert result.exit_code == 0
    assert "taskName=orders\n" in result.stdout
    assert "warning: " in result.stderr
    assert "taskName: unknown key" in result.stderr


def test_a_task_with_errors_is_written_and_exits_1(tmp_path: Path) -> None:
    output = tmp_path / "out.properties"
    result = imported(dist(tmp_path, {"taskId": "1"}), "--output", output)
    assert (result.exit_code, output.read_text()) == (1, "taskId=1\n")
    assert f"error: {output}: consumer.consumerName: missing" in result.stderr


@pytest.mark.parametrize(("content", "sentence"), [(b"{", "not JSON"), (b"\xff{}", "not UTF-8"), (b"[]", "not a task")])
def test_what_is_no_task_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    result = imported(path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{path}: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert imported(tmp_path / "missing").stderr.startswith(f"{tmp_path / 'missing'}: cannot be read: No such file")
