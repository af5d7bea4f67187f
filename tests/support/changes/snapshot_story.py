"""Random tables, a snapshot, writers, kills: at the end all copies are equal."""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner
from pymysql.cursors import SSCursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.tasks.verify.sides import open_source
from cdcbus.tasks.verify.sql.source_cells import reading, selected
from tests.integration.producer.reading import source_config
from tests.support.changes.random_tables import RandomTable, writing
from tests.support.changes.shop import Shop
from tests.support.servers.slow_link import SlowLink, slow_link
from tests.support.topics.committed import committed_canal
from tests.support.waiting import wait_until

SMALL_CHUNKS: Final = Path(__file__).with_name("small_chunks")
BYTES_PER_SECOND: Final = 250_000
"""More than the writers change: a stream with a large lag holds up a snapshot."""
INSERTED_AT_ONCE: Final = 200
Rows = dict[tuple[str | None, ...], tuple[str | None, ...]]


def seed_of_this_run() -> int:
    """CDCBUS_TEST_SEED, else a new one each time; printed, so that a failure can be repeated."""
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")
    return seed


def play(shop: Shop, target: str, seed: int, *, tables: int, rows: int, kills: int) -> None:
    """Kills fetch and consumer task, `kills` times each."""
    choose = random.Random(seed)
    made = [RandomTable.make(f"t{number}", choose) for number in range(tables)]
    shop.cursor.execute("SET sql_mode = ''")
    for table in made:
        print(table.ddl)
        shop.cursor.execute(table.ddl)
        for _ in range(0, rows, INSERTED_AT_ONCE):
            table.insert(shop.cursor, [table.row(choose) for _ in range(INSERTED_AT_ONCE)])
    source = shop.addresses.source
    with slow_link(source.host, source.port, BYTES_PER_SECOND) as link:
        fetch = shop.fetch(
            replace(source, port=link.port),
            consumer__snapshot="initial",
            loader__source__transaction=choose.choice(("false", "true")),
            loader__source__rowsPerRecord=choose.choice(("1", "3", "100")),
        )
        fetch.environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(SMALL_CHUNKS), fetch.environment.get("PYTHONPATH")))
        )
        load = shop.load(target)
        run(shop, "schema", "apply", str(load.file), "--yes")
        with writing(source, shop.name, made, seed):
            kill(shop, [fetch, load], link, choose, kills)
        run(shop, "verify", str(load.file), "--patience", "240", "--show-values")
    records = committed_canal(shop.addresses.kafka, shop.name)
    for table in made:
        assert in_topic(records, table) == at_source(shop, table), table.ddl


def kill(
    shop: Shop, tasks: list[TaskProcess], link: SlowLink, choose: random.Random, kills: int
) -> None:
    """Kills at random moments; the fetch task first while the snapshot is in progress."""
    fetch = tasks[0]
    for task in tasks:
        task.start()
    wait_until(lambda: sent_rows(shop) > 0, f"the snapshot to begin: {fetch.log}", 60)
    for number in range(kills):
        is_first = number == 0
        order = tasks if is_first else choose.sample(tasks, 2)
        for task in order:
            before = sent_rows(shop)
            wait_until(lambda seen=before: sent_rows(shop) > seen or is_done(shop), "more", 90)  # type: ignore[misc]
            longest = 0.1 if is_first else 0.5
            time.sleep(choose.uniform(0, longest))
            task.kill()
            if is_first and task is fetch:
                assert not is_done(shop), "the snapshot was too fast to be caught"
            task.start()
    link.bytes_per_second = 0
    wait_until(lambda: is_done(shop), f"the snapshot to be done: {fetch.log}")


def run(shop: Shop, *words: str) -> None:
    told = CliRunner(env={"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper}).invoke(main, words)
    assert told.exit_code == 0, told.output


def status(shop: Shop) -> list[dict[str, Any]]:
    environment = {"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper}
    told = CliRunner(env=environment).invoke(
        main, ["snapshot", "status", f"{shop.name}-fetch", "--json"]
    )
    if "is not known" in told.output:  # it has not begun
        return []
    assert told.exit_code == 0, told.output
    found: list[dict[str, Any]] = json.loads(told.stdout)["tables"]
    return found


def sent_rows(shop: Shop) -> int:
    return sum(each["rows"] for each in status(shop))


def is_done(shop: Shop) -> bool:
    found = status(shop)
    return bool(found) and all(each["state"] == "done" for each in found)


def at_source(shop: Shop, table: RandomTable) -> Rows:
    """The rows as the binlog has their cells."""
    with open_source(source_config(shop.addresses.source)) as connection:
        schema, _ = SchemaReader(connection).read(TableId(shop.name, table.name))
        assert schema is not None
        expressions = []
        reads = []
        for column in schema.columns:
            expression, read = selected(column, column.name)
            expressions.append(expression)
            reads.append(read)
        with SSCursor(connection) as rows:
            rows.execute(f"SELECT {', '.join(expressions)} FROM {shop.name}.{table.name}")
            found = list(map(reading(reads), rows))
    return {tuple(row[: len(table.key)]): tuple(row) for row in found}


def in_topic(records: list[dict[str, Any]], table: RandomTable) -> Rows:
    """The rows that a reader of the topic has who starts at its beginning."""
    found: Rows = {}
    for record in records:
        if record["table"] != table.name:
            continue
        for row in record["data"]:
            key = tuple(row[name] for name in table.key_names)
            if record["type"] == "DELETE":
                found.pop(key, None)
            else:
                found[key] = tuple(row.values())
    return found
