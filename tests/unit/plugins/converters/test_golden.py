"""The golden messages of all formats, see tests/golden/formats/README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.support.topics.canal_packets import encoded

FOLDER = Path(__file__).parents[3] / "golden" / "formats"
CASES = {
    f"{path.parent.name}/{path.stem}": json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*/*.json"))
}
ORIGIN = ("file", "pos", "gtid", "server_id", "commit_ms")


def cases(member: str) -> list[str]:
    return [name for name, case in CASES.items() if member in case]


def value(case: dict[str, Any]) -> bytes:
    if "packet" in case:
        return encoded("Packet", case["packet"])
    text: str = (
        case["text"] if "text" in case else json.dumps(case["message"], separators=(",", ":"))
    )
    return text.encode()


def shown(change: RowChange, members: dict[str, Any]) -> dict[str, Any]:
    table = change.table
    found = {
        "op": change.op.value,
        "table": list(table.id),
        "key": list(table.key),
        "columns": {column.name: column.mysql_type for column in table.columns},
        "is_described": table.is_described,
        "before": change.before,
        "after": change.after,
        "row": change.row,
        "is_last": change.is_last,
        **{name: getattr(change.origin, name) for name in ORIGIN},
    }
    return {name: found[name] for name in members}


def row_change(case: dict[str, Any]) -> RowChange:
    columns = tuple(Column(name, *types) for name, types in case["columns"].items())
    return RowChange(
        Table(TableId(*case["table"]), columns, tuple(case["key"])),
        Op(case["op"]),
        case["before"],
        case["after"],
        Origin(
            commit_us=case["commit_ms"] * 1000,
            **{name: case[name] for name in ORIGIN[:-1] if name in case},
        ),
        case.get("row", 0),
        case.get("is_last", False),
    )


@pytest.mark.parametrize("converter", ["its own", "auto"])
@pytest.mark.parametrize("name", cases("changes"))
def test_a_message_is_read_as_its_row_changes(name: str, converter: str) -> None:
    case = CASES[name]
    found = make_converter(name.partition("/")[0] if converter == "its own" else "auto").from_bytes(
        value(case)
    )
    assert len(found) == len(case["changes"])
    assert [
        shown(change, members) for change, members in zip(found, case["changes"], strict=True)
    ] == case["changes"]


@pytest.mark.parametrize("converter", ["its own", "auto"])
@pytest.mark.parametrize("name", cases("error"))
def test_a_message_that_cannot_be_read_is_named(name: str, converter: str) -> None:
    with pytest.raises(ConversionError, match=CASES[name]["error"]):
        make_converter(name.partition("/")[0] if converter == "its own" else "auto").from_bytes(
            value(CASES[name])
        )


@pytest.mark.parametrize("name", cases("written_from"))
def test_a_row_change_is_written_as_its_message(name: str) -> None:
    written = json.loads(
        make_converter(name.partition("/")[0]).to_bytes(row_change(CASES[name]["written_from"]))
    )
    clocks = {"ts", "current_ts"} & written.keys()
    assert {**written, **dict.fromkeys(clocks)} == {
        **CASES[name]["message"],
        **dict.fromkeys(clocks),
    }


def test_every_case_is_one_of_these() -> None:
    assert [
        name
        for name, case in CASES.items()
        if ("changes" in case) == ("error" in case) or not case["about"]
    ] == []
    assert {name.partition("/")[0] for name in CASES} == {
        path.name for path in FOLDER.iterdir() if path.is_dir()
    }
