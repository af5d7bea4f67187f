"""What a source of another package gives is held to its contract before anything is sent or
stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cdcbus.plugins.added.sources import NOTHING_NEW, SourcePlace, SourceRows
from cdcbus.plugins.errors import (
    CdcError,
    ConfigError,
    NoPosition,
    PositionError,
    SourceMisconfigured,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.producer.added.source import OpenSource, need_added, stored_or_start
from cdcbus.producer.config import AddedSource, FetchTask, SourceConfig
from cdcbus.producer.progress import Progress
from cdcbus.producer.server.connection import connect
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.control.until import bounded_by
from cdcbus.tasks.lineage.ways import ways
from cdcbus.tasks.runtime.lag import Lag, lag_meter
from tests.support.processes.plugins import add_example, add_package

T = Table(TableId("shop", "t"), (Column("id"), Column("n")), ("id",))
ROW = RowChange(T, Op.INSERT, None, {"id": "1", "n": None}, Origin("bin.000007", 4, commit_us=5))
CODE = """
class Given:
    def __init__(self, settings):
        self.settings = settings

    def __getattr__(self, name):
        from tests.unit.producer.added import test_source

        def do(*words):
            found = test_source.GIVEN.get(name)
            if isinstance(found, Exception):
                raise found
            return found

        return do
"""
GIVEN: dict[str, Any] = {}
TASK = """taskId=1
consumer.consumerName=given
consumer.source.plugin.folder=/x
consumer.source.plugin.password=s3cret
consumer.offset=earliest
loader.loaderName=KAFKA_SYNC
loader.source.servers=k:1
loader.source.topic=t
"""


@pytest.fixture(autouse=True)
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the source `given` answers, by method."""
    points = {"cdcbus.sources": {"given": "given_source:Given", "KafkaFetch": "given_source:Given"}}
    add_package(tmp_path / "given", monkeypatch, "given_source", points, CODE)
    GIVEN.clear()
    yield GIVEN
    GIVEN.clear()


def opened() -> OpenSource:
    return OpenSource(AddedSource("given"), "epoch 7")


def read(*rows: object) -> list[tuple[SourceRows, BinlogPosition | None]]:
    GIVEN["read"] = rows
    return list(opened().read(BinlogPosition("a", 1)))


def test_rows_come_with_the_epoch_and_without_a_place_in_a_binlog() -> None:
    """Readers would compare a source's places as those of a binlog."""
    [(rows, edge), (nothing, none)] = read(
        SourceRows([ROW], SourcePlace("a", 7), more_follow=True), NOTHING_NEW
    )
    assert [change.origin for change in rows.changes] == [Origin(commit_us=5, epoch="epoch 7")]
    assert edge == BinlogPosition("a", 7, server_uuid="given")
    assert rows.more_follow
    assert (list(nothing.changes), none) == ([], None)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (RowChange(T, Op.TRUNCATE, None, None), "a TRUNCATE"),
        (RowChange(T, Op.INSERT, {"id": "1"}, None), "INSERT with the wrong images"),
        (RowChange(T, Op.UPDATE, None, {"id": "1"}), "UPDATE with the wrong images"),
        (RowChange(T, Op.DELETE, None, {"id": "1"}), "DELETE with the wrong images"),
        (RowChange(T, Op.INSERT, None, {"n": "1"}), "id of its key is missing"),
        (RowChange(T, Op.INSERT, None, {"id": "1", "x": "1"}), "its table has no column x"),
        (RowChange(T, Op.INSERT, None, {"id": 7}), "a int in column id"),  # type: ignore[dict-item]
    ],
)
def test_a_row_that_is_none_stops_the_task_with_its_place(change: RowChange, sentence: str) -> None:
    with pytest.raises(
        UnreadableEvent, match=f"source given, after a:1, a row of shop.t: {sentence}"
    ):
        read(SourceRows([change], SourcePlace("a", 7)))


@pytest.mark.parametrize(
    "place", [SourcePlace("", 1), SourcePlace("a\nb"), SourcePlace("a", -1), ("a", 1),
              SourcePlace("a" * 1001), SourcePlace("a", 2**63), SourcePlace("a", True)],
)  # fmt: skip
def test_a_place_that_cannot_be_stored_is_refused(place: object) -> None:
    with pytest.raises(SourceMisconfigured, match="gave an invalid place"):
        read(SourceRows([ROW], place))  # type: ignore[arg-type]
    GIVEN["start"] = place
    with pytest.raises(SourceMisconfigured, match="gave an invalid place"):
        opened().start("earliest")


def test_other_things_than_rows_are_refused() -> None:
    with pytest.raises(SourceMisconfigured, match="gave a str; expected SourceRows"):
        read("rows")
    with pytest.raises(SourceMisconfigured, match="gave a NoneType; expected SourceRows"):
        read(None)
    with pytest.raises(SourceMisconfigured, match="gave a str; expected RowChange"):
        read(SourceRows(["row"]))  # type: ignore[list-item]


def test_its_own_errors_pass_and_others_are_told_by_class_only() -> None:
    GIVEN["read"] = SourceUnavailable("away")
    with pytest.raises(SourceUnavailable, match=r"^away$"):
        list(opened().read(BinlogPosition("a", 1)))
    GIVEN["read"] = ValueError("cell s3cret")
    with pytest.raises(SourceMisconfigured, match="raised ValueError: report this") as raised:
        list(opened().read(BinlogPosition("a", 1)))
    assert "s3cret" not in str(raised.value)


def test_a_close_that_fails_leaves_what_came_before_it(caplog: pytest.LogCaptureFixture) -> None:
    GIVEN["close"] = BrokenPipeError()
    with pytest.raises(SourceUnavailable, match=r"^away$"), opened():
        raise SourceUnavailable("away")
    assert "raised BrokenPipeError" in caplog.text
    with pytest.raises(SourceMisconfigured, match="raised BrokenPipeError"), opened():
        pass


def begin(stored: str | None, start: str = "", trace: str = "") -> tuple[BinlogPosition, bool]:
    return stored_or_start(opened(), start, stored, "/position", trace, "1")


def test_the_stored_position_counts_before_the_start() -> None:
    GIVEN["start"] = SourcePlace("first")
    assert begin('{"logfileName":"a","offset":7}', "earliest") == (
        BinlogPosition("a", 7, server_uuid="given"),
        True,
    )
    assert begin(None, "earliest") == (BinlogPosition("first", 0, server_uuid="given"), False)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ((None,), NoPosition, "no position at /position and no consumer.offset"),
        ((None, "earliest", "/written"), NoPosition, "has run before, as /written shows"),
        (("?",), PositionError, "/position: not JSON.*cdcbus offset reset 1 --to PLACE"),
        (
            ('{"logfileName":"a","offset":7,"serverUuid":"other"}',),
            PositionError,
            "is of source other, but the task reads given now",
        ),
    ],
)
def test_a_start_that_nobody_knows_is_refused(
    arguments: tuple[Any, ...], error: type[CdcError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        begin(*arguments)


def inspected(text: str, environ: Mapping[str, str] | None = None) -> FetchTask:
    inspection = inspect_text(text, environ or {})
    task = inspection.ready("file").task
    assert isinstance(task, FetchTask)
    return task


def test_a_task_file_names_it_with_settings_of_its_own() -> None:
    source = inspected(TASK).source
    options = {"folder": "/x", "password": "s3cret"}
    assert source.added == AddedSource("given", options, "earliest")
    assert "s3cret" not in repr(source)
    assert source.shown == "given"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "loader.loaderName=JdbcBatch",
            "given cannot be combined with JdbcBatch; expected one of KAFKA_",
        ),
        ("consumer.consumerName=givn", "one of CanalFetch, KafkaFetch, given; example"),
        ("consumer.stopAt=now", "a source from another package, which itself decides where it"),
    ],
)
def test_what_does_not_go_with_it_is_an_error(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        inspected(TASK + line)


def test_a_machine_that_limits_modules_must_name_it() -> None:
    with pytest.raises(ConfigError, match=r"given may not be used here: the setting node\.modules"):
        inspected(TASK, {"node.modules": "none"})
    assert inspected(TASK, {"node.modules": "given"}).source.added is not None


def test_commands_that_ask_the_server_say_that_there_is_none() -> None:
    task = inspected(TASK)
    sentence = "given is a source of another package, not MySQL or MariaDB"
    with pytest.raises(ConfigError, match=sentence):
        connect(task.source)
    with pytest.raises(ConfigError, match=sentence):
        bounded_by(task, "now")
    with pytest.raises(ConfigError, match="reads a binlog"):
        need_added(SourceConfig((("h", 1),), "u").added)


def test_lineage_and_lag_do_with_what_is_known_of_it() -> None:
    task = inspected(TASK)
    assert [(way.server, way.topic) for way in ways([task])] == [("given", "t")]
    assert lag_meter(task)(Progress()) == Lag()


def test_a_built_in_name_is_not_taken_over() -> None:
    text = TASK.replace("=given", "=KafkaFetch")
    assert "consumer.source.servers: missing" in str(
        [each.located("") for each in inspect_text(text).diagnostics.found]
    )


def test_the_example_says_what_its_words_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_example("source", tmp_path / "example", monkeypatch)
    with pytest.raises(ConfigError, match=r"consumer\.source\.plugin\.folder is missing"):
        OpenSource(AddedSource("exampleFiles"))
    with OpenSource(AddedSource("exampleFiles", {"folder": str(tmp_path)})) as source:
        with pytest.raises(SourceUnavailable, match="has no file yet"):
            source.start("earliest")
        (tmp_path / "1.jsonl").write_text("half a line")
        with pytest.raises(ConfigError, match="expected earliest, latest or FILE:BYTE"):
            source.start("yesterday")
        assert source.start("latest").pos == 11
