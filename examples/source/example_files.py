r"""exampleFiles: a source that reads row changes from a folder of files, one JSON object a line:

    {"op": "INSERT", "table": "shop.orders", "key": ["id"], "after": {"id": "7", "note": null}}

Files only grow, and a later file has a later name, as in `2024-05-01.jsonl`.

    consumer.consumerName=exampleFiles
    consumer.source.plugin.folder=/data/changes
    consumer.source.plugin.end=true
    consumer.offset=earliest

With `end=true` the task ends after the last line; otherwise it waits for more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from cdcbus import (
    Column,
    ConfigError,
    Op,
    PositionLost,
    Row,
    RowChange,
    SourcePlace,
    SourceRows,
    SourceUnavailable,
    Table,
    TableId,
    UnreadableEvent,
)

LINES, WAIT_SECONDS = 1000, 0.5


class ExampleFiles:
    """The `exampleFiles` source. A place is a file's name and the number of bytes read from it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        if not settings.get("folder"):
            raise ConfigError("consumer.source.plugin.folder is missing: where are the files?")
        self._folder = Path(settings["folder"])
        self._ends = settings.get("end") == "true"

    def start(self, word: str) -> SourcePlace:
        """The place that `earliest`, `latest` or FILE:BYTE means. Raises ConfigError,
        SourceUnavailable and PositionLost."""
        files = self._files()
        name, colon, number = word.rpartition(":")
        if word in ("earliest", "latest"):
            if not files:
                raise SourceUnavailable(f"folder {self._folder} has no file yet")
            first, last = files[0], files[-1]
            return (
                SourcePlace(first.name)
                if word == "earliest"
                else SourcePlace(last.name, last.stat().st_size)
            )
        if not colon or not number.isdecimal():
            raise ConfigError(f"{word!r} is no place: expected earliest, latest or FILE:BYTE")
        self.check(place := SourcePlace(name, int(number)))
        return place

    def check(self, place: SourcePlace) -> None:
        """Raises PositionLost unless the file exists and is that long."""
        sizes = {file.name: file.stat().st_size for file in self._files()}
        if sizes.get(place.name, -1) < place.number:
            raise PositionLost(f"folder {self._folder} has no byte {place.number} of {place.name}")

    def read(self, place: SourcePlace) -> Iterator[SourceRows]:
        """Yields the rows after a place, a thousand lines at a time, then new ones as they come."""
        self.check(place)
        while True:
            changes, behind = self._lines(place)
            later = [file for file in self._files() if file.name > place.name]
            if behind != place:
                yield SourceRows(changes, behind, more_follow=len(changes) == LINES)
                place = behind
            elif later:
                # Lines can have been added between the last read and the start of the later file.
                changes, place = self._lines(place)
                if not changes:
                    self._need_end(place)
                    place = SourcePlace(later[0].name)
                yield SourceRows(changes, place, more_follow=True)
            elif self._ends:
                self._need_end(place)
                return
            else:
                time.sleep(WAIT_SECONDS)
                yield SourceRows()

    def _need_end(self, place: SourcePlace) -> None:
        """Raises UnreadableEvent if the file ends within a line: nobody will complete it, and it
        must not be skipped."""
        if (self._folder / place.name).stat().st_size != place.number:
            raise UnreadableEvent(f"{place}: the file ends within a line; complete it")

    def close(self) -> None:
        """Nothing stays open."""

    def _files(self) -> list[Path]:
        try:
            return sorted(file for file in self._folder.iterdir() if file.suffix == ".jsonl")
        except OSError as error:
            raise SourceUnavailable(
                f"folder {self._folder} cannot be read: {error.strerror}"
            ) from error

    def _lines(self, place: SourcePlace) -> tuple[list[RowChange], SourcePlace]:
        """The changes of the complete lines after a place, and the place after them. A line
        without its end is still being written."""
        changes, at = [], place.number
        try:
            with (self._folder / place.name).open("rb") as file:
                file.seek(at)
                while len(changes) < LINES and (line := file.readline()).endswith(b"\n"):
                    changes.append(_change(line, f"{place.name}:{at}"))
                    at += len(line)
        except OSError as error:
            raise SourceUnavailable(f"{place.name} cannot be read: {error.strerror}") from error
        return changes, SourcePlace(place.name, at)


def _change(line: bytes, where: str) -> RowChange:
    try:
        fields = json.loads(line)
        schema, _, name = fields["table"].partition(".")
        before: Row | None = fields.get("before")
        after: Row | None = fields.get("after")
        columns = tuple(map(Column, {**(before or {}), **(after or {})}))
        table = Table(TableId(schema, name), columns, tuple(fields["key"]), is_described=False)
        return RowChange(table, Op(fields["op"]), before, after)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableEvent(
            f"{where} is no row change: expected a JSON object with op, table, key, before, after"
        ) from error
