"""The command line: help, exit codes, what is printed where. A real process where the process is
the point."""

import errno
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config import read_task
from cdcbus.tasks.preflight.result import error, ok, warning

GOOD = """\
taskId=1
consumer.consumerName=KafkaFetch
consumer.source.servers=127.0.0.1:1
consumer.source.topics=a
loader.loaderName=JdbcBatch
loader.source.url=jdbc:mysql://h/db
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.properties"
    file.write_text(GOOD, encoding="utf-8")
    return file


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    file = tmp_path / "odd.properties"
    file.write_text(GOOD + "mapper[0].auto=true\nstatus=NEW\n", encoding="utf-8")
    return file


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.properties"
    file.write_text(GOOD + "consumer.source.partition=x\nmapper[0].auto=true\n", encoding="utf-8")
    return file


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cdcbus", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
    )


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def test_each_command_and_option_has_help() -> None:
    found = dict(commands(main, "cdcbus"))
    assert {"cdcbus task run", "cdcbus task check", "cdcbus offset show", "cdcbus stack up"} <= set(
        found
    )
    for path, command in found.items():
        assert command.help, path
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (
                f"{path} {parameter.name}"
            )


WITHOUT_JSON = {
    *(f"task {name}" for name in ("run", "logs", "new", "import", "export", "clone", "rm")),
    *(f"node {name}" for name in ("run", "spark", "verify")),
    "source add",
    "prepare",  # `doctor` tells whether it was done
    "topic schema",  # is JSON
}


def test_each_command_that_tells_something_tells_it_as_json_too() -> None:
    leaves = {
        path.removeprefix("cdcbus "): command
        for path, command in commands(main, "cdcbus")
        if not isinstance(command, click.Group)
    }
    silent = {
        path
        for path, command in leaves.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert {path for path in silent if not path.startswith("stack ")} == WITHOUT_JSON


def test_help_answers_at_once_and_imports_nothing_slow() -> None:
    assert "Commands:" in process("--help").stdout
    fastest = min(_cpu_seconds("--help") for _ in range(3))
    assert fastest < 0.4
    check = (
        "import sys, cdcbus.ops.cli.main; print([m for m in ('pyspark', 'kazoo', "
        "'sqlalchemy', 'rich', 'pyarrow') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_commands_do_not_bring_the_web_server_with_them() -> None:
    names = (
        "task.list",
        "task.state",
        "commands.node",
        "offset.set",
        "commands.audit",
        "task.import_",
    )
    modules = ", ".join(f"cdcbus.ops.cli.{name}" for name in names)
    check = f"import sys, {modules}; print('fastapi' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
        == "False\n"
    )


def test_a_fetch_task_does_not_load_what_only_consumer_tasks_need() -> None:
    names = ("control.named_task", "control.until", "runtime.runner")
    modules = ", ".join(f"cdcbus.tasks.{name}" for name in names)
    check = (
        f"import sys, {modules}, cdcbus.producer.run; "
        "print([m for m in ('sqlalchemy', 'pyarrow', 'psycopg', 'pyspark') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
        == "[]\n"
    )


def _cpu_seconds(*arguments: str) -> float:
    """What it costs: how long it takes depends on what else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_list_names_lazy_commands_without_importing_them() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert re.search(r"^  demo +Run", result.stdout, re.MULTILINE)
    assert re.search(r"^  stack +Start", result.stdout, re.MULTILINE)


def test_version() -> None:
    assert re.fullmatch(r"cdcbus \d+\.\d+\.\d+\n", CliRunner().invoke(main, ["--version"]).stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["task", "nope"],
        ["task", "check"],
        ["task", "run"],
        ["offset", "show"],
        ["--nope"],
    ],
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Usage: cdcbus" in result.stderr


@pytest.mark.parametrize("name", ["a/b", "..", "a\nb", ""])
@pytest.mark.parametrize(
    "command", [["offset", "show"], ["task", "clone", "a"], ["node", "drain"], ["source", "show"]]
)
def test_an_impossible_id_is_wrong_usage(command: list[str], name: str) -> None:
    """An empty one, as of a variable that is not set, would stand for the folder of all."""
    result = CliRunner().invoke(main, [*command, name])
    assert result.exit_code == 2
    assert "expected a name" in result.stderr


def test_ten_faults_are_told_in_one_run_with_their_lines() -> None:
    file = Path(__file__).parents[3] / "golden" / "tasks" / "ten-faults.properties"
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


def test_run_refuses_a_bad_file_in_one_sentence(bad: Path) -> None:
    done = process("task", "run", str(bad))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{bad}:7: consumer.source.partition: wrong value 'x'; expected")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_run_logs_warnings_and_notes_and_needs_zookeeper(odd: Path) -> None:
    done = process("task", "run", "--zookeeper", "nonsense:port", str(odd))
    assert done.returncode == 1
    assert f"WARNING {odd}:7: mapper[0].auto" in done.stderr
    assert f"INFO {odd}:8: status" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("not a ZooKeeper address: 'nonsense:port'")
    assert "Traceback" not in done.stderr


def test_zookeeper_can_be_named_by_the_environment() -> None:
    result = CliRunner().invoke(
        main, ["offset", "show", "1"], env={"CDCBUS_ZOOKEEPER": "nonsense:port"}
    )
    assert result.exit_code == 1
    assert "nonsense:port" in result.stderr


def test_a_chroot_that_zookeeper_cannot_have_is_one_sentence() -> None:
    result = CliRunner().invoke(main, ["offset", "show", "1", "--zookeeper", "h:1/../x"])
    assert result.exit_code == 1
    assert result.stderr.startswith("not a ZooKeeper address: 'h:1/../x'")


class Failing:
    """Commands of the real command line that fail in a chosen way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self.error


def left_in_the_middle(error: Exception) -> Exception:
    """As a library raises it that is left by Ctrl-C."""
    error.__context__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        click.Abort(),
        left_in_the_middle(RuntimeError("release unlocked lock")),
    ],
)
def test_an_interrupt_exits_130_without_a_word(
    monkeypatch: pytest.MonkeyPatch, good: Path, error: BaseException
) -> None:
    monkeypatch.setattr("cdcbus.tasks.config.read_task.inspect_task", Failing(error))
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(good)])
    assert (result.exit_code, result.output) == (130, "")


def test_a_named_error_is_its_sentence(monkeypatch: pytest.MonkeyPatch, good: Path) -> None:
    monkeypatch.setattr(
        "cdcbus.tasks.config.read_task.inspect_task",
        Failing(ConfigError("what, where, what to do")),
    )
    result = CliRunner().invoke(main, ["task", "run", str(good)])
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "what, where, what to do\n")


def test_an_unexpected_error_is_one_line_and_a_trace_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, good: Path
) -> None:
    monkeypatch.setattr(
        "cdcbus.tasks.config.read_task.inspect_task", Failing(ZeroDivisionError("secret"))
    )
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(good)])
    assert result.exit_code == 1
    assert re.fullmatch(r"unexpected ZeroDivisionError; please report it.*\n", result.stderr)
    assert "secret" not in result.output
    traced = process_with_fault("--debug", "task", "check", "--offline", str(good))
    assert "Traceback" in traced.stderr
    assert traced.stderr.splitlines()[-1].startswith("unexpected ZeroDivisionError")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.EROFS, "Read-only file system", "/a"), "/a: Read-only file system; check"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device: make room"),
        (RuntimeError("can't start new thread"), "can't start new thread: raise the limit"),
    ],
)
def test_a_disk_that_takes_nothing_and_a_limit_of_threads_are_named(
    monkeypatch: pytest.MonkeyPatch, good: Path, error: Exception, sentence: str
) -> None:
    monkeypatch.setattr("cdcbus.tasks.config.read_task.inspect_task", Failing(error))
    result = CliRunner().invoke(main, ["task", "check", "--offline", str(good)])
    assert result.exit_code == 1
    assert result.stderr.startswith(sentence)


def process_with_fault(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys, cdcbus.tasks.config.read_task as p; from cdcbus.ops.cli.main import main\n"
        "def fail(*_, **__): 1 / 0\n"
        "p.inspect_task = fail; main(sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=30
    )


def test_a_real_interrupt_ends_a_real_process_quietly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "cdcbus", "offset", "show", "1", "--zookeeper", address]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            silent.settimeout(10)
            silent.accept()[0].close()
            running.send_signal(signal.SIGINT)
            output, errors = running.communicate(timeout=15)
    assert (running.returncode, output, errors) == (130, "", "")


def test_zookeeper_that_is_away_is_one_sentence_of_each_command(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    reset = process("offset", "reset", "1084", "--to", "latest", "--zookeeper", address)
    tree = process("task", "import", "--porter", address, "--output", str(tmp_path))
    for said in (reset, tree):
        assert said.returncode == 1
        (line,) = said.stderr.splitlines()
        assert line.startswith(f"ZooKeeper at {address} did not answer")


def test_an_interrupt_of_a_start_that_waits_for_a_server_exits_130(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    file = tmp_path / "fetch.properties"
    file.write_text(
        "taskId=1\nconsumer.consumerName=CanalFetch\nconsumer.converter=canalRow\n"
        f"consumer.source.address={address}\nconsumer.source.username=cdc\n"
        f"consumer.offset=latest\nloader.loaderName=KAFKA_SYNC\nloader.source.servers={address}\n"
        "loader.source.topic=shop\nloader.source.oggJson=false\n",
        encoding="utf-8",
    )
    positions = tmp_path / "positions.json"
    command = [sys.executable, "-m", "cdcbus", "task", "run", str(file), "--positions"]
    with subprocess.Popen([*command, str(positions)], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "keeps its positions in" in line:
                break
        # The next step asks Kafka, for ten seconds.
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=15)
    assert (running.returncode, errors) == (130, "")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["intt"], "init"),
        (["task", "startt", "1"], "start"),
        (["offset", "hystory", "1"], "history"),
    ],
)
def test_a_misspelt_command_is_answered_by_a_similar_one_though_not_imported_yet(
    words: list[str], meant: str
) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert f"No such command '{words[-1] if len(words) == 1 else words[1]}'." in result.stderr
    assert f"'{meant}'" in result.stderr.partition("Did you mean")[2]


def test_a_command_similar_to_none_is_only_named() -> None:
    result = CliRunner().invoke(main, ["task", "xyz"])
    assert (result.exit_code, "Did you mean" in result.stderr) == (2, False)
    assert "No such command 'xyz'." in result.stderr


def test_in_the_locale_c_a_character_is_escaped_and_does_not_end_the_command(odd: Path) -> None:
    odd.write_text(GOOD + "größe=1\n", encoding="utf-8")
    in_c = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = process("task", "check", "--offline", str(odd), **in_c)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"gr\xf6\xdfe" in done.stdout


def test_help_that_cannot_be_printed_ends_in_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cdcbus", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("No space left on device: make room")
