"""Net effect of many changes: examples, and properties against interpreters that go row by row."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.merge import fold
from cdcbus.consumer.merge.fold import merge
from cdcbus.consumer.merge.whole_row import keeps_key
from cdcbus.plugins.contracts import TableBatch, TargetColumn, TargetTable, Writes
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Cell, Column, Op, Row, RowChange, Table, TableId

SENT = ("k", "part", "a", "b")
TARGET = TargetTable(
    TableId("shop", "t"),
    {name: TargetColumn(name, "text") for name in (*SENT, "own")},
    ("k", "part"),
)
SOURCE = Table(TableId("shop", "t"), tuple(map(Column, SENT)), ("k", "part"))
DEFAULTS: dict[str, Cell] = {"a": None, "b": None, "own": "default"}

Key = tuple[Cell, ...]
Rows = dict[Key, dict[str, Cell]]


def insert(row: Row) -> RowChange:
    return RowChange(SOURCE, Op.INSERT, None, row)


def update(before: Row, after: Row) -> RowChange:
    return RowChange(SOURCE, Op.UPDATE, before, after)


def delete(row: Row) -> RowChange:
    return RowChange(SOURCE, Op.DELETE, row, None)


TRUNCATE = RowChange(SOURCE, Op.TRUNCATE, None, None)


def row(key: str, a: Cell = "a", b: Cell = "b") -> dict[str, Cell]:
    return {"k": key, "part": "p", "a": a, "b": b}


def key_of(row: Row) -> Key:
    return row["k"], row["part"]


def merged(*changes: RowChange, insert_on_update: bool = True, may_move: bool = True) -> TableBatch:
    return merge(changes, TARGET, insert_on_update=insert_on_update, may_move=may_move)


def written(batch: TableBatch) -> list[dict[str, Cell]]:
    return [
        dict(zip(writes.columns, cells, strict=True))
        for writes in batch.writes
        for cells in writes.rows
    ]


# Interpreters


def put(rows: Rows, row: Row) -> None:
    key = key_of(row)
    rows[key] = {**rows.get(key, DEFAULTS), **row}


def apply_one(rows: Rows, change: RowChange, insert_on_update: bool) -> None:
    """What a change means when it comes alone."""
    before, after = change.before or {}, change.after or {}
    if change.op is Op.TRUNCATE:
        rows.clear()
    elif change.op is Op.DELETE:
        rows.pop(key_of(before), None)
    elif change.op is Op.INSERT:
        put(rows, after)
    else:
        old, new = key_of({**after, **before}), key_of({**before, **after})
        if old != new:
            rows.pop(old, None)
            put(rows, {**before, **after})
        elif old in rows or insert_on_update:
            put(rows, {**dict(zip(TARGET.key, new, strict=True)), **after})


def apply_batch(rows: Rows, batch: TableBatch) -> None:
    """What the contract of TableBatch says."""
    if batch.truncate:
        rows.clear()
    assert len(set(batch.deletes)) == len(batch.deletes)
    for key in batch.deletes:
        rows.pop(key, None)
    keys = [key_of(row) for row in written(batch)]
    assert len(set(keys)) == len(keys)
    for writes in batch.writes:
        for cells in writes.rows:
            image = dict(zip(writes.columns, cells, strict=True))
            if writes.may_insert or key_of(image) in rows:
                put(rows, image)


# Histories of a source

KEYS = st.sampled_from([("1", "p"), ("2", "p"), ("3", "p"), ("3", "q")])
CELLS = st.sampled_from([None, "", "x", "y", "null"])


@dataclass
class Source:
    """Rows as the source has them, and the changes that its log would hold."""

    rows: Rows
    changes: list[RowChange] = field(default_factory=list)

    def log(self, change: RowChange) -> None:
        self.changes.append(change)

    def image(self, key: Key) -> dict[str, Cell]:
        return {name: self.rows[key][name] for name in SENT}


@st.composite
def images(draw: st.DrawFn, key: Key) -> dict[str, Cell]:
    return {"k": key[0], "part": key[1], "a": draw(CELLS), "b": draw(CELLS)}


@st.composite
def initial_rows(draw: st.DrawFn) -> Rows:
    return {key: {**draw(images(key)), "own": draw(CELLS)} for key in draw(st.sets(KEYS))}


def step(draw: st.DrawFn, source: Source, swaps: bool) -> None:
    """One statement that the source's constraints allow, in full images or partial ones."""
    key = draw(KEYS)
    if key not in source.rows:
        source.log(insert(draw(images(key))))
        put(source.rows, source.changes[-1].after or {})
        return
    match draw(
        st.sampled_from(
            [
                "update",
                "partial",
                "move",
                "delete",
                "truncate",
                "again",
                *(["swap"] if swaps else []),
            ]
        )
    ):
        case "update":
            source.log(update(source.image(key), draw(images(key))))
        case "partial":
            column = draw(st.sampled_from(["a", "b"]))
            source.log(update(dict(zip(TARGET.key, key, strict=True)), {column: draw(CELLS)}))
        case "move":
            free = draw(
                st.sampled_from(
                    [*{("1", "p"), ("2", "p"), ("3", "p"), ("3", "q")} - source.rows.keys(), key]
                )
            )
            source.log(update(source.image(key), draw(images(free))))
        case "swap":
            swap(draw, source, key)
            return
        case "delete":
            source.log(delete(source.image(key)))
        case "truncate":
            source.log(TRUNCATE)
        case "again":
            source.log(insert(draw(images(key))))
    apply_one(source.rows, source.changes[-1], insert_on_update=False)


def swap(draw: st.DrawFn, source: Source, one: Key) -> None:
    """Two different rows exchange keys in one statement, which a source that checks at its end
    allows."""
    other = draw(st.sampled_from(sorted(source.rows.keys())))
    first, second = source.image(one), source.image(other)
    if (first["a"], first["b"]) == (second["a"], second["b"]):
        return
    first_moved = {**first, "k": other[0], "part": other[1]}
    second_moved = {**second, "k": one[0], "part": one[1]}
    source.log(update(first, first_moved))
    source.log(update(second, second_moved))
    put(source.rows, first_moved)
    put(source.rows, second_moved)


@st.composite
def histories(draw: st.DrawFn, swaps: bool = True) -> tuple[Rows, Source]:
    """Rows, and a history that starts from them. Without `swaps` it can also be judged row by
    row, which loses a row in a swap."""
    rows = draw(initial_rows())
    source = Source(copy(rows))
    for _ in range(draw(st.integers(0, 12))):
        step(draw, source, swaps)
    return rows, source


def copy(rows: Rows) -> Rows:
    return {key: dict(cells) for key, cells in rows.items()}


def sent(rows: Rows) -> Rows:
    """Without the target's own column, which no source knows."""
    return {key: {name: cells[name] for name in SENT} for key, cells in rows.items()}


@given(histories(), st.booleans())
def test_a_batch_leaves_the_source_s_rows(
    history: tuple[Rows, Source], insert_on_update: bool
) -> None:
    rows, source = history
    apply_batch(rows, merge(source.changes, TARGET, insert_on_update=insert_on_update))
    assert sent(rows) == sent(source.rows)


@given(histories(swaps=False), st.data(), st.booleans())
def test_the_way_a_history_is_cut_into_batches_does_not_matter(
    history: tuple[Rows, Source], data: st.DataObject, insert_on_update: bool
) -> None:
    rows, source = history
    cut = data.draw(st.integers(0, len(source.changes)))
    one_by_one = copy(rows)
    for change in source.changes:
        apply_one(one_by_one, change, insert_on_update)
    for part in (source.changes[:cut], source.changes[cut:]):
        apply_batch(rows, merge(part, TARGET, insert_on_update=insert_on_update))
    assert rows == one_by_one


@given(histories(), st.data())
def test_a_replay_from_any_earlier_point_leaves_the_source_s_rows(
    history: tuple[Rows, Source], data: st.DataObject
) -> None:
    rows, source = history
    done = data.draw(st.integers(0, len(source.changes)))
    apply_batch(rows, merge(source.changes[:done], TARGET, insert_on_update=True))
    apply_batch(rows, merge(source.changes, TARGET, insert_on_update=True))
    assert sent(rows) == sent(source.rows)


# Examples


def test_an_insert_and_its_delete_stay_a_delete() -> None:
    batch = merged(insert(row("1")), delete(row("1")))
    assert (batch.deletes, batch.writes) == ([("1", "p")], [])


def test_a_row_that_comes_back_is_deleted_first_when_its_columns_do_not_cover_the_target() -> None:
    batch = merged(delete(row("1")), insert(row("1")))
    assert batch.deletes == [("1", "p")]  # column `own` gets its default again
    assert written(batch) == [row("1")]


def test_a_row_that_comes_back_whole_is_only_written() -> None:
    narrow = TargetTable(TARGET.id, {name: TARGET.columns[name] for name in SENT}, TARGET.key)
    batch = merge([delete(row("1")), insert(row("1"))], narrow, insert_on_update=True)
    assert (batch.deletes, written(batch)) == ([], [row("1")])


def test_a_row_that_comes_back_is_deleted_first_where_an_update_cannot_set_a_column() -> None:
    columns = {name: TARGET.columns[name] for name in SENT}
    for name, deletes in (("b", [("1", "p")]), ("k", [])):
        fixed = {**columns, name: replace(columns[name], is_fixed=True)}
        table = TargetTable(TARGET.id, fixed, TARGET.key)
        changes = [delete(row("1")), insert(row("1", b="9"))]
        batch = merge(changes, table, insert_on_update=True)
        assert (batch.deletes, written(batch)) == (deletes, [row("1", b="9")])


def test_an_insert_does_not_take_the_place_of_an_updated_row_that_rounding_makes_its_own() -> None:
    columns = {"k": TargetColumn("k", "int"), "a": TargetColumn("a", "text")}
    table = TargetTable(TARGET.id, columns, ("k",))
    source = Table(TARGET.id, (Column("k", "decimal(3,2)"), Column("a", "text")), ("k",))
    one, other = {"k": "1.20", "a": "x"}, {"k": "1.40", "a": "y"}
    updated = RowChange(source, Op.UPDATE, one, {**one, "a": "z"})
    came_again = RowChange(source, Op.INSERT, None, one)
    assert written(merge([updated, came_again], table, insert_on_update=True)) == [
        {"k": "1", "a": "x"}
    ]
    with pytest.raises(DataError, match="two rows have keys that are equal once"):
        merge([updated, RowChange(source, Op.INSERT, None, other)], table, insert_on_update=True)


def test_an_update_may_insert_only_if_told_so_or_its_insert_is_there() -> None:
    batch = merged(
        update(row("1"), row("1", "new")),
        insert(row("2")),
        update(row("2"), row("2", "new")),
        insert_on_update=False,
    )
    assert [(writes.may_insert, writes.rows) for writes in batch.writes] == [
        (False, [("1", "p", "new", "b")]),
        (True, [("2", "p", "new", "b")]),
    ]


def test_a_changed_key_may_always_be_inserted() -> None:
    batch = merged(update(row("1"), row("2")), insert_on_update=False)
    assert batch.deletes == [("1", "p")]
    assert batch.writes == [Writes(SENT, [("2", "p", "a", "b")], may_insert=True)]


def test_a_chain_of_key_changes_ends_at_its_last_key() -> None:
    batch = merged(update(row("1"), row("2")), update(row("2"), row("3", "new")))
    assert sorted(batch.deletes) == [("1", "p"), ("2", "p")]
    assert written(batch) == [row("3", "new")]


def test_partial_images_fold_over_what_is_known() -> None:
    key = {"k": "1", "part": "p"}
    batch = merged(update(key, {**key, "a": "new"}), update(key, {"b": None}))
    assert written(batch) == [{**key, "a": "new", "b": None}]


def test_rows_with_equal_columns_go_together_whatever_their_order() -> None:
    batch = merged(
        insert(row("1")), insert(dict(reversed(row("2").items()))), update(row("3"), {"a": "new"})
    )
    assert [(writes.columns, len(writes.rows)) for writes in batch.writes] == [
        (SENT, 2),
        (("k", "part", "a"), 1),
    ]


def test_truncate_forgets_what_came_before() -> None:
    batch = merged(insert(row("1")), delete(row("2")), TRUNCATE, insert(row("3")))
    assert (batch.truncate, batch.deletes, written(batch)) == (True, [], [row("3")])


def test_a_key_of_which_only_a_part_was_sent_is_completed_from_the_other_image() -> None:
    batch = merged(update({"part": "p"}, {**row("1"), "part": "q"}))
    assert batch.deletes == [("1", "p")]
    assert written(batch) == [{**row("1"), "part": "q"}]


def test_without_a_list_of_the_source_s_columns_a_whole_row_has_those_of_the_target() -> None:
    brought = Table(SOURCE.id, (Column("k"), Column("part"), Column("a")), (), is_described=False)
    before, after = {"k": "1", "part": "p", "a": "x"}, {"k": "2", "part": "p", "a": "y"}
    with pytest.raises(
        DataError,
        match="the change lacks column b, own: it cannot be written whole under its new key",
    ):
        merged(RowChange(brought, Op.UPDATE, before, after), may_move=False)
    whole = {"b": None, "own": "mine"}
    batch = merged(RowChange(brought, Op.UPDATE, {**before, **whole}, {**after, **whole}))
    assert (batch.deletes, written(batch)) == ([("1", "p")], [{**after, **whole}])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (delete({"k": "1"}), "table shop.t: DELETE without its primary key column part"),
        (update({}, {"k": "1"}), "table shop.t: UPDATE without its primary key column part"),
        (
            update({"k": "1", "part": "p"}, {"k": "2"}),
            "table shop.t: a row's primary key changes, but the change lacks column a, b: it "
            "cannot be written whole under its new key; "
            "the source must log full row images",
        ),
    ],
)
def test_a_row_that_cannot_be_placed_is_refused(change: RowChange, sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        merged(change, may_move=False)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("target", "source", "one", "other"),
    [
        ("int", "decimal(10,2)", "1.20", "1.40"),
        ("bigint", "double", "1.2", "1.4"),
        ("double", "decimal(30,2)", "9007199254740992.00", "9007199254740993.00"),
    ],
)
def test_rows_that_a_number_of_the_target_cannot_tell_apart_are_refused(
    target: str, source: str, one: str, other: str
) -> None:
    """The second one would replace the first, and its delete take the first along."""
    table = TargetTable(
        TARGET.id, {"k": TargetColumn("k", target), "a": TargetColumn("a", "text")}, ("k",)
    )
    of = Table(TARGET.id, (Column("k", source), Column("a", "text")), ("k",))
    both = [RowChange(of, Op.INSERT, None, {"k": key, "a": key}) for key in (one, other)]
    with pytest.raises(DataError):
        merge(both, table, insert_on_update=True, may_move=True)
    alone = merge(both[:1], table, insert_on_update=True, may_move=True)
    assert len(alone.fresh) == 1
    # A source of whole numbers pays nothing for that.
    whole = Table(TARGET.id, (Column("k", "int"), Column("a", "text")), ("k",))
    row = RowChange(whole, Op.INSERT, None, {"k": "1", "a": "x"})
    assert not merge([row], table, insert_on_update=True, may_move=True).fresh


@pytest.mark.parametrize(
    ("target", "source", "cell"),
    [
        (TargetColumn("k", "binary", 4), "binary(4)", "ab"),
        (TargetColumn("k", "char", 4), "char(4)", "ab "),
        (TargetColumn("k", "date"), "date", "2024-02-29"),
    ],
)
def test_a_key_that_its_source_fills_up_as_the_target_does_is_held_as_it_is(
    target: TargetColumn, source: str, cell: str
) -> None:
    """Some sources leave off zero bytes, and their INSERTs come again as those of other keys do."""
    columns = {"k": target, "a": TargetColumn("a", "text")}
    of = Table(TARGET.id, (Column("k", source), Column("a", "text")), ("k",))
    row = RowChange(of, Op.INSERT, None, {"k": cell, "a": "x"})
    batch = merge([row], TargetTable(TARGET.id, columns, ("k",)), insert_on_update=True)
    assert not batch.fresh


BOUNDS = [
    (TargetColumn("k", "int"), "double", "7", "7.5"),
    (TargetColumn("k", "decimal", 10, scale=2), "double", "7.25", "7.255"),
    (TargetColumn("k", "decimal", 10, scale=2), "decimal(65,30)", "7.25", "7.255"),
    (TargetColumn("k", "char", 4), "longtext", "ab", "ab "),
    (TargetColumn("k", "binary", 4), "longblob", "abcd", "abc"),
    (TargetColumn("k", "datetime", 0), "datetime(3)", "2024-02-29 10:00:00", "{}.600"),
]


@pytest.mark.parametrize(("target", "bound", "held", "lost"), BOUNDS)
def test_of_a_type_that_is_only_a_bound_cells_tell_what_the_target_does_not_hold(
    target: TargetColumn, bound: str, held: str, lost: str
) -> None:
    """The source's own type may hold no more than the target's, and its rows come twice."""
    table = TargetTable(TARGET.id, {"k": target, "a": TargetColumn("a", "text")}, ("k",))
    of = Table(TARGET.id, (Column("k", bound, is_bound=True), Column("a", "text")), ("k",))
    for cell, is_fresh in ((held, False), (lost.format(held), True)):
        row = RowChange(of, Op.INSERT, None, {"k": cell, "a": "x"})
        assert bool(merge([row], table, insert_on_update=True).fresh) is is_fresh


def test_types_of_several_source_tables_are_compared_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shards that come in turn, row by row."""
    compared: list[TableId] = []

    def compare(target: TargetTable, source: Table) -> bool:
        compared.append(source.id)
        return keeps_key(target, source)

    monkeypatch.setattr(fold, "keeps_key", compare)
    columns = {"k": TargetColumn("k", "int"), "a": TargetColumn("a", "text")}
    table = TargetTable(TARGET.id, columns, ("k",))
    names = Column("k", "int"), Column("a", "text")
    shards = [Table(TableId(f"shop_{at}", "t"), names, ("k",)) for at in range(2)]
    rows = [
        RowChange(shards[at % 2], Op.INSERT, None, {"k": str(at), "a": "x"}) for at in range(10)
    ]
    merge(rows, table, insert_on_update=True)
    assert compared == [shard.id for shard in shards]
