"""Times that name no zone, read in the zone that a task names."""

from typing import Any

import orjson
import pytest

from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.registry import make_converter, takes_zone
from cdcbus.plugins.rowchange import Row

OGG = {"table": "S.T", "op_type": "I", "op_ts": "2024-05-01 03:04:05.678", "after": {"AT": "x"}}
CANAL: dict[str, Any] = {
    "database": "shop",
    "table": "orders",
    "type": "UPDATE",
    "es": 1_714_532_645_000,
    "mysqlType": {"id": "int", "at": "timestamp(3)", "made": "TIMESTAMP", "due": "datetime"},
    "sqlType": {"id": 4, "at": 93, "made": 93, "due": 93},
    "pkNames": ["id"],
    "data": [
        {
            "id": "1",
            "at": "2024-05-01 08:00:00.500",
            "made": "0000-00-00 00:00:00",
            "due": "2024-05-01 08:00:00",
        }
    ],
    "old": [{"at": "2024-05-01 07:59:59.000", "made": None}],
}


def commit_ms(converter: str, zone: str, op_ts: str) -> int:
    (change,) = make_converter(converter, zone).from_bytes(orjson.dumps(OGG | {"op_ts": op_ts}))
    assert change.after == {"AT": "x"}
    return change.origin.commit_ms


def rows(converter: str, zone: str, message: dict[str, Any] = CANAL) -> tuple[Row, Row]:
    (change,) = make_converter(converter, zone).from_bytes(orjson.dumps(message))
    assert change.origin.commit_ms == CANAL["es"]
    return change.before or {}, change.after or {}


@pytest.mark.parametrize("converter", ["oggJson", "porterCompat", "auto"])
@pytest.mark.parametrize(
    ("zone", "op_ts", "expected"),
    [
        ("", "2024-05-01 03:04:05.678", 1_714_532_645_678),
        ("Asia/Shanghai", "2024-05-01 11:04:05.678", 1_714_532_645_678),
        ("-03:30", "2024-04-30T23:34:05.678", 1_714_532_645_678),
        # it says itself what zone it is of
        ("Asia/Shanghai", "2024-05-01T03:04:05.678Z", 1_714_532_645_678),
        ("", "2024-05-01 11:04:05.678123456+08:00", 1_714_532_645_678),
        ("Asia/Shanghai", "2024-05-01", 1_714_492_800_000),
        # skipped by clocks, and shown twice
        ("Europe/Berlin", "2024-03-31 02:30:00", 1_711_848_600_000),
        ("Europe/Berlin", "2024-10-27 02:30:00", 1_729_989_000_000),
        ("Asia/Shanghai", "soon", 0),
    ],
)
def test_op_ts_is_a_time_of_the_zone(converter: str, zone: str, op_ts: str, expected: int) -> None:
    assert commit_ms(converter, zone, op_ts) == expected


@pytest.mark.parametrize("converter", ["canalRow", "canalCompat", "auto"])
def test_timestamps_of_canal_are_times_of_the_zone_and_nothing_else_is(converter: str) -> None:
    before, after = rows(converter, "Asia/Shanghai")
    assert after == {**CANAL["data"][0], "at": "2024-05-01 00:00:00.500"}
    assert before == {**after, "at": "2024-04-30 23:59:59.000", "made": None}
    assert rows(converter, "")[1] == CANAL["data"][0]


@pytest.mark.parametrize("converter", ["canalRow", "canalCompat", "auto"])
def test_what_cdcbus_has_written_is_utc_already(converter: str) -> None:
    assert rows(converter, "Asia/Shanghai", CANAL | {"txLast": True})[1] == CANAL["data"][0]


def test_a_timestamp_that_clocks_skip_is_refused_without_its_value() -> None:
    message = CANAL | {"data": [{**CANAL["data"][0], "at": "2024-03-31 02:30:00.000"}]}
    with pytest.raises(ConversionError, match=r"column at .* Europe/Berlin") as refused:
        rows("canalRow", "Europe/Berlin", message)
    assert "02:30" not in str(refused.value)


def test_a_canal_record_without_types_is_refused_while_a_zone_is_named() -> None:
    message = {name: value for name, value in CANAL.items() if name != "mysqlType"}
    with pytest.raises(ConversionError, match="names no types"):
        rows("canalRow", "Asia/Shanghai", message)
    assert rows("canalRow", "", message)[1] == CANAL["data"][0]


def test_formats_whose_times_name_their_zone_take_none() -> None:
    assert not takes_zone("debeziumJson") and not takes_zone("maxwellJson")
    make_converter("debeziumJson", "Asia/Shanghai")


def test_a_zone_that_this_machine_does_not_know_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match="tzdata"):
        make_converter("oggJson", "Mars/Olympus")
