"""Each tests/golden/source/<case>.sql gives exactly the records that it names.

A new case needs no code: write the statements, run with CDCBUS_WRITE_GOLDEN=1, and read what was
written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import key_columns, key_text, split_key_change
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange
from cdcbus.producer.config import FilterConfig
from tests.integration.producer.golden_case import FOLDER, SCHEMA, Case, Expected, parse, render
from tests.integration.producer.reading import connect, fetch_task, is_at_least, position, read

pytestmark = [pytest.mark.integration, pytest.mark.source]

CASES = sorted(FOLDER.glob("*.sql"))
# What a written case says of each record; the types only where a table is met in a new shape.
CANAL_KEYS = ("type", "table", "pkNames", "data", "old", "row", "txLast")
CANAL_SHAPE = ("mysqlType", "sqlType")
OGG_KEYS = ("table", "op_type", "primary_keys", "before", "after")


@pytest.mark.parametrize("metadata", ["full_metadata", "least_metadata"])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(
    path: Path,
    metadata: str,
    source: Database,
    source_cursor: Cursor,
    name: str,
    is_mariadb: bool,
    request: pytest.FixtureRequest,
) -> None:
    case = parse(path.read_text(encoding="utf-8"))
    if case.only not in ("", "mariadb" if is_mariadb else "mysql"):
        pytest.skip(f"a case for {case.only}")
    if case.needs_metadata and metadata == "least_metadata":
        pytest.skip("a case that needs full metadata")
    request.getfixturevalue(metadata)
    start = position(source_cursor)
    ends = execute(source, name, case)
    task = fetch_task(
        source,
        name,
        tables=FilterConfig(regexes=(rf"{name}\.(?!hidden).*",)),
        partition_keys={f"{name}.KEYED".upper(): ("region", "Name")},
    )
    changes: list[RowChange] = []
    for change in read(task, start, ends[-1]):
        changes += split_key_change(change, key_columns(change.table, task.publish))
    found = [converted(change, task.publish) for change in changes]
    if os.environ.get("CDCBUS_WRITE_GOLDEN") and metadata == "full_metadata":
        fill(case, ends, changes, found)
        path.write_text(render(case).replace(name, SCHEMA), encoding="utf-8")
        return
    expected = [with_schema(record, name) for part in case.parts for record in part.records]
    shown = [like(record, wanted) for record, wanted in zip(found, expected, strict=False)]
    assert [without_width(record) for record in shown] == expected
    assert len(found) == len(expected)


def without_width(record: Expected) -> Expected:
    """As full metadata, which the cases are written with, show a boolean."""
    types = record.canal.get("mysqlType", {})
    types.update(
        (column, type_.replace("tinyint(1)", "tinyint")) for column, type_ in types.items()
    )
    return record


def execute(source: Database, name: str, case: Case) -> list[BinlogPosition]:
    """Runs all statements in one session; the end of the binlog after each."""
    ends = []
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        for part in case.parts:
            cursor.execute(part.sql.replace(SCHEMA, name).rstrip(";"))
            ends.append(position(cursor))
    return ends


def converted(change: RowChange, publish: PublishConfig) -> Expected:
    """All of a record."""
    key = key_text(change, key_columns(change.table, publish)).decode()
    return Expected(
        key, json.loads(CanalRow().to_bytes(change)), json.loads(OggJson().to_bytes(change))
    )


def like(record: Expected, wanted: Expected) -> Expected:
    """What `wanted` speaks of; a member that is not there is None."""
    canal = {key: record.canal.get(key) for key in wanted.canal}
    ogg = {key: record.ogg.get(key) for key in wanted.ogg}
    return Expected(record.key, canal, ogg)


def with_schema(record: Expected, name: str) -> Expected:
    return Expected(
        record.key,
        *(
            json.loads(json.dumps(form).replace(SCHEMA, name))
            for form in (record.canal, record.ogg)
        ),
    )


def fill(
    case: Case, ends: list[BinlogPosition], changes: list[RowChange], found: list[Expected]
) -> None:
    """Puts each record below the statement that ended its transaction."""
    shapes = set()
    for part in case.parts:
        part.records = []
    for change, record in zip(changes, found, strict=True):
        at = BinlogPosition(change.origin.file, change.origin.pos + 1)
        part = next(
            part for part, end in zip(case.parts, ends, strict=True) if is_at_least(end, at)
        )
        keys = CANAL_KEYS if change.table in shapes else (*CANAL_KEYS, *CANAL_SHAPE)
        shapes.add(change.table)
        part.records.append(
            Expected(record.key, some(record.canal, keys), some(record.ogg, OGG_KEYS))
        )


def some(members: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: members[key] for key in keys if key in members}
