"""A format of another package: installed by pip as its users do it, found by name, used by a
task."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "format"
ROUND_TRIP = """
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId

converter = make_converter("exampleLines")
table = Table(TableId("shop", "v1.orders"), (Column("id"), Column("note"), Column("none")), ())
change = RowChange(table, Op.INSERT, None, {"id": "7", "note": "a\\t=b", "none": None})
assert converter.from_bytes(converter.to_bytes(change)) == [change]
print(converter.to_bytes(change))
"""
REFUSAL = """
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.registry import make_converter

try:
    make_converter("exampleLines").from_bytes(b"?")
except ConversionError as error:
    print(type(error).__name__)
"""
TASK = """
import sys
from pathlib import Path
from cdcbus.tasks.config.read_task import read_task

print(read_task(Path(sys.argv[1]), {}).task.converter)
"""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Python with the example installed beside cdcbus; gives what it prints."""
    source, target = (
        tmp_path_factory.mktemp("source") / "example",
        tmp_path_factory.mktemp("installed"),
    )
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    install = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(target),
        str(source),
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", *install],
        check=True,
        capture_output=True,
        env={**os.environ, "PIP_NO_CACHE_DIR": "1"},
    )

    def run(code: str, *arguments: str) -> str:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(target)},
        ).stdout

    return run


def test_it_is_found_by_its_name_and_reads_what_it_writes(run: Run) -> None:
    assert run(ROUND_TRIP) == r"b'INSERT\tshop\tv1.orders\tid=7\tnote=a%09%3Db\tnone'" + "\n"


def test_it_says_what_it_cannot_read(run: Run) -> None:
    assert run(REFUSAL) == "ConversionError\n"


def test_a_task_file_may_name_it(run: Run, tmp_path: Path) -> None:
    lines = (ROOT / "tests" / "golden" / "tasks" / "debezium.properties").read_text(
        encoding="utf-8"
    )
    file = tmp_path / "example.properties"
    file.write_text(lines.replace("debeziumJson", "exampleLines"), encoding="utf-8")
    assert run(TASK, str(file)) == "exampleLines\n"
