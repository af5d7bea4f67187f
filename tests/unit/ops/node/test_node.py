"""What a node decides by itself: what it may take, when it starts a failed task again, and what
it keeps of what a task prints."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.ops.node import task_process
from cdcbus.ops.node.task_end import SENTENCE_FOLLOWS
from cdcbus.ops.node.task_process import TaskProcess
from cdcbus.ops.services.offer import Offer, read_offer
from cdcbus.plugins.errors import ConfigError


@pytest.mark.parametrize(
    ("node_ids", "is_taken"),
    [
        (None, True),
        ("", True),
        ("n1", True),
        (" n2 , n1 ", True),
        ("n2", False),
        (["n2"], False),
        (["n1"], True),
    ],
)
def test_a_task_is_for_the_nodes_that_its_text_names(node_ids: object, is_taken: bool) -> None:
    assert read_offer({"nodeId": node_ids}, ["a"]).is_for("n1") is is_taken


@pytest.mark.parametrize(
    ("theirs", "own", "is_taken"),
    [("", "", True), ("prod", "prod", True), ("prod", "", False), ("", "prod", False)],
)
def test_a_task_is_for_the_nodes_of_its_environment(theirs: str, own: str, is_taken: bool) -> None:
    offer = read_offer({"environment": theirs, "nodeId": "n1"}, ["a"])
    assert offer.is_for("n1", own) is is_taken
    assert not offer.is_for("n2", own)


def test_porters_numbers_and_texts_are_both_understood() -> None:
    assert read_offer({"restartRetries": "3", "restartIncreaseBySecond": 7}, ["a", "b"]) == Offer(
        ("a", "b"), (), 3, 7
    )
    assert read_offer({"restartRetries": None}, []) == Offer((), (), 20, 300)
    with pytest.raises(ConfigError, match="restartRetries: wrong value; expected a whole number"):
        read_offer({"restartRetries": "many"}, [])


@pytest.mark.parametrize(
    ("keys", "is_shared", "spark_keys"),
    [
        ({}, True, ()),
        ({"spark.isolated": "false"}, True, ()),
        ({"spark.isolated": True}, False, ()),
        ({"spark.driver.memory": "2g"}, False, ("spark.driver.memory",)),
        (
            {"loader": {"source": {"spark.driver.memory": "2g"}}},
            False,
            ("loader.source.spark.driver.memory",),
        ),
    ],
)
def test_a_consumer_task_without_settings_of_spark_shares_the_nodes_application(
    keys: dict[str, object], is_shared: bool, spark_keys: tuple[str, ...]
) -> None:
    offer = read_offer({"consumer": {"consumerName": "KafkaFetch"}, **keys}, ["a"])
    assert (offer.is_shared, offer.spark_keys) == (is_shared, spark_keys)
    assert not read_offer({"consumer": {"consumerName": "CanalFetch"}, **keys}, ["a"]).is_shared
    with pytest.raises(ConfigError, match=r"spark\.isolated: wrong value; expected true or false"):
        read_offer({"consumer": {"consumerName": "KafkaFetch"}, "spark.isolated": "maybe"}, ["a"])


@given(st.integers(1, 1000))
def test_pauses_grow_and_who_was_killed_waits_for_seconds_only(restarts: int) -> None:
    offer = Offer(("a",), restart_increase_seconds=300)
    assert offer.pause_seconds(restarts, is_crash=False) == 300 * restarts
    pauses = [offer.pause_seconds(restarts + more, is_crash=True) for more in (0, 1)]
    assert pauses[0] <= pauses[1] <= 20


def printed(text: str, log: Path, code: int = 0) -> TaskProcess:
    """A process that has printed a text and ended."""
    words = [sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.exit({code})"]
    over = threading.Event()
    process = TaskProcess(
        subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True), log, over.set
    )
    assert over.wait(30)
    return process


def test_the_last_words_are_the_sentence_behind_the_log(tmp_path: Path) -> None:
    log = "2026-01-01 00:00:00,000 INFO task 1 reads\nKafka topic x is not there\ncreate it\n"
    process = printed(log, tmp_path / "logs" / "1.log", code=3)
    assert (process.ended(), process.last_words()) == (3, "Kafka topic x is not there\ncreate it")
    assert (tmp_path / "logs" / "1.log").read_text() == log
    assert printed("", tmp_path / "2.log").last_words() == ""
    assert (
        printed("2026-01-01 00:00:00,000 INFO x\n", tmp_path / "3.log")
        .last_words()
        .endswith("INFO x")
    )


def test_a_process_that_has_ended_is_killed_once_with_what_it_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later its number can be that of another process."""
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda number, _: killed.append(number))
    process = printed("x\n", tmp_path / "1.log", code=3)
    for _ in range(2):
        assert process.ended() == 3
        process.kill()
    assert killed == [process.pid]
    assert (process.ended(), process.last_words()) == (3, "x")


def test_a_process_that_no_signal_ends_does_not_hold_up_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a dead disk: the node has other tasks."""
    monkeypatch.setattr(task_process, "KILL_SECONDS", 0.1)
    over = threading.Event()
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = TaskProcess(
        subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True),
        tmp_path / "1.log",
        over.set,
    )
    with monkeypatch.context() as no_signals:
        no_signals.setattr(os, "killpg", lambda *_: None)
        for _ in range(2):
            process.kill()
            assert process.ended() is None
    # It is tried again, and the disk is back.
    process.kill()
    assert over.wait(30)
    assert process.ended() == -signal.SIGKILL


def test_what_a_task_leaves_running_as_another_user_does_not_end_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    process = printed("x\n", tmp_path / "1.log", code=3)
    monkeypatch.setattr(os, "killpg", refuse)
    assert (process.ended(), process.ended()) == (3, 3)
    assert caplog.text.count("has left processes of another user running") == 1


def test_what_it_printed_is_read_to_its_end_before_who_has_killed_it_reads_its_sentence(
    tmp_path: Path,
) -> None:
    # The pipe holds thousands of lines more when it has ended.
    words = [sys.executable, "-c", "import sys; print('x\\n' * 20_000 + 'no Java'); sys.exit(3)"]
    process = TaskProcess(
        subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True),
        tmp_path / "1.log",
        lambda: None,
    )
    process.wait(30)
    process.kill()
    assert (process.ended(), process.last_words().splitlines()[-1]) == (3, "no Java")


def test_a_warning_about_settings_is_no_part_of_the_last_words(tmp_path: Path) -> None:
    text = f"warning: alarm.url: no such key\n{SENTENCE_FOLLOWS}\nTask 1: wrong\nwarning signs\n"
    assert printed(text, tmp_path / "1.log", 78).last_words() == "Task 1: wrong\nwarning signs"
    plain = printed("warning: alarm.url: no such key\nTask 1: wrong\n", tmp_path / "2.log", 1)
    assert plain.last_words() == "Task 1: wrong"


def test_a_log_is_rotated_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_process, "LOG_BYTES", 100)
    lines = [f"line {number}\n" for number in range(100)]
    printed("".join(lines), tmp_path / "1.log")
    files = [tmp_path / "1.log", *(tmp_path / f"1.log.{number}" for number in range(1, 6))]
    assert all(file.stat().st_size <= 100 for file in files)
    kept = "".join(file.read_text() for file in reversed(files))
    assert "".join(lines).endswith(kept)
    assert not (tmp_path / "1.log.6").exists()


def test_a_log_that_cannot_be_written_stops_no_task(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert printed("x\n", tmp_path / "file" / "1.log").ended() == 0
