"""The epoch in a record, and records that are sent again on purpose."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.epoch import epoch_text, epochs, without_epoch
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId

EPOCH = epoch_text(7, "1484", "shop")
# As tasks without ZooKeeper have written them.
LONGER = "1795838011060423-f43411e4"


@pytest.mark.parametrize(
    ("converter", "value", "bare"),
    [
        ("canalRow", f'{{"epoch":"{EPOCH}","data":[]}}', '{"data":[]}'),
        ("oggJson", f'{{"table":"t","epoch":"{EPOCH}"}}', '{"table":"t"}'),
        ("canalRow", '{"data":[]}', '{"data":[]}'),
        ("oggJson", '{"table":"t"}', '{"table":"t"}'),
        ("auto", f'{{"epoch":"{EPOCH}","data":[]}}', '{"data":[]}'),
        ("auto", f'{{"table":"t","epoch":"{EPOCH}"}}', '{"table":"t"}'),
        ("auto", '{"table":"t"}', '{"table":"t"}'),
        ("maxwellJson", f'{{"epoch":"{EPOCH}","data":[]}}', f'{{"epoch":"{EPOCH}","data":[]}}'),
    ],
)
def test_a_record_that_is_sent_again_tells_no_epoch(converter: str, value: str, bare: str) -> None:
    found = without_epoch(value.encode(), converter)
    assert found == bare.encode()
    if found != value.encode():
        told = epochs(pa.array([value.encode(), found], pa.binary()), converter)
        assert told is not None
        assert told.to_pylist() == [EPOCH.encode(), None]


@pytest.mark.parametrize(
    ("converter", "value", "bare"),
    [
        ("canalRow", f'{{"epoch":"{LONGER}","data":[]}}', '{"data":[]}'),
        ("oggJson", f'{{"table":"t","epoch":"{LONGER}"}}', '{"table":"t"}'),
        ("auto", f'{{"epoch":"{LONGER}","data":[]}}', '{"data":[]}'),
        ("auto", f'{{"table":"t","epoch":"{LONGER}"}}', '{"table":"t"}'),
        # No epoch of a fetch task.
        ("canalRow", '{"epoch":"now","data":[]}', '{"epoch":"now","data":[]}'),
        ("auto", '{"epoch":"now","data":[]}', '{"epoch":"now","data":[]}'),
    ],
)
def test_only_a_whole_epoch_is_cut_off(converter: str, value: str, bare: str) -> None:
    assert without_epoch(value.encode(), converter) == bare.encode()


IMAGES = st.fixed_dictionaries(
    {"id": st.text(max_size=3)},
    # A cell that looks like the member, at either end of a row.
    optional={"epoch": st.sampled_from([EPOCH, "", f'","epoch":"{EPOCH}"}}'])},
)


@st.composite
def written(draw: st.DrawFn) -> tuple[str, bytes]:
    """A record, and the format that it has."""
    name = draw(st.sampled_from(["canalRow", "oggJson"]))
    columns = tuple(Column(each, "varchar(99)", 12) for each in ("id", "epoch"))
    table = Table(TableId("s", draw(st.sampled_from(["t", "epoch"]))), columns, ("id",))
    op = draw(st.sampled_from(Op))
    number = draw(st.integers(0, 10**13 - 1))
    origin = Origin(
        "b.1",
        4,
        epoch=draw(st.sampled_from(["", epoch_text(number, "7", "shop"), LONGER])),
        is_snapshot=draw(st.booleans()),
    )
    before = draw(IMAGES) if op in (Op.UPDATE, Op.DELETE) else None
    after = draw(IMAGES) if op in (Op.INSERT, Op.UPDATE) else None
    return name, make_converter(name).to_bytes(RowChange(table, op, before, after, origin))


@given(st.lists(written(), max_size=8))
def test_auto_finds_the_epoch_that_a_records_own_format_has(made: list[tuple[str, bytes]]) -> None:
    wanted = []
    for name, value in made:
        own = epochs(pa.array([value], pa.binary()), name)
        wanted.append(None if own is None else own[0].as_py())
        assert without_epoch(value, "auto") == without_epoch(value, name)
    found = epochs(pa.array([value for _, value in made], pa.binary()), "auto")
    if found is None:
        assert not any(wanted)
    else:
        assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    "value",
    [
        f'{{"before":null,"after":{{"id":1,"epoch":"{EPOCH}"}}}}',
        f'{{"payload":{{"op":"c","after":{{"epoch":"{EPOCH}"}}}}}}',
        f'{{"database":"s","type":"insert","data":{{"id":1,"epoch":"{EPOCH}"}}}}',
        f'{{"opType":"I","columns":[{{"name":"epoch","after":"{EPOCH}"}}]}}',
        "\x08\x01",
        "",
    ],
)
def test_auto_takes_no_cell_of_another_format_for_an_epoch(value: str) -> None:
    assert epochs(pa.array([value.encode(), None], pa.binary()), "auto") is None
    assert without_epoch(value.encode(), "auto") == value.encode()
