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
    type_, decode, *_ = column_type(
        {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": allowed}}
    )
    assert (type_, decode(value)) == ("longtext", expected)


def test_a_label_that_is_no_text_is_refused() -> None:
    _, decode, *_ = column_type({"type": "string", "name": "io.debezium.data.Enum"})
    with pytest.raises((ValueError, TypeError)):
        decode(7)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "int64"}, True),
        ({"type": "float32"}, False),
        ({"type": "double"}, True),
        ({"type": "boolean"}, True),
        ({"type": "string"}, True),
        ({"type": "bytes"}, True),
        ({"type": "int32", "name": "io.debezium.time.Date"}, False),
        ({"type": "int64", "name": "io.debezium.time.Timestamp"}, True),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, True),
        ({"type": "bytes", "name": "io.debezium.data.Bits"}, True),
        (
            {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "9"}},
            False,
        ),
        (
            {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            },
            False,
        ),
        (
            {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2"},
            },
            True,
        ),
    ],
)
def test_a_type_that_a_schema_has_for_several_is_a_bound(
    field: dict[str, object], expected: bool
) -> None:
    assert column_type(field).is_bound is expected
