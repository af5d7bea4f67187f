"""For how long a task is silent, in words."""

import pytest

from cdcbus.ops.alarms.silence import duration_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("366d", 366 * 86_400)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "h", "0h", "-1h", "2 h", "2H", "1.5h", "367d", "9999999s", "2h\n"]
)
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="example: 2h"):
        duration_seconds(text)
