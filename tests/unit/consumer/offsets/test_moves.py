from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable

import pytest

from cdcbus.consumer.offsets.moves import FirstRecords, TableTopics, writer_of
from cdcbus.consumer.offsets.topic_logs import LogRecord
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId

ITEMS = Table(TableId("shop", "items"), (Column("id"),), ("id",))
CANAL = CanalRow()


def key_of(number: int) -> bytes:
    return f"{number}_".encode()


def placed(
    keys: Iterable[bytes], count: int, partition: Callable[[bytes, int], int] = partition_of
) -> list[LogRecord]:
    return [
        LogRecord(TopicPartition("shop", partition(key, count)), 0, b"", 0, key) for key in keys
    ]


def grown(records: list[LogRecord], count: int) -> bool:
    return FirstRecords(records, {"shop": count}).grown_topic() == "shop"


@pytest.mark.parametrize("count", [1, 2, 3, 12])
def test_a_topic_that_never_grew_is_not_taken_for_one_that_did(count: int) -> None:
    keys = map(key_of, range(500))
    assert not grown(placed(keys, count), count)


@pytest.mark.parametrize("counts", [(1, 4), (2, 3), (2, 4), (1, 2, 4), (3, 12), (11, 12)])
def test_records_from_before_partitions_were_added_are_known_by_their_keys(
    counts: tuple[int, ...],
) -> None:
    records: list[LogRecord] = []
    for era, count in enumerate(counts):
        records += placed(map(key_of, range(era * 5, 100 + era * 5)), count)
    assert grown(records, counts[-1])


def test_partitions_without_a_record_yet_count_as_added() -> None:
    assert grown(placed(map(key_of, range(9)), 1), 4)


@pytest.mark.parametrize(
    "partition",
    [
        lambda key, count: zlib.crc32(key) % count,
        lambda key, count: random.Random(key).randrange(count),
    ],
    ids=["librdkafka", "any"],
)
@pytest.mark.parametrize("count", [2, 3, 12])
def test_a_writer_with_another_partitioner_is_not_taken_for_a_grown_topic(
    partition: Callable[[bytes, int], int], count: int
) -> None:
    assert not grown(placed(map(key_of, range(100)), count, partition), count)


@pytest.mark.parametrize(
    "key", [None, b"", b'{"database":"shop","table":"items","pk.id":7}'], ids=["none", "empty", "-"]
)
def test_keys_that_do_not_choose_the_partition_by_kafka_s_hash_show_nothing(
    key: bytes | None,
) -> None:
    records = [LogRecord(TopicPartition("shop", at), 0, b"", 0, key) for at in (0, 1)]
    assert not grown(records, 4)


def written(server_id: int, epoch: str = "") -> bytes:
    origin = Origin("b.000001", 4, server_id=server_id, epoch=epoch)
    return CANAL.to_bytes(RowChange(ITEMS, Op.INSERT, None, {"id": "1"}, origin))


def test_a_record_s_writer_is_its_fetch_task_else_the_source_s_server() -> None:
    epochs = [epoch_text(number, "7", "shop") for number in (1, 2)]
    first, second = (writer_of(written(5, epoch), CANAL, "canalRow") for epoch in epochs)
    assert first == second
    assert writer_of(written(5, epoch_text(1, "8", "shop")), CANAL, "canalRow") != first
    assert writer_of(written(5), CANAL, "canalRow") == "server 5"
    assert writer_of(written(0), CANAL, "canalRow") == ""
    assert writer_of(b"{", CANAL, "canalRow") == ""


def test_tables_of_one_name_from_two_sources_have_not_moved() -> None:
    topics = TableTopics(CANAL, "canalRow")
    assert topics.other(ITEMS.id, "shop", written(5)) is None
    assert topics.other(ITEMS.id, "north", written(6)) is None
    assert topics.other(ITEMS.id, "unknown", written(0)) is None
    assert topics.other(ITEMS.id, "orders", written(5)) == "shop"
    assert topics.other(ITEMS.id, "orders", written(5)) is None
