"""How a command ends that fails or is interrupted: its sentence and its exit code. A real process
where the process is the point."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.plugins.errors import ConfigError
from tests.unit.ops.cli.runs import Failing, process


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


@pytest.mark.parametrize(
    "moment",
    [
        # while the command line is imported, once the process of any Python has come so far
        "class Finder:\n def find_spec(self, name, *_):\n  if name == 'click': interrupt()\n"
        "sys.meta_path.insert(0, Finder())",
        "import atexit; atexit.register(interrupt)",
    ],
    ids=["start", "end"],
)
def test_an_interrupt_while_the_program_starts_or_ends_leaves_no_stack_trace(
    tmp_path: Path, moment: str
) -> None:
    begun = "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    interrupt = "def interrupt(): os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "sitecustomize.py").write_text(begun + interrupt + moment, encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    ended = process("--version", PYTHONPATH=path)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize("words", [["init"], ["task", "new"]])
def test_where_standard_input_is_closed_nobody_can_answer(words: list[str]) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "cdcbus", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "terminal" in ended.stderr.splitlines()[-1]


def test_zookeeper_that_is_away_is_one_sentence_of_each_command(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    reset = process("offset", "reset", "1084", "--to", "latest", "--zookeeper", address)
    tree = process("task", "import", "--porter", address, "--output", str(tmp_path))
    for said in (reset, tree):
        assert said.returncode == 1
        (line,) = said.stderr.splitlines()
        assert line.startswith(f"ZooKeeper at {address} did not answer")


FETCH = """\
consumer.consumerName=CanalFetch
consumer.converter=canalRow
consumer.source.address={0}
consumer.source.username=cdc
consumer.offset=latest
loader.loaderName=KAFKA_SYNC
loader.source.servers={0}
loader.source.topic=shop
loader.source.oggJson=false
"""


LOAD = """\
consumer.consumerName=KafkaFetch
consumer.source.servers={0}
consumer.source.topics=shop
consumer.source.firstConsumeFrom=earliest
loader.loaderName=JdbcSqlDebug
loader.source.url=jdbc:postgresql://{0}/shop
"""


@pytest.mark.parametrize("task", [FETCH, LOAD])
def test_a_start_that_waits_for_kafka_says_so_and_ends_at_an_interrupt(
    tmp_path: Path, task: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    file = tmp_path / "task.properties"
    file.write_text("taskId=1\n" + task.format(address), encoding="utf-8")
    command = [sys.executable, "-m", "cdcbus", "task", "run", str(file), "--positions"]
    with subprocess.Popen(
        [*command, str(tmp_path / "positions.json")], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert any(f"waiting for an answer of Kafka at {address}" in e for e in running.stderr)
        # It would wait eight seconds longer.
        running.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, errors = running.communicate(timeout=15)
    assert time.monotonic() - begun < 6
    assert (running.returncode, errors) == (130, "")


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
