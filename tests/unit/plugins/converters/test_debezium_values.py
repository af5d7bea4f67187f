"""Values of Debezium by their schema."""

import pytest

from cdcbus.plugins.converters.debezium_values import column_type


@pytest.mark.parametrize(
    ("allowed", "value", "expected"),
    [
        ("a\\,b,c", "a\\,b", "a,b"),
        ("a\\,b,c", "c", "c"),
        ("\\,,x\\,\\,y", "\\,", ","),
        ("\\,,x\\,\\,y", "x\\,\\,y", "x,,y"),
        ("a,b", "a\\,b", "a\\,b"),  # the schema knows no such label
        ("", "a\\,b", "a\\,b"),
    ],
)
def test_commas_in_labels_of_an_enum_are_as_in_the_table(
    allowed: str, value: str, expected: str
) -> None:
    type_, decode = column_type(
        {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": allowed}}
    )
    assert (type_, decode(value)) == ("longtext", expected)


def test_a_label_that_is_no_text_is_refused() -> None:
    _, decode = column_type({"type": "string", "name": "io.debezium.data.Enum"})
    with pytest.raises((ValueError, TypeError)):
        decode(7)
