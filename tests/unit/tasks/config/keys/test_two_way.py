import pytest

from cdcbus.tasks.config.keys.two_way import GTID_SOURCES, MARK, MARKS, SERVER_IDS
from cdcbus.tasks.config.keys.types import ValueType

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (MARK, "from_a", "from_a"),
        (MARKS, "from_a, from_b", {"from_a", "from_b"}),
        (SERVER_IDS, "2, 4294967295", {2, 4294967295}),
        (GTID_SOURCES, f"{UUID.upper()}, 0-2", {UUID, "0-2"}),
    ],
)
def test_values_are_read(value_type: ValueType[object], text: str, value: object) -> None:
    assert value_type.read(text) == value


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        *((MARK, text) for text in ("", "From_A", "a-b", "a.b", "a" * 41)),
        (MARKS, "from_a, x;DROP"),
        *((SERVER_IDS, text) for text in ("1,x", "-1", "4294967296", "2,2")),
        *((GTID_SOURCES, text) for text in (UUID[:-1], f"{UUID}:1-5", "0-1-100", "2")),
    ],
)
def test_anything_else_is_refused(value_type: ValueType[object], text: str) -> None:
    with pytest.raises(ValueError):
        value_type.read(text)
