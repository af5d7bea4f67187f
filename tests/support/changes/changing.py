"""Rows that change all the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.mysql.connection import MysqlConnection

KEYS = 50


@contextmanager
def changing(source: Database, schema: str) -> Iterator[None]:
    """Inserts, updates and deletes rows (id, n) of table t while the block runs, a hundred a second
    and of few keys, so that order counts."""
    over = threading.Event()
    changes = threading.Thread(target=_change, args=(source, schema, over))
    changes.start()
    try:
        yield
    finally:
        over.set()
        changes.join()


def _change(source: Database, schema: str, over: threading.Event) -> None:
    choose = random.Random(7)
    connection = MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        while not over.wait(0.01):
            key, number = choose.randrange(KEYS), choose.randrange(1_000_000)
            if choose.random() < 0.3:
                cursor.execute(f"DELETE FROM {schema}.t WHERE id = %s", (key,))
            else:
                cursor.execute(
                    f"INSERT INTO {schema}.t VALUES (%s, %s) ON DUPLICATE KEY UPDATE n = VALUES(n)",
                    (key, number),
                )
