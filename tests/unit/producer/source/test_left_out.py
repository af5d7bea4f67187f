"""Which row events are left out, and what is left of their transactions."""

from __future__ import annotations

import pytest
from pymysqlreplication.constants import BINLOG
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.rowchange import NO_ORIGIN, Op, TableId
from cdcbus.producer.decoding.column_types import BinlogColumn
from cdcbus.producer.decoding.table import decodable
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.source.left_out import LeftOut
from cdcbus.producer.source.row_events import Batch, Rows

KINDS = {
    "I": BINLOG.WRITE_ROWS_EVENT_V2,
    "U": BINLOG.UPDATE_ROWS_EVENT_V1,
    "D": BINLOG.DELETE_ROWS_EVENT_V2,
}


def event(text: str, table: str = "t") -> Rows:
    """`<D>` for a delete that is its transaction's first and last row event."""
    name = TableId("shop", table)
    made = decodable(TableMap(name, (BinlogColumn("id", TYPE.LONG),), (), is_complete=True))
    return Rows(made, KINDS[text.strip("<>")], b"", NO_ORIGIN, "<" in text, ">" in text)


def shown(rows: object) -> str:
    assert isinstance(rows, Rows)
    letter = next(letter for letter, kind in KINDS.items() if kind == rows.kind)
    return "<" * rows.is_first + letter + ">" * rows.is_last


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ("<D>", ""),
        ("<I D>", "<I>"),
        ("<D I>", "<I>"),
        ("<D D U D>", "<U>"),
        ("<I> <D>", "<I>"),
        ("<I> <D D> <U>", "<I> <U>"),
        ("<I U>", "<I U>"),
    ],
)
def test_what_is_left_of_a_transaction_begins_and_ends_as_the_whole_did(
    parts: str, left: str
) -> None:
    batch = Batch([event(part) for part in parts.split()], None, [])
    LeftOut(frozenset((Op.DELETE,))).take(batch)
    assert " ".join(map(shown, batch.closed)) == left


def test_a_transaction_that_goes_on_begins_with_what_is_first_left_of_it() -> None:
    left_out = LeftOut(frozenset((Op.DELETE,)))
    first, second = Batch([], None, [event("<D")]), Batch([event("U>")], None, [])
    for batch in (first, second):
        left_out.take(batch)
    assert (first.opened, [shown(each) for each in second.closed]) == ([], ["<U>"])


def test_heartbeats_are_never_left_out() -> None:
    batch = Batch([event("<D>", "beats"), event("<D>")], None, [])
    LeftOut(frozenset((Op.DELETE,)), TableId("SHOP", "Beats")).take(batch)
    assert [each.table.table.id.table for each in batch.closed if isinstance(each, Rows)] == [
        "beats"
    ]
