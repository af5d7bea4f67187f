"""Where other tools are, in their own forms."""

import struct
from pathlib import Path

import orjson
import pytest

from cdcbus.plugins.errors import PositionError
from cdcbus.tasks.foreign.offsets import (
    connector_offset,
    from_cursor,
    from_debezium_offset,
    from_maxwell_row,
    from_meta_file,
    offsets_in_file,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "foreign"
GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
KEY = b'["inventory",{"server":"dbserver1"}]'
VALUE = b'{"file":"mysql-bin.000003","pos":154,"row":0,"event":0}'


def cursor(address: str = "db1", **place: object) -> bytes:
    return orjson.dumps(
        {
            "@type": "com.alibaba.otter.canal.protocol.position.LogPosition",
            "identity": {"slaveId": -1, "sourceAddress": {"address": address, "port": 3306}},
            "postion": {"journalName": "mysql-bin.000003", "position": 154, "serverId": 1, **place},
        }
    )


def test_canals_place_counts_at_its_own_server_only() -> None:
    assert from_cursor(cursor(timestamp=1714528800000), "db1:3306").offset == "mysql-bin.000003:154"
    elsewhere = from_cursor(cursor(timestamp=1714528800000), "db2:3306")
    assert elsewhere.offset == "2024-05-01T01:59:00Z"
    assert "come again" in elsewhere.remark
    assert from_cursor(cursor(gtid=GTIDS), "db2:3306").offset == GTIDS
    with pytest.raises(PositionError, match="neither a place"):
        from_cursor(cursor(), "db2:3306")


@pytest.mark.parametrize("microseconds", [1714528800000000, 2**63 - 1])
def test_a_time_of_canal_that_no_calendar_has_is_none(microseconds: int) -> None:
    with pytest.raises(PositionError, match="nor a time"):
        from_cursor(cursor(timestamp=microseconds), "db2:3306")


def test_canals_file_has_the_cursor_of_its_only_client() -> None:
    client = {"clientIdentity": {"clientId": 1001}, "cursor": orjson.loads(cursor())}
    data = orjson.dumps({"clientDatas": [client], "destination": "example"})
    assert from_meta_file(data, "db1:3306").offset == "mysql-bin.000003:154"
    with pytest.raises(PositionError, match="cursors of 2 clients"):
        from_meta_file(orjson.dumps({"clientDatas": [client, client]}), "db1:3306")


def test_a_connectors_offset_is_the_begin_of_its_transaction() -> None:
    assert from_debezium_offset(orjson.loads(VALUE)).offset == "mysql-bin.000003:154"
    inside = from_debezium_offset({"file": "b.1", "pos": 4, "row": 2, "event": 3})
    assert (inside.offset, inside.remark) == ("b.1:4", "rows of the transaction in hand come again")
    assert from_debezium_offset({"file": "b.1", "pos": 4, "gtids": GTIDS}).offset == GTIDS
    for word in (True, "INITIAL", "true"):
        assert from_debezium_offset({"file": "b.1", "pos": 4, "snapshot": word}).is_snapshot
    with pytest.raises(PositionError, match="neither file and pos nor gtids"):
        from_debezium_offset({"ts_sec": 1})


@pytest.mark.parametrize(
    ("stored", "tables"),
    [
        # As versions until 2.0 write it, and those since.
        ("shop.orders,shop.items", ("shop.orders", "shop.items")),
        (
            '[{"incremental_snapshot_collections_id":"shop.orders",'
            '"incremental_snapshot_collections_additional_condition":null},'
            '{"incremental_snapshot_collections_id":"shop.items"}]',
            ("shop.orders", "shop.items"),
        ),
        ("[]", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_tables_of_an_incremental_snapshot_in_progress_are_known(
    stored: str | None, tables: tuple[str, ...]
) -> None:
    fields = {"file": "b.1", "pos": 4, "incremental_snapshot_collections": stored}
    for word in (None, "INCREMENTAL"):
        start = from_debezium_offset({**fields, "snapshot": word})
        assert (start.offset, start.unfinished, start.is_snapshot) == ("b.1:4", tables, False)


def test_the_newest_offset_of_the_connector_counts() -> None:
    other = b'["other",{"server":"dbserver1"}]'
    old = VALUE.replace(b"154", b"4")
    pairs = [(KEY, old), (other, old), (KEY, VALUE), (b"connector-x", b"{}")]
    found = connector_offset(iter(pairs), "inventory", "dbserver1")
    assert found is not None
    assert found.offset == "mysql-bin.000003:154"
    assert connector_offset(iter([*pairs, (KEY, None)]), "inventory", "dbserver1") is None
    assert connector_offset(iter(pairs), "inventory", "another") is None


def serialised(pairs: list[tuple[bytes, bytes | None]]) -> bytes:
    """As java.io.ObjectOutputStream writes a HashMap of byte arrays."""
    text = (
        b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\n"
        b"loadFactorI\x00\tthresholdxp?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10"
        + struct.pack(">i", len(pairs))
    )
    head = b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp"
    for pair in pairs:
        for part in pair:
            if part is None:
                text += b"p"
                continue
            text += head + struct.pack(">i", len(part)) + part
            head = b"uq\x00~\x00\x02"
    return text + b"x"


def test_a_file_of_offsets_is_read_as_java_writes_it() -> None:
    pairs: list[tuple[bytes, bytes | None]] = [(KEY, VALUE), (b'["gone",{}]', None), (b"[]", b"{}")]
    assert list(offsets_in_file(serialised(pairs))) == pairs
    with pytest.raises(PositionError, match="not a file of offsets"):
        list(offsets_in_file(b"{}"))
    with pytest.raises(PositionError, match="breaks off"):
        list(offsets_in_file(serialised([(KEY, VALUE)])[: -len(VALUE) - 12]))


def test_maxwells_row_goes_by_gtid_where_it_has_some() -> None:
    assert from_maxwell_row("b.1", 4, None).offset == "b.1:4"
    assert from_maxwell_row("b.1", 4, f"{GTIDS} ").offset == GTIDS
    with pytest.raises(PositionError, match="neither a file nor GTIDs"):
        from_maxwell_row(None, None, None)


def test_a_file_that_java_has_written_is_read() -> None:
    """42 entries of a HashMap, one of them null, by ObjectOutputStream of Java 17."""
    pairs = list(offsets_in_file((GOLDEN / "connect-standalone.offsets").read_bytes()))
    assert len(pairs) == 42
    assert [key for key, value in pairs if value is None] == [b'["gone",{"server":"x"}]']
    found = connector_offset(iter(pairs), "inventory", "dbserver1")
    assert found is not None
    assert found.offset == "mysql-bin.000003:154"
