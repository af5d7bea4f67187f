import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.processes import Account
from cdcbus.plugins.errors import CdcError, ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.kill(tmp_path)


def wait_for_log(folder: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in processes.log_file(folder).read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_runs_until_it_is_stopped(folder: Path) -> None:
    assert not processes.is_running(folder)
    processes.start(folder, ["sleep", "100"], None)
    assert processes.is_running(folder)
    pid = processes.pid(folder)
    assert pid is not None
    assert os.getsid(pid) == pid != os.getsid(0)
    processes.stop(folder, signal.SIGTERM, patience_seconds=10)
    assert not processes.is_running(folder)
    assert processes.pid(folder) is None


def test_who_does_not_listen_is_killed(folder: Path) -> None:
    processes.start(
        folder, ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], None
    )
    wait_for_log(folder, "ready")
    processes.stop(folder, signal.SIGTERM, patience_seconds=0.2)
    assert not processes.is_running(folder)


def test_a_server_that_closes_its_standard_input_still_counts(folder: Path) -> None:
    processes.start(folder, ["/bin/sh", "-c", "exec 0<&-; echo ready; exec sleep 100"], None)
    wait_for_log(folder, "ready")
    assert processes.is_running(folder)


def test_a_server_runs_as_long_as_a_child_of_it(folder: Path) -> None:
    processes.start(folder, ["/bin/sh", "-c", "sleep 100 & echo child=$!; wait"], None)
    wait_for_log(folder, "child=")
    server = processes.pid(folder)
    assert server is not None
    os.kill(server, signal.SIGKILL)
    child = int(processes.log_file(folder).read_text().partition("=")[2])
    assert processes.is_running(folder)
    os.kill(child, signal.SIGKILL)
    assert processes._await(lambda: not processes.is_running(folder), 10)


def test_a_reused_process_id_is_not_the_server(folder: Path) -> None:
    (folder / "pid").write_text(f"{os.getpid()}\n")
    assert not processes.is_running(folder)
    # would end this test if it believed the file
    processes.stop(folder, signal.SIGKILL, patience_seconds=1)


def test_asking_does_not_disturb_a_start(folder: Path) -> None:
    for _ in range(20):
        processes.start(folder, ["sleep", "100"], None)
        assert processes.is_running(folder)
        processes.kill(folder)


def test_the_log_of_the_time_before_is_kept(folder: Path) -> None:
    for word in ("first", "second"):
        processes.start(folder, ["echo", word], None)
        wait_for_log(folder, word)
        assert processes._await(lambda: not processes.is_running(folder), 10)
    assert (folder / "log.old").read_text() == "first\n"


def test_settings_of_the_caller_do_not_reach_a_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    processes.start(folder, ["env"], None)
    wait_for_log(folder, "TZ=UTC")
    assert "PGDATA" not in processes.log_file(folder).read_text()


def test_a_command_that_fails_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CdcError, match=r"sh failed in .*: FATAL: no more"):
        processes.run(
            ["/bin/sh", "-c", "echo begin; echo FATAL: no more; echo end; exit 1"], None, tmp_path
        )


def test_a_command_reads_its_input(tmp_path: Path) -> None:
    processes.run([sys.executable, "-c", "assert input() == 'hello'"], None, tmp_path, "hello\n")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("one\n[ERROR] two\n[ERROR] three\nfour\n", "[ERROR] two"),
        ("one\ntwo\n\n", "two"),
        ("", "it printed nothing"),
    ],
)
def test_relevant_line(output: str, line: str) -> None:
    assert processes.relevant_line(output) == line


def test_a_closed_folder_on_the_way_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "home").mkdir(parents=True)
    owner = Account("owner", os.geteuid(), os.getegid())
    owner.check_can_enter(closed / "home")
    closed.chmod(0o600)
    with pytest.raises(
        ConfigError, match=f"owner, as whom they run instead, cannot enter {closed}:"
    ):
        owner.check_can_enter(closed / "home")


def test_mode_of_others_counts_for_others() -> None:
    stranger = Account("stranger", os.geteuid() + 1, os.getegid() + 1)
    # not in pytest's own folder, which is closed for others
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o701)
        stranger.check_can_enter(folder)
        folder.chmod(0o770)
        with pytest.raises(
            ConfigError, match=f"stranger, as whom they run instead, cannot enter {folder}:"
        ):
            stranger.check_can_enter(folder)


def test_umask_lasts_for_the_block(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with processes.umask(0o022):
            (tmp_path / "open").touch()
        (tmp_path / "closed").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0o600
