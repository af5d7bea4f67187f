"""The progress of a table's direct load. Chunks end in any order; the stored progress reaches up to
the first chunk that is not done. Pure."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import Shape
from cdcbus.producer.snapshot.progress import TableProgress, TableState


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of a table after `after`, up to and including `until`. `number`: counts in this run.
    `shape`: the table's, as of when the chunk was cut."""

    table: TableId
    number: int
    after: Bound | None
    until: Bound
    shape: Shape


@dataclass(frozen=True, slots=True)
class Reader:
    """One of those that load chunks at a time. `committed`: how many of its transactions the target
    has acknowledged."""

    number: int
    committed: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The size of a chunk that the target has committed. `committed`: as of its reader, after
    it."""

    rows: int
    bytes: int
    committed: int = 0


@dataclass(slots=True)
class _Part:
    chunk: Chunk
    loaded: Loaded | None = None


@dataclass(slots=True)
class Course:
    """The load of one table. `progress`: up to where all chunks are done, where another run would
    continue."""

    table: TableId
    progress: TableProgress
    parts: deque[_Part] = field(default_factory=deque)
    is_cut: bool = False

    def cut(self, chunk: Chunk) -> None:
        """Notes that a chunk's load begins. A table's time counts from its first chunk, as Spark
        may start and other tables are loaded before that."""
        if not self.progress.chunks and not self.parts:
            self.progress = replace(self.progress, started_ms=now_ms())
        self.parts.append(_Part(chunk))

    def done(self, chunk: Chunk, loaded: Loaded) -> None:
        """Notes that the target has committed a chunk."""
        for part in self.parts:
            if part.chunk is chunk:
                part.loaded = loaded
        # The stored key must have no gap before it, as another run continues after it.
        while self.parts and (first := self.parts[0].loaded) is not None:
            self._pass(self.parts.popleft().chunk, first)
        self.finish_if_done()

    def finish_if_done(self) -> None:
        """Notes that the table has no chunk left."""
        if self.is_cut and not self.parts and self.progress.state is not TableState.DONE:
            self.progress = replace(self.progress, state=TableState.DONE, updated_ms=now_ms())

    def _pass(self, chunk: Chunk, loaded: Loaded) -> None:
        before = self.progress
        self.progress = replace(
            before,
            rows=before.rows + loaded.rows,
            bytes=before.bytes + loaded.bytes,
            chunks=before.chunks + 1,
            after=chunk.until,
            updated_ms=now_ms(),
        )

    @property
    def shown(self) -> TableProgress:
        """The progress including done chunks after one that is not done."""
        progress = self.progress
        rows, size = progress.rows, progress.bytes
        # A copy, as other threads cut and end chunks concurrently.
        for part in tuple(self.parts):
            if part.loaded:
                rows += part.loaded.rows
                size += part.loaded.bytes
        return replace(progress, rows=rows, bytes=size, updated_ms=now_ms())


def now_ms() -> int:
    return int(time.time() * 1000)
