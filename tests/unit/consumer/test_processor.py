"""Functions of the user's between filter and mapping."""

import pytest

from cdcbus.consumer.processor import is_python, make_processor
from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId

CHANGE = RowChange(Table(TableId("shop", "t"), (), ()), Op.INSERT, None, {"id": "secret"})


def keep(change: RowChange) -> RowChange:
    return change


def leave_out(change: RowChange) -> None:
    return None


def fail(change: RowChange) -> RowChange:
    raise ValueError(f"{change.after}")


def give_text(change: RowChange) -> str:
    return "secret"


class Counting:
    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, change: RowChange) -> RowChange:
        self.seen += 1
        return RowChange(change.table, change.op, None, {"seen": str(self.seen)})


def named(name: str) -> str:
    return f"{__name__}:{name}"


def test_a_function_is_called_by_module_and_name() -> None:
    process = make_processor(named("keep"))
    assert process is not None
    assert process(CHANGE) is CHANGE
    left_out = make_processor(named("leave_out"))
    assert left_out is not None
    assert left_out(CHANGE) is None


def test_a_class_is_made_once() -> None:
    process = make_processor(named("Counting"))
    assert process is not None
    process(CHANGE)
    second = process(CHANGE)
    assert second is not None
    assert second.after == {"seen": "2"}


def test_no_name_is_no_processor() -> None:
    assert make_processor("") is None


@pytest.mark.parametrize("name", ["no_such_module_of_mine:f", named("no_such_function"), named("CHANGE")])
def test_what_cannot_be_called_is_refused_by_key(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^consumer\.eventProcessor\.className="):
        make_processor(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("fail", "raised ValueError on a row of shop.t"), ("give_text", "gave a str for a row of shop.t; expected a RowChange or None")],
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
