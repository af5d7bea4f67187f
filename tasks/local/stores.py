"""The stores of a task in a file, the twins of those in ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from threading import Lock
from uuid import uuid4

import orjson

from cdcbus.plugins.contracts import NO_MARK, Mark, Written
from cdcbus.plugins.epoch import DIGITS
from cdcbus.plugins.errors import PositionConflict, PositionError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import FOLLOWED, entry_name, entry_table, shows_a_run
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish
from cdcbus.tasks.local.state_file import Fields, StateFile
from cdcbus.tasks.zookeeper.position.written import written_from_json, written_to_json


def next_epoch(state: StateFile, swimlane: str) -> int:
    """An epoch higher than those of all processes that had the file before: as in ZooKeeper at
    least the time in milliseconds."""
    last = int(state.swimlane(swimlane).get("epoch", 0))
    # Earlier versions stored longer numbers, which no reader takes for epochs.
    if last >= 10**DIGITS:
        last = 0
    number = max(last + 1, time.time_ns() // 1_000_000)
    state.change(swimlane, lambda fields: fields.update(epoch=number))
    return number


def bus_identity(state: StateFile, swimlane: str) -> str:
    """What tells the epochs of this file from those of other files; a copy of the file has the
    same."""
    known = state.swimlane(swimlane).get("bus")
    if known is None:
        known = uuid4().hex
        state.change(swimlane, lambda fields: fields.update(bus=known))
    return str(known)


def set_position(state: StateFile, swimlane: str, text: str) -> None:
    """Sets a position, as an operator would with an editor."""
    state.change(swimlane, lambda fields: fields.update(position=_as_fields(text)))


class FilePositions:
    """The position of one swimlane. In the file: `position`; `change`, a number that grows with
    each position; `numbered`, the position that the number belongs to; `written`, what the task
    itself wrote last.

    An editor changes only the position: it then counts as set, and gets a number. Writing the same
    position again is not an edit. `is_only`: as in `ZooKeeperPositions`.
    """

    def __init__(self, state: StateFile, swimlane: str, *, is_only: bool = False) -> None:
        self._state, self._swimlane, self._is_only = state, swimlane, is_only
        self._fields: Fields = {}
        # A half-finished save would look like an edit.
        self._lock = Lock()

    @property
    def path(self) -> str:
        return f"{self._state.path} ({self._swimlane})"

    @property
    def position_version(self) -> int:
        if "position" not in self._fields:
            return 0
        return int(self._fields.get("change", 0))

    @property
    def written(self) -> Written | None:
        written = self._fields.get("written")
        if written is None:
            return None
        return written_from_json(orjson.dumps(written), self.path)

    @property
    def is_own(self) -> bool:
        return "position" in self._fields and self._is_written(self._fields)

    @property
    def trace(self) -> str:
        if self._text(self._fields):
            return ""
        followed = self._fields.get("schema", {}).get(FOLLOWED, "")
        if "written" in self._fields or shows_a_run(followed):
            return self.path
        others = self.others() if self._is_only else ()
        return f"{self._state.path} ({others[0]})" if others else ""

    def others(self) -> Sequence[str]:
        found = self._state.swimlanes().items()
        written = [name for name, fields in found if "written" in fields]
        return sorted(name for name in written if name != self._swimlane)

    def load(self) -> str | None:
        fields = self._state.swimlane(self._swimlane)
        # Somebody has edited the position; a new number distinguishes it from the target's copy.
        if "position" in fields and not self._is_numbered(fields):
            number = self._state.next_number()
            self._state.change(
                self._swimlane,
                lambda each: each.update(change=number, numbered=each["position"]),
            )
            fields = self._state.swimlane(self._swimlane)
        self._fields = fields
        return self._text(fields) or None

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        number = self._state.next_number()
        written = orjson.loads(written_to_json(Written(text, mark))) | {"change": number}

        # Called under the file's lock with what it holds now, so no edit can come in between.
        def write(fields: Fields) -> None:
            if self._is_other(fields):
                raise PositionConflict(
                    f"{self.path} was set by somebody else meanwhile; their position holds"
                )
            position = _as_fields(text)
            fields.update(position=position, change=number, numbered=position, written=written)

        with self._lock:
            self._state.change(self._swimlane, write)
            self._fields = self._state.swimlane(self._swimlane)

    def is_edited(self) -> bool:
        with self._lock:
            return self._is_other(self._state.swimlane(self._swimlane))

    def _is_other(self, fields: Fields) -> bool:
        seen = self._fields
        return (fields.get("position"), fields.get("change")) != (
            seen.get("position"),
            seen.get("change"),
        )

    def _is_written(self, fields: Fields) -> bool:
        written = fields.get("written") or {}
        return (written.get("change"), written.get("position")) == (
            fields.get("change"),
            self._text(fields),
        )

    def _is_numbered(self, fields: Fields) -> bool:
        """Whether the number belongs to this position."""
        return "change" in fields and fields["position"] == fields.get("numbered")

    def _text(self, fields: Fields) -> str:
        found = fields.get("position", "")
        if isinstance(found, str):
            return found.strip()
        if isinstance(found, dict | list):
            return orjson.dumps(found).decode()
        raise PositionError(
            f"{self.path}: position is {type(found).__name__}; expected an object, an array, or a "
            "text"
        )


def _as_fields(text: str) -> object:
    """A position as JSON that people can read and edit, if it converts back to the same text; else
    the text."""
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    # Spaces or escapes would change the text, and a position is compared as text.
    if isinstance(fields, dict | list) and orjson.dumps(fields).decode() == text:
        return fields
    return text


class FileSchemas:
    """The schema history of one swimlane."""

    def __init__(self, state: StateFile, swimlane: str) -> None:
        self._state, self._swimlane = state, swimlane

    @property
    def path(self) -> str:
        return f"{self._state.path} ({self._swimlane})"

    def load(self) -> dict[str, str]:
        return dict(self._state.swimlane(self._swimlane).get("schema", {}))

    def save(self, entries: Mapping[str, str | None]) -> None:
        if not entries:
            return
        known = {**self.load(), **entries}
        kept = {name: text for name, text in known.items() if text is not None}
        self._state.change(self._swimlane, lambda fields: fields.update(schema=kept))


LIVE, KNOWN = "live", "known"


class FileSnapshots:
    """The snapshots of one swimlane. There are never wishes, as commands do not reach the task."""

    def __init__(self, state: StateFile, swimlane: str) -> None:
        self._state, self._swimlane = state, swimlane

    def load(self) -> dict[TableId, TableProgress]:
        found = {}
        for name, fields in self._state.swimlane(self._swimlane).get("snapshot", {}).items():
            try:
                table = TableId(str(fields["schema"]), str(fields["table"]))
                found[table] = TableProgress.from_fields(fields)
            except (KeyError, TypeError, ValueError) as error:
                raise PositionError(
                    f"{self._state.path}: snapshot of {name}: {error}; it may be of a newer "
                    "cdcbus: run that one. Otherwise remove its entry, and the snapshot starts "
                    "again, unless the table has no key"
                ) from error
        return found

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        known = dict(self._state.swimlane(self._swimlane).get("snapshot", {}))
        for table, progress in tables.items():
            known[entry_name(table)] = {
                "schema": table.schema,
                "table": table.table,
                **progress.to_fields(),
            }
        noted = sorted(self._known() | known.keys())
        self._state.change(
            self._swimlane, lambda fields: fields.update({"snapshot": known, KNOWN: noted})
        )

    def note_live(self, is_live: bool) -> None:
        self._state.change(self._swimlane, lambda fields: fields.update({LIVE: is_live}))

    def is_live(self) -> bool | None:
        noted = self._state.swimlane(self._swimlane).get(LIVE)
        return None if noted is None else noted is True

    def lost(self) -> set[TableId]:
        """Raises as `load`."""
        lost = self._known() - set(map(entry_name, self.load()))
        return set(filter(None, map(entry_table, lost)))

    def _known(self) -> set[str]:
        """The entries of tables that have had progress."""
        return set(map(str, self._state.swimlane(self._swimlane).get(KNOWN, ())))

    def start_order(self, task_id: str, table: TableId, *, is_confirmed: bool) -> str:
        """As no command reaches the file; the entry stands for `is_confirmed`, too."""
        fields = {"schema": table.schema, "table": table.table, "state": TableState.WAITING}
        entry = f'"{entry_name(table)}": {orjson.dumps(fields).decode()}'
        return (
            f"stop the task, make this its entry in `snapshot` of {self._state.path} "
            f"({self._swimlane}), {entry}, and start the task again"
        )

    def has_wishes(self) -> bool:
        return False

    def wishes(self) -> list[Wish]:
        return []

    def heeded(self, but_last: int = 0) -> None:
        """Does nothing: there are no wishes."""
