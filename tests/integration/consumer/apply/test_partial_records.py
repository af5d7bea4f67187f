"""Records that hold a part of their row, on real targets: as canal and Maxwell write them where the
source logs rows in part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, RowChange
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_applier import changes
from tests.integration.consumer.apply.test_keys import server, task
from tests.support.topics.records import records_of

__all__ = ["server", "task"]
pytestmark = pytest.mark.integration
PARTITION = TopicPartition("shop", 0)


def canal(old: dict[str, str], data: dict[str, str], op: str = "UPDATE") -> bytes:
    """As with binlog_row_image MINIMAL: the columns that were set, and the key if it was."""
    return json.dumps(
        {
            "database": "shop",
            "table": "t",
            "type": op,
            "isDdl": False,
            "id": 3,
            "es": 1,
            "data": [data],
            "old": [old] if op == "UPDATE" else None,
            "pkNames": ["id"] if "id" in data else None,
            "mysqlType": dict.fromkeys(data, "varchar(9)"),
            "sqlType": dict.fromkeys(data, 12),
        }
    ).encode()


def maxwell(old: dict[str, str], data: dict[str, str], op: str = "update") -> bytes:
    return json.dumps(
        {
            "database": "shop",
            "table": "t",
            "type": op.lower(),
            "ts": 1,
            "data": data,
            **({"old": old} if old else {}),
        }
    ).encode()


WRITERS = {"canalRow": canal, "maxwellJson": maxwell}


def apply(
    server: TargetServer, task: LoadTask, values: Sequence[bytes], offset: int = 0
) -> list[DeadLetter]:
    loader = make_loader("JdbcBatch", server.target())
    letters: list[DeadLetter] = []
    try:
        converter = make_converter(task.converter)
        applier = PartitionApplier(task, converter, loader, None, letters.extend)
        applier.applied_offsets()
        records = records_of(list(enumerate(values, offset)))
        applier.apply(PARTITION, records, offset + len(values), 1)
    finally:
        loader.close()
    return letters


@pytest.mark.parametrize("converter", WRITERS)
@pytest.mark.parametrize("count", [1, 250], ids=["small", "large"])
def test_what_records_do_not_bring_stays_also_where_the_key_changes(
    server: TargetServer, task: LoadTask, converter: str, count: int
) -> None:
    server.execute(
        "CREATE TABLE {schema}.t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), c INT)"
    )
    server.execute("INSERT INTO {schema}.t VALUES (1, 'kept', 'old', 7), (9, 'other', 'old', 8)")
    write = WRITERS[converter]
    updates = [write({"b": "old"}, {"id": "1", "b": "new"})] * count
    steps = [
        write({"id": "1"}, {"id": "2"}),
        write({"id": "2"}, {"id": "3", "b": "newer"}),
        write({}, {"id": "9"}, "DELETE"),
        write({}, {"id": "9", "b": "back"}, "INSERT"),
    ]
    of_format = replace(task, converter=converter)
    left = [(3, "kept", "newer", 7), (9, None, "back", None)]
    assert apply(server, of_format, [*updates, *steps]) == []
    assert server.rows("SELECT id, a, b, c FROM {schema}.t ORDER BY id") == left
    # As from a position that was set back.
    assert apply(server, of_format, steps, 1000) == []
    assert server.rows("SELECT id, a, b, c FROM {schema}.t ORDER BY id") == left


@pytest.mark.parametrize("converter", WRITERS)
def test_a_row_without_a_key_is_not_looked_for_by_a_part_of_it(
    server: TargetServer, task: LoadTask, converter: str
) -> None:
    server.execute("CREATE TABLE {schema}.t (id INT, a VARCHAR(9), b VARCHAR(9))")
    server.execute("INSERT INTO {schema}.t VALUES (1, 'x', 'same'), (2, 'y', 'same')")
    update = WRITERS[converter]({"b": "same"}, {"b": "new"})
    [letter] = apply(server, replace(task, converter=converter), [update])
    assert "it has no key, and UPDATE comes without column id, a of the old row" in letter.reason
    rows = server.rows("SELECT id, a, b FROM {schema}.t ORDER BY id")
    assert rows == [(1, "x", "same"), (2, "y", "same")]


def test_a_moment_with_a_zone_beside_a_letter_stays_and_the_letter_holds_no_cell(
    server: TargetServer, task: LoadTask
) -> None:
    """Those beside the record that is refused are applied."""
    kind = "TIMESTAMP(6)" if server.quoted("a") == "`a`" else "TIMESTAMP WITH TIME ZONE"
    server.execute(f"CREATE TABLE {{schema}}.t (id INT PRIMARY KEY, at {kind} NULL, n INT)")
    cells = ["2024-02-29 23:59:59.123456", "SECRET moment +08:00", "2024-03-01 00:00:00"]
    rows: list[tuple[Op, None, dict[str, str | None]]] = [
        (Op.INSERT, None, {"id": str(number), "at": cell, "n": "1"})
        for number, cell in enumerate(cells)
    ]
    made: list[RowChange] = changes("t", "id int, at timestamp(6), n int", "id", *rows)
    values = [make_converter("canalRow").to_bytes(change) for change in made]
    [letter] = apply(server, task, values)
    assert (letter.offset, "SECRET" in letter.reason) == (1, False)
    assert "at" in letter.reason
    assert server.rows("SELECT id FROM {schema}.t ORDER BY id") == [(0,), (2,)]
