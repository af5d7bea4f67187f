"""What the doctor makes of what it sees."""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.ops.doctor import installation
from cdcbus.ops.doctor.clocks import describe_skew
from cdcbus.ops.doctor.kafka import advertised, broker_settings, replicas
from cdcbus.ops.doctor.machine import compiled
from cdcbus.ops.doctor.zookeeper import ask, quorum
from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.preflight.result import Outcome
from tests.support.servers.silent_server import silent_server
from tests.unit.ops.cli.runs import Failing, in_memory


@pytest.mark.parametrize(
    ("servers", "answering", "outcome"),
    [
        (1, 0, "error"),
        (1, 1, "warning"),
        (2, 1, "error"),
        (3, 1, "error"),
        (3, 2, "warning"),
        (3, 3, "ok"),
        (4, 4, "warning"),
        (5, 2, "error"),
    ],
)
def test_a_quorum_is_more_than_half_and_one_server_survives_nothing(
    servers: int, answering: int, outcome: str
) -> None:
    assert quorum(servers, answering).outcome == outcome


def test_a_name_that_leads_each_client_to_itself_is_an_error_unless_the_tasks_name_this_machine() -> (
    None
):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert advertised(1, "127.0.0.1", port, is_local=True).outcome is Outcome.OK
        assert "its own machine" in advertised(1, "localhost", port, is_local=False).found
    assert "nothing answers" in advertised(1, "127.0.0.1", port, is_local=True).found
    assert advertised(1, "no-such-host.invalid", 9092, is_local=False).outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("partitions", "brokers", "outcome", "word"),
    [
        ([(1, 1, True)], 1, "ok", "factor 1"),
        ([(1, 1, True)], 3, "warning", "lost disk"),
        ([(3, 2, True), (3, 3, True)], 3, "warning", "1 with replicas that lag"),
        ([(3, 0, False)], 3, "error", "without a leader"),
        ([(3, 3, True)] * 2, 3, "ok", "2 partitions"),
    ],
)
def test_replicas_are_judged_by_how_many_brokers_there_are(
    partitions: list[tuple[int, int, bool]], brokers: int, outcome: str, word: str
) -> None:
    seen = replicas("t", partitions, brokers)
    assert (seen.outcome, word in seen.found) == (outcome, True), seen


def test_settings_that_ask_for_more_brokers_than_there_are_or_keep_records_in_a_temporary_folder_are_told() -> (
    None
):
    told = list(
        broker_settings(
            1, {"transaction.state.log.replication.factor": "3", "log.dirs": "/tmp/kafka-logs"}, 1
        )
    )
    assert [seen.outcome for seen in told] == [Outcome.ERROR, Outcome.WARNING]
    assert "transaction.state.log.replication.factor=1" in told[0].remedy
    assert [
        seen.outcome
        for seen in broker_settings(
            1, {"offsets.topic.replication.factor": "1", "log.dirs": "/data"}, 3
        )
    ] == [Outcome.WARNING]
    assert [
        seen.outcome
        for seen in broker_settings(
            1, {"offsets.topic.replication.factor": "3", "log.dirs": "/data"}, 3
        )
    ] == [Outcome.OK]


@pytest.mark.parametrize(
    ("seconds", "word"), [(0.5, "within"), (-7.25, "7.2 s behind"), (7.25, "7.2 s ahead of")]
)
def test_a_clock_that_is_seconds_off_is_told_with_its_direction(seconds: float, word: str) -> None:
    assert word in describe_skew("clock", "this machine's", seconds).found


@pytest.mark.parametrize(
    ("answer", "raises"),
    [
        (b"Zookeeper version: 3.9.4-x\nMode: leader\n", False),
        (b"This ZooKeeper instance is not currently serving requests", True),
        (b"", True),
    ],
)
def test_a_server_that_has_lost_the_others_does_not_count_as_answering(
    answer: bytes, raises: bool, serving: Callable[[bytes], int]
) -> None:
    port = serving(answer)
    if raises:
        with pytest.raises(PositionUnavailable, match="serves no requests"):
            ask("127.0.0.1", port)
    else:
        assert "leader" in ask("127.0.0.1", port)


@pytest.fixture
def serving() -> Callable[[bytes], int]:
    """Answers one connection on a port."""

    def serve(answer: bytes) -> int:
        listening = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            with listening, listening.accept()[0] as connection:
                connection.recv(4)
                connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return int(listening.getsockname()[1])

    return serve


def test_whether_the_compiled_decoder_is_in_use_is_told_and_why_it_is_not() -> None:
    assert [seen.found for seen in compiled("")] == ["in use"]
    (seen,) = compiled("it is not built")
    assert (seen.outcome, seen.found.startswith("not in use, as it is not built")) == (
        Outcome.OK,
        True,
    )


def test_a_zookeeper_that_is_silent_is_asked_once_and_named_meanwhile() -> None:
    with silent_server() as address:
        result = CliRunner().invoke(main, ["doctor", "--json", "--zookeeper", address])
    assert result.exit_code == 1
    assert result.stderr == "looking at ZooKeeper\n"
    subjects = [each["subject"] for each in json.loads(result.stdout) if each["outcome"] == "error"]
    assert subjects == [f"ZooKeeper {address}", "ZooKeeper quorum"]
    assert "does not answer: timed out" in result.stdout


def test_a_task_whose_texts_are_refused_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = in_memory(monkeypatch, installation)
    for task_id in ("7", "8"):
        zookeeper.put(f"/datas/task/{task_id}/dist/lane", {})
    zookeeper.put("/datas/task/9/minutes", {})  # it runs from a file
    zookeeper.refused.add("/datas/task/7/dist")
    monkeypatch.setattr(installation, "inspect_named", Failing(ConfigError("unreadable")))
    seen = installation._read(read_bus_settings({}, None, {}, Path()), [], {})
    assert [each.subject for each in seen] == ["task 7", "task 8", "tasks"]
