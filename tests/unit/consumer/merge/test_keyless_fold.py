"""Net effect of changes of a table without a key, against an interpreter that goes one by one."""

from collections import Counter

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.merge.fold import merge
from cdcbus.plugins.contracts import Swaps, TableBatch, TargetColumn, TargetTable
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Cell, Column, Op, Row, RowChange, Table, TableId

TARGET = TargetTable(TableId("shop", "t"), {name: TargetColumn(name, "text") for name in "abc"}, ())
SOURCE = Table(TARGET.id, (Column("a"), Column("b")), ())
GROWN = Table(TARGET.id, (Column("a"), Column("b"), Column("c")), ())
Cells = tuple[Cell, ...]


def change(op: Op, before: Row | None = None, after: Row | None = None) -> RowChange:
    return RowChange(GROWN if "c" in (after or before or {}) else SOURCE, op, before, after)


def row(a: Cell, b: Cell = None) -> dict[str, Cell]:
    return {"b": b, "a": a}


def merged(*changes: RowChange, insert_on_update: bool = True) -> TableBatch:
    return merge(changes, TARGET, insert_on_update=insert_on_update)


def full(image: Row) -> Cells:
    """As the target holds it: what the source did not send is NULL."""
    return tuple(image.get(name) for name in TARGET.columns)


def apply_one(rows: Counter[Cells], change: RowChange) -> None:
    if change.op is Op.TRUNCATE:
        rows.clear()
    if change.before is not None:
        rows[full(change.before)] -= 1
    if change.after is not None:
        rows[full({**(change.before or {}), **change.after})] += 1


def apply_batch(rows: Counter[Cells], batch: TableBatch) -> None:
    """What the contract says: in the order of the parts; inside one what goes is there before."""
    if batch.truncate:
        rows.clear()
    for swaps in batch.swaps:
        for old, new in sorted(swaps.rows, key=lambda pair: pair[0] is None):
            if old is not None:
                image = full(dict(zip(swaps.columns, old, strict=True)))
                assert rows[image] > 0
                rows[image] -= 1
            if new is not None:
                rows[full(dict(zip(swaps.columns, new, strict=True)))] += 1


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Cell]], list[RowChange]]:
    """Rows, and changes that a source with these rows can log; from some place on there is a
    column more, which old rows have as NULL."""
    cells = st.sampled_from([None, "x", "y"])
    first = draw(st.lists(st.builds(row, cells, cells), max_size=4))
    rows, changes, names = [dict(each) for each in first], list[RowChange](), ["a", "b"]
    for _ in range(draw(st.integers(0, 12))):
        step = draw(st.sampled_from(["insert", "update", "partial", "delete", "truncate", "grow"]))
        image = {name: draw(cells) for name in names}
        if step == "grow":
            names = ["a", "b", "c"]
            rows = [{"c": None, **each} for each in rows]
        elif step == "truncate":
            changes.append(RowChange(SOURCE, Op.TRUNCATE, None, None))
            rows = []
        elif step == "insert" or not rows:
            changes.append(change(Op.INSERT, None, image))
            rows.append(image)
        else:
            old = rows.pop(draw(st.integers(0, len(rows) - 1)))
            if step == "delete":
                changes.append(change(Op.DELETE, old))
                continue
            new = {"a": image["a"]} if step == "partial" else image
            changes.append(RowChange(GROWN if "c" in old else SOURCE, Op.UPDATE, old, new))
            rows.append({**old, **new})
    return first, changes


@given(histories())
def test_a_batch_leaves_what_its_changes_one_by_one_leave(
    history: tuple[list[dict[str, Cell]], list[RowChange]],
) -> None:
    first, changes = history
    one_by_one, at_once = Counter(map(full, first)), Counter(map(full, first))
    for each in changes:
        apply_one(one_by_one, each)
    apply_batch(at_once, merged(*changes))
    assert +at_once == +one_by_one


def test_a_row_that_comes_and_goes_inside_a_batch_never_reaches_the_target() -> None:
    changes = (
        change(Op.INSERT, None, row("1")),
        change(Op.UPDATE, row("1"), row("2")),
        change(Op.DELETE, row("2")),
    )
    assert merged(*changes).swaps == [Swaps(("a", "b"), [])]


def test_equal_rows_are_not_merged_into_one() -> None:
    batch = merged(
        change(Op.INSERT, None, row("1")),
        change(Op.INSERT, None, row("1")),
        change(Op.DELETE, row("2")),
        insert_on_update=False,
    )
    assert batch.swaps == [
        Swaps(
            ("a", "b"),
            [(None, ("1", None)), (None, ("1", None)), (("2", None), None)],
            may_insert=False,
        )
    ]


@pytest.mark.parametrize("before", [None, {}, {"a": "1"}])
def test_an_old_row_that_is_not_known_is_refused_also_after_it_was_forwarded(
    before: Row | None,
) -> None:
    """As GoldenGate writes it without GETUPDATEBEFORES: taken for unchanged, the row would be
    there twice."""
    members = {
        "table": "shop.t",
        "op_type": "U",
        "before": before,
        "after": {**row("1", "2"), "c": "3"},
    }
    [read] = OggJson().from_bytes(orjson.dumps(members))
    [forwarded] = CanalRow().from_bytes(CanalRow().to_bytes(read))
    for each in (read, forwarded):
        with pytest.raises(DataError, match=r"UPDATE comes without column .*b.* of the old row"):
            merged(each)


@pytest.mark.parametrize("op", [Op.UPDATE, Op.DELETE])
def test_an_old_row_that_is_not_whole_is_refused(op: Op) -> None:
    with pytest.raises(DataError) as refused:
        merged(change(op, {"a": "SECRET"}, {"a": "2"} if op is Op.UPDATE else None))
    assert str(refused.value) == (
        f"table shop.t: it has no key, and {op} comes without column b of the old row: "
        "give it a primary key, or let the source log full row images"
    )
