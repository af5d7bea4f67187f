"""The examples of a source, a format's reader and a loader as one line: from files through Kafka
into SQLite, with commands as their users type them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from tests.support.processes.plugins import add_example

pytestmark = pytest.mark.integration


def put(
    file: Path, *changes: tuple[str, dict[str, str | None] | None, dict[str, str | None] | None]
) -> None:
    with file.open("a") as lines:
        for op, before, after in changes:
            fields = {"op": op, "table": "shop.t", "key": ["id"], "before": before, "after": after}
            lines.write(json.dumps(fields) + "\n")


def rows(database: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT id, v, n FROM t ORDER BY id").fetchall()
    finally:
        connection.close()


def test_rows_go_from_files_into_sqlite(
    tmp_path: Path,
    kafka: str,
    zookeeper: str,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_topic(name, 2)
    for example in ("source", "loader"):
        add_example(example, tmp_path / "examples" / example, monkeypatch)
    database, changes = tmp_path / "target.db", tmp_path / "1.jsonl"
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, n INTEGER)")
    connection.close()
    fetch, load = tmp_path / "fetch.properties", tmp_path / "load.properties"
    fetch.write_text(
        f"taskId={name}f\nconsumer.consumerName=exampleFiles\nconsumer.source.database={name}\n"
        f"consumer.source.plugin.folder={tmp_path}\nconsumer.source.plugin.end=true\n"
        f"consumer.offset=earliest\nloader.loaderName=KAFKA_SYNC\nloader.source.topic={name}\n"
        f"loader.source.servers={kafka}\nloader.source.oggJson=false\n"
    )
    load.write_text(
        f"taskId={name}l\nconsumer.consumerName=KafkaFetch\nconsumer.converter=canalRow\n"
        f"consumer.source.servers={kafka}\nconsumer.source.topics={name}\n"
        "consumer.source.firstConsumeFrom=earliest\nloader.loaderName=exampleSqlite\n"
        f"loader.source.url=sqlite:{database}\n"
    )
    cli = CliRunner(env={"CDCBUS_ZOOKEEPER": f"{zookeeper}/cdcbus/plugins-test"})

    def run() -> None:
        for words in (["run", str(fetch)], ["run", str(load), "--until", "now"]):
            done = cli.invoke(main, ["task", *words], catch_exceptions=False)
            assert done.exit_code == 0, done.output

    put(changes, *(("INSERT", None, {"id": str(n), "v": f"v{n}", "n": None}) for n in range(20)))
    run()
    assert rows(database) == [(n, f"v{n}", None) for n in range(20)]
    put(
        changes,
        ("UPDATE", {"id": "1", "v": "v1", "n": None}, {"id": "1", "v": "é", "n": "7"}),
        ("DELETE", {"id": "2", "v": "v2", "n": None}, None),
        ("UPDATE", {"id": "3", "v": "v3", "n": None}, {"id": "33", "v": "v3", "n": None}),
    )
    run()
    expected = {(n, f"v{n}", None) for n in range(20)} - {
        (1, "v1", None),
        (2, "v2", None),
        (3, "v3", None),
    }
    assert set(rows(database)) == expected | {(1, "é", 7), (33, "v3", None)}
    checked = cli.invoke(main, ["task", "check", str(load)])
    assert checked.exit_code == 0, checked.output
