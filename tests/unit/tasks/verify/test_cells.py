"""The form in which cells are compared."""

import pytest

from cdcbus.plugins.contracts import TargetColumn, ZeroDate
from cdcbus.tasks.verify.cells import forms_of, json_form, shown_json


def column(type_: str, length: int | None = None, scale: int | None = None) -> TargetColumn:
    return TargetColumn("c", type_, length, scale=scale)


@pytest.mark.parametrize(
    ("target", "expected", "actual"),
    [
        (column("numeric", 10, 2), "1.5", "1.50"),
        (column("numeric", 10, 1), "1.25", "1.3"),
        (column("integer"), "0000", "0"),
        (column("real"), "0.1", "0.1"),
        (column("double precision"), "1e+22", "1e+22"),
        (column("double precision"), "-0.0", "0"),
        (column("timestamp without time zone"), "2024-01-01 00:00:00.500000", "2024-01-01 00:00:00.5"),
        (column("timestamp without time zone"), "2024-01-01", "2024-01-01 00:00:00"),
        (column("datetime", 0), "0000-00-00 00:00:00.000", "0000-00-00 00:00:00"),
        (column("interval"), "-30:01:02.50", "-30:01:02.5"),
        (column("interval", 1), "10:00:00.26", "10:00:00.3"),
        (column("time with time zone"), "10:00:00.000000", "10:00:00+00"),
        (column("time with time zone", 0), "10:00:00.6", "10:00:01+00"),
        (column("time with time zone", 1), "10:00:00.6", "10:00:00.6+00"),
        (column("bpchar", 5), "ab ", "ab"),
        (column("character varying", 2), "ab  ", "ab"),
        (column("bytea"), "\xc3\x00", "c300"),
        (column('"bit"', 8), "5", "00000101"),
        (column("boolean"), "1", "true"),
        (column('"STATUS"'), "open", "open"),
        (column("uuid"), "123E4567-E89B-12D3-A456-426655440000", "123e4567-e89b-12d3-a456-426655440000"),
        (column("jsonb"), '{"b":1.0,"a":[]}', '{"a": [], "b": 1}'),
        (column("text"), None, None),
    ],
)  # fmt: skip
def test_what_the_loader_makes_of_a_cell_is_what_the_target_shows(
    target: TargetColumn, expected: str | None, actual: str | None
) -> None:
    forms = forms_of(target, ZeroDate.REJECT)
    assert forms.expected(expected) == forms.actual(actual)


@pytest.mark.parametrize(
    ("target", "expected", "actual"),
    [
        (column("text"), "", None),
        (column("text"), "a", "a "),
        (column("text"), "a", "A"),
        (column("double precision"), "0.30000000000000004", "0.3"),
        (column("real"), "0.1", "0.10000001"),
        (column("numeric", 20, 4), "1.0001", "1.0002"),
        (column("timestamp without time zone"), "2024-01-01 00:00:00.000001", "2024-01-01 00:00:00"),
        (column("time with time zone"), "10:00:00", "10:00:00+02"),
        (column("date"), "0000-00-00", None),
        (column("bytea"), "a", "6100"),
        (column("boolean"), "2", "true"),
        (column("character varying", 2), "abc", "ab"),
    ],
)  # fmt: skip
def test_what_is_another_value_there_differs(
    target: TargetColumn, expected: str | None, actual: str | None
) -> None:
    forms = forms_of(target, ZeroDate.REJECT)
    assert forms.expected(expected) != forms.actual(actual)


def test_zero_dates_are_what_the_task_makes_of_them() -> None:
    day, moment = column("date"), column("timestamp without time zone")
    assert forms_of(day, ZeroDate.NULL).expected("2024-00-01") is None
    epoch = forms_of(moment, ZeroDate.EPOCH)
    assert epoch.expected("0000-00-00 00:00:00") == epoch.actual("1970-01-01 00:00:00")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ("[1.50, 1e2]", "[1.5,100]"),
        ('"\\u00e9"', '"é"'),
        ("[-0.0]", "[0]"),
        ('{"a":1,"a":2}', '{"a":2}'),
        ("[12345678901234567890123456789.10]", "[12345678901234567890123456789.1]"),
        ("[1e9999999]", "[10E+9999998]"),
    ],
)
def test_texts_of_one_json_value_have_one_form(left: str, right: str) -> None:
    assert json_form(left) == json_form(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("[1,2]", "[2,1]"),
        ("1", '"1"'),
        ("[]", "{}"),
        ("null", '"null"'),
        ('{"":["number","1"]}', "1"),
        ('[["a",1]]', '{"a":1}'),
        ("0.1", "0.10000000000000001"),
        ("[12345678901234567890123456789.1]", "[12345678901234567890123456789.2]"),
        ("[1e9999999]", "[1e9999998]"),
        ("[1e-9999999]", "[0]"),
        (f"[1e{10**30}]", f"[1e{10**31}]"),
        (f"[1e-{10**30}]", "[0]"),
        ("{", "{ "),
    ],
)
def test_other_values_have_other_forms(left: str, right: str) -> None:
    assert json_form(left) != json_form(right)


@pytest.mark.parametrize(
    ("json", "shown"),
    [
        (
            '{"b": [1.50, null, "é\\n"], "a": {"": true}}',
            '{"a": {"": true}, "b": [1.5, null, "é\\n"]}',
        ),
        ("[1e300]", "[1E+300]"),
        ("{not json", "{not json"),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
    ],
)
def test_people_see_json_as_json(json: str, shown: str) -> None:
    assert shown_json(json_form(json)) == shown


def test_people_see_json_that_is_compared_as_it_is() -> None:
    for text in ('{"a": 1}', '{"": 1}', '[{"": null}]'):
        # As if it were nested too deep for `json_form`.
        assert shown_json(text) == text


@pytest.mark.parametrize("depth", [200, 400, 5000])
def test_json_that_is_nested_too_deep_is_compared_as_it_is(depth: int) -> None:
    text = '{"a":' * depth + "1" + "}" * depth
    assert json_form(text) == json_form(text)
    assert json_form(text) != json_form(text.replace("1", "2"))


@pytest.mark.parametrize(
    ("type_", "of_the_source", "shown"),
    [
        ("NUMBER", "12.50", "12.5"),
        ("BINARY_FLOAT", "0.1", "0.10000000149011612"),
        ("BINARY_DOUBLE", "0.1", "0.1"),
        ("VARCHAR2", "", None),
        ("CHAR", "ab", "ab  "),
        ("CLOB", "a ", "a "),
        ("RAW", "", None),
        ("DATE", "2024-02-29 23:59:59.9", "2024-02-29 23:59:59"),
        ("DATE", "2024-02-29", "2024-02-29 00:00:00"),
        ("TIMESTAMP(3)", "2024-02-29 23:59:59.1235", "2024-02-29 23:59:59.124000"),
        ("INTERVAL DAY(3) TO SECOND(6)", "-30:01:02.50", "-108062.500000"),
        ("INTERVAL DAY(3) TO SECOND(6)", "-00:00:00.00", "0.000000"),
    ],
)
def test_what_oracle_makes_of_a_cell_is_equal_to_it(
    type_: str, of_the_source: str, shown: str | None
) -> None:
    forms = forms_of(TargetColumn("C", type_), ZeroDate.REJECT)
    assert forms.expected(of_the_source) == forms.actual(shown)


@pytest.mark.parametrize(
    ("type_", "of_the_source", "shown"),
    [
        ("NUMBER", "12.5", "12.50001"),
        ("VARCHAR2", "a ", "a"),
        ("TIMESTAMP(6)", "2024-02-29 23:59:59.000001", "2024-02-29 23:59:59.000002"),
        ("INTERVAL DAY(3) TO SECOND(6)", "00:00:01", "-1.000000"),
    ],
)
def test_what_oracle_has_instead_of_a_cell_is_not(
    type_: str, of_the_source: str, shown: str
) -> None:
    forms = forms_of(TargetColumn("C", type_), ZeroDate.REJECT)
    assert forms.expected(of_the_source) != forms.actual(shown)


def test_an_empty_text_is_one_blank_where_oracle_takes_no_null() -> None:
    forms = forms_of(TargetColumn("C", "VARCHAR2", is_nullable=False), ZeroDate.REJECT)
    assert (forms.expected(""), forms.expected(None)) == (" ", None)


def test_a_zero_date_in_oracle_is_what_the_task_says() -> None:
    column = TargetColumn("C", "DATE")
    cell = "0000-00-00 00:00:00"
    assert forms_of(column, ZeroDate.NULL).expected(cell) is None
    assert forms_of(column, ZeroDate.EPOCH).expected(cell) == "1970-01-01 00:00:00"
