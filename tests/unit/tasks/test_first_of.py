"""Lists in sentences for operators."""

import pytest

from cdcbus.tasks.first_of import first_of


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")],
)
def test_a_few_are_named_and_the_others_counted(names: list[str], text: str) -> None:
    assert first_of(names, 2) == text
    assert first_of(iter(names), 2) == text
