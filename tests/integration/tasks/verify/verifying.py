"""Runs `cdcbus verify` as an operator does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.server.connection import latest_position
from tests.support.changes.shop import Shop

FAR = 1 << 30
"""More bytes than all tests of a run write to a file of the binlog."""


def source_of(shop: Shop) -> Database:
    """The server that the shop's cursor is on."""
    connection: Any = shop.cursor.connection
    user, password = connection.user.decode(), connection.password.decode()
    return Database(connection.host, connection.port, user, password, "")


def arrive(shop: Shop) -> None:
    """As if the fetch task had published all that is committed."""
    connection: Any = shop.cursor.connection
    store(shop, latest_position(connection))


def store(shop: Shop, position: BinlogPosition) -> None:
    """As the fetch task's position."""
    path = f"/datas/task/{shop.name}-fetch/position/{shop.name}"
    data = position.to_json().encode()
    if shop.zookeeper.exists(path):
        shop.zookeeper.set(path, data)
    else:
        shop.zookeeper.create(path, data, makepath=True)


@dataclass
class Answer:
    code: int
    tables: list[dict[str, Any]]
    output: str

    @property
    def table(self) -> dict[str, Any]:
        [table] = self.tables
        return table


def verify_still(
    shop: Shop, target: str, *options: str, patience: str = "10", **load: str
) -> Answer:
    """No task runs: what differs stays so, whatever other tests write to the server meanwhile. Then
    a difference is certain at the second look, which patience is for."""
    connection: Any = shop.cursor.connection
    end = latest_position(connection)
    store(shop, replace(end, pos=end.pos + FAR))
    return verify(shop, target, *options, patience=patience, **load)


def verify(shop: Shop, target: str, *options: str, patience: str = "60", **keys: str) -> Answer:
    """`keys`: of the consumer task's file. Files that are there already stay."""
    fetch, load = (shop.folder / f"{shop.name}-{each}.properties" for each in ("fetch", target))
    if not fetch.exists():
        shop.fetch(source_of(shop))
    if keys or not load.exists():
        shop.load(target, **keys)
    words = ["verify", str(load), "--source", str(fetch), "--json"]
    words += ["--patience", patience, "--zookeeper", shop.addresses.zookeeper, *options]
    result = CliRunner().invoke(main, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    found = json.loads(result.stdout) if result.stdout else {"tables": []}
    return Answer(result.exit_code, found["tables"], result.output)


def both(shop: Shop, target: str) -> Callable[[str], Any]:
    run: Callable[[str], Any] = shop.postgresql if target == "postgresql" else shop.mariadb
    return run
