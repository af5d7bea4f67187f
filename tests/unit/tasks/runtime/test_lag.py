"""How far behind: what can be told without a server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cdcbus.consumer.batch.progress import Progress as LoadProgress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable, SourceUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import BinlogPosition, TopicPartition
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.progress import Progress
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.runtime import lag as lag_module
from cdcbus.tasks.runtime.lag import (
    Lag,
    binlog_unread,
    bytes_between,
    lag_meter,
    unread_share,
)

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
FILES = [("bin.1", 100), ("bin.2", 200), ("bin.3", 300), ("bin.4", 50)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (("bin.2", 4), ("bin.2", 60), 56),
        (("bin.2", 60), ("bin.2", 60), 0),
        (("bin.2", 150), ("bin.3", 10), 60),
        (("bin.1", 90), ("bin.4", 7), 10 + 200 + 300 + 7),
        (("bin.0", 4), ("bin.4", 7), None),  # purged
        (("bin.9", 4), ("bin.9", 7), 3),  # the files of one place need not be known
    ],
)
def test_the_bytes_of_a_binlog_between_two_places(
    start: tuple[str, int], end: tuple[str, int], expected: int | None
) -> None:
    assert bytes_between(FILES, start, end) == expected


@pytest.mark.parametrize(
    ("offset", "bounds", "record_bytes", "kept_bytes", "expected"),
    [
        (0, (0, 100), 100.0, 1_000_000, 0.01),  # all is unread, and the log is far from its limit
        (0, (0, 100), 100.0, 5_000, 1.0),
        (70, (50, 100), 1_000.0, 10_000, 0.6),  # of a full log
        (100, (50, 100), 1_000.0, 10_000, 0.0),
        (40, (50, 100), 1_000.0, 10_000, 1.0),  # what it needs is deleted already
        (0, (0, 0), 0.0, 10_000, 0.0),
    ],
)
def test_what_is_unread_of_a_log_that_is_kept_by_bytes(
    offset: int, bounds: tuple[int, int], record_bytes: float, kept_bytes: int, expected: float
) -> None:
    assert unread_share(offset, bounds, record_bytes, kept_bytes) == pytest.approx(expected)


def test_what_is_unread_of_a_binlog_is_told_where_the_server_keeps_so_many_bytes() -> None:
    share, words = binlog_unread(750, 1_000)
    assert (share, words.split(";")[0]) == (
        0.75,
        "750 bytes of the binlog are still to be read, and the server keeps 1,000 "
        "(max_binlog_total_size)",
    )
    assert binlog_unread(750, 0) == binlog_unread(None, 1_000) == (None, "")
    assert binlog_unread(2_000, 1_000)[0] == 1.0


@pytest.mark.parametrize(
    ("lag", "is_behind"),
    [(Lag(), False), (Lag(0), False), (Lag(3), True), (Lag(bytes=0), False), (Lag(bytes=9), True)],
)
def test_a_task_is_behind_only_where_that_is_known(lag: Lag, is_behind: bool) -> None:
    assert lag.is_behind is is_behind


A, B = ("a", 3306), ("b", 3306)
PAIR = FetchTask(
    "7",
    "shop",
    SourceConfig((A, B), "u"),
    FilterConfig(),
    PublishConfig("127.0.0.1:1", "t", "canalRow"),
)
ENDS = {A: ("bin.2", 100), B: ("bin.1", 70)}


class Server:
    """As a connection to the server of an address."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.end = BinlogPosition(*ENDS[address])

    def close(self) -> None:
        pass


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], str]:
    """The identities of the two servers that are there, by address. The binlog of the second one
    ends before that of the first one."""
    identities = {A: "uuid-a", B: "uuid-b"}

    def connect(source: SourceConfig, _: float) -> Server:
        if source.addresses[0] not in identities:
            raise SourceUnavailable("away")
        return Server(source.addresses[0])

    answers: dict[str, Any] = {
        "connect": connect,
        "identity": lambda server: identities[server.address],
        "global_variables": lambda *_: {},
        "latest_position": lambda server: server.end,
        "binlog_files": lambda _: FILES,
        "now_ms": lambda _: time.time() * 1000,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(servers, name, answer)
    return identities


def at_server(address: tuple[str, int], pos: int, server_uuid: str) -> Progress:
    committed_ms = int(time.time() * 1000) - 60_000
    position = BinlogPosition("bin.1", pos, timestamp_ms=committed_ms, server_uuid=server_uuid)
    return Progress(position=position, address=address)


@pytest.mark.parametrize("server_uuid", ["uuid-b", ""])
def test_after_a_failover_the_server_that_is_read_is_asked(
    pair: dict[tuple[str, int], str], server_uuid: str
) -> None:
    measure = lag_meter(PAIR)
    assert measure(at_server(A, 70, "uuid-a")).bytes == 130
    for gone in (None, A):
        if gone:
            del pair[gone]
        assert measure(at_server(B, 70, server_uuid)).seconds == 0.0
        behind = measure(at_server(B, 50, server_uuid))
        assert behind.bytes == 20
        assert behind.seconds is not None and behind.seconds >= 59


def test_a_place_in_the_binlog_of_another_server_is_not_compared(
    pair: dict[tuple[str, int], str],
) -> None:
    measure = lag_meter(PAIR)
    progress = at_server(A, 70, "uuid-b")
    assert progress.position is not None
    assert measure(progress) == Lag(last_row_ms=progress.position.timestamp_ms)
    # Another server behind the same address is noticed.
    pair[A] = "uuid-b"
    assert measure(progress).bytes == 130


class Logs:
    """As TopicLogs: the next record of each partition came an hour ago, and another one cannot be
    read."""

    def __init__(self, *_: object, fetches_one: bool) -> None:
        assert fetches_one

    def next_record(self, partition: TopicPartition, _offset: int) -> tuple[int, int, bytes]:
        if partition == TWO:
            raise BusUnavailable("silent")
        return 10, int((time.time() - 3600) * 1000), b"record"

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("bounds", "records", "hours"),
    [
        ({ONE: (0, 30), TWO: (0, 20)}, 30, 1),
        ({ONE: (0, 10), TWO: (0, 10)}, 0, 0),
        # Kafka does not answer about the others.
        ({ONE: (0, 30)}, 20, 1),
        ({ONE: (0, 10)}, None, None),
    ],
)
def test_the_lag_is_at_least_that_of_the_partitions_about_which_kafka_answers(
    monkeypatch: pytest.MonkeyPatch,
    bounds: dict[TopicPartition, tuple[int, int]],
    records: int | None,
    hours: int | None,
) -> None:
    monkeypatch.setattr(lag_module, "answered_bounds", lambda *_: bounds)
    monkeypatch.setattr(lag_module, "TopicLogs", Logs)
    retention = lag_module.Retention(86_400.0, {"t": 10})
    monkeypatch.setattr(lag_module, "topics_retention", lambda _: retention)
    task = LoadTask("7", TopicConfig("k:1", ("t",)), "canalRow", "JdbcBatch", JdbcTarget(""))
    lag = lag_meter(task)(LoadProgress(next_offsets={ONE: 10, TWO: 10}))
    seconds = None if lag.seconds is None else round(lag.seconds / 3600)
    assert (lag.records, seconds, lag.retention_seconds) == (records, hours, 86_400.0)
    assert lag.is_behind is bool(records)
    assert lag.kept_unread == (pytest.approx(2 / 3) if records else 0.0)
