"""A direct load that waits for a table which another session has locked at the source."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.integration.tasks.direct.test_direct import (
    MANY,
    fill,
    followed,
    held_up,
    progress,
    run,
    words,
)
from tests.integration.tasks.verify.verifying import source_of
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ENDS_SECONDS = 10.0


@contextmanager
def locked(shop: Shop) -> Iterator[None]:
    """Nobody else reads orders at the source."""
    source = source_of(shop)
    with (
        MysqlConnection(
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password,
            database=shop.name,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("LOCK TABLES orders WRITE")
        yield


def ends(process: subprocess.Popen[bytes], ending: signal.Signals) -> int:
    process.send_signal(ending)
    begun = time.monotonic()
    try:
        return process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        assert time.monotonic() - begun < ENDS_SECONDS


def started(load: TaskProcess, fetch: TaskProcess, told: Path) -> subprocess.Popen[bytes]:
    with told.open("wb") as file:
        return subprocess.Popen(
            words(load, fetch),
            env=load.environment,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_load_whose_first_look_waits_for_a_lock_says_so_and_ends(
    shop: Shop, tmp_path: Path, ending: signal.Signals
) -> None:
    fill(shop)
    fetch, load = followed(shop), shop.load("postgresql")
    told = tmp_path / "told"
    with locked(shop):
        process = started(load, fetch, told)
        sentence = f"source table {shop.name}.orders is locked"
        wait_until(lambda: process.poll() is not None or sentence in told.read_text(), "it")
        assert ends(process, ending) == 130, told.read_text()
    assert told.read_text().count(sentence) == 1
    answer = run(load, fetch)
    assert answer.code == 0, answer.told


def test_a_load_whose_chunks_wait_for_a_lock_says_so_and_ends(shop: Shop, tmp_path: Path) -> None:
    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    told = tmp_path / "told"
    with held_up(shop, MANY - 1):
        process = started(load, fetch, told)
        wait_until(lambda: progress(shop, load).get("chunks", 0) > 0, "a chunk")
        with locked(shop):
            # The chunk that is held up is read once more after the target has given up waiting.
            sentence = f"source table {shop.name}.orders is locked"
            wait_until(lambda: process.poll() is not None or sentence in told.read_text(), "it")
            assert ends(process, signal.SIGINT) == 130, told.read_text()
