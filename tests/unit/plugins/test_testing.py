"""The checks that authors of plug-ins run on their own: the examples pass them, and what breaks a
promise does not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcbus.ops.alarms.added_channels import all_channels
from cdcbus.ops.alarms.channels import Message, NotAccepted
from cdcbus.plugins.added.sources import SourcePlace, SourceRows
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Loader
from cdcbus.plugins.converters.columnar import Columns
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.registry import make_converter, make_source
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.testing import check_channel, check_converter, check_loader, check_source
from tests.support.processes.plugins import add_example

T = Table(TableId("shop", "t"), (Column("id"), Column("n")), ())
CHANGES = [
    *(RowChange(T, Op.INSERT, None, {"id": str(number), "n": "a"}) for number in range(50)),
    RowChange(T, Op.INSERT, None, {"id": "7", "n": None}),
    RowChange(T, Op.INSERT, None, {"id": "7", "n": "a\t=b%"}),
    RowChange(T, Op.INSERT, None, {"id": "7", "n": "é漢"}),
    RowChange(T, Op.INSERT, None, {"n": "é", "id": ""}),
    RowChange(T, Op.UPDATE, {}, {"id": "7", "n": "b"}),
    RowChange(T, Op.DELETE, {"id": "7", "n": "b"}, None),
    RowChange(T, Op.INSERT, None, {"id": "7"}),
]


@pytest.fixture(autouse=True)
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("format", "source", "loader", "alarm_channel"):
        add_example(name, tmp_path / "examples" / name, monkeypatch)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "target.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE T (id TEXT NOT NULL PRIMARY KEY, v TEXT)")
    connection.close()
    return file


def test_the_example_of_a_format_keeps_its_contract() -> None:
    check_converter(make_converter("exampleLines"), CHANGES)


@pytest.mark.parametrize("name", ["canalRow", "oggJson"])
def test_built_in_formats_keep_it_too(name: str) -> None:
    check_converter(make_converter(name), [change for change in CHANGES if change.op is Op.INSERT])


def test_the_example_of_a_format_reads_most_lines_by_columns() -> None:
    import pyarrow as pa

    converter: Any = make_converter("exampleLines")
    values = [converter.to_bytes(change) for change in CHANGES]
    columns = converter.read_columns(pa.array(values, pa.binary()))
    # é and % are escaped
    assert [place - 50 for place in columns.rest] == [1, 2, 3]
    assert sorted(len(group.records) for group in columns.groups) == [1, 1, 1, 51]


def test_a_format_that_loses_something_is_found() -> None:
    converter: Any = make_converter("exampleLines")

    class Lossy(type(converter)):  # type: ignore[misc]
        def from_bytes(self, value: bytes) -> list[RowChange]:
            return [] if value.endswith(b"a") else super().from_bytes(value)

    class Hasty(type(converter)):  # type: ignore[misc]
        def read_columns(self, records: Any) -> Columns:
            columns = super().read_columns(records)
            return Columns(columns.groups, columns.rest[1:])

    class Lenient(type(converter)):  # type: ignore[misc]
        def from_bytes(self, value: bytes) -> list[RowChange]:
            return [] if value == b"?" else super().from_bytes(value)

    with pytest.raises(AssertionError, match="came back as 0 changes"):
        check_converter(Lossy(), CHANGES)
    with pytest.raises(AssertionError, match="a record is lost"):
        check_converter(Hasty(), CHANGES)
    with pytest.raises(AssertionError, match="which is no record, was read as"):
        check_converter(Lenient(), CHANGES)


def files(folder: Path) -> None:
    for name, count in (("1", 1500), ("2", 0), ("3", 3)):
        row = {"op": "INSERT", "table": "shop.t", "key": ["id"]}
        lines = (json.dumps({**row, "after": {"id": f"{name}.{n}"}}) + "\n" for n in range(count))
        (folder / f"{name}.jsonl").write_text("".join(lines))


@pytest.mark.parametrize("end", ["true", "false"])
def test_the_example_of_a_source_keeps_its_contract(end: str, tmp_path: Path) -> None:
    files(tmp_path)
    check_source(
        lambda: make_source("exampleFiles", {"folder": str(tmp_path), "end": end}), "earliest"
    )


def test_a_source_whose_places_are_behind_other_rows_is_found(tmp_path: Path) -> None:
    files(tmp_path)

    class Early:
        """Its places are a row too far."""

        def __init__(self) -> None:
            self._source = make_source("exampleFiles", {"folder": str(tmp_path), "end": "true"})

        def __getattr__(self, name: str) -> Any:
            return getattr(self._source, name)

        def read(self, place: SourcePlace) -> Iterator[SourceRows]:
            held: list[RowChange] = []
            for rows in self._source.read(place):
                changes = [*held, *rows.changes]
                held = changes[-1:]
                yield SourceRows(changes[:-1], rows.place)
            yield SourceRows(held, SourcePlace("3.jsonl", 0))

    with pytest.raises(AssertionError, match="there are other rows than before"):
        check_source(Early, "earliest")


def sqlite(database: Path) -> Loader:
    return make_loader("exampleSqlite", JdbcTarget(f"sqlite:{database}", task_id="1"))


def test_the_example_of_a_loader_keeps_its_contract(database: Path) -> None:
    check_loader(lambda: sqlite(database), TableId("shop", "t"))


def test_a_loader_that_fences_nobody_is_found(database: Path) -> None:
    def unfenced() -> Loader:
        loader = sqlite(database)

        def fence() -> list[AppliedOffset]:
            return loader.applied_offsets()

        loader.fence = fence  # type: ignore[method-assign]
        return loader

    with pytest.raises(AssertionError, match="fence began no new epoch"):
        check_loader(unfenced, TableId("shop", "t"))


def test_the_example_of_a_channel_keeps_its_contract(tmp_path: Path) -> None:
    file = tmp_path / "cdcbus.properties"
    file.write_text(f"alarm.channels=exampleLog\nalarm.channel.exampleLog.path={tmp_path / 'a'}\n")
    [channel] = all_channels(read_bus_settings({}, file, {}).alarm)
    check_channel(channel)

    class Closed:
        def send(self, message: Message) -> str:
            raise NotAccepted("closed")

    with pytest.raises(AssertionError, match="it refuses a message: closed"):
        check_channel(Closed())
