"""`mysqlbinlog -vv`, the server's own reader, as a second witness of what rows hold, where it is
installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Op, Row
from tests.integration.producer.decoding.test_golden import execute
from tests.integration.producer.golden_case import FOLDER, parse
from tests.integration.producer.reading import fetch_task, position, read

pytestmark = [pytest.mark.integration, pytest.mark.source]

# Types that it prints as SELECT does; text of any character set and floating point numbers are not
# among them.
CASES = ["integers", "decimals", "bits", "keys", "no_key"]
_STATEMENT = re.compile(r"### (INSERT INTO|UPDATE|DELETE FROM) `(\w+)`")
_EITHER = re.compile(r"(-\d+) \((\d+)\)")  # a number of which it does not know whether it is signed
_CELL = re.compile(r"###   @\d+=(.*) /\* (\w+)")
_OPS = {"INSERT INTO": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE FROM": Op.DELETE}
Cells = list[str | None]


@pytest.mark.usefixtures("full_metadata")
@pytest.mark.parametrize("case", CASES)
def test_it_prints_the_same_rows(
    source: Database, source_cursor: Cursor, name: str, case: str, is_mariadb: bool
) -> None:
    command = "mariadb-binlog" if is_mariadb else "mysqlbinlog"
    program = shutil.which(command)
    if program is None:
        pytest.skip(f"{command} is not installed")
    start = position(source_cursor)
    end = execute(source, name, parse((FOLDER / f"{case}.sql").read_text(encoding="utf-8")))[-1]
    changes = read(fetch_task(source, name), start, end)
    wanted = [
        (op, shown) for op, schema, shown in printed(program, source, start, end) if schema == name
    ]
    found = [(change.op, cells(change.before) + cells(change.after)) for change in changes]
    assert found == [
        (op, signed(shown, ours)) for (op, shown), (_, ours) in zip(wanted, found, strict=True)
    ]
    assert found


def cells(row: Row | None) -> Cells:
    return list((row or {}).values())


def signed(shown: Cells, ours: Cells) -> Cells:
    """What is shown, where it is shown in two ways that which we have, if it is among them."""
    pairs = [
        (cell, _EITHER.fullmatch(cell or ""), our) for cell, our in zip(shown, ours, strict=True)
    ]
    return [our if either and our in either.groups() else cell for cell, either, our in pairs]


def printed(
    program: str, source: Database, start: BinlogPosition, end: BinlogPosition
) -> list[tuple[Op, str, Cells]]:
    """Row by row, its schema and the cells of its images."""
    assert start.file == end.file
    command = [
        program,
        "--read-from-remote-server",
        f"--host={source.host}",
        f"--port={source.port}",
        f"--user={source.user}",
    ]
    command += [f"--password={source.password}", "-vv", "--base64-output=DECODE-ROWS"]
    if program.endswith("mariadb-binlog"):
        command += ["--skip-ssl"]  # the clients of 11.4 and later want TLS of any server
    command += [f"--start-position={start.pos}", f"--stop-position={end.pos}", start.file]
    done = subprocess.run(command, capture_output=True, timeout=60)
    if b"reported unrecognized" in done.stderr:
        pytest.skip(f"{program} is older than the server")
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode("utf-8", "replace")
    found: list[tuple[Op, str, Cells]] = []
    for line in text.split("\n"):
        if statement := _STATEMENT.match(line):
            found.append((_OPS[statement[1]], statement[2], []))
        elif cell := _CELL.match(line):
            found[-1][2].append(plain(cell[1], cell[2]))
    return found


def plain(shown: str, kind: str) -> str | None:
    """A value without its quotes."""
    if kind == "YEAR" and shown == "1900":
        return "0000"  # it does not know that there is no year 1900
    if shown == "NULL":
        return None
    if shown.startswith("b'"):
        return str(int(shown[2:-1], 2))
    return shown[1:-1] if shown.startswith("'") else shown
