"""Functions of the user's between filter and mapping."""

from collections.abc import Iterator
from enum import StrEnum

import pytest

from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId
from cdcbus.plugins.transform.processor import is_python, make_processor

EXPECTED = "expected a RowChange, None, or a list, tuple or generator of RowChanges"
OTHER = RowChange(Table(TableId("shop", "other"), (), ()), Op.INSERT, None, {"id": "added"})
CHANGE = RowChange(Table(TableId("shop", "t"), (), ()), Op.INSERT, None, {"id": "secret"})


def keep(change: RowChange) -> RowChange:
    return change


def leave_out(change: RowChange) -> None:
    return None


def twice(change: RowChange) -> list[RowChange]:
    return [change, OTHER]


def twice_as_tuple(change: RowChange) -> tuple[RowChange, ...]:
    return change, OTHER


def twice_one_by_one(change: RowChange) -> Iterator[RowChange]:
    yield change
    yield OTHER


def nothing_one_by_one(change: RowChange) -> Iterator[RowChange]:
    yield from ()


def fail(change: RowChange) -> RowChange:
    raise ValueError(f"{change.after}")


def fail_behind_a_row(change: RowChange) -> Iterator[RowChange]:
    yield change
    raise ValueError(f"{change.after}")


def give_text(change: RowChange) -> str:
    return "secret"


def give_text_behind_a_row(change: RowChange) -> list[object]:
    return [change, "secret"]


def give_nothing_behind_a_row(change: RowChange) -> Iterator[RowChange | None]:
    yield change
    yield None


def give_cells(change: RowChange) -> dict[str, str]:
    return {"id": "secret"}


def give_list_for_a_row(change: RowChange) -> RowChange:
    return RowChange(change.table, Op.INSERT, None, ["1"])  # type: ignore[arg-type]


def give_number(change: RowChange) -> RowChange:
    return RowChange(OTHER.table, Op.UPDATE, {"id": "secret", "n": None}, {"id": "secret", "n": 5})  # type: ignore[dict-item]


def give_number_before(change: RowChange) -> Iterator[RowChange]:
    yield change
    yield RowChange(OTHER.table, Op.DELETE, {"n": 5.5}, None)  # type: ignore[dict-item]


def change_in_place(change: RowChange) -> RowChange:
    row: dict[str, object] = {"id": "secret"}
    change = RowChange(change.table, Op.INSERT, None, row)  # type: ignore[arg-type]
    row["raw"] = b"secret"
    return change


class Word(StrEnum):
    NEW = "new"


def give_text_of_another_class(change: RowChange) -> RowChange:
    return RowChange(change.table, Op.INSERT, None, {"id": Word.NEW, "v": None})


class Buffering:
    """Gives the same list again and again."""

    def __init__(self) -> None:
        self.rows: list[RowChange] = []

    def __call__(self, change: RowChange) -> list[RowChange]:
        self.rows[:] = [change]
        return self.rows


class Counting:
    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, change: RowChange) -> RowChange:
        self.seen += 1
        return RowChange(change.table, change.op, None, {"seen": str(self.seen)})


def named(name: str) -> str:
    return f"{__name__}:{name}"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("keep", [CHANGE]),
        ("leave_out", []),
        ("twice", [CHANGE, OTHER]),
        ("twice_as_tuple", [CHANGE, OTHER]),
        ("twice_one_by_one", [CHANGE, OTHER]),
        ("nothing_one_by_one", []),
    ],
)
def test_a_function_is_called_by_module_and_name_and_gives_rows(
    name: str, rows: list[RowChange]
) -> None:
    process = make_processor(named(name))
    assert process is not None
    assert list(map(id, process(CHANGE))) == list(map(id, rows))


def test_what_was_given_stays_as_it_was_given() -> None:
    process = make_processor(named("Buffering"))
    assert process is not None
    first = process(CHANGE)
    assert (*process(OTHER), *first) == (OTHER, CHANGE)


def test_a_class_is_made_once() -> None:
    process = make_processor(named("Counting"))
    assert process is not None
    process(CHANGE)
    [second] = process(CHANGE)
    assert second.after == {"seen": "2"}


def test_text_may_be_of_a_class_of_the_processor_s_own() -> None:
    process = make_processor(named("give_text_of_another_class"))
    assert process is not None
    [row] = process(CHANGE)
    assert row.after == {"id": "new", "v": None}


def test_no_name_is_no_processor() -> None:
    assert make_processor("") is None


@pytest.mark.parametrize(
    "name", ["no_such_module_of_mine:f", named("no_such_function"), named("CHANGE")]
)
def test_what_cannot_be_called_is_refused_by_key(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^consumer\.eventProcessor\.className="):
        make_processor(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fail", "raised ValueError on a row of shop.t"),
        ("fail_behind_a_row", "raised ValueError on a row of shop.t"),
        ("give_text", f"gave a str for a row of shop.t; {EXPECTED}"),
        ("give_text_behind_a_row", f"gave a str for a row of shop.t; {EXPECTED}"),
        ("give_nothing_behind_a_row", f"gave a NoneType for a row of shop.t; {EXPECTED}"),
        ("give_cells", f"gave a dict for a row of shop.t; {EXPECTED}"),
        ("give_list_for_a_row", "gave a list as a row of shop.t; expected a dict of cells"),
        ("give_number", "gave a int in column n of a row of shop.other; expected text or None"),
        (
            "give_number_before",
            "gave a float in column n of a row of shop.other; expected text or None",
        ),
        ("change_in_place", "gave a bytes in column raw of a row of shop.t; expected text or None"),
    ],
)
def test_what_goes_wrong_inside_is_told_without_cells(name: str, sentence: str) -> None:
    process = make_processor(named(name))
    assert process is not None
    with pytest.raises(DataError) as refused:
        process(CHANGE)
    assert str(refused.value) == f"event processor {named(name)} {sentence}"


def test_a_java_class_is_none_of_ours() -> None:
    assert not is_python("com.example.Masking")
    assert is_python("module:function")
