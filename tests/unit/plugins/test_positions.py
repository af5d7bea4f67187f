from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import (
    BinlogPosition,
    KafkaPosition,
    Published,
    kafka_positions_from_json,
    kafka_positions_to_json,
)

TOPICS = st.text(st.characters(codec="utf-8"), min_size=1)
KAFKA = st.builds(KafkaPosition, TOPICS, st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1))
BINLOG = st.builds(
    BinlogPosition,
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.integers(0, 2**63 - 1),
    st.integers(-(2**31), 2**63 - 1),
    st.text(st.characters(codec="utf-8")),
    st.integers(0, 2**53),
    st.text(st.characters(codec="utf-8")),
    st.integers(0, 2**53),
)


def test_a_binlog_position_is_porters_json() -> None:
    assert (
        BinlogPosition("mysql-bin.000501", 4, 7).to_json()
        == '{"batchId":7,"logfileName":"mysql-bin.000501","offset":4}'
    )


def test_what_porter_does_not_know_stands_behind_what_it_knows() -> None:
    position = BinlogPosition(
        "mysql-bin.000501",
        4,
        7,
        "0-1-100",
        1700000000000,
        "3e11fa47-71ca-11e1-9e33-c80aa9429562",
        1600000000000,
    )
    assert position.to_json() == (
        '{"batchId":7,"logfileName":"mysql-bin.000501","offset":4,"gtid":"0-1-100","timestamp":1700000000000,'
        '"serverUuid":"3e11fa47-71ca-11e1-9e33-c80aa9429562","fileTimestamp":1600000000000}'
    )
    assert str(position) == "mysql-bin.000501:4"


@given(BINLOG)
def test_a_binlog_position_survives_its_text(position: BinlogPosition) -> None:
    assert BinlogPosition.from_json(position.to_json()) == position


def test_what_is_published_is_part_of_the_text() -> None:
    published = Published("bin.000002", 9, "h", 1_600_000_000_000)
    position = BinlogPosition("bin.000001", 4, published=published)
    assert position.to_json() == (
        '{"batchId":-1,"logfileName":"bin.000001","offset":4,"published":{"logfileName":"bin.000002",'
        '"offset":9,"gtid":"h","fileTimestamp":1600000000000}}'
    )
    assert BinlogPosition.from_json(position.to_json()) == position


def test_a_position_is_reached_up_to_where_the_binlog_is_published() -> None:
    plain = BinlogPosition("bin.000001", 4, gtid="g")
    assert plain.reached == plain
    held = replace(plain, server_uuid="s", published=Published("bin.000002", 9, "h"))
    assert held.reached == BinlogPosition("bin.000002", 9, gtid="h", server_uuid="s")


@pytest.mark.parametrize(
    "cursor",
    [
        '{"@type":"x","identity":{"slaveId":-1},"postion":{"gtid":"","included":false,"journalName":"mysql-bin.000064","position":1234,'
        '"serverId":1,"timestamp":1700000000000}}',
        '{"identity":{},"position":{"journalName":"mysql-bin.000064","position":1234,"timestamp":1700000000000}}',
        '{"journalName":"mysql-bin.000064","position":1234,"timestamp":1700000000000}',
    ],
)
def test_canals_cursor_is_read(cursor: str) -> None:
    assert BinlogPosition.from_json(cursor) == BinlogPosition(
        "mysql-bin.000064", 1234, timestamp_ms=1700000000000
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mysql-bin.000064",
        "[]",
        "{}",
        '{"logfileName":"mysql-bin.000064"}',
        '{"logfileName":"","offset":4}',
        '{"logfileName":"mysql-bin.000064","offset":-1}',
        '{"logfileName":"mysql-bin.000064","offset":"4"}',
        '{"logfileName":"mysql-bin.000064","offset":true}',
        '{"offset":41,"partition":0,"positionKey":"orders_0","topic":"orders"}',
    ],
)
def test_anything_else_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(PositionError, match=r"not JSON|expected \{"):
        BinlogPosition.from_json(text)


def test_a_kafka_position_is_porters_json() -> None:
    position = KafkaPosition("orders", 0, 41)
    assert (
        kafka_positions_to_json([position])
        == '{"offset":41,"partition":0,"positionKey":"orders_0","topic":"orders"}'
    )
    assert str(position) == "orders[0]@41"
    assert position.next_offset == 42


def test_several_partitions_are_one_array_in_their_order() -> None:
    positions = [KafkaPosition("orders", 10, 1), KafkaPosition("orders", 9, -1)]
    assert kafka_positions_to_json(positions) == (
        '[{"offset":-1,"partition":9,"positionKey":"orders_9","topic":"orders"},{"offset":1,"partition":10,"positionKey":"orders_10","topic":"orders"}]'
    )


@given(st.lists(KAFKA, min_size=1, unique_by=lambda position: (position.topic, position.partition)))
def test_kafka_positions_survive_their_text(positions: list[KafkaPosition]) -> None:
    assert sorted(kafka_positions_from_json(kafka_positions_to_json(positions)), key=str) == sorted(
        positions, key=str
    )


def test_what_operators_type_is_read() -> None:
    assert kafka_positions_from_json(b' { "topic": "orders", "partition": 0, "offset": 41 } ') == [
        KafkaPosition("orders", 0, 41)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "41",
        "[]",
        "null",
        "[[]]",
        '{"offset":41,"partition":0}',
        '{"offset":41,"partition":0,"topic":""}',
        '{"offset":41,"partition":-1,"topic":"orders"}',
        '{"offset":-2,"partition":0,"topic":"orders"}',
        '{"offset":"41","partition":0,"topic":"orders"}',
        '{"offset":4.5,"partition":0,"topic":"orders"}',
        '[{"offset":1,"partition":0,"topic":"orders"},{"offset":2,"partition":0,"topic":"orders"}]',
        '{"batchId":7,"logfileName":"mysql-bin.000501","offset":4}',
    ],
)
def test_anything_else_is_no_kafka_position(text: str) -> None:
    with pytest.raises(PositionError):
        kafka_positions_from_json(text)


@given(st.one_of(st.text(), st.binary(), st.recursive(st.none() | st.text(), st.lists).map(str)))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    for read in (BinlogPosition.from_json, kafka_positions_from_json):
        try:
            read(text)
        except PositionError as error:
            assert len(str(error)) < 700
