"""Converters and loaders by name: the built-in ones, and those that another package adds."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.added.entry_points import CONVERTERS as CONVERTER_GROUP
from cdcbus.plugins.added.entry_points import LOADERS as LOADER_GROUP
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.columnar import Columns, read_columns
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.loaders import LOADERS, make_loader
from cdcbus.plugins.registry import (
    converter_names,
    loader_names,
    make_converter,
)
from cdcbus.tasks.config.read_task import inspect_text
from tests.support.stand_ins.memory_target import MemoryTarget

PLUGIN = """
from cdcbus import Columns
from tests.support.stand_ins.memory_target import MemoryTarget

class Shout:
    def to_bytes(self, change):
        return change.table.id.table.upper().encode()

    def from_bytes(self, value):
        return []

class FastShout(Shout):
    def read_columns(self, records):
        return Columns([], [len(records)])

def shelf(target):
    return MemoryTarget({}, refused=frozenset({target.url}))

def broken(target):
    raise OSError("no shelf")
"""
TASK = """taskId=1
consumer.consumerName=KafkaFetch
consumer.source.servers=k:1
consumer.source.topics=a
loader.loaderName=LOADER
loader.source.url=shelf 7
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package beside ours, as pip leaves it: a module, and metadata with an entry point."""
    (tmp_path / "shouting.py").write_text(PLUGIN)
    metadata = tmp_path / "shouting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{CONVERTER_GROUP.name}]\nshout = shouting:Shout\ncanalRow = shouting:Shout\n"
        "fastShout = shouting:FastShout\n"
        f"[{LOADER_GROUP.name}]\nshelf = shouting:shelf\nbroken = shouting:broken\n"
        "JdbcBatch = shouting:shelf\nKAFKA_SYNC = shouting:shelf\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shouting", raising=False)
    return "shout"


def test_the_built_in_converters_have_porter_s_names() -> None:
    assert isinstance(make_converter("canalRow"), CanalRow)
    assert isinstance(make_converter("oggJson"), OggJson)


@pytest.mark.parametrize(
    "name",
    [
        "canalCompat",
        "canalProtobuf",
        "porterCompat",
        "debeziumJson",
        "maxwellJson",
        "porterJson",
        "auto",
    ],
)
def test_every_built_in_name_makes_a_converter(name: str) -> None:
    assert name in converter_names()
    with pytest.raises(ConversionError):
        make_converter(name).from_bytes(b"?")


def test_a_package_adds_a_converter_by_entry_point(installed: str) -> None:
    assert type(make_converter(installed)).__name__ == "Shout"


@pytest.mark.usefixtures("installed")
def test_a_built_in_name_cannot_be_taken_over() -> None:
    assert isinstance(make_converter("canalRow"), CanalRow)


@pytest.mark.usefixtures("installed")
def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError,
        match=r"no converter is called canalrow; known are oggJson, canalRow, .*, auto, fastShout, shout$",
    ):
        make_converter("canalrow")


@pytest.mark.usefixtures("installed")
def test_a_format_of_another_package_can_be_read_by_columns() -> None:
    values = pa.array([b"a", b"b"], pa.binary())
    assert read_columns(values, make_converter("fastShout")) == Columns([], [2])
    assert read_columns(values, make_converter("shout")) == Columns([], [0, 1])


@pytest.mark.usefixtures("installed")
def test_a_package_adds_a_loader_by_entry_point() -> None:
    """A task file names it, and it is made with the address that stands there, whatever its form."""
    inspection = inspect_text(TASK.replace("LOADER", "shelf"))
    assert not inspection.diagnostics.found
    task = inspection.task
    assert isinstance(task, LoadTask)
    assert isinstance(task.target, JdbcTarget)
    loader = make_loader(task.loader, task.target)
    assert isinstance(loader, MemoryTarget)
    assert loader.refused == {"shelf 7"}


@pytest.mark.usefixtures("installed")
def test_a_binlog_does_not_go_to_a_loader_of_another_package() -> None:
    text = TASK.replace("LOADER", "shelf").replace("KafkaFetch", "CanalFetch")
    found = [diagnostic.sentence for diagnostic in inspect_text(text).diagnostics.found]
    assert "CanalFetch cannot be combined with shelf; expected one of KAFKA_SYNC" in found[0]


@pytest.mark.usefixtures("installed")
def test_a_built_in_loader_keeps_its_name_and_its_form_of_address() -> None:
    assert loader_names() == (
        *("KAFKA_SYNC", "JdbcBatch", "JdbcSingle", "JdbcMultiThread", "JdbcSqlDebug"),
        *("broken", "shelf"),
    )
    assert LOADERS.keys() < set(loader_names())
    [found] = inspect_text(TASK.replace("LOADER", "JdbcBatch")).diagnostics.found
    assert (found.key, found.sentence.split(";")[0]) == ("loader.source.url", "wrong value")
    with pytest.raises(ConfigError, match="JDBC address shelf 7 is none of"):
        make_loader("JdbcBatch", JdbcTarget("shelf 7"))


@pytest.mark.usefixtures("installed")
def test_a_loader_that_cannot_be_made_is_named_with_its_error() -> None:
    with pytest.raises(
        ConfigError, match=r"loader broken \(shouting:broken\) cannot be made: OSError$"
    ):
        make_loader("broken", JdbcTarget("shelf 7"))
    with pytest.raises(ConfigError, match=r"no loader is called Shelf; known are .*, shelf$"):
        make_loader("Shelf", JdbcTarget("shelf 7"))
