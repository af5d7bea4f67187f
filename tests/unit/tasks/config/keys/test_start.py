import pytest

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import AfterOffset, AtGtid, AtTime, BinlogStart, Edge, KafkaStart, Replay
from cdcbus.tasks.config.keys.start import BINLOG_START, KAFKA_START

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("1343115467", AfterOffset(1343115467)),
        ("-1", AfterOffset(-1)),
        ("2788838-2791608", Replay(2788838, 2791608)),
        ("7-7", Replay(7, 7)),
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("1970-01-01T00:00:01.5", AtTime(1500)),
        ("2024-05-01T03:04:05+08:00", AtTime(1714503845000)),
        ("2024-05-01 03:04:05Z", AtTime(1714532645000)),
        ("2024-05-01", AtTime(1714521600000)),
    ],
)
def test_kafka(text: str, start: KafkaStart) -> None:
    assert KAFKA_START.read(text) == start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("mysql-bin.000064", BinlogPosition("mysql-bin.000064", 4)),
        ("mysql-bin.000064:1234", BinlogPosition("mysql-bin.000064", 1234)),
        ("on.master.log.1000000", BinlogPosition("on.master.log.1000000", 4)),
        (f"{UUID}:1-5", AtGtid(f"{UUID}:1-5")),
        (f"{UUID}:1-5:7,\n {UUID}:9", AtGtid(f"{UUID}:1-5:7,{UUID}:9")),
        (f"{UUID.upper()}:tag_1:1-5", AtGtid(f"{UUID.upper()}:tag_1:1-5")),
        ("0-1-100", AtGtid("0-1-100")),
        ("0-1-100,1-2-3", AtGtid("0-1-100,1-2-3")),
        ("latest", Edge.LATEST),
        ("2024-05-01T03:04:05.250Z", AtTime(1714532645250)),
        ("2024-05-01", AtTime(1714521600000)),
        ("2024-11-12T00:00", AtTime(1731369600000)),
        ("20241-11-12", AtGtid("20241-11-12")),
    ],
)
def test_binlog(text: str, start: BinlogStart) -> None:
    assert BINLOG_START.read(text) == start


@pytest.mark.parametrize(
    "text",
    [
        "-2",
        "1.5",
        "9-8",
        "1-",
        "99999999999999999999",
        "9223372036854775808",
        "Latest",
        "mysql-bin.000064",
        "2024-13-01",
        "1969-12-31",
    ],
)
def test_not_for_kafka(text: str) -> None:
    with pytest.raises(ValueError):
        KAFKA_START.read(text)


@pytest.mark.parametrize(
    "text",
    [
        "64",
        "1-2",
        "mysql-bin",
        "mysql-bin.000064:3",
        "mysql-bin.000064:",
        "a b.000001",
        UUID,
        f"{UUID}:x y",
        f"{UUID}:1-9223372036854775808",
        "0-1-18446744073709551616",
        "0-4294967296-1",
        "2024-11-12",  # a day, or a GTID: nobody can tell
        "2024-13-01",
    ],
)
def test_not_for_binlogs(text: str) -> None:
    with pytest.raises(ValueError):
        BINLOG_START.read(text)
