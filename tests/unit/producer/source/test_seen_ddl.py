"""Which definitions a fetch task notes of those that its stream passes."""

from __future__ import annotations

from collections import deque

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import DdlConfig, FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.row_events import Batch
from cdcbus.producer.source.seen_ddl import Seen, SeenDdl


def seen(*texts: str, definitions: bool = False) -> list[str]:
    task = FetchTask(
        "7",
        "shop",
        SourceConfig((("127.0.0.1", 1),), "u"),
        FilterConfig(regexes=(r"s\.a",)),
        PublishConfig("127.0.0.1:1", "t", "canalRow"),
        ddl=DdlConfig(definitions=definitions),
    )
    noted = deque[Seen]()
    end = BinlogCoordinates("bin.1", 500)
    ddl = tuple(Statement(end, 7, "s", text.encode()) for text in texts)
    SeenDdl(task, noted).take(Batch([], None, [], ddl=ddl))
    return [sentence for _, sentence in noted]


def test_tables_of_the_task_are_noted_with_their_place_and_without_the_text() -> None:
    assert seen(
        "ALTER TABLE a ADD c VARCHAR(9) DEFAULT 'secret'",
        "ALTER TABLE other ADD c INT",
        "garbage '",
    ) == ["ALTER of s.a before bin.1:500: seen at the source, not published"]


def test_what_is_sent_is_said_to_be_published() -> None:
    assert seen("TRUNCATE a") == ["TRUNCATE of s.a before bin.1:500: published"]
    assert seen("RENAME TABLE a TO b", definitions=True) == [
        "RENAME of s.b (before: s.a) before bin.1:500: published"
    ]


def test_tables_of_a_session_alone_are_none() -> None:
    assert seen("CREATE TEMPORARY TABLE a (id INT)") == []
