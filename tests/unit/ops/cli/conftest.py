"""Task files for the command line: a good one, an odd one with a warning and a note, a bad one."""

from pathlib import Path

import pytest

from tests.unit.ops.cli.runs import GOOD


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.properties"
    file.write_text(GOOD, encoding="utf-8")
    return file


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    file = tmp_path / "odd.properties"
    file.write_text(GOOD + "mapper[0].auto=true\nstatus=NEW\n", encoding="utf-8")
    return file


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.properties"
    file.write_text(GOOD + "consumer.source.partition=x\nmapper[0].auto=true\n", encoding="utf-8")
    return file
