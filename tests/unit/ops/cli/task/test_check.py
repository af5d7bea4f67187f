"""`cdcbus task check`: what it finds in a file and in the systems, and how it prints that."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.tasks.config import read_task
from cdcbus.tasks.preflight.result import error, ok, warning
from tests.unit.ops.cli.runs import GOOD, Failing, process


def test_ten_faults_are_told_in_one_run_with_their_lines() -> None:
    file = Path(__file__).parents[4] / "golden" / "tasks" / "ten-faults.properties"
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(file)])
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{file}: 4 errors, 6 warnings, 0 notes\n")
    told = re.findall(r"^ +(-|\d+) +(error|warning) +(\S+) +(.{8})", result.stdout, re.MULTILINE)
    assert told == [
        ("-", "error", "consumer.source.servers", "missing;"),
        ("8", "error", "consumer.source.partition", "partitio"),
        ("10", "error", "consumer.offset", "wrong va"),
        ("15", "error", "loader.source.maxPoolSize", "wrong va"),
        ("5", "warning", "consumer.source.firstConsumeFrom", "a remark"),
        ("6", "warning", "consumer.source.group", "trailing"),
        ("7", "warning", "consumer.source.topics", "repeated"),
        ("9", "warning", "consumer.source.pollTimeout", "unknown "),
        ("14", "warning", "loader.source.password", "the secr"),
        ("17", "warning", "mapper[0].auto", "without "),
    ]
    assert "did you mean consumer.source.pollTimeOut?" in " ".join(result.stdout.split())
    assert "s3cret" not in result.output


def test_the_examples_are_clean() -> None:
    """Offline; with what they connect to in tests/integration/tasks/config/test_examples.py."""
    files = sorted(
        map(str, (Path(read_task.__file__).parents[1] / "examples").glob("*.properties"))
    )
    environ = {"SOURCE_PASSWORD": "a", "TARGET_PASSWORD": "b"}
    result = CliRunner().invoke(
        main, ["task", "check", "--offline", "--strict", *files], env=environ
    )
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [f"{file}: 0 errors, 0 warnings, 0 notes" for file in files],
    )


def test_check_is_quiet_about_a_good_file(good: Path) -> None:
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(good)])
    assert result.exit_code == 0
    assert result.stdout.strip() == f"{good}: 0 errors, 0 warnings, 0 notes"


def test_a_terminal_that_lacks_a_character_gets_its_escape(tmp_path: Path) -> None:
    file = tmp_path / "task.properties"
    file.write_text(GOOD + "任务=1\n", encoding="utf-8")
    done = process("task", "check", "--offline", str(file), PYTHONIOENCODING="iso-8859-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u4efb\u52a1" in done.stdout


def test_check_prints_a_table_and_exits_1_on_errors_only(odd: Path, bad: Path) -> None:
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(odd)])
    assert result.exit_code == 0
    assert f"{odd}: 0 errors, 1 warning, 1 note" in result.stdout
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(odd), str(bad)])
    assert result.exit_code == 1
    assert re.search(r"7 +error +consumer\.source\.partition +wrong value 'x'", result.stdout)
    assert re.search(r"8 +warning +mapper\[0\]\.auto", result.stdout)


def test_strict_makes_warnings_errors_but_not_notes(good: Path, odd: Path, tmp_path: Path) -> None:
    noted = tmp_path / "noted.properties"
    noted.write_text(GOOD + "status=NEW\n", encoding="utf-8")
    assert (
        CliRunner()
        .invoke(main, ["task", "check", "--offline", "--strict", str(good), str(noted)])
        .exit_code
        == 0
    )
    assert (
        CliRunner().invoke(main, ["task", "check", "--offline", "--strict", str(odd)]).exit_code
        == 1
    )


def test_check_as_json(odd: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    result = CliRunner().invoke(
        main, ["task", "check", "--offline", "--json", str(odd), str(missing)]
    )
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert (first["file"], first["ok"]) == (str(odd), True)
    assert [(f["severity"], f["line"], f["key"]) for f in first["findings"]] == [
        ("warning", 7, "mapper[0].auto"),
        ("note", 8, "status"),
    ]
    assert second["findings"][0]["sentence"].startswith(
        "the task file cannot be read: No such file"
    )
    assert first["connections"] is None


def test_check_connects_to_nothing_for_a_file_with_errors(
    bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdcbus.tasks.preflight.check.check_task", Failing(AssertionError()))
    result = CliRunner().invoke(main, ["task", "check", str(bad)])
    assert result.exit_code == 1
    assert "connections:" not in result.stdout


def test_check_needs_the_secrets_only_to_connect(tmp_path: Path) -> None:
    file = tmp_path / "secret.properties"
    file.write_text(GOOD + "loader.source.password=${env:NO_SUCH_SECRET}\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["task", "check", "--offline", str(file)]).exit_code == 0
    result = CliRunner().invoke(main, ["task", "check", str(file)])
    assert result.exit_code == 1
    assert "environment variable 'NO_SUCH_SECRET' is not set" in result.stdout


def test_a_word_that_is_no_file_is_the_id_of_a_task_in_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    environ = {"CDCBUS_ZOOKEEPER": "nonsense:port"}
    for word in ("1084", "folder"):
        for command in (["run"], ["check"]):
            result = CliRunner().invoke(main, ["task", *command, word], env=environ)
            assert (
                result.exit_code,
                "not a ZooKeeper address: 'nonsense:port'" in result.output,
            ) == (1, True), result.output
    for word in ("1084.properties", "./1084", "folder/1084"):
        result = CliRunner().invoke(main, ["task", "run", word], env=environ)
        assert (
            result.stderr
            == f"{Path(word)}: the task file cannot be read: No such file or directory; check its "
            "name and rights\n"
        )
    (tmp_path / "1084").write_text(GOOD, encoding="utf-8")
    assert CliRunner().invoke(main, ["task", "check", "--offline", "1084"]).exit_code == 0


def test_an_id_is_not_looked_for_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        main,
        ["task", "check", "--offline", "--json", "1084"],
        env={"CDCBUS_ZOOKEEPER": "nonsense:port"},
    )
    (checked,) = json.loads(result.stdout)
    assert (result.exit_code, checked["file"]) == (1, "ZooKeeper /datas/task/1084/dist")
    assert checked["findings"][0]["sentence"].startswith(
        "no such file, and a task's id is looked up in ZooKeeper"
    )


@pytest.mark.parametrize("word", ["", "..", "a\nb"])
def test_a_word_that_can_be_neither_is_one_sentence(word: str) -> None:
    result = CliRunner().invoke(main, ["task", "run", word])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "is neither a file nor a task's id" in result.stderr


SEEN = [ok("topic", "3 partitions"), warning("key", "a second one", "Look at it.")]


def test_what_is_seen_of_the_systems_is_a_second_table_with_its_remedies(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdcbus.tasks.preflight.check.check_task", lambda *_: SEEN)
    result = CliRunner().invoke(main, ["task", "check", str(good)])
    assert result.exit_code == 0
    assert "connections: 1 ok, 1 warning, 0 errors" in result.stdout
    assert re.search(
        r"ok +topic +3 partitions *\n warning +key +a second one *\n +→ Look at it\.", result.stdout
    )
    assert "\x1b" not in result.stdout
    assert CliRunner().invoke(main, ["task", "check", "--strict", str(good)]).exit_code == 1


def test_what_is_seen_of_the_systems_as_json(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cdcbus.tasks.preflight.check.check_task",
        lambda *_: [*SEEN, error("target", "gone", "Start it.")],
    )
    result = CliRunner().invoke(main, ["task", "check", "--json", str(good)])
    assert result.exit_code == 1
    (checked,) = json.loads(result.stdout)
    assert not checked["ok"]
    assert checked["connections"][2] == {
        "outcome": "error",
        "subject": "target",
        "found": "gone",
        "cure": "Start it.",
    }


def test_in_the_locale_c_a_character_is_escaped_and_does_not_end_the_command(odd: Path) -> None:
    odd.write_text(GOOD + "größe=1\n", encoding="utf-8")
    in_c = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = process("task", "check", "--offline", str(odd), **in_c)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"gr\xf6\xdfe" in done.stdout
