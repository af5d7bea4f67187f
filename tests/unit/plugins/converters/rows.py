"""Random row changes, for round trips through a wire format."""

from __future__ import annotations

from hypothesis import strategies as st

from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# What might be taken for something else: null, numbers, flags, nested JSON.
AWKWARD = st.sampled_from(
    [
        "",
        "null",
        "NULL",
        "true",
        "0",
        "-0.0",
        "1e5",
        "\0",
        '"',
        "\\",
        "{}",
        "\u2028",
        "\U0001f600",
        "0000-00-00",
    ]
)
CELLS = (
    st.none()
    | TEXT
    | AWKWARD
    | st.integers().map(str)
    | st.decimals(allow_nan=False, allow_infinity=False).map(str)
)
NAMES = st.sampled_from(
    ["id", "ID", "größe", "漢字", "a b", 'q"', "x_isMissing", "select", "n", "data"]
) | st.text("abcXYZ_", min_size=1)
TYPES = st.sampled_from(
    [
        ("int", 4),
        ("varchar(20)", 12),
        ("enum('a','b''c')", 4),
        ("bigint unsigned", 3),
        ("blob", 2004),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = tuple(
        Column(name, *draw(TYPES))
        for name in draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    )
    key = draw(
        st.lists(st.sampled_from([column.name for column in columns]), max_size=3, unique=True)
    )
    schema, table = (
        draw(st.sampled_from(["shop", "Größe", "a-b", "a.b"])),
        draw(st.sampled_from(["orders", "ORDERS", "漢 字", "t_1", "v1.t", 'q"t'])),
    )
    return Table(TableId(schema, table), columns, tuple(key))


@st.composite
def changes(
    draw: st.DrawFn, *, has_origin: bool = True, may_lack_columns: bool = False
) -> RowChange:
    """A row change as the source gives it; with `may_lack_columns` its before image may hold
    fewer columns than its after image."""
    table = draw(tables())
    names = [column.name for column in table.columns]
    op = draw(st.sampled_from(list(Op)))
    before: Row | None = None
    after: Row | None = None
    if op in (Op.UPDATE, Op.DELETE):
        kept = (
            draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            if may_lack_columns
            else names
        )
        before = {name: draw(CELLS) for name in kept}
    if op in (Op.UPDATE, Op.INSERT):
        after = {
            name: draw(st.sampled_from([(before or {}).get(name), draw(CELLS)])) for name in names
        }
    return RowChange(
        table if op is not Op.TRUNCATE else Table(table.id, (), ()),
        op,
        before,
        after,
        origin=draw(origins()) if has_origin else Origin(commit_us=draw(TIMES) * 1000),
        row=draw(st.integers(0, 10**6)) if has_origin and op is not Op.TRUNCATE else 0,
        is_last=draw(st.booleans()) and has_origin and op is not Op.TRUNCATE,
    )


TIMES = st.integers(0, 4_102_444_800_000)


def origins() -> st.SearchStrategy[Origin]:
    gtids = st.sampled_from(["", "0-1-42", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"])
    return st.builds(
        Origin,
        st.sampled_from(["", "mysql-bin.000501"]),
        st.integers(0, 2**40),
        gtids,
        st.integers(0, 2**32 - 1),
        TIMES.map(lambda ms: ms * 1000),
    )
