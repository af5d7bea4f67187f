"""How far the direct load of a table is: chunks end in any order, and what is stored is up to where
all are done. Pure."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.progress import TableProgress, TableState


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table behind `after`, up to `until`. `number`: in this run. `expressions`: what is
    selected, as the table was when it was cut."""

    table: TableId
    number: int
    after: Bound | None
    until: Bound
    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a chunk came to, once the target has committed it."""

    rows: int
    bytes: int


@dataclass(slots=True)
class _Part:
    chunk: Chunk
    loaded: Loaded | None = None


@dataclass(slots=True)
class Course:
    """A table's way. `progress`: up to where all chunks are done, where another run would go on."""

    table: TableId
    progress: TableProgress
    parts: deque[_Part] = field(default_factory=deque)
    is_cut: bool = False

    def cut(self, chunk: Chunk) -> None:
        """The next chunk is on its way. Time counts from the table's first one on: before, Spark
        may start, and other tables are loaded."""
        if not self.progress.chunks and not self.parts:
            self.progress = replace(self.progress, started_ms=now_ms())
        self.parts.append(_Part(chunk))

    def done(self, chunk: Chunk, loaded: Loaded) -> None:
        """The target has it."""
        next(part for part in self.parts if part.chunk is chunk).loaded = loaded
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
        """With what is done beyond a chunk that is not."""
        # a copy, as other threads cut and end chunks meanwhile
        ahead = [part.loaded for part in tuple(self.parts) if part.loaded]
        return replace(
            self.progress,
            rows=self.progress.rows + sum(each.rows for each in ahead),
            bytes=self.progress.bytes + sum(each.bytes for each in ahead),
            updated_ms=now_ms(),
        )


def now_ms() -> int:
    return int(time.time() * 1000)
