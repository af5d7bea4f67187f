"""A task that has yet to read its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.snapshot import chunk_thread
from tests.integration.producer.reading import fetch_task


@pytest.fixture
def task(source: Database, kafka: str, name: str, make_topic: Callable[..., str]) -> FetchTask:
    make_topic(name, 3)
    started = replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)
    return replace(started, snapshot=SnapshotMode.INITIAL)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small table has many."""
    monkeypatch.setattr(chunk_thread, "FIRST_ROWS", 100)
    monkeypatch.setattr(chunk_thread, "CHUNK_BYTES", 10_000)
