"""Functions of the user's between filter and mapping."""

from collections.abc import Iterator

import pytest

from cdcbus.consumer.processor import is_python, make_processor
from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId

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
def test_a_function_is_called_by_module_and_name_and_gives_rows(name: str, rows: list[RowChange]) -> None:
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


def test_no_name_is_no_processor() -> None:
    assert make_processor("") is None


@pytest.mark.parametrize("name", ["no_such_module_of_mine:f", named("no_such_function"), named("CHANGE")])
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
