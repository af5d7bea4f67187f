"""oggJson: what we write is read back; what GoldenGate and porter write is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.unit.plugins.converters.rows import CELLS, changes

CONVERTER = OggJson()
TABLE = Table(TableId("SMSSDB", "T_X"), (Column("ID"), Column("N")), ("ID",))
FROM_GOLDENGATE: dict[str, Any] = {
    "table": "SMSSDB.T_X",
    "op_type": "U",
    "op_ts": "2024-05-01 15:04:05.678901",
    "current_ts": "2024-05-01T15:04:06.001000",
    "pos": "00000000010000002610",
    "primary_keys": ["ID"],
    "before": {"ID": "7", "N": "a"},
    "after": {"ID": "7", "N": None},
}


def read(**members: Any) -> RowChange:
    (change,) = CONVERTER.from_bytes(
        orjson.dumps(
            {
                key: value
                for key, value in {**FROM_GOLDENGATE, **members}.items()
                if value != "absent"
            }
        )
    )
    return change


def read_text(after: str) -> RowChange:
    """With the text of `after` as it stands on the wire."""
    message = orjson.dumps({**FROM_GOLDENGATE, "op_type": "I", "before": None, "after": "?"})
    (change,) = CONVERTER.from_bytes(message.replace(b'"?"', after.encode()))
    return change


@given(changes(has_origin=False, may_lack_columns=True))
def test_every_row_change_is_read_back(change: RowChange) -> None:
    (found,) = CONVERTER.from_bytes(CONVERTER.to_bytes(change))
    assert (found.op, found.before, found.after, found.origin) == (
        change.op,
        change.before,
        change.after,
        change.origin,
    )
    assert (found.table.id, found.table.key) == (change.table.id, change.table.key)
    if change.op is Op.INSERT:
        assert [column.name for column in found.table.columns] == [
            column.name for column in change.table.columns
        ]


def test_the_place_in_the_source_s_log_is_kept_when_a_record_is_written_anew() -> None:
    assert read().origin == Origin("0000000001", 2610, commit_us=1_714_575_845_678_901)
    assert json.loads(CONVERTER.to_bytes(read()))["pos"] == FROM_GOLDENGATE["pos"]
    assert [read(pos=pos).origin.pos for pos in (None, 17, "x" * 20, "2610", "absent")] == [0] * 5


@pytest.mark.parametrize(
    ("op", "before", "after", "letter"),
    [
        (Op.INSERT, None, {"ID": "1", "N": None}, "I"),
        (Op.UPDATE, {"ID": "1", "N": "a"}, {"ID": "1", "N": None}, "U"),
        (Op.DELETE, {"ID": "1", "N": None}, None, "D"),
        (Op.TRUNCATE, None, None, "T"),
    ],
)
def test_each_operation_is_written_as_goldengate_does(
    op: Op, before: Any, after: Any, letter: str
) -> None:
    origin = Origin("mysql-bin.000501", 1234, commit_us=1_714_575_845_678_901)
    message = json.loads(CONVERTER.to_bytes(RowChange(TABLE, op, before, after, origin)))
    assert len(message.pop("current_ts")) == len("2024-05-01T15:04:06.001000")
    images = {
        name: image for name, image in (("before", before), ("after", after)) if image is not None
    }
    assert message == {
        "table": "SMSSDB.T_X",
        "op_type": letter,
        "op_ts": "2024-05-01 15:04:05.678901",
        "pos": "00000005010000001234",
        "primary_keys": ["ID"],
        **images,
    }


@pytest.mark.parametrize(
    ("file", "pos"),
    [
        ("", "00000000000000000004"),
        ("binlog", "00000000000000000004"),
        ("a.b.1234567", "00012345670000000004"),
    ],
)
def test_pos_has_twenty_digits_whatever_the_file_is_called(file: str, pos: str) -> None:
    assert (
        json.loads(
            CONVERTER.to_bytes(RowChange(TABLE, Op.INSERT, None, {"ID": "1"}, Origin(file, 4)))
        )["pos"]
        == pos
    )


@pytest.mark.parametrize(
    ("words", "op"),
    [
        (("I", "INSERT", "REPLACE"), Op.INSERT),
        (("U", "UPDATE"), Op.UPDATE),
        (("D", "DELETE"), Op.DELETE),
        (("T", "TRUNCATE"), Op.TRUNCATE),
    ],
)
def test_letters_and_porter_s_long_words_are_read(words: tuple[str, ...], op: Op) -> None:
    assert {read(op_type=word).op for word in words} == {op}


@pytest.mark.parametrize("word", ["BEGIN", "END"])
def test_transaction_marks_hold_no_row(word: str) -> None:
    assert CONVERTER.from_bytes(orjson.dumps({**FROM_GOLDENGATE, "op_type": word})) == []


def test_a_genuine_null_is_null() -> None:
    change = read()
    assert (change.before, change.after) == ({"ID": "7", "N": "a"}, {"ID": "7", "N": None})
    assert change.table == replace(TABLE, is_described=False, checks_keys_late=True)


@pytest.mark.parametrize("before", [None, "absent", {}])
def test_an_update_may_come_without_before(before: Any) -> None:
    assert read(before=before).before == {}


@pytest.mark.parametrize("before", [None, "absent", {"ID": "7"}])
def test_an_insert_has_no_before_although_porter_writes_the_key(before: Any) -> None:
    assert (read(op_type="I", before=before).before, read(op_type="I", before=before).after) == (
        None,
        {"ID": "7", "N": None},
    )


@pytest.mark.parametrize("after", [None, "absent", {}, {"ID": "7", "N": "a"}])
def test_a_delete_is_its_before_although_porter_writes_both(after: Any) -> None:
    assert (read(op_type="DELETE", after=after).before, read(op_type="D", after=after).after) == (
        {"ID": "7", "N": "a"},
        None,
    )


def test_a_delete_with_only_an_after_is_read() -> None:
    assert read(op_type="D", before=None).before == {"ID": "7", "N": None}


@pytest.mark.parametrize(
    "images", [{}, {"before": {}, "after": {}}, {"before": None, "after": None}]
)
def test_a_truncate_has_no_images(images: dict[str, Any]) -> None:
    change = read(op_type="T", **images)
    assert (change.op, change.before, change.after) == (Op.TRUNCATE, None, None)


@pytest.mark.parametrize("keys", [None, "absent", []])
def test_primary_keys_may_be_absent(keys: Any) -> None:
    assert read(primary_keys=keys).table.key == ()


def test_the_last_two_parts_of_a_three_part_name_are_schema_and_table() -> None:
    assert read(table="PDB1.SMSSDB.T_X").table.id == TableId("SMSSDB", "T_X")


@pytest.mark.parametrize("missing", [True, "true"])
def test_a_column_marked_as_missing_is_not_in_the_image(missing: Any) -> None:
    after = {"ID": "7", "ID_isMissing": False, "N": None, "N_isMissing": missing}
    assert read(after=after).after == {"ID": "7"}


@pytest.mark.parametrize("present", [False, "false"])
def test_a_column_marked_as_present_keeps_its_null(present: Any) -> None:
    assert read(after={"ID": "7", "N": None, "N_isMissing": present}).after == {
        "ID": "7",
        "N": None,
    }


def test_a_mark_may_stand_in_place_of_its_column() -> None:
    assert read(after={"ID": "7", "N_isMissing": True}).after == {"ID": "7"}


@pytest.mark.parametrize(
    "fields", [{"N_isMissing": "text"}, {"N": "1", "N_isMissing": "text"}, {"N_isMissing": "true"}]
)
def test_a_column_that_is_only_called_like_a_mark_stays(fields: dict[str, str]) -> None:
    assert read(after=fields).after == fields


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=30), st.integers(-(10**40), 10**40)
)
def test_numbers_keep_every_digit(decimal: Any, integer: int) -> None:
    assert read_text(f'{{"d":{decimal:f},"i":{integer}}}').after == {
        "d": f"{decimal:f}",
        "i": str(integer),
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1.0", "1.0"),
        ("1.50", "1.50"),
        ("-0.0", "-0.0"),
        ("1e5", "1e5"),
        ("1E+300", "1E+300"),
        ("true", "1"),
        ("false", "0"),
    ],
)
def test_numbers_stand_as_they_were_written(number: str, text: str) -> None:
    assert read_text(f'{{"n":{number}}}').after == {"n": text}


def test_nested_json_keeps_its_numbers_numbers() -> None:
    assert read_text('{"j":{"a":[1,2.50,"3",null,true]}}').after == {
        "j": '{"a":[1,2.50,"3",null,true]}'
    }


@pytest.mark.parametrize("digits", range(10))
def test_op_ts_may_have_up_to_nine_fraction_digits(digits: int) -> None:
    fraction = "." + "678901234"[:digits] if digits else ""
    micros = int(f"{'678901234'[:digits]:0<6}"[:6])
    assert (
        read(op_ts="2024-05-01 15:04:05" + fraction).origin.commit_us
        == 1_714_575_845_000_000 + micros
    )


@pytest.mark.parametrize("text", ["2024-05-01 15:04:05.678901", "2024-05-01T15:04:05.678901"])
def test_both_forms_of_time_are_read(text: str) -> None:
    assert read(op_ts=text, current_ts=text).origin.commit_us == 1_714_575_845_678_901


@pytest.mark.parametrize("text", [None, "absent", "", "yesterday", 17])
def test_a_time_in_no_known_form_is_no_time(text: Any) -> None:
    assert read(op_ts=text, current_ts=text).origin.commit_us == 0


@given(st.dictionaries(st.text("ABC", min_size=1), CELLS, min_size=1))
def test_images_may_hold_only_some_columns(after: dict[str, str | None]) -> None:
    assert read(after=after).after == after


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"op_type": "X"}, "unknown op_type 'X'"),
        ({"op_type": None}, "unknown op_type None"),
        ({"op_type": ["I"]}, "unknown op_type"),
        ({"table": "T_X"}, "table is 'T_X', SCHEMA.TABLE was expected"),
        ({"table": "S."}, "SCHEMA.TABLE was expected"),
        ({"table": None}, "table is None"),
        ({"primary_keys": "ID"}, "SCHEMA.TABLE|primary_keys"),
        ({"op_type": "I", "after": None}, "insert of SMSSDB.T_X without after"),
        ({"after": {}}, "update of SMSSDB.T_X without after"),
        ({"op_type": "D", "before": None, "after": {}}, "delete of SMSSDB.T_X without columns"),
        ({"before": "x"}, "before is not an object"),
        ({"after": [1]}, "after is not an object"),
    ],
)
def test_what_is_no_operation_is_named_never_skipped(members: dict[str, Any], words: str) -> None:
    with pytest.raises(ConversionError, match=words):
        read(**members)


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b'{"table": NaN}', b'{"a": "\\ud800"}'])
def test_what_is_no_json_is_named(value: bytes) -> None:
    with pytest.raises(ConversionError, match="not JSON"):
        CONVERTER.from_bytes(value)


@pytest.mark.parametrize("value", [b"[]", b"null", b'"text"'])
def test_what_is_no_object_is_named(value: bytes) -> None:
    with pytest.raises(ConversionError, match="an object with the keys table and op_type"):
        CONVERTER.from_bytes(value)
